"""Reads from a session what its queries' results depend on beside their plans."""

from __future__ import annotations

from pyspark.sql import SparkSession

from holdfast.plan.session_inputs import SessionInputs

# Neither can stand in a setting's name or value that somebody typed.
_BETWEEN_SETTINGS = "\x1e"
_BETWEEN_KEY_AND_VALUE = " -> "


def session_inputs(spark: SparkSession) -> SessionInputs:
    """The settings that `spark`'s queries run under at this moment."""
    session = spark._jsparkSession
    listed: str = session.conf().getAll().mkString(_BETWEEN_SETTINGS)
    settings = {}
    for setting in listed.split(_BETWEEN_SETTINGS):
        key, _, value = setting.partition(_BETWEEN_KEY_AND_VALUE)
        # What isn't Spark's own goes into the Hadoop configuration that readers see.
        if key.startswith("spark.sql.") or not key.startswith("spark."):
            settings[key] = value
    in_effect = session.sessionState().conf()
    settings["ansi"] = str(in_effect.ansiEnabled())
    settings["case sensitive"] = str(in_effect.caseSensitiveAnalysis())
    settings["time zone"] = in_effect.sessionLocalTimeZone()
    return SessionInputs(spark.version, settings)
