"""Files that hold several partitions, put in the place of those that held one each."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from holdfast.errors import StorageError
from holdfast.storage.kept_dataset import KeptPartition


def put_in_place(
    merged: Sequence[Path], groups: Sequence[Sequence[KeptPartition]], staged: Path
) -> None:
    """Replaces groups of partitions that nobody reads yet.

    A merged file has the index of the last partition of its group: then the indices still say that
    there were others.

    Args:
        merged: for each group the file that has its rows, on the same file system.
        groups: the partitions that are replaced, each group in their order.
        staged: where these lie.

    Raises:
        StorageError: when it was done in part: what is there then is no dataset.
    """
    try:
        for file, group in zip(merged, groups, strict=True):
            name = _renumbered(file.name, group[-1].index)
            # Without checksums Hadoop reads unchecked.
            if _checksums(file).exists():
                _checksums(file).rename(_checksums(staged / name))
            file.rename(staged / name)
        for partition in (each for group in groups for each in group):
            file = staged / partition.file
            file.unlink()
            _checksums(file).unlink(missing_ok=True)
    except OSError as error:
        raise StorageError(str(staged), f"can't replace its partitions: {error}") from error


def _renumbered(name: str, index: int) -> str:
    kind, _, attempt = name.split("-", 2)
    return f"{kind}-{index:05d}-{attempt}"


def _checksums(file: Path) -> Path:
    return file.with_name(f".{file.name}.crc")
