"""A vertex that its driver was killed over is completed, as its files were dealt to its tasks."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, Table
from holdfast.runtime.vertex_outcome import VertexOutcome
from tests.lying_files import parquet_below

FILES = 4
SLOW = 3000
OPEN_COST = "spark.sql.files.openCostInBytes"
DEALING = {
    "spark.sql.files.maxPartitionBytes": "100",
    "spark.sql.files.maxPartitionNum": "2",
}


def _slowly(number: int) -> int:
    if number == SLOW:
        time.sleep(5)
    return -number


def slow_table(env: Environment, path: Path) -> Table:
    slowly = F.udf(_slowly, "bigint", useArrow=False)
    return env.read.parquet(str(path)).select("id", slowly("id").alias("negative")).cache()


@pytest.fixture
def numbers(spark: SparkSession, tmp_path: Path) -> Path:
    """Files that Spark deals to a task each, the last of which is slow."""
    path = tmp_path / "numbers"
    spark.conf.set(OPEN_COST, str(1 << 27))
    spark.range(SLOW - FILES + 2, SLOW + 2, 1, FILES).write.parquet(str(path))
    return path


@pytest.fixture
def unset_afterwards(spark: SparkSession) -> Iterator[None]:
    """Leaves the settings of the session as they were."""
    yield
    for key in (OPEN_COST, *DEALING):
        spark.conf.unset(key)


@pytest.mark.usefixtures("unset_afterwards")
@pytest.mark.parametrize("changed", DEALING)
@pytest.mark.sampled(2)
def test_the_next_start_runs_what_is_missing_whatever_was_set_since(
    spark: SparkSession, tmp_path: Path, numbers: Path, changed: str
) -> None:
    config = {
        "execution.batch.job-recovery.enabled": True,
        "execution.batch.job-recovery.min-vertex-input": 0,
        "high-availability.storageDir": f"file://{tmp_path / 'ha'}",
        "intermediate-result-storage.directory": str(tmp_path / "store"),
    }
    first, second = (Environment(spark, config=config) for _ in range(2))
    ends: list[BaseException | int] = []

    def killed() -> None:
        try:
            ends.append(len(slow_table(first, numbers).collect()))
        except Exception as error:
            ends.append(error)

    running = threading.Thread(target=killed)
    running.start()
    deadline = time.monotonic() + 60
    while len(parquet_below(tmp_path / "store")) < FILES - 1:
        assert time.monotonic() < deadline and running.is_alive(), ends
        time.sleep(0.05)
    spark.conf.set(changed, DEALING[changed])
    table = slow_table(second, numbers)
    rows = Counter((row.id, row.negative) for row in table.collect())
    assert rows == Counter((each, -each) for each in range(SLOW - FILES + 2, SLOW + 2))
    running.join()
    assert second.last_job_result is not None
    (produced,) = [each for each in second.last_job_result.vertices if each.dataset_id is not None]
    assert produced.outcome is VertexOutcome.PRODUCED
    assert (produced.partitions, produced.rows) == (FILES, FILES)
    # On a slow machine all of them.
    assert produced.recovered is not None and produced.recovered >= FILES - 1
    for env in (first, second):
        env.close()
