"""Computations that are cached, and small datasets that are kept of them."""

from __future__ import annotations

import pyarrow
import pyarrow.parquet

from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet

JOB = JobID("2" * 32)
DIGESTS = ["a" * 64, "b" * 64]
# The same computation under two settings is two datasets.
DATASETS = {
    IntermediateDataSetID(letter * 64): digest
    for letters, digest in zip(("12", "34"), DIGESTS, strict=True)
    for letter in letters
}


def keep(storage: EmbeddedStorage, dataset_id: IntermediateDataSetID) -> KeptDataSet:
    staged = storage.stage(JOB, dataset_id)
    pyarrow.parquet.write_table(
        pyarrow.table({"a": [1, 2]}), staged.directory / "part-00000-x-c000.zstd.parquet"
    )
    return storage.publish(
        staged,
        DataSetDescription(
            dataset_id=dataset_id.hex, computes="rows", columns=(), spark_version="4.3.0"
        ),
    )


class Handle:
    """Somebody who holds a cached table."""
