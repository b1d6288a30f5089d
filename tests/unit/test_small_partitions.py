"""Which partitions are written together, and what is put in the place of those that were."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
from hypothesis import given
from hypothesis import strategies as st

from holdfast.storage.merged_partitions import put_in_place
from holdfast.storage.partition_directory import found_partitions, partition_sizes
from holdfast.storage.small_partitions import (
    LEAST_SAVED,
    LEAST_TARGET,
    MOST_FILES,
    MOST_TARGET,
    SMALL,
    groups_to_merge,
)

SIZES = st.lists(
    st.one_of(
        st.integers(0, 2000),
        st.integers(0, SMALL - 1),
        st.just(SMALL - 1),
        st.just(SMALL),
        st.integers(SMALL, 1 << 32),
    ),
    max_size=700,
)


@given(SIZES, st.integers(1, 64))
def test_small_neighbours_are_written_together(sizes: list[int], parallelism: int) -> None:
    groups = groups_to_merge(sizes, parallelism)
    target = min(max(sum(sizes) // parallelism, LEAST_TARGET), MOST_TARGET)
    places = [place for group in groups for place in group]
    assert places == sorted(set(places))
    for group in groups:
        assert group.step == 1
        assert 2 <= len(group) <= MOST_FILES
        assert all(sizes[place] < SMALL for place in group)
        assert sum(sizes[place] for place in group) <= target
    assert not groups or len(places) - len(groups) >= LEAST_SAVED
    if groups:
        # What stands beside each other afterwards wouldn't have fitted into one.
        starts = {group.start: group for group in groups}
        left, place = [], 0
        while place < len(sizes):
            group = starts.get(place, range(place, place + 1))
            left.append(group)
            place = group.stop
        assert [each for group in left for each in group] == list(range(len(sizes)))
        for one, other in pairwise(left):
            both = [sizes[each] for each in (*one, *other)]
            assert max(both) >= SMALL or sum(both) > target or len(both) > MOST_FILES


@given(st.integers(0, LEAST_SAVED), st.integers(1, 64))
def test_a_few_small_partitions_are_left(number: int, parallelism: int) -> None:
    assert groups_to_merge([100] * number, parallelism) == ()
    assert groups_to_merge([100] * (LEAST_SAVED + 1), parallelism) == (range(LEAST_SAVED + 1),)


def _staged(directory: Path, rows: list[int]) -> Path:
    """A directory with a partition, and its checksums, for each number of rows."""
    directory.mkdir()
    for index, number in enumerate(rows):
        if number:
            table = pa.table({"k": [index] * number})
            name = f"part-{index:05d}-{directory.name}-c000.zstd.parquet"
            pq.write_table(table, directory / name)
            (directory / f".{name}.crc").write_bytes(b"crc")
    return directory


def test_merged_files_take_the_place_of_what_they_hold(tmp_path: Path) -> None:
    staged = _staged(tmp_path / "staged", [1, 0, 2, 7, 3, 4])
    new = _staged(tmp_path / "new", [3, 7])
    found = found_partitions(staged)
    assert partition_sizes(staged) == [each.bytes for each in found]
    untouched = (staged / found[2].file).stat()
    files = [new / each.file for each in found_partitions(new)]
    put_in_place(files, [found[:2], found[3:]], staged)
    left = found_partitions(staged)
    # The last of each group's indices: a barrier stage can still see that there were others.
    assert [(each.index, each.rows) for each in left] == [(2, 3), (3, 7), (5, 7)]
    assert (staged / left[1].file).stat() == untouched
    assert sorted(path.name for path in staged.iterdir()) == sorted(
        name for each in left for name in (each.file, f".{each.file}.crc")
    )
