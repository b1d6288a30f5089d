"""The ways of keeping a DataFrame that are compared."""

from __future__ import annotations

import shutil
from abc import ABC, abstractmethod
from pathlib import Path

from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from holdfast import Environment


class Way(ABC):
    """A way of keeping: `keep` gives what questions are asked of, `drop` forgets it."""

    name: str

    @abstractmethod
    def keep(self, df: DataFrame) -> DataFrame:
        """What questions are asked of; lazy where the way is lazy."""

    @abstractmethod
    def materialize(self, kept: DataFrame) -> None:
        """Makes sure that it is kept, with as little else as the way allows."""

    @abstractmethod
    def drop(self) -> None:
        """Forgets what was kept."""


class Plain(Way):
    """Nothing is kept."""

    name = "plain Spark"

    def keep(self, df: DataFrame) -> DataFrame:
        return df

    def materialize(self, kept: DataFrame) -> None:
        kept.write.format("noop").mode("overwrite").save()

    def drop(self) -> None:
        return


class Holdfast(Way):
    """`Table.cache()`."""

    name = "Holdfast"

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self._environment = Environment(
            spark, config={"intermediate-result-storage.directory": str(home / "kept")}
        )

    def keep(self, df: DataFrame) -> DataFrame:
        return self._environment.from_dataframe(df).cache()

    def materialize(self, kept: DataFrame) -> None:
        # The job that hands out the RDD keeps the table first, and the RDD is not run.
        _ = kept.rdd

    def drop(self) -> None:
        self._environment.invalidate_all()


class TwoJobs(Holdfast):
    """`Table.cache()`, with a Spark job that keeps before the one that answers."""

    name = "Holdfast in two jobs"

    def keep(self, df: DataFrame) -> DataFrame:
        kept = super().keep(df)
        super().materialize(kept)
        return kept

    def materialize(self, kept: DataFrame) -> None:
        return


class Persist(Way):
    """`DataFrame.persist`."""

    def __init__(self, name: str, level: StorageLevel) -> None:
        self.name = name
        self._level = level
        self._kept: DataFrame | None = None

    def keep(self, df: DataFrame) -> DataFrame:
        self._kept = df.persist(self._level)
        return self._kept

    def materialize(self, kept: DataFrame) -> None:
        kept.count()

    def drop(self) -> None:
        if self._kept is not None:
            self._kept.unpersist(blocking=True)


class Checkpoint(Way):
    """`DataFrame.checkpoint`."""

    name = "checkpoint()"

    def __init__(self, spark: SparkSession) -> None:
        self._spark = spark

    def keep(self, df: DataFrame) -> DataFrame:
        return df.checkpoint()

    def materialize(self, kept: DataFrame) -> None:
        return

    def drop(self) -> None:
        directory = self._spark.sparkContext.getCheckpointDir()
        if directory is not None:
            shutil.rmtree(directory.removeprefix("file:"), ignore_errors=True)


class ByHand(Way):
    """Parquet, written and read by hand."""

    name = "Parquet by hand"

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self._spark = spark
        self._path = home / "by-hand"

    def keep(self, df: DataFrame) -> DataFrame:
        df.write.mode("overwrite").parquet(str(self._path))
        return self._spark.read.parquet(str(self._path))

    def materialize(self, kept: DataFrame) -> None:
        return

    def drop(self) -> None:
        shutil.rmtree(self._path, ignore_errors=True)


def all_ways(spark: SparkSession, home: Path) -> list[Way]:
    """Every way, in the order in which a round goes through them."""
    return [
        Plain(),
        Holdfast(spark, home / "on-the-way"),
        TwoJobs(spark, home / "first"),
        Persist("persist(MEMORY_AND_DISK)", StorageLevel.MEMORY_AND_DISK),
        Persist("persist(DISK_ONLY)", StorageLevel.DISK_ONLY),
        Checkpoint(spark),
        ByHand(spark, home),
    ]
