"""Datasets appear whole or not at all, and say when they have been tampered with."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from holdfast.errors import StorageError
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.storage.intermediate_result_storage import StagedDataSet
from holdfast.storage.kept_dataset import (
    MANIFEST_NAME,
    DataSetDescription,
    KeptColumn,
    KeptDataSet,
    Manifest,
)

ONE = IntermediateDataSetID("1" * 64)
JOB = JobID("2" * 32)
DESCRIPTION = DataSetDescription(
    dataset_id=ONE.hex,
    computes="Project over a range",
    columns=(KeptColumn(name="a b", kept_as="c0", type="long", kept_type="long", nullable=False),),
    spark_version="4.3.0",
)


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[EmbeddedStorage]:
    storage = EmbeddedStorage(tmp_path / "root")
    yield storage
    storage.close()


def write(staged: StagedDataSet, *indexes: int) -> None:
    """What Spark's writer leaves: partitions of 3 rows each, checksums and a marker."""
    for index in indexes:
        name = f"part-{index:05}-0b1c-c000.zstd.parquet"
        pyarrow.parquet.write_table(pyarrow.table({"c0": [index, 1, 2]}), staged.directory / name)
        (staged.directory / f".{name}.crc").write_bytes(b"crc")
    (staged.directory / "_SUCCESS").touch()


def keep(storage: EmbeddedStorage, *indexes: int) -> KeptDataSet:
    staged = storage.stage(JOB, ONE)
    write(staged, *(indexes or (0, 1, 2)))
    return storage.publish(staged, DESCRIPTION)


def everything(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file() and path.name != "lock")


# -- publishing ------------------------------------------------------------------------------------


def test_a_published_dataset_is_whole_and_explains_itself(storage: EmbeddedStorage) -> None:
    kept = keep(storage, 0, 3)
    assert storage.damage(kept) is None
    assert (kept.rows, len(kept.manifest.partitions)) == (6, 2)
    assert [each.index for each in kept.manifest.partitions] == [0, 3]
    assert kept.bytes == sum(path.stat().st_size for path in kept.directory.glob("*.parquet"))
    on_disk = (kept.directory / MANIFEST_NAME).read_text()
    assert Manifest.model_validate_json(on_disk) == kept.manifest
    assert json.loads(on_disk)["version"] == 6
    assert json.loads(on_disk)["dataset"]["columns"][0]["name"] == "a b"


def test_the_same_dataset_made_again_lies_elsewhere(storage: EmbeddedStorage) -> None:
    first, second = keep(storage), keep(storage)
    assert first.directory != second.directory
    storage.remove(first)
    assert storage.damage(second) is None
    storage.remove(first)
    assert storage.damage(second) is None


def _copy(staged: Path) -> None:
    written = next(staged.glob("part-*"))
    shutil.copy(written, staged / "part-00000-other-c000.zstd.parquet")


REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "nothing": (lambda staged: next(staged.glob("part-*")).unlink(), "no task wrote a partition"),
    "two attempts of a task": (_copy, "two attempts"),
    "no Parquet": (
        lambda staged: next(staged.glob("part-*")).write_text("no parquet"),
        "can't determine its partitions",
    ),
}


@pytest.mark.parametrize(("change", "message"), REFUSED.values(), ids=REFUSED.keys())
def test_what_is_no_dataset_is_not_published(
    storage: EmbeddedStorage, change: Callable[[Path], object], message: str
) -> None:
    staged = storage.stage(JOB, ONE)
    write(staged, 0)
    change(staged.directory)
    with pytest.raises(StorageError, match=message):
        storage.publish(staged, DESCRIPTION)
    for _ in range(2):
        storage.discard(staged)
    assert not staged.directory.exists()


def failing(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(("owner", "name"), [(os, "fsync"), (Path, "rename")])
def test_a_step_that_fails_publishes_nothing(
    storage: EmbeddedStorage,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    owner: Any,
    name: str,
) -> None:
    before = keep(storage)
    staged = storage.stage(JOB, ONE)
    write(staged, 0)
    with monkeypatch.context() as patched:
        patched.setattr(owner, name, failing)
        with pytest.raises(StorageError):
            storage.publish(staged, DESCRIPTION)
    assert list(before.directory.parent.iterdir()) == [before.directory]
    storage.discard(staged)
    assert all(before.directory in path.parents for path in everything(tmp_path))
    # The next one works.
    assert storage.damage(keep(storage)) is None


_CRASH = """
import os, shutil, sys
from pathlib import Path
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.storage.kept_dataset import DataSetDescription
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.storage.merged_partitions import put_in_place
from holdfast.storage.partition_directory import found_partitions
import pyarrow.parquet

home, parquet, stride = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
description = DataSetDescription(
    dataset_id="1" * 64, computes="rows", columns=(), spark_version="4.3.0"
)
counted = ("open", "os.", "shutil.", "fcntl.", "pathlib.")
pyarrow.parquet.read_metadata(parquet)

def story(root):
    storage = EmbeddedStorage(root)
    for merges in (True, False):
        staged = storage.stage(JobID("2" * 32), IntermediateDataSetID("1" * 64))
        for index in range(2):
            shutil.copyfile(parquet, staged.directory / f"part-0000{index}-x.parquet")
        if merges:
            merged = staged.directory / "_merged" / "part-00000-y.parquet"
            merged.parent.mkdir()
            rows = [pyarrow.parquet.read_table(parquet)] * 2
            pyarrow.parquet.write_table(pyarrow.concat_tables(rows), merged)
            put_in_place([merged], [found_partitions(staged.directory)], staged.directory)
            merged.parent.rmdir()
        kept = storage.publish(staged, description)
        pinned = storage.pin(kept)
    storage.unpin(pinned)
    storage.remove(kept)
    storage.close()

def crash_at(last):
    left = last
    def count(event, arguments):
        nonlocal left
        if event.startswith(counted):
            left -= 1
            if left == 0:
                os._exit(9)
    sys.addaudithook(count)

story(home / "first")
steps = 1
while True:
    steps += stride
    child = os.fork()
    if child == 0:
        crash_at(steps)
        story(home / str(steps))
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
        break
print(steps)
"""


@pytest.mark.parametrize("stride", [7, pytest.param(1, marks=pytest.mark.soak)])
def test_a_crash_at_any_step_leaves_whole_datasets_and_garbage(
    storage: EmbeddedStorage, tmp_path: Path, stride: int
) -> None:
    parquet = tmp_path / "some.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"c0": [1, 2, 3]}), parquet)
    home = tmp_path / "home"
    home.mkdir()
    arguments = [str(home), str(parquet), str(stride)]
    subprocess.run([sys.executable, "-c", _CRASH, *arguments], check=True, timeout=600)
    crashed = [path for path in home.iterdir() if path.name != "first"]
    assert len(crashed) > 60 / stride
    most = 0
    for root in crashed:
        datasets = list(root.glob("application-*/datasets/[!.]*"))
        most = max(most, len(datasets))
        for directory in datasets:
            manifest = Manifest.model_validate_json((directory / MANIFEST_NAME).read_text())
            kept = KeptDataSet(directories=(str(directory),), manifest=manifest)
            assert kept.rows == 6
            assert storage.damage(kept) is None
        # The next start removes what was left.
        EmbeddedStorage(root).close()
        for path in root.iterdir():
            # Without a lock a living process may be about to take it, so it gets a minute.
            assert not (path / "lock").exists() or path.name.startswith(".new-")
            os.utime(path, (1, 1))
        EmbeddedStorage(root).close()
        assert list(root.iterdir()) == []
    assert most == 2


# -- damage ----------------------------------------------------------------------------------------


def _rewrite(directory: Path) -> None:
    path = sorted(directory.glob("part-*"))[1]
    path.write_bytes(bytes(path.stat().st_size))


DAMAGES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a partition removed": (
        lambda d: sorted(d.glob("part-*"))[1].unlink(),
        "partition 1 is missing",
    ),
    "a partition cut": (
        lambda d: os.truncate(sorted(d.glob("part-*"))[2], 7),
        "partition 2 has 7 of",
    ),
    "a partition rewritten": (_rewrite, "partition 1 was modified"),
    "a partition touched": (
        lambda d: os.utime(sorted(d.glob("part-*"))[0], (1, 1)),
        "partition 0 was modified",
    ),
    "a file more": (lambda d: (d / "part-9.parquet").touch(), "1 unknown files"),
    "a directory more": (lambda d: (d / "more").mkdir(), "1 unknown files"),
    "hidden files": (lambda d: (d / ".part-00000.crc").touch(), ""),
    "a marker": (lambda d: (d / "_SUCCESS.2").touch(), ""),
    "no manifest": (lambda d: (d / MANIFEST_NAME).unlink(), "manifest is missing"),
    "no directory": (shutil.rmtree, "can't be listed"),
}


@pytest.mark.parametrize(("damage", "message"), DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_is_found(
    storage: EmbeddedStorage, damage: Callable[[Path], None], message: str
) -> None:
    kept = keep(storage)
    damage(kept.directory)
    found = storage.damage(kept)
    assert found is None if not message else message in (found or "")


def test_only_what_holds_other_rows_counts_as_rewritten(storage: EmbeddedStorage) -> None:
    kept = keep(storage)
    assert storage.rewritten(kept) is None
    (kept.directory / kept.manifest.partitions[0].file).unlink()
    (kept.directory / MANIFEST_NAME).unlink()
    assert storage.rewritten(kept) is None
    os.utime(kept.directory / kept.manifest.partitions[2].file, (1, 1))
    assert storage.rewritten(kept) == "partition 2 was modified"
    shutil.rmtree(kept.directory)
    assert storage.rewritten(kept) is None


# -- pins ------------------------------------------------------------------------------------------


def test_a_pinned_dataset_outlives_the_original_and_the_original_a_pin(
    storage: EmbeddedStorage,
) -> None:
    kept = keep(storage)
    pinned, other = storage.pin(kept), storage.pin(kept)
    assert pinned is not None and other is not None
    storage.unpin(other)
    assert storage.damage(kept) is None
    storage.remove(kept)
    assert storage.damage(pinned) is None
    names = {path.name for path in pinned.directory.iterdir()}
    assert {f".{each.file}.crc" for each in kept.manifest.partitions} <= names
    storage.unpin(pinned)
    assert not pinned.directory.exists()


@pytest.mark.parametrize("links", [True, False])
def test_what_is_gone_or_cannot_be_linked_is_not_pinned_and_leaves_nothing(
    storage: EmbeddedStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, links: bool
) -> None:
    kept = keep(storage)
    if links:
        (kept.directory / kept.manifest.partitions[1].file).unlink()
    else:
        monkeypatch.setattr(os, "link", failing)
    assert storage.pin(kept) is None
    assert all(kept.directory in path.parents for path in everything(tmp_path))


# -- the end ---------------------------------------------------------------------------------------


def test_closing_removes_everything_and_nothing_can_be_staged_after(tmp_path: Path) -> None:
    storage = EmbeddedStorage(tmp_path / "root")
    kept, staged = keep(storage), storage.stage(JOB, ONE)
    assert storage.pin(kept) is not None
    storage.close()
    storage.close()
    assert list((tmp_path / "root").iterdir()) == []
    write_back = staged.directory / "part-00000-x.parquet"
    assert not write_back.exists()
    with pytest.raises(StorageError):
        storage.stage(JOB, ONE)
    with pytest.raises(StorageError):
        storage.publish(staged, DESCRIPTION)
    assert storage.pin(kept) is None
    storage.discard(staged)
    storage.remove(kept)
    assert list((tmp_path / "root").iterdir()) == []


def test_a_root_that_was_removed_is_made_again(storage: EmbeddedStorage, tmp_path: Path) -> None:
    keep(storage)
    shutil.rmtree(tmp_path / "root")
    assert storage.damage(keep(storage)) is None
