"""Fixtures that every test may use. Nothing here starts Spark before a test asks for it."""

from __future__ import annotations

import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from pyspark import SparkContext
from pyspark.sql import SparkSession
from xdist.remote import Producer

from holdfast import Environment
from tests.sharing_out import SharingOut
from tests.short_lived_jvm import local_session, start_them_fast

start_them_fast()
# A shell has what it starts in the background ignore these, which children inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    # Still done without here, as who started this has asked for.
    signal.signal(signal.SIGHUP, lambda *_: None)
# What is written to a pipe is as wide as this says, and pytest-xdist says it.
os.environ.pop("COLUMNS", None)
settings.register_profile(
    "suite",
    deadline=None,
    max_examples=30,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
settings.register_profile("thorough", settings.get_profile("suite"), max_examples=1000)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "suite"))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> SharingOut:
    """Has files run in one process, and what shares a cluster."""
    return SharingOut(config, log)


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leaves the variants of a sampled test that aren't in its sample to the soak tests.

    Of several parameters the first varies fastest: where `every` is a multiple of how many values
    it has, the sample has but one of them.
    """
    seen: Counter[str] = Counter()
    for item in items:
        sampled = item.get_closest_marker("sampled")
        if sampled is None:
            continue
        every, first = (*sampled.args, 0)[:2]
        test = item.nodeid.partition("[")[0]
        if seen[test] % every != first:
            item.add_marker(pytest.mark.soak)
        seen[test] += 1


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """The one Spark session of the suite."""
    home = tmp_path_factory.mktemp("spark")
    builder = local_session("holdfast-tests", home)
    session = builder.config("spark.sql.shuffle.partitions", "4").getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(autouse=True)
def _spark_lives() -> Iterator[None]:
    """Says in which test the suite's JVM has ended, and how: none of them is to end it."""
    yield
    process = getattr(SparkContext._gateway, "proc", None)
    code = None if process is None else process.poll()
    if code is not None:
        pytest.fail(f"the JVM of the suite's Spark session has ended with {code}")


@pytest.fixture(autouse=True)
def _active_session() -> Iterator[None]:
    """Makes the suite's session the active one again: `createDataFrame` of another one stays so."""
    yield
    session, context = SparkSession._instantiatedSession, SparkContext._active_spark_context
    if session is not None and context is not None:
        classes = SparkSession._get_j_spark_session_class(context._jvm)
        classes.setActiveSession(session._jsparkSession)
        SparkSession._activeSession = session


@pytest.fixture
def env(spark: SparkSession, tmp_path: Path) -> Iterator[Environment]:
    """A fresh environment that keeps its results in a directory of its own."""
    with Environment(
        spark, config={"intermediate-result-storage.directory": str(tmp_path / "kept")}
    ) as environment:
        yield environment
