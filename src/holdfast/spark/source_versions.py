"""Whether files are still there in the version that a plan listed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from holdfast.plan.file_version import FileVersion
from holdfast.spark.java_classes import new_object
from holdfast.spark.per_context import PerContext

BETWEEN = "\x00"
"""What is between the fields of listed files: no path has it."""


class SourceVersions:
    """Looks at files again. Safe for use by several threads.

    Args:
        spark: the session that reads them.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def changed(self, files: Iterable[FileVersion]) -> str | None:
        """The path of a file that can't be read any more in the version that was listed.

        Of local files each is looked at, elsewhere each directory. What can't be looked at counts
        as changed.

        Args:
            files: as they were listed.
        """
        listed = sorted(files)
        if not listed:
            return None
        text = BETWEEN.join(str(field) for file in listed for field in file)
        try:
            session: Any = self._spark._jsparkSession
            settings = session.sessionState().newHadoopConf()
            return str(file_versions(self._spark).changed(text, settings)) or None
        except Py4JError:
            return listed[0].path


class SourceAccess:
    """Whether the user may read files. Each is asked for once. Safe for use by several threads.

    Args:
        spark: the session, whose user it is.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark
        self._readable: set[str] = set()

    def unreadable(self, paths: Iterable[str]) -> str | None:
        """The path of a file that the user may not read, if any; what isn't there counts as such.

        Args:
            paths: as Hadoop writes them.
        """
        unknown = sorted(set(paths) - self._readable)
        if not unknown:
            return None
        try:
            session: Any = self._spark._jsparkSession
            settings = session.sessionState().newHadoopConf()
            versions = file_versions(self._spark)
            found = str(versions.unreadable(BETWEEN.join(unknown), settings))
        except Py4JError:
            return unknown[0]
        if found:
            return found
        self._readable.update(unknown)
        return None


def file_versions(spark: SparkSession) -> Any:
    """The JVM's `FileVersions`: a function from a listed file to its `FileVersion.tag`.

    Args:
        spark: any session of the JVM, which is asked for a listing's tags by all of them.

    Raises:
        UnsupportedSparkError: when the JVM doesn't compile it.
    """
    return _versions.of(spark)


def written_tables(spark: SparkSession) -> Any:
    """The JVM's `WrittenTables`: from a catalog's table to what tells its rows of now from others.

    Args:
        spark: any session of the JVM; attached ones say what their commands write.

    Raises:
        UnsupportedSparkError: when the JVM doesn't compile it.
    """
    return _written.of(spark)


_versions: PerContext[Any] = PerContext(lambda spark: new_object(spark, "FileVersions", BETWEEN))
_written: PerContext[Any] = PerContext(
    lambda spark: new_object(spark, "WrittenTables", spark.sparkContext._jsc.sc())
)
