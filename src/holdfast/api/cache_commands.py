"""`CACHE TABLE`, `UNCACHE TABLE` and `CLEAR CACHE` in SQL."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, cast

from pyspark import StorageLevel
from pyspark.sql.classic.dataframe import DataFrame

from holdfast.api.storage_levels import is_kept

if TYPE_CHECKING:
    from holdfast.api.table import Table
    from holdfast.api.table_session import TableSession

# Spark's parser has the last word; the others need not be parsed twice.
_MAY_BE_ONE = re.compile(
    r"(\s|--[^\n]*\n|/\*.*?\*/)*(UN)?C(ACHE|LEAR)\b", re.IGNORECASE | re.DOTALL
)
_STORAGE_LEVEL = "storagelevel"


def run_cache_command(session: TableSession, text: str) -> DataFrame | None:
    """Runs a command that caches or releases a table by name.

    Args:
        session: The session whose catalog knows the table.
        text: Any SQL statement.

    Returns:
        What Spark's command returns; None where the statement is another one, or is left to Spark.

    Raises:
        pyspark.errors.AnalysisException: There is no such table.
        pyspark.errors.ParseException: Spark can't parse the statement.
    """
    if not _MAY_BE_ONE.match(text):
        return None
    state = cast(Any, session._jsparkSession).sessionState()
    plan = state.sqlParser().parsePlan(text)
    match plan.getClass().getSimpleName():
        case "CacheTable":
            name = plan.multipartIdentifier().mkString("`", "`.`", "`")
            return _cached(session, name, plan)
        case "CacheTableAsSelect":
            return _cached_query(session, plan)
        case "UncacheTable":
            name = plan.table().multipartIdentifier().mkString("`", "`.`", "`")
            if session.catalog.tableExists(name):
                session.holdfast.uncache(_table(session, name))
        case "ClearCacheCommand" | "ClearCacheCommand$":
            session.holdfast.uncache_all()
    # Spark may hold it as well, and knows what is an error.
    return None


def _cached(session: TableSession, name: str, plan: Any) -> DataFrame | None:
    level = _level(plan)
    if level is None:
        return None
    table = session.holdfast.persist(_table(session, name), level, name)
    if not plan.isLazy():
        table.count()
    return _nothing(session)


def _cached_query(session: TableSession, plan: Any) -> DataFrame | None:
    # A text, or a literal of one.
    level, name = _level(plan), str(plan.tempViewName())
    if level is None:
        return None
    session.sql(plan.originalText()).createTempView(name)
    try:
        return _cached(session, f"`{name}`", plan)
    except BaseException:
        session.catalog.dropTempView(name)
        raise


def _level(plan: Any) -> StorageLevel | None:
    """The level that a command asks for; None where Spark is to see to it."""
    options = plan.options()
    for key in options.keys().mkString("\n").split("\n"):
        if key.lower() == _STORAGE_LEVEL:
            level = getattr(StorageLevel, options.apply(key).upper(), None)
            return level if level is not None and is_kept(level) else None
    return StorageLevel.MEMORY_AND_DISK_DESER


def _table(session: TableSession, name: str) -> Table:
    return cast("Table", session.table(name))


def _nothing(session: TableSession) -> DataFrame:
    return DataFrame(cast(Any, session._jsparkSession).emptyDataFrame(), session)
