"""What a session's queries depend on beside their plans: read from it, and given to another."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping
from contextlib import suppress
from threading import RLock
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from holdfast.last_used import put
from holdfast.plan.session_inputs import SessionInputs
from holdfast.spark.added_classes import classes_digest
from holdfast.spark.per_context import PerContext
from holdfast.spark.plan_reader import PlanReader

# In effect whether set or not; no setting of Spark's is called like that.
_ZONE = "time zone"
_IN_EFFECT = frozenset({"ansi", "case sensitive", _ZONE})
_HADOOP = "hadoop: "
# Sessions of one program may take turns.
_REMEMBERED = 8


def session_inputs(spark: SparkSession) -> SessionInputs:
    """The settings that `spark`'s queries run under at this moment.

    The same object, as long as they are the same.
    """
    return _known_inputs.of(spark).of(spark)


class _KnownInputs:
    """Settings that sessions of one context have been found to have."""

    def __init__(self, spark: SparkSession) -> None:
        self._reader = PlanReader.of(spark)
        # What a program has kept is found by it, however many executors come and go.
        self._cores = spark.sparkContext.defaultParallelism
        self._lock = RLock()
        self._by_digest: OrderedDict[str, SessionInputs] = OrderedDict()

    def of(self, spark: SparkSession) -> SessionInputs:
        with self._lock:
            known = dict(self._by_digest)
        digest, found = self._reader.inputs(spark._jsparkSession, known)
        inputs = known.get(digest) or _session_inputs(spark.version, self._cores, *found)
        with self._lock:
            put(self._by_digest, digest, inputs, _REMEMBERED)
        return inputs


_known_inputs = PerContext(_KnownInputs)


def _session_inputs(
    version: str,
    cores: int,
    everything: dict[str, str],
    in_effect: dict[str, str],
    hadoop: dict[str, str],
    process: dict[str, str],
) -> SessionInputs:
    of_hadoop = {_HADOOP + key: value for key, value in hadoop.items()}
    settings = _counted(everything) | in_effect | of_hadoop
    return SessionInputs(version, settings, process, classes_digest, cores)


def of_hadoop(inputs: SessionInputs) -> dict[str, str]:
    """Those settings that no session has for itself."""
    return {key: value for key, value in inputs.settings.items() if key.startswith(_HADOOP)}


def settings_below(spark: SparkSession, prefix: str) -> dict[str, str]:
    """The settings of a session, or else of its context, whose keys begin in one way.

    PySpark's own copies of all settings take hundreds of calls of the JVM.

    Args:
        spark: the session.
        prefix: what their keys begin with.
    """
    found = {
        prefix + str(each._1()): str(each._2())
        for each in spark.sparkContext._jsc.sc().getConf().getAllWithPrefix(prefix)
    }
    of_session = spark._jsparkSession.conf().getAll()
    for key in str(of_session.keys().mkString("\n")).split("\n"):
        if key.startswith(prefix):
            found[key] = str(of_session.apply(key))
    return found


def session_under(
    spark: SparkSession, inputs: SessionInputs, more: Mapping[str, str] | None = None
) -> Any:
    """A session of the JVM that is like `spark`'s, and whose settings nobody else changes.

    Args:
        spark: whose session it is like.
        inputs: the settings that its queries run under, whatever `spark`'s have become since.
        more: what is set beside them.
    """
    session = spark._jsparkSession.cloneSession()
    _interrupted_with(spark, session)
    settings = session.sessionState().conf()
    found = _counted(PlanReader.of(spark).texts(settings.getAllConfs()))
    wanted = {
        key: value
        for key, value in inputs.settings.items()
        if key not in _IN_EFFECT and not key.startswith(_HADOOP)
    }
    for key in found.keys() - wanted.keys():
        settings.unsetConf(key)
    # What is in effect unless it is set may change as well: it is the JVM's.
    wanted["spark.sql.session.timeZone"] = inputs.settings[_ZONE]
    for key, value in {**wanted, **(more or {})}.items():
        if found.get(key) != value:
            settings.setConfString(key, value)
    return session


def tags_of_jobs(spark: SparkSession) -> list[str]:
    """What `interruptAll` and `interruptTag` know a session's jobs by, in this thread."""
    try:
        session = spark._jsparkSession
        managed = str(session.managedJobTags().get().values().mkString(" "))
        return [str(session.sessionJobTag()), *managed.split()]
    # Not every Spark has them.
    except (Py4JError, TypeError):
        return []


def _interrupted_with(spark: SparkSession, copied: Any) -> None:
    """Sees to it that `interruptAll` of a session finds the jobs of its copy; tags it has."""
    with suppress(Py4JError, TypeError):
        tag = spark._jsparkSession.sessionJobTag()
        copied.managedJobTags().get().put("holdfast", tag)


def _counted(everything: Mapping[str, str]) -> dict[str, str]:
    """What is set, of what results may depend on."""
    return {
        key: value
        for key, value in everything.items()
        # What isn't Spark's own goes into the Hadoop configuration that readers see.
        if key.startswith("spark.sql.") or not key.startswith("spark.")
    }
