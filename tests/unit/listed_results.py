"""What `holdfast` commands show of results that tests leave where they are looked for."""

from __future__ import annotations

import json
from typing import Any

import pytest

from holdfast.cli import main as cli
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.storage.kept_dataset import DataSetDescription, KeptColumn, KeptDataSet
from tests.taskexecutor.callers import write

COMPUTES = "Aggregate, Filter, Join over customer.parquet, orders and 2 more"
COLUMNS = (
    KeptColumn(name="a b", kept_as="c0", type="long", kept_type="long", nullable=False),
    KeptColumn(name="k", kept_as="k", type="string", kept_type="string", nullable=True),
)


def keep(
    storage: EmbeddedStorage, dataset: str, *indices: int, computes: str = "C"
) -> tuple[str, KeptDataSet]:
    """A dataset of a few partitions of three rows, after its name."""
    staged = storage.stage(JobID.random(), IntermediateDataSetID(dataset))
    write(staged.directory, *(indices or (0, 1)))
    description = DataSetDescription(
        dataset_id=dataset, computes=computes, columns=COLUMNS, spark_version="4.3.0"
    )
    kept = storage.publish(staged, description)
    assert kept.name is not None
    return kept.name, kept


class Command:
    """Runs the command: its exit code, and what it said."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *where: str) -> None:
        self.capsys = capsys
        self.where = where

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self.capsys.readouterr()
        try:
            code = cli.main([*arguments, *self.where])
        except SystemExit as ended:
            assert isinstance(ended.code, int)
            code = ended.code
        said = self.capsys.readouterr()
        return code, said.out, said.err

    def shows(self, *arguments: str) -> str:
        """What it says where nothing is wrong."""
        code, out, err = self(*arguments)
        assert (code, err) == (0, "")
        return out

    def refuses(self, *arguments: str, code: int = 2) -> str:
        """What it says where it does nothing."""
        ended, out, err = self(*arguments)
        assert (ended, out) == (code, "")
        return err

    def json(self, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
        ended, out, err = self(*arguments, "--json")
        assert ended == code, err
        found = json.loads(out)
        assert isinstance(found, list)
        return found
