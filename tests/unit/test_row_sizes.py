"""The size of rows in memory, as a footer says it."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet, Manifest
from holdfast.storage.partition_directory import found_partitions, measured

ROWS = 1000


TABLE = pa.table(
    {
        "t": ["x" * 600] * ROWS,
        "k": pa.array([1] * ROWS, pa.int64()),
        "i": pa.array([None] * ROWS, pa.int32()),
        "a": [["yy", None]] * ROWS,
    }
)


@pytest.mark.parametrize("dictionaries", [True, False])
@pytest.mark.parametrize("group", [ROWS, 100])
def test_neither_dictionaries_nor_compression_count(
    tmp_path: Path, dictionaries: bool, group: int
) -> None:
    file = tmp_path / "part-00000-a.parquet"
    pq.write_table(
        TABLE, file, use_dictionary=dictionaries, compression="zstd", row_group_size=group
    )
    (partition,) = measured(tmp_path, found_partitions(tmp_path))
    texts = (600 + 12) + (2 + 2 * 12)
    assert partition.memory is not None
    # Without a dictionary the size of pages stands for that of texts, which is slightly more.
    assert partition.memory == pytest.approx(ROWS * (8 + texts + 8 + 4), rel=0.02)
    assert partition.bytes < partition.memory / 20


def test_some_partitions_stand_for_all_of_many(tmp_path: Path) -> None:
    for index in range(130):
        pq.write_table(pa.table({"k": [1] * 10}), tmp_path / f"part-{index:05d}-a.parquet")
    partitions = measured(tmp_path, found_partitions(tmp_path))
    known = [each.memory for each in partitions if each.memory is not None]
    assert 32 < len(known) <= 64 and set(known) == {160}
    dataset = DataSetDescription(dataset_id="d", computes="c", columns=(), spark_version="4")
    manifest = Manifest(created="now", dataset=dataset, partitions=partitions)
    assert KeptDataSet(directories=("/nowhere",), manifest=manifest).memory == 130 * 160
