"""What `holdfast show` reads of the files of task executors, and says of other servers."""

from __future__ import annotations

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.cli.datasets.executor_source import ExecutorSource
from holdfast.cli.datasets.footer import contents_of
from holdfast.ids import ApplicationID, IntermediateDataSetID, JobID
from holdfast.storage.kept_dataset import DataSetDescription, Manifest
from holdfast.taskexecutor.calls.client import RemoteTaskExecutor, Timeouts
from holdfast.taskexecutor.partitions.partition_info import OutputID
from holdfast.version import __version__
from tests.taskexecutor.conftest import Start

TOKEN = "0123456789abcdef" * 2
OUTPUT = OutputID(IntermediateDataSetID("8" * 64), "0badcafe")
NAMES = ("a", "holdfast_position")
FIELDS = [{"name": name, "type": "long", "nullable": False, "metadata": {}} for name in NAMES]
# What Spark writes into the footers of its files.
FOOTER = {
    "org.apache.spark.version": "4.3.0",
    "org.apache.spark.sql.parquet.row.metadata": json.dumps({"type": "struct", "fields": FIELDS}),
}


@pytest.fixture
def address(start: Start, tmp_path: Path) -> str:
    """Where a task executor serves."""
    executor = start(tmp_path / "kept", HOLDFAST_TOKEN=TOKEN).serving()
    return str(executor.address)


def test_columns_are_those_of_a_footer_that_an_executor_serves(address: str) -> None:
    executor, application, job = (
        RemoteTaskExecutor(address, TOKEN),
        ApplicationID.random(),
        JobID.random(),
    )
    executor.register_application(application, 600, __version__)
    executor.register_job(application, job)
    directory = Path(executor.open_output(application, job, OUTPUT))
    rows = pa.table({"a": [1, 2, 3]}).replace_schema_metadata(FOOTER)
    pq.write_table(rows, directory / "part-00000-x-c000.parquet")
    kept = executor.finish_output(application, job, OUTPUT, [0], 1)
    dataset = DataSetDescription(
        dataset_id="8" * 64, computes="C", columns=(), spark_version="4.3.0"
    )
    manifest = Manifest(created="2026-11-21T00:00:00+00:00", dataset=dataset, partitions=kept)
    executor.promote(application, job, OUTPUT, manifest)
    server = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    other = f"127.0.0.1:{server.server_port}"
    source = ExecutorSource([address, other], TOKEN, Timeouts(2, 2, 5))
    found = source.find()
    server.shutdown()
    server.server_close()
    assert [each.startswith(f"task executor {other}: ") for each in found.failures] == [True]
    (listed,) = found.datasets
    contents = source.contents(listed)
    assert contents is not None and contents.spark_version == "4.3.0"
    assert [column.name for column in contents.columns] == ["a"]
    (report,) = executor.report(None)
    (part,) = report.partitions
    for bad in (
        contents_of(address, TOKEN[::-1], application, OUTPUT, part),
        *(
            contents_of(address, TOKEN, application, OUTPUT, part.model_copy(update=wrong))
            for wrong in ({"bytes": 4}, {"bytes": part.bytes - 1}, {"file": "other"})
        ),
    ):
        assert bad is None
