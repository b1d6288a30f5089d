"""Tee: a pass whose records are kept, and go through another pass at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from typing import NamedTuple

import pyarrow as pa

from holdfast.streaming.chain import Pass
from holdfast.streaming.own_pickle import OwnPickle
from holdfast.streaming.sealed_partition_file import PartitionFile

__all__ = ["Tee", "TeeReceipt"]


class TeeReceipt(NamedTuple):
    """What an attempt of a task says of the partition that it has been through.

    Attributes:
        partition: its index.
        file: what the attempt has called it.
        rows: how many it holds.
        failure: why it is not whole, if it isn't.
    """

    partition: int
    file: str
    rows: int
    failure: str | None


@dataclass(frozen=True, eq=False)
class Tee:
    """Keeps what a pass makes, and hands it to another pass as that would read it.

    To be called with the record batches of a partition. Each attempt of a task writes a file of
    its own; which of them count is for those to say who know the attempts that have succeeded.

    Args:
        producer: makes sealed batches.
        consumer: takes those; what it makes comes out.
        directory: where the files go. An attempt that comes when it is gone keeps nothing.
        compression: Parquet's name of a codec.
        attempt: the partition's index and the number of the attempt; called in the task.
        report: told how it went, once everything has been taken.
    """

    producer: Pass
    consumer: OwnPickle[Pass]
    directory: str
    compression: str
    attempt: Callable[[], tuple[int, int]]
    report: Callable[[TeeReceipt], None]

    def __call__(self, frames: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Runs both passes.

        Args:
            frames: what the producer reads.

        Yields:
            what the consumer makes.
        """
        partition, number = self.attempt()
        name = f"{partition}-{number}"
        path = f"{self.directory}/{name}"
        with (
            closing(self.producer(frames)) as sealed,  # type: ignore[type-var]
            PartitionFile(path, self.producer.schema, self.compression) as file,
        ):
            yield from self.consumer.value(file.through(sealed))
        self.report(TeeReceipt(partition, name, file.rows, file.failure))
