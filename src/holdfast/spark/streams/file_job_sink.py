"""The sink by which a FileSink's lines are there exactly once, however often the job is started."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from holdfast.functions.sink import FileSink
from holdfast.sinks.directory_sink import DirectorySink
from holdfast.sinks.sink_mode import SinkMode
from holdfast.sinks.unpublishable import why_unpublishable

__all__ = ["job_sink_of"]

logger = logging.getLogger(__name__)

_MODES = {
    "error": SinkMode.ERROR,
    "overwrite": SinkMode.OVERWRITE,
    "append": SinkMode.APPEND,
}
_HADOOP_PATH = "org.apache.hadoop.fs.Path"


def job_sink_of(
    spark: SparkSession, sink: FileSink, name: str, ordinal: int
) -> DirectorySink | None:
    """The job's side of a sink of files, where each record is to be written exactly once.

    Args:
        spark: the session that writes.
        sink: what the person has asked for. What `open` gives is a directory that is there: the
            lines are written to it in mode "append".
        name: the sink's name, for the log.
        ordinal: which of the job's sinks it is.

    Returns:
        The sink; None where its directory can't be published in one step, which the log then says.
    """
    jvm: Any = spark._jvm
    path = getattr(jvm, _HADOOP_PATH)(sink.path)
    file_system = path.getFileSystem(spark._jsparkSession.sessionState().newHadoopConf())
    location = file_system.makeQualified(path).toUri()
    reason: str | None = f"{location.getScheme()}: is not a local or shared file system"
    if location.getScheme() == "file":
        reason = why_unpublishable(Path(location.getPath()))
    if reason is not None:
        logger.warning(
            "sink %r to %s is not exactly-once: records may be written twice if the driver is "
            "killed during the write and the program is restarted, because %s",
            name,
            sink.path,
            reason,
        )
        return None
    how = f"lines {sink.compression or 'none'}"
    target = Path(location.getPath())
    return DirectorySink(target, _MODES[sink.mode], how=how, ordinal=ordinal)
