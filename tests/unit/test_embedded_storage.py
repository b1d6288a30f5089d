"""Datasets appear whole or not at all, and say when they have been tampered with."""

from __future__ import annotations

import errno
import json
import os
import shutil
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pyarrow
import pyarrow.parquet
import pytest

from holdfast.errors import StorageError
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.storage.kept_dataset import (
    MANIFEST_NAME,
    DataSetDescription,
    KeptColumn,
    KeptDataSet,
    Manifest,
)
from holdfast.storage.merged_partitions import put_in_place
from holdfast.storage.partition_directory import found_partitions
from tests.taskexecutor.callers import write

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


def keep(storage: EmbeddedStorage, *indexes: int) -> KeptDataSet:
    staged = storage.stage(JOB, ONE)
    write(staged.directory, *(indexes or (0, 1, 2)))
    (staged.directory / "_SUCCESS").touch()
    return storage.publish(staged, DESCRIPTION)


def everything(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file() and path.name != "lock")


def test_a_published_dataset_is_whole_and_explains_itself(storage: EmbeddedStorage) -> None:
    kept, again = keep(storage, 0, 3), keep(storage, 0, 3)
    assert storage.damage(kept) is None
    assert (kept.rows, [each.index for each in kept.manifest.partitions]) == (6, [0, 3])
    assert kept.bytes == sum(path.stat().st_size for path in kept.directory.glob("*.parquet"))
    on_disk = (kept.directory / MANIFEST_NAME).read_text()
    assert Manifest.model_validate_json(on_disk) == kept.manifest
    assert json.loads(on_disk)["version"] == 6
    assert json.loads(on_disk)["dataset"]["columns"][0]["name"] == "a b"
    # The same one made again lies elsewhere.
    for _ in range(2):
        storage.remove(kept)
        assert storage.damage(again) is None


def _copy(staged: Path) -> None:
    written = next(staged.glob("part-*"))
    shutil.copy(written, staged / "part-00000-other-c000.zstd.parquet")


def failing(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


REFUSED: dict[str, Callable[[Path, pytest.MonkeyPatch], object]] = {
    "no task wrote a partition": lambda staged, _: next(staged.glob("part-*")).unlink(),
    "two attempts": lambda staged, _: _copy(staged),
    "can't determine its partitions": (
        lambda staged, _: next(staged.glob("part-*")).write_text("no parquet")
    ),
    "No space": lambda _, patch: patch.setattr(os, "fsync", failing),
    "No space left": lambda _, patch: patch.setattr(Path, "rename", failing),
}


@pytest.mark.parametrize("message", REFUSED)
def test_what_is_no_dataset_or_can_not_be_written_is_not_published(
    storage: EmbeddedStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, message: str
) -> None:
    before, staged = keep(storage), storage.stage(JOB, ONE)
    write(staged.directory, 0)
    with monkeypatch.context() as patched:
        REFUSED[message](staged.directory, patched)
        with pytest.raises(StorageError, match=message):
            storage.publish(staged, DESCRIPTION)
    assert list(before.directory.parent.iterdir()) == [before.directory]
    for _ in range(2):
        storage.discard(staged)
    assert all(before.directory in path.parents for path in everything(tmp_path))


class Killed(BaseException):
    """No step is done from then on."""


CHANGES = ("link", "mkdir", "open", "rename", "replace", "rmdir", "unlink")


def story(root: Path, parquet: Path) -> None:
    storage = EmbeddedStorage(root)
    for merges in (True, False):
        staged = storage.stage(JOB, ONE)
        for index in range(2):
            shutil.copyfile(parquet, staged.directory / f"part-0000{index}-x.parquet")
        if merges:
            merged = staged.directory / "_merged" / "part-00000-y.parquet"
            merged.parent.mkdir()
            shutil.copyfile(parquet.with_name("two.parquet"), merged)
            put_in_place([merged], [found_partitions(staged.directory)], staged.directory)
            merged.parent.rmdir()
        kept = storage.publish(staged, DESCRIPTION)
        pinned = storage.pin(kept)
    assert pinned is not None
    storage.unpin(pinned)
    storage.remove(kept)
    storage.close()


def killed_before(step: int, root: Path, parquet: Path) -> Path | None:
    """What is left, in a copy, of a process that is killed before it changes the next file."""
    done = 0

    def stepping(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            nonlocal done
            done += 1
            if done > step:
                raise Killed
            return real(*args, **kwargs)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in CHANGES:
            patch.setattr(os, name, stepping(getattr(os, name)))
        try:
            story(root, parquet)
        except Killed:
            patch.undo()
            root.mkdir(exist_ok=True)
            # It holds no lock there, nor removes what is its own when it is collected.
            return shutil.copytree(root, root.with_suffix(".left"))
    return None


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize("stride", [3, pytest.param(1, marks=pytest.mark.soak)])
def test_a_crash_at_any_step_leaves_whole_datasets_and_garbage(
    storage: EmbeddedStorage, tmp_path: Path, stride: int
) -> None:
    parquet, most = tmp_path / "one.parquet", 0
    table = pyarrow.table({"c0": [1, 2, 3]})
    pyarrow.parquet.write_table(table, parquet)
    pyarrow.parquet.write_table(pyarrow.concat_tables([table] * 2), tmp_path / "two.parquet")
    for step in count(0, stride):
        root = killed_before(step, tmp_path / f"killed-{step}", parquet)
        if root is None:
            break
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
    assert most == 2 and step > 50


DAMAGES: dict[str, Callable[[Path, Path], object]] = {
    "partition 1 is missing": lambda _, part: part.unlink(),
    "partition 1 has 7 of": lambda _, part: os.truncate(part, 7),
    "partition 1 was modified": lambda _, part: part.write_bytes(bytes(part.stat().st_size)),
    "partition 1 was": lambda _, part: os.utime(part, (1, 1)),
    "1 unknown files": lambda directory, _: (directory / "part-9.parquet").touch(),
    "1 unknown": lambda directory, _: (directory / "more").mkdir(),
    "manifest is missing": lambda directory, _: (directory / MANIFEST_NAME).unlink(),
    "can't be listed": lambda directory, _: shutil.rmtree(directory),
}


@pytest.mark.parametrize("message", DAMAGES)
def test_damage_is_found(storage: EmbeddedStorage, message: str) -> None:
    kept = keep(storage)
    for hidden in (".part-00000.crc", "_SUCCESS.2"):
        (kept.directory / hidden).touch()
    assert storage.damage(kept) is None and storage.rewritten(kept) is None
    DAMAGES[message](kept.directory, kept.directory / kept.manifest.partitions[1].file)
    assert message in (storage.damage(kept) or "")
    # Only what holds other rows counts as rewritten.
    rewritten = "partition 1 was modified" if message.startswith("partition 1 was") else None
    assert message.startswith("partition 1 has") or storage.rewritten(kept) == rewritten


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


def test_closing_removes_everything_and_nothing_can_be_staged_after(tmp_path: Path) -> None:
    storage = EmbeddedStorage(tmp_path / "root")
    keep(storage)
    # A root that was removed is made again.
    shutil.rmtree(tmp_path / "root")
    kept, staged = keep(storage), storage.stage(JOB, ONE)
    assert storage.damage(kept) is None and storage.pin(kept) is not None
    for _ in range(2):
        storage.close()
        assert list((tmp_path / "root").iterdir()) == []
    with pytest.raises(StorageError):
        storage.stage(JOB, ONE)
    with pytest.raises(StorageError):
        storage.publish(staged, DESCRIPTION)
    assert storage.pin(kept) is None
    storage.discard(staged)
    storage.remove(kept)
    assert list((tmp_path / "root").iterdir()) == []
