"""Tees: what one pass makes is kept in a file, and taken by another pass."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.streaming.chain import Pass
from holdfast.streaming.inputs import BatchInput, SealedInput, SourceInput
from holdfast.streaming.outputs import BatchOutput, SealedOutput
from holdfast.streaming.own_pickle import OwnPickle
from holdfast.streaming.sealed_partition_file import PartitionFile
from holdfast.streaming.sealing import SEALED_SCHEMA, Seal, SealKey
from holdfast.streaming.tee import Tee, TeeReceipt

RECORDS = list(range(100_000))


class Ranges:
    def read(self, split: int) -> Iterable[int]:
        return range(split)


def test_what_can_not_be_kept_goes_on(tmp_path: Path) -> None:
    seal, receipts = Seal("tee", SealKey.new()), list[TeeReceipt]()
    source = SourceInput("Ranges", Ranges(), (len(RECORDS),))
    producer = Pass(source, (), SealedOutput(seal, lazily=True))
    consumer = OwnPickle(Pass(SealedInput(seal), (), BatchOutput(lazily=True)))

    def tee(directory: Path) -> Iterator[pa.RecordBatch]:
        made = Tee(producer, consumer, str(directory), "zstd", lambda: (3, 17), receipts.append)
        return made(iter([pa.RecordBatch.from_pydict({"id": [0]})]))

    assert list(BatchInput().read(tee(tmp_path / "gone"))) == RECORDS
    assert "gone" in str(receipts.pop().failure)
    # Who stops early leaves no file and no receipt.
    frames = tee(tmp_path)
    next(frames)
    frames.close()  # type: ignore[attr-defined]
    assert receipts == [] == list(tmp_path.iterdir())
    assert list(BatchInput().read(tee(tmp_path))) == RECORDS
    kept = pq.read_table(tmp_path / "3-17").to_batches()
    assert list(SealedInput(seal).read(iter(kept))) == RECORDS


def test_a_disk_that_fills_up_is_noted(tmp_path: Path) -> None:
    frame = pa.RecordBatch.from_pydict(
        {"records": [1], "batch": [bytes(1 << 20)], "mac": [b""]}, schema=SEALED_SCHEMA
    )
    path = tmp_path / "part"
    full = 2 << 20
    ignored = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (full, hard))
    try:
        with PartitionFile(str(path), SEALED_SCHEMA, "uncompressed") as file:
            assert len(list(file.through([frame] * 5))) == 5
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
        signal.signal(signal.SIGXFSZ, ignored)
    assert file.failure is not None
    assert not path.exists()
