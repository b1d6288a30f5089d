"""What a session's queries depend on beside their plans: read from it, and given to another."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from holdfast.plan.session_inputs import SessionInputs
from holdfast.spark.plan_reader import PlanReader

# In effect whether set or not; no setting of Spark's is called like that.
_ANSI, _CASE, _ZONE = "ansi", "case sensitive", "time zone"
_IN_EFFECT = frozenset({_ANSI, _CASE, _ZONE})
_HADOOP = "hadoop: "


def session_inputs(spark: SparkSession) -> SessionInputs:
    """The settings that `spark`'s queries run under at this moment."""
    # A copy, as another thread may change a setting between two looks at them.
    settings = spark._jsparkSession.sessionState().conf().clone()
    inputs = _counted(spark, settings)
    inputs[_ANSI] = str(settings.ansiEnabled())
    inputs[_CASE] = str(settings.caseSensitiveAnalysis())
    inputs[_ZONE] = settings.sessionLocalTimeZone()
    # All sessions share it, and readers of files see it.
    configuration = spark.sparkContext._jsc.hadoopConfiguration()
    of_hadoop = PlanReader.of(spark).hadoop_texts(configuration)
    inputs |= {_HADOOP + key: value for key, value in of_hadoop.items()}
    return SessionInputs(spark.version, inputs)


def of_hadoop(inputs: SessionInputs) -> dict[str, str]:
    """Those settings that no session has for itself."""
    return {key: value for key, value in inputs.settings.items() if key.startswith(_HADOOP)}


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
    found = _counted(spark, settings)
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


def _counted(spark: SparkSession, settings: Any) -> dict[str, str]:
    """What is set, of what results may depend on."""
    everything = PlanReader.of(spark).texts(settings.getAllConfs())
    return {
        key: value
        for key, value in everything.items()
        # What isn't Spark's own goes into the Hadoop configuration that readers see.
        if key.startswith("spark.sql.") or not key.startswith("spark.")
    }
