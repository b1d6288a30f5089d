"""Tees: what one pass makes is kept in a file, and taken by another pass."""

from __future__ import annotations

import resource
import signal
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from holdfast.errors import OperatorFailedError
from holdfast.graph.stream.operators import Map
from holdfast.streaming.chain import NamedOperator, Pass
from holdfast.streaming.inputs import BatchInput, SealedInput, SourceInput
from holdfast.streaming.outputs import BatchOutput, SealedOutput
from holdfast.streaming.own_pickle import OwnPickle
from holdfast.streaming.sealed_partition_file import PartitionFile
from holdfast.streaming.sealing import SEALED_SCHEMA, Seal, SealKey
from holdfast.streaming.tee import Tee, TeeReceipt

SEAL = Seal("tee", SealKey.new())
OUT = BatchOutput(lazily=True)


class Ranges:
    def read(self, split: int) -> Iterable[int]:
        return range(split)


def tee(directory: Path, receipts: list[TeeReceipt], function: Any = abs) -> Tee:
    producer = Pass(
        SourceInput("Ranges", Ranges(), (100_000,)), (), SealedOutput(SEAL, lazily=True)
    )
    consumer = Pass(SealedInput(SEAL), (NamedOperator("Map", Map(function)),), OUT)
    return Tee(
        producer, OwnPickle(consumer), str(directory), "zstd", lambda: (3, 17), receipts.append
    )


def source() -> Iterator[pa.RecordBatch]:
    return iter([pa.RecordBatch.from_pydict({"id": [0]})])


def test_where_no_file_comes_about_everything_goes_on(tmp_path: Path) -> None:
    receipts: list[TeeReceipt] = []
    # Who stops early, or fails, leaves no file and no receipt.
    frames = tee(tmp_path, receipts)(source())
    next(frames)
    frames.close()  # type: ignore[attr-defined]
    with pytest.raises(OperatorFailedError, match="ZeroDivisionError"):
        list(tee(tmp_path, receipts, lambda n: 1 // (n - 99_999))(source()))
    assert receipts == [] == list(tmp_path.iterdir())
    answered = tee(tmp_path / "gone", receipts)(source())
    assert list(BatchInput().read(answered)) == list(range(100_000))
    (receipt,) = receipts
    assert "gone" in str(receipt.failure)


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
