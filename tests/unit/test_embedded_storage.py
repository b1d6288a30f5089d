"""Datasets appear whole or not at all, and tell when they have been tampered with."""

from __future__ import annotations

import errno
import json
import logging
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


def test_a_dataset_of_which_no_task_left_anything_is_refused(
    storage: EmbeddedStorage,
) -> None:
    with pytest.raises(StorageError, match="no task wrote a partition"):
        storage.publish(storage.stage(JOB, ONE), DESCRIPTION)


def test_what_is_staged_is_not_where_datasets_lie(storage: EmbeddedStorage) -> None:
    kept = keep(storage)
    staged = storage.stage(JOB, ONE)
    assert staged.directory.parent != kept.directory.parent
    assert list(staged.directory.iterdir()) == []
    storage.discard(staged)
    assert not staged.directory.exists()
    storage.discard(staged)


def test_the_same_dataset_made_again_lies_elsewhere(storage: EmbeddedStorage) -> None:
    first, second = keep(storage), keep(storage)
    assert first.directory != second.directory
    storage.remove(first)
    assert storage.damage(second) is None
    storage.remove(first)
    assert storage.damage(second) is None


def test_two_attempts_of_one_task_are_refused(storage: EmbeddedStorage) -> None:
    staged = storage.stage(JOB, ONE)
    write(staged, 0)
    shutil.copy(
        next(staged.directory.glob("part-*")),
        staged.directory / "part-00000-other-c000.zstd.parquet",
    )
    with pytest.raises(StorageError, match="two attempts"):
        storage.publish(staged, DESCRIPTION)


def test_a_file_that_is_no_parquet_is_refused(storage: EmbeddedStorage) -> None:
    staged = storage.stage(JOB, ONE)
    (staged.directory / "part-00000-x-c000.parquet").write_text("no parquet")
    with pytest.raises(StorageError, match="can't determine its partitions"):
        storage.publish(staged, DESCRIPTION)


def failing(*_: object, **__: object) -> None:
    raise OSError(errno.ENOSPC, "No space left on device")


@pytest.mark.parametrize(
    ("owner", "name"), [(os, "fsync"), (Path, "rename"), (Path, "open"), (Path, "iterdir")]
)
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
import pyarrow.parquet

home, parquet = Path(sys.argv[1]), Path(sys.argv[2])
description = DataSetDescription(
    dataset_id="1" * 64, computes="rows", columns=(), spark_version="4.3.0"
)
counted = ("open", "os.", "shutil.", "fcntl.", "pathlib.")
pyarrow.parquet.read_metadata(parquet)

def story(root):
    storage = EmbeddedStorage(root)
    for _ in range(2):
        staged = storage.stage(JobID("2" * 32), IntermediateDataSetID("1" * 64))
        for index in range(2):
            shutil.copyfile(parquet, staged.directory / f"part-0000{index}-x.parquet")
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
steps = 0
while True:
    steps += 1
    child = os.fork()
    if child == 0:
        crash_at(steps)
        story(home / str(steps))
        os._exit(0)
    if os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0:
        break
print(steps)
"""


def test_a_crash_at_any_step_leaves_whole_datasets_and_garbage(
    storage: EmbeddedStorage, tmp_path: Path
) -> None:
    parquet = tmp_path / "some.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"c0": [1, 2, 3]}), parquet)
    home = tmp_path / "home"
    home.mkdir()
    ran = subprocess.run(
        [sys.executable, "-c", _CRASH, str(home), str(parquet)],
        capture_output=True,
        text=True,
        check=True,
    )
    steps = int(ran.stdout)
    assert steps > 40
    most = 0
    for step in range(1, steps + 1):
        datasets = list((home / str(step)).glob("application-*/datasets/[!.]*"))
        most = max(most, len(datasets))
        for directory in datasets:
            manifest = Manifest.model_validate_json((directory / MANIFEST_NAME).read_text())
            kept = KeptDataSet(directories=(str(directory),), manifest=manifest)
            assert kept.rows == 6
            assert storage.damage(kept) is None
        # The next start removes whatever has been left.
        EmbeddedStorage(home / str(step)).close()
        for path in (home / str(step)).iterdir():
            # Without a lock it may be somebody's who is about to take it, so it gets a minute.
            assert not (path / "lock").exists() or path.name.startswith(".new-")
            os.utime(path, (1, 1))
        EmbeddedStorage(home / str(step)).close()
        assert list((home / str(step)).iterdir()) == []
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
    "no manifest": (lambda d: (d / MANIFEST_NAME).unlink(), "manifest is missing"),
    "no directory": (shutil.rmtree, "can't be listed"),
}


@pytest.mark.parametrize(("damage", "told"), DAMAGES.values(), ids=DAMAGES.keys())
def test_damage_is_told(
    storage: EmbeddedStorage, damage: Callable[[Path], None], told: str
) -> None:
    kept = keep(storage)
    damage(kept.directory)
    assert told in (storage.damage(kept) or "")


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


def test_hidden_files_are_no_damage(storage: EmbeddedStorage) -> None:
    kept = keep(storage)
    (kept.directory / ".part-00000.crc").touch()
    (kept.directory / "_SUCCESS.2").touch()
    assert storage.damage(kept) is None


# -- pins ------------------------------------------------------------------------------------------


def test_a_pinned_dataset_outlives_the_original(storage: EmbeddedStorage) -> None:
    kept = keep(storage)
    pinned = storage.pin(kept)
    assert pinned is not None
    assert pinned.directory != kept.directory
    assert storage.damage(kept) is None
    storage.remove(kept)
    assert storage.damage(pinned) is None
    names = {path.name for path in pinned.directory.iterdir()}
    assert {f".{each.file}.crc" for each in kept.manifest.partitions} <= names
    storage.unpin(pinned)
    assert not pinned.directory.exists()


def test_unpinning_leaves_the_original(storage: EmbeddedStorage) -> None:
    kept = keep(storage)
    pins = [storage.pin(kept), storage.pin(kept)]
    assert None not in pins
    for pinned in pins:
        assert pinned is not None
        storage.unpin(pinned)
    assert storage.damage(kept) is None


def test_what_is_gone_cannot_be_pinned_and_leaves_nothing_behind(
    storage: EmbeddedStorage, tmp_path: Path
) -> None:
    kept = keep(storage)
    (kept.directory / kept.manifest.partitions[1].file).unlink()
    assert storage.pin(kept) is None
    assert all(kept.directory in path.parents for path in everything(tmp_path))


def test_a_file_system_without_links_pins_nothing(
    storage: EmbeddedStorage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = keep(storage)
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


def test_what_cannot_be_removed_is_said_once(
    storage: EmbeddedStorage,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    kept = keep(storage)
    with monkeypatch.context() as patched, caplog.at_level(logging.WARNING, "holdfast"):
        patched.setattr(shutil, "rmtree", lambda *_, **__: None)
        storage.remove(kept)
    (record,) = caplog.records
    assert "can't remove" in record.getMessage()
    # It doesn't look like a dataset any more.
    assert storage.damage(kept) is not None
