"""`holdfast ls`, `show` and `rm`, against what this process keeps and real task executors."""

from __future__ import annotations

import json
import logging
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta, timezone
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from holdfast.catalog.audience import Audience
from holdfast.cli import main as cli
from holdfast.cli import terminal
from holdfast.cli.datasets import as_table, directory_source
from holdfast.cli.datasets.executor_source import ExecutorSource
from holdfast.cli.datasets.footer import contents_of
from holdfast.cli.datasets.listed_dataset import DataSetState, ListedDataSet, Sharing
from holdfast.cli.datasets.order import in_order
from holdfast.cli.datasets.short_ids import short_ids
from holdfast.cli.datasets.type_text import type_text
from holdfast.errors import UnknownDataSetError
from holdfast.ids import ApplicationID, IntermediateDataSetID, JobID
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.runtime.task_executor_storage import TaskExecutorStorage
from holdfast.storage.intermediate_result_storage import WrittenPartition
from holdfast.storage.kept_dataset import (
    DataSetDescription,
    KeptColumn,
    KeptDataSet,
    KeptPartition,
    Manifest,
)
from holdfast.storage.partition_directory import HITS_NAME, note_hits, noted_hits
from holdfast.taskexecutor.calls.client import RemoteTaskExecutor, Timeouts
from holdfast.taskexecutor.partitions.partition_info import OutputID
from holdfast.version import __version__

JOB = JobID("2" * 32)
TOKEN = "0123456789abcdef" * 2
COMPUTES = "Aggregate, Filter, Join over customer.parquet, orders and 2 more"
COLUMNS = (
    KeptColumn(name="a b", kept_as="c0", type="long", kept_type="long", nullable=False),
    KeptColumn(name="k", kept_as="k", type="string", kept_type="string", nullable=True),
)
# What Spark writes into the footers of its files.
SPARK_FOOTER = {
    "org.apache.spark.version": "4.3.0",
    "org.apache.spark.sql.parquet.row.metadata": json.dumps(
        {
            "type": "struct",
            "fields": [
                {"name": "a", "type": "long", "nullable": False, "metadata": {}},
                {"name": "holdfast_position", "type": "long", "nullable": False, "metadata": {}},
            ],
        }
    ),
}


def described(dataset_id: str, computes: str = COMPUTES) -> DataSetDescription:
    return DataSetDescription(
        dataset_id=dataset_id, computes=computes, columns=COLUMNS, spark_version="4.3.0"
    )


def write(directory: Path, *indices: int) -> None:
    """Leaves partitions of three rows, as Spark's tasks do."""
    for index in indices:
        table = pa.table({"a": [1, 2, 3]}).replace_schema_metadata(SPARK_FOOTER)
        pq.write_table(table, directory / f"part-{index:05}-x-c000.zstd.parquet")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def storage(root: Path) -> Iterator[EmbeddedStorage]:
    storage = EmbeddedStorage(root)
    yield storage
    storage.close()


def keep(
    storage: EmbeddedStorage, dataset: str, indices: tuple[int, ...] = (0, 1), computes: str = "C"
) -> KeptDataSet:
    staged = storage.stage(JOB, IntermediateDataSetID(dataset))
    write(staged.directory, *indices)
    return storage.publish(staged, described(dataset, computes))


class Command:
    """Runs the command, and says what it said."""

    def __init__(self, capsys: pytest.CaptureFixture[str], *where: str) -> None:
        self.capsys = capsys
        self.where = where

    def __call__(self, *arguments: str) -> tuple[int, str, str]:
        self.capsys.readouterr()
        code = cli.main([*arguments, *self.where])
        said = self.capsys.readouterr()
        return code, said.out, said.err

    def json(self, *arguments: str, code: int = 0) -> list[dict[str, Any]]:
        ended, out, err = self(*arguments, "--json")
        assert ended == code, err
        found = json.loads(out)
        assert isinstance(found, list)
        return found


@pytest.fixture
def holdfast(capsys: pytest.CaptureFixture[str], root: Path) -> Command:
    return Command(capsys, "--directory", str(root))


def name_of(kept: KeptDataSet) -> str:
    assert kept.name is not None
    return kept.name


# -- what is kept on this machine


def test_every_dataset_is_an_object(storage: EmbeddedStorage, holdfast: Command) -> None:
    before = datetime.now(timezone.utc).replace(microsecond=0)
    first, second = keep(storage, "1" * 64), keep(storage, "2" * 64, (0, 3))
    one, two = holdfast.json("ls")
    created, age = datetime.fromisoformat(one.pop("created")), one.pop("age_seconds")
    assert before <= created <= datetime.now(timezone.utc)
    assert 0 <= age < 60
    place = {
        "host": socket.gethostname(),
        "executor": None,
        "executor_id": None,
        "directory": str(first.directory),
        "partitions": 2,
        "bytes": first.bytes,
        "damage": None,
    }
    assert one == {
        "id": name_of(first),
        "dataset": "1" * 64,
        "application": storage.application.hex,
        "computes": "C",
        "state": "complete",
        "damage": None,
        "partitions_found": 2,
        "number_of_partitions": 2,
        "rows": 6,
        "bytes": first.bytes,
        "ambiguous": False,
        "hits": 1,
        "user": None,
        "host": None,
        "audience": None,
        "seconds": None,
        "cpu_seconds": None,
        "lifetime_seconds": None,
        "last_used": None,
        "uses": None,
        "saved_seconds": None,
        "reasons": None,
        "places": [place],
    }
    # Spark leaves no file of a partition without rows.
    assert (two["id"], two["state"]) == (name_of(second), "complete")
    assert (two["partitions_found"], two["number_of_partitions"], two["rows"]) == (4, 4, 6)


def listed(created: int | None = None, used: int | None = None, saved: float = 0) -> ListedDataSet:
    """One that was created and used so many days after a moment."""
    then = datetime(2026, 1, 1, tzinfo=timezone.utc)
    sharing = None
    if used is not None:
        last_used = then + timedelta(days=used)
        sharing = Sharing(
            "ana", "node-1", Audience.USER, "staff", 1.0, None, None, last_used, 1, saved
        )
    at = None if created is None else then + timedelta(days=created)
    output = OutputID(IntermediateDataSetID("1" * 64), "0badcafe")
    return ListedDataSet(None, output, None, at, 0, 0, DataSetState.COMPLETE, 0, (), sharing)


def test_they_are_listed_in_the_order_that_is_asked_for(
    storage: EmbeddedStorage, holdfast: Command, capsys: pytest.CaptureFixture[str]
) -> None:
    small, large = keep(storage, "1" * 64, (1,)), keep(storage, "2" * 64, (5, 6, 7))
    by_size = holdfast.json("ls", "--by", "size")
    assert [each["id"] for each in by_size] == [name_of(large), name_of(small)]
    for by in ("saved", "used"):
        assert len(holdfast.json("ls", "--by", by)) == 2
        assert holdfast("ls", "--by", by)[0] == 0
    with pytest.raises(SystemExit):
        holdfast("ls", "--by", "name")
    assert "invalid choice: 'name'" in capsys.readouterr().err


def test_what_has_saved_most_or_was_used_last_comes_first() -> None:
    alone, much, late, unknown = listed(2), listed(0, 0, 9), listed(0, 1, 3), listed()
    datasets = [unknown, alone, late, much]
    assert in_order(datasets, None) == datasets
    assert in_order(datasets, "saved") == [much, late, unknown, alone]
    assert in_order(datasets, "used") == [alone, late, much, unknown]


def test_one_is_shown_with_everything(storage: EmbeddedStorage, holdfast: Command) -> None:
    kept = keep(storage, "1" * 64)
    (listed,), (shown,) = holdfast.json("ls"), holdfast.json("show", "1111")
    assert {**listed, "age_seconds": 0} == {
        name: 0 if name == "age_seconds" else shown[name] for name in listed
    }
    assert shown["spark_version"] == "4.3.0"
    assert shown["columns"] == [
        {"name": "a b", "type": "bigint", "nullable": False},
        {"name": "k", "type": "string", "nullable": True},
    ]
    for partition, expected in zip(shown["partitions"], kept.manifest.partitions, strict=True):
        path = Path(partition["location"])
        assert path.stat().st_size == partition["bytes"] == expected.bytes
        assert (partition["index"], partition["file"], partition["rows"]) == (
            expected.index,
            path.name,
            3,
        )
        modified = datetime.fromisoformat(partition["modified"]).timestamp()
        assert modified == pytest.approx(path.stat().st_mtime, abs=0.01)
    code, out, err = holdfast("show", "1111")
    assert (code, err) == (0, "")
    for fact in (name_of(kept), "complete", "4.3.0", "bigint", shown["created"], "2 of 2"):
        assert fact in out
    assert all(each.file in out for each in kept.manifest.partitions)
    assert str(kept.directory) in out


def test_the_environments_of_a_directory_are_told_apart(root: Path, holdfast: Command) -> None:
    storages = [EmbeddedStorage(root), EmbeddedStorage(root)]
    kept = [keep(storage, "1" * 64) for storage in storages]
    assert {each["application"]: each["id"] for each in holdfast.json("ls")} == {
        storage.application.hex: name_of(each) for storage, each in zip(storages, kept, strict=True)
    }
    storages[0].close()
    (left,) = holdfast.json("ls")
    assert left["application"] == storages[1].application.hex
    storages[1].close()
    assert holdfast.json("ls") == []


def test_what_a_dead_program_has_left_is_neither_listed_nor_touched(
    storage: EmbeddedStorage, root: Path, holdfast: Command
) -> None:
    kept = keep(storage, "1" * 64)
    dead = root / f"application-{ApplicationID.random().hex}"
    shutil.copytree(kept.directory.parent.parent, dead)
    (root / "application-of-somebody").mkdir()
    assert (dead / "lock").exists()
    assert [each["id"] for each in holdfast.json("ls")] == [name_of(kept)]
    assert holdfast("rm", "1111")[0] == 0
    assert len(list(dead.rglob("*.parquet"))) == 2
    assert holdfast("rm", "1111")[0] == 2
    (dead / "lock").unlink()
    assert holdfast.json("ls") == []
    assert len(list(dead.rglob("*.parquet"))) == 2


def test_looking_does_not_hold_an_application_up(storage: EmbeddedStorage, root: Path) -> None:
    path = root / f"application-{storage.application.hex}"
    assert directory_source.is_running(path)
    storage.close()
    assert not directory_source.is_running(path)


def test_what_a_job_could_not_read_is_marked(storage: EmbeddedStorage, holdfast: Command) -> None:
    whole, gone, written, unexplained = (keep(storage, digit * 64) for digit in "1234")
    (gone.directory / gone.manifest.partitions[1].file).unlink()
    os.utime(written.directory / written.manifest.partitions[0].file, (1, 1))
    (unexplained.directory / "_manifest.json").write_text("{}")
    states = {each["id"]: each for each in holdfast.json("ls")}
    found = {
        name: (each["state"], each["partitions_found"], each["number_of_partitions"])
        for name, each in states.items()
    }
    assert found == {
        name_of(whole): ("complete", 2, 2),
        name_of(gone): ("incomplete", 1, 2),
        name_of(written): ("damaged", 2, 2),
        name_of(unexplained): ("damaged", 0, 2),
    }
    assert states[name_of(gone)]["damage"] == "partition 1 is missing"
    assert states[name_of(written)]["damage"] == "partition 0 was modified"
    assert states[name_of(unexplained)]["computes"] is None
    code, out, _ = holdfast("ls")
    marked = {line.split()[0]: "!" in line for line in out.splitlines()[1:5]}
    assert code == 0
    assert marked == {"11111111": False, "22222222": True, "33333333": True, "44444444": True}
    assert "! incomplete or damaged" in out
    for kept in (gone, written, unexplained):
        code, out, err = holdfast("show", name_of(kept))
        assert (code, err) == (0, "")
        assert holdfast("rm", name_of(kept))[0] == 0
        assert not kept.directory.exists()


def test_nothing_found_is_a_sentence(
    root: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    root.mkdir()
    assert Command(capsys, "--directory", str(root))("ls") == (
        0,
        f"Nothing is kept in {root}.\n",
        "",
    )
    # Where nothing has ever been kept, there is not even the default directory.
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    code, out, err = Command(capsys)("ls")
    assert (code, err) == (0, "")
    assert out == f"Nothing is kept in {tmp_path}/holdfast-{os.getuid()}.\n"


def test_without_arguments_the_default_directory_is_looked_at(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    storage = EmbeddedStorage(tmp_path / f"holdfast-{os.getuid()}")
    kept = keep(storage, "1" * 64)
    assert [each["id"] for each in Command(capsys).json("ls")] == [name_of(kept)]
    storage.close()


# -- hits


def test_hits_are_seen_by_another_process(storage: EmbeddedStorage, holdfast: Command) -> None:
    kept, other = keep(storage, "1" * 64), keep(storage, "2" * 64)
    for _ in range(11):
        storage.hit(kept)
    assert {each["id"]: each["hits"] for each in holdfast.json("ls")} == {
        name_of(kept): 12,
        name_of(other): 1,
    }
    assert storage.damage(kept) is None


def test_threads_that_hit_are_all_counted(storage: EmbeddedStorage) -> None:
    kept = keep(storage, "1" * 64)

    def hit() -> None:
        for _ in range(100):
            storage.hit(kept)

    threads = [threading.Thread(target=hit) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert noted_hits(kept.directory) == 801


def test_hits_that_can_not_be_noted_cost_nothing(
    storage: EmbeddedStorage, holdfast: Command, caplog: pytest.LogCaptureFixture
) -> None:
    kept = keep(storage, "1" * 64)
    (kept.directory / HITS_NAME).unlink()
    (kept.directory / HITS_NAME).mkdir()
    with caplog.at_level(logging.DEBUG, "holdfast"):
        storage.hit(kept)
    assert [record.levelno for record in caplog.records] == [logging.DEBUG]
    assert [each["hits"] for each in holdfast.json("ls")] == [None]
    assert holdfast("ls")[0] == 0
    shutil.rmtree(kept.directory)
    storage.hit(kept)
    assert not kept.directory.exists()


def test_the_note_of_hits_leads_nowhere(storage: EmbeddedStorage, tmp_path: Path) -> None:
    kept = keep(storage, "1" * 64)
    (tmp_path / "mine").write_text("mine")
    (kept.directory / HITS_NAME).unlink()
    (kept.directory / HITS_NAME).symlink_to(tmp_path / "mine")
    storage.hit(kept)
    assert (tmp_path / "mine").read_text() == "mine"


@pytest.mark.parametrize("text", [b"", b"x", b"-1", b"\xff", b"9" * 5000, "²".encode()])
def test_a_note_that_is_no_count_is_none(tmp_path: Path, text: bytes) -> None:
    (tmp_path / HITS_NAME).write_bytes(text)
    assert noted_hits(tmp_path) is None


def test_noting_a_hit_takes_no_time(tmp_path: Path) -> None:
    taken = []
    for count in range(1, 301):
        begun = time.perf_counter()
        note_hits(tmp_path, count)
        taken.append(time.perf_counter() - begun)
    assert noted_hits(tmp_path) == 300
    assert sorted(taken)[150] < 0.0002


# -- ids


def test_an_id_may_be_cut_short(storage: EmbeddedStorage, holdfast: Command) -> None:
    one, two = "abcd0" + "1" * 59, "abcd1" + "1" * 59
    kept = {digits: keep(storage, digits) for digits in (one, two)}
    again = keep(storage, two)
    name, attempt = name_of(again), name_of(again).rpartition("-")[2]
    for given, meant in (
        ("abcd0", kept[one]),
        ("ABCD0", kept[one]),
        (one, kept[one]),
        (name_of(kept[two]), kept[two]),
        (name, again),
        (name[:-1], again),
        (f"abcd1-{attempt}", again),
    ):
        assert [each["id"] for each in holdfast.json("show", given)] == [name_of(meant)]


def test_an_id_that_means_several_lists_them(storage: EmbeddedStorage, holdfast: Command) -> None:
    kept = [keep(storage, f"abcd{digit}" + "1" * 59, computes=f"C{digit}") for digit in range(3)]
    twice = keep(storage, "abcd0" + "1" * 59)
    for given, meant in (
        ("abcd", [*kept, twice]),
        ("abcd0", [kept[0], twice]),
        ("abcd0-", [kept[0], twice]),
        (twice.manifest.dataset.dataset_id, [kept[0], twice]),
    ):
        for action in ("show", "rm"):
            code, out, err = holdfast(action, given)
            assert (code, out) == (2, "")
            first, *lines = err.splitlines()
            assert (
                first
                == f"holdfast {action}: {given} is ambiguous, it matches {len(meant)} datasets:"
            )
            assert {line.split()[0] for line in lines} == {name_of(each) for each in meant}
    assert len(holdfast.json("ls")) == 4


def test_an_unknown_id_lists_what_there_is(storage: EmbeddedStorage, holdfast: Command) -> None:
    kept = keep(storage, "1" * 64)
    for action in ("show", "rm"):
        code, out, err = holdfast(action, "2222")
        assert (code, out) == (2, "")
        assert "no dataset 2222 is kept in" in err
        assert name_of(kept) in err
    for digit in range(12):
        keep(storage, f"a{digit:03}" + "1" * 60)
    assert holdfast("show", "2222")[2].splitlines()[-1] == "  and 3 more"
    assert len(holdfast.json("ls")) == 13


@pytest.mark.parametrize(
    "given", ["111", "", "xyzw", "1111*", "../1111", "1111-x", "1" * 65, "1111-123456789", "1111\n"]
)
def test_what_is_no_id_is_refused(storage: EmbeddedStorage, holdfast: Command, given: str) -> None:
    kept = keep(storage, "1" * 64)
    for action in ("show", "rm"):
        code, out, err = holdfast(action, given)
        assert (code, out, len(err.splitlines())) == (2, "", 1)
        assert "is not a dataset id: expected at least 4 hexadecimal digits" in err
    assert storage.damage(kept) is None


def test_ids_are_shown_as_short_as_they_can_be() -> None:
    def output(dataset: str, attempt: str) -> OutputID:
        return OutputID(IntermediateDataSetID(dataset), attempt)

    alone = output("f" * 64, "00000000")
    near = [output("a" * 10 + digit + "0" * 53, "00000000") for digit in "12"]
    twins = [output("b" * 64, "00001110"), output("b" * 64, "00001120")]
    assert short_ids([]) == {}
    assert short_ids([alone]) == {alone: "f" * 8}
    assert short_ids([alone, *near]) == {
        alone: "f" * 11,
        near[0]: "a" * 10 + "1",
        near[1]: "a" * 10 + "2",
    }
    assert list(short_ids([alone, *twins]).values()) == [
        "ffffffff",
        "bbbbbbbb-0000111",
        "bbbbbbbb-0000112",
    ]


# -- releasing


def test_what_is_released_is_missed_by_the_environment(
    storage: EmbeddedStorage, holdfast: Command
) -> None:
    kept, other = keep(storage, "1" * 64), keep(storage, "2" * 64)
    (released,) = holdfast.json("rm", "1111")
    assert (released["id"], released["rows"]) == (name_of(kept), 6)
    assert [place["directory"] for place in released["released"]] == [str(kept.directory)]
    assert not kept.directory.exists()
    assert storage.damage(kept) is not None
    assert storage.damage(other) is None
    assert list(kept.directory.parent.iterdir()) == [other.directory]
    storage.remove(kept)
    assert storage.damage(keep(storage, "1" * 64)) is None
    code, out, err = holdfast("rm", "2222")
    assert (code, err) == (0, "")
    assert name_of(other) in out and str(other.directory) in out


def test_what_can_not_be_removed_is_said(
    storage: EmbeddedStorage, holdfast: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = keep(storage, "1" * 64)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", refuse)
        patched.setattr(shutil, "rmtree", lambda *_, **__: None)
        code, out, err = holdfast("rm", "1111")
    assert (code, out) == (1, "")
    assert f"{kept.directory}: can't be removed" in err
    assert storage.damage(kept) is None


# -- tables


def test_a_table_fits_into_80_columns(
    storage: EmbeddedStorage, holdfast: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = [keep(storage, digit * 64, computes=COMPUTES) for digit in "12"]
    monkeypatch.setenv("COLUMNS", "80")
    for arguments in (("ls",), ("show", "1111"), ("rm", "1111")):
        code, out, err = holdfast(*arguments)
        assert (code, err) == (0, "")
        assert max(map(len, out.splitlines())) <= 80
        assert all(line == line.rstrip() for line in out.splitlines())
        words = "".join(out.split())
        assert name_of(kept[0])[:8] in words
        if arguments[0] != "rm":
            assert "".join(COMPUTES.split()[:2]) in words and "more" in words
    assert "\x1b" not in out


def test_a_pipe_gets_a_line_for_each_dataset(storage: EmbeddedStorage, holdfast: Command) -> None:
    kept = [keep(storage, digit * 64, computes=f"{COMPUTES} {'x' * 300}") for digit in "12"]
    code, out, _ = holdfast("ls")
    heads, *lines, last = out.splitlines()
    assert code == 0
    assert heads.split() == ["ID", "COMPUTES", "PARTS", "ROWS", "SIZE", "AGE", "HITS", "APP"]
    assert len(lines) == len(kept)
    for digit, line in zip("12", lines, strict=True):
        assert line.startswith(f"{digit * 8} {COMPUTES} xxx")
        assert line.split()[-1] == storage.application.hex[:8]
        assert " 2/2 " in line
    assert last.startswith("in ")


def test_control_characters_are_not_obeyed(storage: EmbeddedStorage, holdfast: Command) -> None:
    keep(storage, "1" * 64, computes="over \x1b[31m[bold]a\nb.parquet")
    for arguments in (("ls",), ("show", "1111")):
        _, out, _ = holdfast(*arguments)
        assert "over ?[31m[bold]a?b.parquet" in out
    assert holdfast.json("ls")[0]["computes"] == "over \x1b[31m[bold]a\nb.parquet"


def test_names_that_are_no_text_are_shown_all_the_same(tmp_path: Path) -> None:
    root = tmp_path / os.fsdecode(b"na\xefve")
    root.mkdir()
    for arguments, code, said in ((["ls"], 0, b"is kept in"), (["show", "1111"], 2, b"nothing is")):
        ended = subprocess.run(
            [sys.executable, "-m", "holdfast.cli.main", *arguments, "--directory", str(root)],
            capture_output=True,
            timeout=60,
        )
        assert ended.returncode == code
        assert said in ended.stdout + ended.stderr
        assert b"Traceback" not in ended.stderr


def test_a_manifest_may_hold_any_number(storage: EmbeddedStorage, holdfast: Command) -> None:
    kept = keep(storage, "1" * 64, (0,))
    manifest = json.loads((kept.directory / "_manifest.json").read_text())
    manifest["partitions"][0].update(version=f"1-{10**30}", rows=10**30)
    manifest["created"] = "yesterday"
    (kept.directory / "_manifest.json").write_text(json.dumps(manifest))
    (shown,) = holdfast.json("show", "1111")
    assert (shown["created"], shown["age_seconds"], shown["rows"]) == (None, None, 10**30)
    assert shown["partitions"][0]["modified"] is None
    assert holdfast("ls")[0] == holdfast("show", "1111")[0] == 0


def test_ages_and_counts_are_short() -> None:
    now = datetime.now(timezone.utc)
    ages = {0: "0 s", 59: "59 s", 60: "1 min", 3599: "59 min", 7200: "2 h", 200_000: "2 d"}
    for seconds, text in ages.items():
        assert terminal.age(now - timedelta(seconds=seconds), now) == text
    # The clocks of two machines differ.
    assert terminal.age(now + timedelta(seconds=9), now) == "0 s"
    assert terminal.age(None, now) == "-"
    counts = {0: "0", 9999: "9,999", 10_000: "10k", 999_600: "1.0M", 6_001_215: "6.0M"}
    counts[123 * 10**12] = "123T"
    for number, text in counts.items():
        assert as_table._short_count(number) == text


def test_types_are_written_as_in_sql() -> None:
    element = {"type": "array", "elementType": "integer", "containsNull": True}
    struct = {"type": "struct", "fields": [{"name": "a", "type": element, "nullable": True}]}
    mapped = {"type": "map", "keyType": "string", "valueType": struct, "valueContainsNull": True}
    assert type_text(mapped) == "map<string,struct<a:array<int>>>"
    assert type_text({"type": "udt", "class": "x", "sqlType": "decimal(3,1)"}) == "decimal(3,1)"
    assert type_text({"type": "new"}) == "{'type': 'new'}"


def test_a_reader_that_has_seen_enough_is_no_error(storage: EmbeddedStorage, root: Path) -> None:
    keep(storage, "1" * 64)
    read, written = os.pipe()
    os.close(read)
    ended = subprocess.run(
        [sys.executable, "-m", "holdfast.cli.main", "ls", "--directory", str(root)],
        stdout=written,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
    )
    os.close(written)
    assert (ended.returncode, ended.stderr) == (1, "")


# -- bad input


def test_a_directory_that_can_not_be_looked_at_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "executors").mkdir()
    (tmp_path / "executors" / "taskexecutor.lock").touch()
    for name, why in (
        ("nowhere", "no such directory"),
        ("file", "can't be listed: Not a directory"),
        ("executors", "this directory belongs to a task executor; query it instead"),
    ):
        for arguments in (("ls",), ("show", "1111"), ("rm", "1111"), ("ls", "--json")):
            code, out, err = Command(capsys, "--directory", str(tmp_path / name))(*arguments)
            assert (code, out, len(err.splitlines())) == (2, "", 1)
            assert f"{tmp_path / name}: {why}" in err


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        *((["--executors", text], "a comma-separated list") for text in ("", ",", "x", "x:99999")),
        *((["--executors", text], "a comma-separated list") for text in ("a:1,a:1", "a:1;b:2")),
        (["--executors", "a$b:1"], "expected a task executor's address as HOST:PORT"),
        (["--executors", "a:1", "--token-file", "/nowhere/token"], "/nowhere/token"),
        (["--token-file", "/nowhere/token"], "--token-file requires --executors"),
        (["--catalog-url", "sqlite:////c.db"], "--catalog-url requires --executors"),
    ],
)
def test_bad_addresses_and_tokens_are_named(
    arguments: list[str],
    why: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", TOKEN)
    code, out, err = Command(capsys, *arguments)("ls")
    assert (code, out, len(err.splitlines())) == (2, "", 1)
    assert why in err


def test_without_a_token_executors_are_not_asked(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOLDFAST_TOKEN", raising=False)
    code, out, err = Command(capsys, "--executors", "127.0.0.1:1")("ls")
    assert (code, out) == (2, "")
    assert "set it by --token-file or $HOLDFAST_TOKEN" in err


@pytest.mark.parametrize(
    "arguments",
    [
        *(["show"], ["rm"], ["ls", "1111"], ["ls", "--directory", ""], ["ls", "--directory", "\0"]),
        ["ls", "--directory", "x", "--executors", "a:1"],
    ],
)
def test_arguments_that_make_no_sense_end_with_code_2(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(arguments)
    assert ended.value.code == 2
    assert "usage: holdfast" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["ls", "show", "rm"])
def test_help_names_every_option(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "--help"])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    options = ("--directory", "--executors", "--token-file", "--catalog-url", "--json")
    assert all(each in shown for each in options)


# -- task executors


class Cluster:
    """Two real task executors, and an application that has outputs on both."""

    def __init__(self, home: Path) -> None:
        self.processes = []
        self.addresses = []
        for name in ("one", "two"):
            process = subprocess.Popen(
                [
                    *(sys.executable, "-m", "holdfast.cli.main", "taskexecutor", "start"),
                    *("--dir", str(home / name)),
                ],
                stdout=subprocess.PIPE,
                text=True,
                env={**os.environ, "HOLDFAST_TOKEN": TOKEN},
            )
            self.processes.append(process)
        for process in self.processes:
            assert process.stdout is not None
            self.addresses.append(process.stdout.readline().split()[3])
        self.gateways = [RemoteTaskExecutor(address, TOKEN) for address in self.addresses]
        self.application = ApplicationID.random()
        self.job = JobID.random()
        for gateway in self.gateways:
            gateway.register_application(self.application, 600, __version__)
            gateway.register_job(self.application, self.job)

    def keep(self, digit: str, *indices: tuple[int, ...], number: int) -> OutputID:
        """Has each executor keep the partitions that are given for it."""
        output = OutputID(IntermediateDataSetID(digit * 64), "0badcafe")
        for gateway, own in zip(self.gateways, indices, strict=True):
            directory = Path(gateway.open_output(self.application, self.job, output))
            write(directory, *own)
            kept = gateway.finish_output(self.application, self.job, output, list(own), number)
            if kept:
                gateway.promote(self.application, self.job, output, manifest(output, kept))
        return output

    def reported(self) -> list[set[OutputID]]:
        return [{each.output for each in gateway.report(None)} for gateway in self.gateways]

    def end(self) -> None:
        for process in self.processes:
            process.kill()
            process.communicate()


def manifest(output: OutputID, kept: tuple[KeptPartition, ...]) -> Manifest:
    description = described(output.dataset_id.hex)
    return Manifest(created="2026-11-21T00:00:00+00:00", dataset=description, partitions=kept)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path_factory.mktemp("executors"))
    yield cluster
    cluster.end()


@pytest.fixture
def asked(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Command]:
    monkeypatch.setenv("HOLDFAST_TOKEN", TOKEN)

    def command(*addresses: str) -> Command:
        return Command(capsys, "--executors", ",".join(addresses or cluster.addresses))

    return command


def test_executors_are_put_together(cluster: Cluster, asked: Callable[..., Command]) -> None:
    output = cluster.keep("1", (0, 2), (1,), number=3)
    for gateway in cluster.gateways:
        gateway.heartbeat(cluster.application, {output: 7})
    command = asked()
    (found,) = [each for each in command.json("ls") if each["id"] == output.name]
    assert found["application"] == cluster.application.hex
    assert (found["computes"], found["state"]) == (COMPUTES, "complete")
    assert (found["partitions_found"], found["number_of_partitions"]) == (3, 3)
    assert (found["rows"], found["hits"]) == (9, 7)
    assert found["created"] == "2026-11-21T00:00:00+00:00"
    assert [place["executor"] for place in found["places"]] == cluster.addresses
    assert [place["partitions"] for place in found["places"]] == [2, 1]
    assert found["bytes"] == sum(place["bytes"] for place in found["places"])
    (shown,) = command.json("show", "1111")
    assert [each["index"] for each in shown["partitions"]] == [0, 1, 2]
    assert all(
        Path(each["location"]).stat().st_size == each["bytes"] for each in shown["partitions"]
    )
    # Told by a footer that an executor serves; the position is none of the computation's columns.
    assert shown["spark_version"] == "4.3.0"
    assert shown["columns"] == [{"name": "a", "type": "bigint", "nullable": False}]
    code, out, err = command("ls")
    assert (code, err) == (0, "")
    (line,) = [line for line in out.splitlines() if line.startswith("1" * 8)]
    assert " 3/3 " in line and " 127.0.0.1 " in line
    code, out, err = command("show", "1111")
    assert (code, err) == (0, "")
    assert all(f"task executor {address}" in out for address in cluster.addresses)


def test_two_addresses_of_one_executor_count_once(
    cluster: Cluster, asked: Callable[..., Command]
) -> None:
    output = cluster.keep("2", (0,), (), number=1)
    other_name = f"localhost:{cluster.addresses[0].rpartition(':')[2]}"
    found = asked(cluster.addresses[0], other_name).json("show", output.name)
    assert [(each["rows"], len(each["places"])) for each in found] == [(3, 1)]


def test_what_the_asked_ones_do_not_have_is_marked(
    cluster: Cluster, asked: Callable[..., Command]
) -> None:
    cluster.keep("3", (0,), (1,), number=2)
    states = []
    for address in cluster.addresses:
        (found,) = asked(address).json("show", "3333")
        states.append((found["state"], found["partitions_found"], found["number_of_partitions"]))
    # Of every partition but the first there may be no file, so the second may just have no rows.
    assert states == [("unclear", 1, 2), ("incomplete", 1, 2)]
    marks = []
    for address in cluster.addresses:
        _, out, _ = asked(address)("ls")
        (line,) = [line for line in out.splitlines() if line.startswith("3" * 8)]
        marks.append(line.split(" 1/2")[1][0])
    assert marks == ["?", "!"]


def test_damage_is_seen_by_the_executor(cluster: Cluster, asked: Callable[..., Command]) -> None:
    output = cluster.keep("4", (0,), (1,), number=2)
    (shown,) = asked().json("show", output.name)
    Path(shown["partitions"][1]["location"]).unlink()
    (shown,) = asked().json("show", output.name)
    assert (shown["state"], shown["damage"]) == ("damaged", "partition 1 is missing")
    assert [place["damage"] for place in shown["places"]] == [None, "partition 1 is missing"]


def test_a_dataset_is_released_on_every_executor(
    cluster: Cluster, asked: Callable[..., Command]
) -> None:
    output, other = cluster.keep("5", (0, 2), (1,), number=3), cluster.keep("6", (0,), (), number=1)
    (shown,) = asked().json("show", "5555")
    (released,) = asked().json("rm", "5555")
    assert [place["executor"] for place in released["released"]] == cluster.addresses
    assert released["rows"] == 9
    assert not any(Path(each["location"]).exists() for each in shown["partitions"])
    assert all(output not in reported for reported in cluster.reported())
    assert other in cluster.reported()[0]
    # This is what a job master asks before it has a job read something.
    for gateway in cluster.gateways:
        with pytest.raises(UnknownDataSetError):
            gateway.damage(cluster.application, output)
    assert asked()("show", "5555")[0] == 2
    code, out, err = asked()("rm", "6666")
    assert (code, err, other.name in out) == (0, "", True)


def test_a_job_master_computes_again_what_is_released(
    cluster: Cluster, asked: Callable[..., Command]
) -> None:
    address = cluster.addresses[0]
    storage = TaskExecutorStorage(
        {address: RemoteTaskExecutor(address, TOKEN)},
        ApplicationID.random(),
        lease_seconds=600,
        heartbeat_seconds=0.1,
        version=__version__,
    )

    def produce() -> KeptDataSet:
        job = JobID.random()
        staged = storage.stage(job, IntermediateDataSetID("9" * 64))
        write(staged.directory, 0, 1)
        written = [WrittenPartition(index, "127.0.0.1", 3) for index in (0, 1)]
        kept = storage.publish(staged, described("9" * 64), written)
        storage.end_job(job)
        return kept

    try:
        kept = produce()
        for _ in range(2):
            storage.hit(kept)
        end = time.monotonic() + 20
        while [each["hits"] for each in asked().json("show", "9999")] != [3]:
            assert time.monotonic() < end, "no heartbeat has told of the hits"
        (found,) = asked().json("show", "9999")
        assert (found["application"], found["state"]) == (storage.application.hex, "complete")
        assert storage.damage(kept) is None
        assert asked()("rm", "9999")[0] == 0
        assert "unknown dataset" in (storage.damage(kept) or "")
        storage.remove(kept)
        again = produce()
        assert storage.damage(again) is None
        assert [each["id"] for each in asked().json("show", "9999")] == [again.name]
    finally:
        storage.close()
    assert asked()("show", "9999")[0] == 2


def test_who_is_silent_or_something_else_is_named(cluster: Cluster) -> None:
    other = ThreadingHTTPServer(("127.0.0.1", 0), BaseHTTPRequestHandler)
    thread = threading.Thread(target=other.serve_forever)
    thread.start()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        addresses = [f"127.0.0.1:{port}" for port in (silent.getsockname()[1], other.server_port)]
        found = ExecutorSource([*addresses, cluster.addresses[0]], TOKEN, Timeouts(2, 2, 5)).find()
    other.shutdown()
    thread.join()
    other.server_close()
    assert len(found.failures) == 2
    for address, failure in zip(addresses, found.failures, strict=True):
        assert failure.startswith(f"task executor {address}: ")
        assert "is unreachable" in failure
        assert len(failure.splitlines()) == 1
    assert all(
        place.address == cluster.addresses[0] for each in found.datasets for place in each.places
    )


def test_a_wrong_token_is_one_line_for_each(
    cluster: Cluster,
    asked: Callable[..., Command],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    cluster.keep("7", (0,), (1,), number=2)
    command = asked()
    monkeypatch.setenv("HOLDFAST_TOKEN", TOKEN[::-1])
    for arguments in (("ls",), ("rm", "7777"), ("show", "7777")):
        code, out, err = command(*arguments)
        assert (code, out) == (1, "")
        refused = [
            line for line in err.splitlines() if "expected the task executor's token" in line
        ]
        assert len(refused) == 2
    assert command("ls", "--json")[:2] == (1, "[]\n")
    (tmp_path / "token").write_text(f"{TOKEN}\n")
    # A file that is given counts more than the variable.
    assert command("ls", "--token-file", str(tmp_path / "token"))[0] == 0


def test_what_is_no_partition_has_no_columns(cluster: Cluster) -> None:
    output = cluster.keep("8", (0,), (), number=1)
    (report,) = [each for each in cluster.gateways[0].report(None) if each.output == output]
    (part,) = report.partitions
    asked = (cluster.application, output)
    address = cluster.addresses[0]
    assert contents_of(address, TOKEN, *asked, part) is not None
    for bad in (
        contents_of(address, TOKEN[::-1], *asked, part),
        contents_of("127.0.0.1:1", TOKEN, *asked, part),
        contents_of(address, TOKEN, *asked, part.model_copy(update={"bytes": 4})),
        contents_of(address, TOKEN, *asked, part.model_copy(update={"bytes": part.bytes - 1})),
        contents_of(address, TOKEN, *asked, part.model_copy(update={"file": "other"})),
    ):
        assert bad is None


def test_an_executor_that_is_gone_is_named_and_the_others_are_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", TOKEN)
    cluster = Cluster(tmp_path)
    try:
        both = cluster.keep("1", (1,), (0, 2), number=3)
        command = Command(capsys, "--executors", ",".join(cluster.addresses))
        cluster.processes[0].kill()
        cluster.processes[0].wait()
        code, out, err = command("ls")
        assert (code, len(err.splitlines())) == (1, 1)
        assert f"task executor {cluster.addresses[0]}" in err and "is unreachable" in err
        (line,) = [line for line in out.splitlines() if line.startswith("1" * 8)]
        assert " 2/3? " in line
        (found,) = command.json("show", both.name, code=1)
        assert [place["executor"] for place in found["places"]] == [cluster.addresses[1]]
        code, out, err = command("show", "2222")
        assert (code, out) == (2, "")
        assert "that responded" in err and both.name in err
        (released,) = command.json("rm", both.name, code=1)
        assert [place["executor"] for place in released["released"]] == [cluster.addresses[1]]
        assert command("ls")[:2] == (1, "")
        assert command.json("ls", code=1) == []
    finally:
        cluster.end()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["lock", "_manifest.json", "_hits", "_output.json", "part"])
@pytest.mark.parametrize("made", [os.mkfifo, os.mkdir], ids=["a FIFO", "a directory"])
def test_what_is_no_file_holds_nobody_up(
    storage: EmbeddedStorage,
    holdfast: Command,
    name: str,
    made: Callable[[Path], None],
) -> None:
    kept, other = keep(storage, "1" * 64), keep(storage, "2" * 64)
    path = kept.directory / name
    if name == "lock":
        path = kept.directory.parents[1] / name
    elif name == "part":
        path = next(kept.directory.glob("part-*"))
    path.unlink(missing_ok=True)
    made(path)
    if name == "lock":
        # Nobody holds it: the application seems to have ended.
        assert holdfast.json("ls") == []
        return
    found = {each["dataset"]: each for each in holdfast.json("ls")}
    assert found["2" * 64]["state"] == "complete"
    if name in ("_manifest.json", "part"):
        assert found["1" * 64]["damage"]
    for command in ("show", "rm"):
        assert holdfast(command, "1111")[0] == 0
    assert name_of(other) in [each["id"] for each in holdfast.json("ls")]
    assert len(holdfast.json("ls")) == 1
    note_hits(other.directory, 7)
