"""What a session's queries reuse without being asked to."""

from __future__ import annotations

import logging
from collections.abc import Callable

from pyspark.sql import SparkSession

from holdfast.advice.query_history import QueryHistory
from holdfast.api.recurring_results import RecurrencePolicy, RecurringResults
from holdfast.config import (
    IMPLICIT_CACHE_ENABLED,
    IMPLICIT_CACHE_LIVE_SHUFFLES_MAX_SIZE,
    IMPLICIT_CACHE_RESULTS_ENABLED,
    IMPLICIT_CACHE_RESULTS_LIFETIME,
    IMPLICIT_CACHE_RESULTS_MIN_SAVED_TIME,
    Configuration,
)
from holdfast.errors import UnsupportedSparkError
from holdfast.plan.session_inputs import SessionInputs
from holdfast.runtime.cache_service_manager import CacheServiceManager
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.live_shuffles import LiveShuffles

logger = logging.getLogger(__name__)


def live_shuffles(spark: SparkSession, configuration: Configuration) -> LiveShuffles | None:
    """The shuffles that a session's queries reuse; None where they aren't to.

    Args:
        spark: PySpark's own session.
        configuration: of its environment.

    Source: FLIP-36, "Implementation Details", phase 3.
    """
    if not configuration.get(IMPLICIT_CACHE_ENABLED):
        return None
    most = configuration.get(IMPLICIT_CACHE_LIVE_SHUFFLES_MAX_SIZE)
    try:
        return LiveShuffles(spark, most.limit)
    except UnsupportedSparkError as error:
        logger.warning("shuffles of earlier queries are not reused: %s", error)
        return None


def recurring_results(
    spark: SparkSession,
    bridge: CatalystBridge,
    manager: CacheServiceManager[Query],
    history: QueryHistory,
    configuration: Configuration,
    produce: Callable[[Query, SessionInputs], object],
    live: LiveShuffles | None,
) -> RecurringResults | None:
    """What keeps results that a session's queries compute again and again; None for nothing.

    Args:
        spark: PySpark's own session.
        bridge: reads and rewrites its plans.
        manager: what is cached and what is kept.
        history: past queries.
        configuration: of its environment.
        produce: produces a query, which is wanted, under its settings.
        live: the shuffles that the session's queries reuse.

    Source: FLIP-36, "Implementation Details", phase 3, and "Long Term Goal".
    """
    if not configuration.get(IMPLICIT_CACHE_ENABLED):
        return None
    if not configuration.get(IMPLICIT_CACHE_RESULTS_ENABLED):
        return None
    stays = configuration.get(IMPLICIT_CACHE_RESULTS_LIFETIME)
    policy = RecurrencePolicy(
        configuration.get(IMPLICIT_CACHE_RESULTS_MIN_SAVED_TIME).total_seconds(),
        None if stays is None else stays.total_seconds(),
    )

    def reused_seconds(query: Query) -> float:
        if live is None:
            return 0.0
        outlooks = live.outlook(bridge.dataframe(query.plan))
        return sum(each.seconds for each in outlooks if each.is_reused)

    return RecurringResults(spark, bridge, manager, history, policy, produce, reused_seconds)
