"""Which partitions of a result are too small to have a file of their own."""

from __future__ import annotations

from collections.abc import Sequence

# Opening a file takes as long as reading this much of it.
SMALL = 256 << 10
LEAST_TARGET = 1 << 20
MOST_TARGET = 16 << 20
# One task reads the files of a group, one after the other.
MOST_FILES = 256
# Merging takes a Spark job; with fewer files less, later jobs save less than that.
LEAST_SAVED = 16


def groups_to_merge(sizes: Sequence[int], parallelism: int) -> tuple[range, ...]:
    """Neighbours among a result's partitions that are to be written together.

    Only partitions that are far below the target are: the others would cost more than they save.
    The target is what each of `parallelism` tasks would read, within bounds, as in Spark's own
    coalescing of shuffle partitions.

    Args:
        sizes: of the partitions' files in their order, in bytes.
        parallelism: how many tasks run at once.

    Returns:
        the groups, each a range of two or more places in `sizes`, in their order; none where too
        few files would be saved.

    Example:
        >>> groups_to_merge([500] * 300, 2)
        (range(0, 256), range(256, 300))
        >>> groups_to_merge([500, 500, 500], 2)
        ()
        >>> groups_to_merge([500] * 10 + [1 << 30] + [500] * 10, 2)
        (range(0, 10), range(11, 21))
    """
    target = min(max(sum(sizes) // max(parallelism, 1), LEAST_TARGET), MOST_TARGET)
    groups = []
    start, gathered = 0, 0
    for place, size in enumerate(sizes):
        if size >= SMALL:
            groups.append(range(start, place))
            start, gathered = place + 1, 0
        elif gathered + size > target or place - start == MOST_FILES:
            groups.append(range(start, place))
            start, gathered = place, size
        else:
            gathered += size
    groups.append(range(start, len(sizes)))
    merged = tuple(group for group in groups if len(group) > 1)
    saved = sum(map(len, merged)) - len(merged)
    return merged if saved >= LEAST_SAVED else ()
