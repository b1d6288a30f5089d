"""The driver of the demo's third act: what it is started with, tells, and dies of."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast import JobExecutionResult
from holdfast.cli.demo.driver_home import DriverHome
from holdfast.cli.demo.driver_process import DriverProcess
from holdfast.cli.demo.driver_report import DriverReport
from holdfast.cli.demo.errors import DemoError
from holdfast.cli.demo.large_orders import COLUMNS, can_be_asked
from holdfast.cli.demo.parquet_folder import tables_of
from holdfast.ids import IntermediateDataSetID, JobID, JobVertexID
from holdfast.runtime.execution_graph import ExecutionVertex
from holdfast.runtime.partitions import BlockingPersistentResultPartitionMeta
from holdfast.runtime.vertex_outcome import VertexOutcome


def test_what_it_tells_of_its_job_is_what_its_environment_said() -> None:
    kept = IntermediateDataSetID("00ff" * 16)
    vertices = (
        ExecutionVertex(
            JobVertexID.random(), "é", kept, VertexOutcome.RECOVERED, 2, 30, 4, recovered=2
        ),
        ExecutionVertex(JobVertexID.random(), "save", None, VertexOutcome.RUN, attempts=1),
    )
    meta = BlockingPersistentResultPartitionMeta()
    result = JobExecutionResult(JobID.random(), "save", 1.5, meta, vertices)
    told = DriverReport.model_validate_json(DriverReport.of(2.5, result).model_dump_json())
    assert told.seconds == 2.5
    assert told.result == result


def test_on_plain_spark_it_tells_its_time_alone() -> None:
    told = DriverReport.model_validate_json(DriverReport.of(2.5, None).model_dump_json())
    assert told.seconds == 2.5
    assert told.result is None


def test_the_end_of_what_it_wrote_is_told_when_it_fails(tmp_path: Path) -> None:
    home = DriverHome(tmp_path / "home")
    with DriverProcess(tmp_path / "missing", home) as driver:
        with pytest.raises(DemoError, match="no such folder"):
            driver.wait()
        assert not driver.runs
        assert not driver.kill()


def test_it_is_dead_once_it_is_killed(tmp_path: Path) -> None:
    with DriverProcess(tmp_path / "missing", DriverHome(tmp_path / "home")) as driver:
        assert driver.runs
        assert driver.kill()
        assert not driver.runs


@pytest.mark.parametrize("missing", [None, "table", "column"])
def test_its_job_takes_these_columns_of_tpch(missing: str | None, tmp_path: Path) -> None:
    for name, columns in COLUMNS.items():
        taken = sorted(columns)
        if missing is not None and name == "orders":
            if missing == "table":
                continue
            taken = taken[1:]
        rows = pa.table({column.upper(): [1] for column in taken})
        pq.write_table(rows, tmp_path / f"{name}.parquet")
    assert can_be_asked(tables_of(tmp_path)) is (missing is None)
