"""A process that is killed while it keeps something leaves whole datasets, or garbage."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest

from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.storage.kept_dataset import (
    MANIFEST_NAME,
    DataSetDescription,
    KeptDataSet,
    Manifest,
)

KILLED = 25
PARTITIONS = 8
ONE = IntermediateDataSetID("1" * 64)
JOB = JobID("2" * 32)
DESCRIPTION = DataSetDescription(
    dataset_id=ONE.hex, computes="rows", columns=(), spark_version="4.3.0"
)

# Each child keeps one dataset after another and says so; it is killed some microseconds after it
# has kept four, which is anywhere in the keeping of the next or the removing of the oldest.
_KILLER = """
import os, shutil, signal, sys, time
from pathlib import Path
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.storage.kept_dataset import DataSetDescription
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.storage.merged_partitions import put_in_place
from holdfast.storage.partition_directory import found_partitions
import pyarrow.parquet

root, parquet = Path(sys.argv[1]), Path(sys.argv[2])
killed, partitions, merges = int(sys.argv[3]), int(sys.argv[4]), sys.argv[5] == "merges"
dataset_id = IntermediateDataSetID("1" * 64)
job_id = JobID("2" * 32)
description = DataSetDescription(
    dataset_id=dataset_id.hex, computes="rows", columns=(), spark_version="4.3.0"
)
pyarrow.parquet.read_metadata(parquet)

def keep_for_ever(told):
    storage = EmbeddedStorage(root)
    kept = []
    while True:
        staged = storage.stage(job_id, dataset_id)
        for index in range(partitions):
            shutil.copyfile(parquet, staged.directory / f"part-{index:05}-x-c000.zstd.parquet")
        if merges:
            merged = staged.directory / "_merged" / "part-00000-y-c000.zstd.parquet"
            merged.parent.mkdir()
            pyarrow.parquet.write_table(
                pyarrow.concat_tables([pyarrow.parquet.read_table(parquet)] * partitions), merged
            )
            put_in_place([merged], [found_partitions(staged.directory)], staged.directory)
            merged.parent.rmdir()
        kept.append(storage.publish(staged, description))
        os.write(told, b".")
        if len(kept) > 2:
            storage.remove(kept.pop(0))

for number in range(killed):
    telling, told = os.pipe()
    child = os.fork()
    if child == 0:
        keep_for_ever(told)
    os.close(told)
    for _ in range(4):
        assert os.read(telling, 1) == b"."
    time.sleep(number * 0.00025)
    os.kill(child, signal.SIGKILL)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == -signal.SIGKILL
    os.close(telling)
    # Out of the way of the next one's start, which would remove it.
    (left,) = root.glob("application-*")
    left.rename(root / f"killed-{number}")
"""


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[EmbeddedStorage]:
    storage = EmbeddedStorage(tmp_path / "living")
    yield storage
    storage.close()


def publish(storage: EmbeddedStorage) -> KeptDataSet:
    staged = storage.stage(JOB, ONE)
    path = staged.directory / "part-00000-x-c000.zstd.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"c0": [1, 2, 3]}), path)
    return storage.publish(staged, DESCRIPTION)


@pytest.mark.parametrize("merges", [False, True], ids=["as written", "merges"])
def test_whatever_a_killed_process_has_published_is_whole(
    storage: EmbeddedStorage, tmp_path: Path, merges: bool
) -> None:
    parquet = tmp_path / "some.parquet"
    pyarrow.parquet.write_table(pyarrow.table({"c0": [1, 2, 3]}), parquet)
    root = tmp_path / "root"
    arguments = [str(root), str(parquet), str(KILLED), str(PARTITIONS)]
    how = "merges" if merges else "as written"
    subprocess.run([sys.executable, "-c", _KILLER, *arguments, how], check=True, timeout=120)
    indices = [PARTITIONS - 1] if merges else list(range(PARTITIONS))
    rows = [1, 2, 3] * (PARTITIONS if merges else 1)
    for number in range(KILLED):
        visible = list((root / f"killed-{number}" / "datasets").glob("[!.]*"))
        assert len(visible) >= 2
        for directory in visible:
            manifest = Manifest.model_validate_json((directory / MANIFEST_NAME).read_text())
            assert [each.index for each in manifest.partitions] == indices
            kept = KeptDataSet(directories=(str(directory),), manifest=manifest)
            assert storage.damage(kept) is None
            for partition in manifest.partitions:
                read = pyarrow.parquet.read_table(directory / partition.file)
                assert (read.num_rows, read["c0"].to_pylist()) == (partition.rows, rows)


_ENDING = """
import os, signal, sys
from pathlib import Path
from holdfast.taskexecutor.applications.application_directory import ApplicationDirectory

root, how = Path(sys.argv[1]), sys.argv[2]
directories = [ApplicationDirectory.create(root), ApplicationDirectory.create(root)]
for directory in directories:
    (directory.path() / "datasets").mkdir()
    (directory.path() / "datasets" / "file").touch()
print(*(directory.path() for directory in directories), flush=True)
if how == "a forked child ends":
    child = os.fork()
    if child == 0:
        sys.exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    assert all((each.path() / "datasets" / "file").exists() for each in directories)
elif how == "exit":
    exit()
elif how == "sys.exit":
    sys.exit(3)
elif how == "an exception":
    raise ValueError("the program's own")
elif how == "an interrupt":
    signal.raise_signal(signal.SIGINT)
elif how == "SIGKILL":
    os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.parametrize(
    ("how", "status"),
    [
        ("the end of the program", 0),
        ("a forked child ends", 0),
        ("exit", 0),
        ("sys.exit", 3),
        ("an exception", 1),
        ("an interrupt", -2),
        ("SIGKILL", -9),
    ],
)
def test_a_process_s_directories_go_with_it_and_a_living_one_s_stay(
    tmp_path: Path, how: str, status: int
) -> None:
    root = tmp_path / "root"
    living = EmbeddedStorage(root)
    kept = publish(living)
    ended = subprocess.run(
        [sys.executable, "-c", _ENDING, str(root), how], capture_output=True, text=True, timeout=60
    )
    assert ended.returncode == status, ended.stderr
    theirs = [Path(path) for path in ended.stdout.split()]
    assert len(set(theirs)) == 2
    assert [path.exists() for path in theirs] == [how == "SIGKILL"] * 2
    # The next start removes what no end of a program has.
    next_one = EmbeddedStorage(root)
    assert not any(path.exists() for path in theirs)
    assert living.damage(kept) is None
    next_one.close()
    assert list(root.iterdir()) == [kept.directory.parent.parent]
    living.close()
    assert list(root.iterdir()) == []
