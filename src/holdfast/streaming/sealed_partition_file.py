"""The file of a partition of sealed batches, written while somebody takes them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from contextlib import suppress
from types import TracebackType

import pyarrow as pa
import pyarrow.parquet as pq

from holdfast.storage.sealed_batches import RECORDS

__all__ = ["PartitionFile"]

# What `parquet.compression` calls them, as Arrow calls them.
_CODECS = {"lz4_raw": "lz4", "uncompressed": "none"}


class PartitionFile:
    """Record batches on their way into a Parquet file, and further on.

    To be used in a `with`. That the file can't be written is noted, and keeps nobody from taking
    the record batches; what is left of it is removed.

    Args:
        path: the file, which is not there yet.
        schema: of the record batches.
        compression: Parquet's name of a codec.

    Attributes:
        rows: how many have been written.
        failure: why the file is not whole; None once everything has been written.
    """

    def __init__(self, path: str, schema: pa.Schema, compression: str) -> None:
        self.rows = 0
        self.failure: str | None = "not all of it has been taken"
        self._path = path
        self._writer: pq.ParquetWriter | None = None
        self._file: pa.NativeFile | None = None
        try:
            self._file = pa.OSFile(path, "wb")
            self._writer = pq.ParquetWriter(
                self._file,
                schema,
                compression=_CODECS.get(compression, compression),
                use_dictionary=False,
                write_statistics=[RECORDS],
                store_schema=False,
                write_page_checksum=True,
                # A page is as long as one row makes it, and not as long as a thousand make it.
                write_batch_size=1,
            )
        except (OSError, pa.ArrowException) as error:
            self._fail(error)

    def through(self, frames: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Hands record batches on, each once it has been written.

        Args:
            frames: taken one by one.
        """
        for frame in frames:
            self._write(frame)
            yield frame
        self._finish()

    def __enter__(self) -> PartitionFile:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.failure is not None:
            self._remove()

    def _write(self, frame: pa.RecordBatch) -> None:
        if self._writer is None:
            return
        try:
            self._writer.write_batch(frame)
            self.rows += frame.num_rows
        except (OSError, pa.ArrowException) as error:
            self._fail(error)

    def _finish(self) -> None:
        if self._writer is None or self._file is None:
            return
        try:
            self._writer.close()
            self._file.close()
            self.failure = None
        except (OSError, pa.ArrowException) as error:
            self._fail(error)

    def _fail(self, error: BaseException) -> None:
        self.failure = str(error) or type(error).__name__
        self._remove()

    def _remove(self) -> None:
        self._writer = None
        with suppress(OSError, pa.ArrowException):
            if self._file is not None:
                self._file.close()
        self._file = None
        with suppress(OSError):
            os.unlink(self._path)
