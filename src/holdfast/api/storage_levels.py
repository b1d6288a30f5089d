"""Which of Spark's storage levels Holdfast stands in for."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark import StorageLevel


def is_kept(level: StorageLevel) -> bool:
    """Whether `persist` with this level means what `cache()` does: rows that may be on disk.

    Who asks for memory alone wants its speed, and who asks for replicas wants these.

    Args:
        level: As handed to `persist`.

    Example:
        >>> from pyspark import StorageLevel
        >>> is_kept(StorageLevel.MEMORY_AND_DISK), is_kept(StorageLevel.MEMORY_ONLY)
        (True, False)
    """
    return level.useDisk and not level.useOffHeap and level.replication == 1
