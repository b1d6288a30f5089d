"""The sinks of streams whose records are there exactly once, however often a job is started."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from holdfast.functions.sink import FileSink
from holdfast.sinks.directory_sink import DirectorySink
from holdfast.sinks.sink_mode import SinkMode
from holdfast.sinks.unpublishable import why_unpublishable

__all__ = ["exactly_once"]

_MODES = {
    "append": SinkMode.APPEND,
    "error": SinkMode.ERROR,
    "overwrite": SinkMode.OVERWRITE,
}
_LOCAL = "file"

logger = logging.getLogger(__name__)


def exactly_once(
    spark: SparkSession, sink: object, name: str, ordinal: int
) -> DirectorySink | None:
    """What publishes a sink's records in one step, over all starts of its job.

    Args:
        spark: the session.
        sink: what the API has handed over.
        name: the sink's name, for people.
        ordinal: which of the job's sinks it is.

    Returns:
        that; None where there is none for such a sink, which the log says of one that keeps what
        it gets.
    """
    if not isinstance(sink, FileSink):
        return None
    directory = _directory(spark, sink.path)
    reason = "it is on no file system of this machine"
    if directory is not None:
        reason = why_unpublishable(directory) or ""
        if not reason:
            how = f"text {sink.compression or 'none'}"
            return DirectorySink(directory, _MODES[sink.mode], how=how, ordinal=ordinal)
    logger.warning(
        "%s writes as Spark does: records may be written twice if the driver is killed while it "
        "writes to %s and the program is started again, because %s",
        name,
        sink.path,
        reason,
    )
    return None


def _directory(spark: SparkSession, path: str) -> Path | None:
    jvm: Any = spark.sparkContext._jvm
    settings = spark._jsparkSession.sessionState().newHadoopConf()
    asked = jvm.org.apache.hadoop.fs.Path(path)
    uri = asked.getFileSystem(settings).makeQualified(asked).toUri()
    return Path(uri.getPath()) if uri.getScheme() == _LOCAL else None
