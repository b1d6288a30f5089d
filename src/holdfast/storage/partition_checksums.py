"""What tells the content of a partition's file from any other."""

from __future__ import annotations

import hashlib
import os
import struct
from io import BufferedReader
from pathlib import Path

from holdfast.older_python import sha256_of
from holdfast.storage.kept_dataset import KeptPartition

_TAIL = struct.Struct("<I4s")


def footer_checksum(file: BufferedReader) -> str:
    """SHA-256 of a Parquet file's footer, with its length and the magic number behind it.

    Args:
        file: the file, open for reading.

    Raises:
        OSError: when it can't be read, or is none.
    """
    return hashlib.sha256(footer_of(file)).hexdigest()


def footer_of(file: BufferedReader) -> bytes:
    """A Parquet file's footer: a few kilobytes that say where and what everything is.

    Args:
        file: the file, open for reading.

    Raises:
        OSError: when it can't be read, or is none.

    Source: Apache Parquet, "File Format": the footer's length stands before the last four bytes.
    """
    size = file.seek(0, os.SEEK_END)
    if size < _TAIL.size:
        raise OSError(f"{file.name} has no footer")
    file.seek(size - _TAIL.size)
    length, _ = _TAIL.unpack(file.read(_TAIL.size))
    if length + _TAIL.size > size:
        raise OSError(f"{file.name} is shorter than its footer")
    file.seek(size - _TAIL.size - length)
    return file.read()


def content_checksum(file: BufferedReader) -> str:
    """SHA-256 of a whole file.

    Args:
        file: the file, open for reading.

    Raises:
        OSError: when it can't be read.
    """
    file.seek(0)
    return sha256_of(file)


def replaced(partition: KeptPartition, file: Path, *, thorough: bool = False) -> str | None:
    """How a file differs from the partition that was published in it, whatever its size and times.

    Args:
        partition: as its manifest describes it.
        file: where it is to be.
        thorough: whether to read all of it.

    Raises:
        OSError: when it can't be read.
    """
    with file.open("rb") as opened:
        if partition.footer is not None and footer_checksum(opened) != partition.footer:
            return f"partition {partition.index} has another footer"
        if thorough and partition.content not in (None, content_checksum(opened)):
            return f"partition {partition.index} has another content"
    return None
