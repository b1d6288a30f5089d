"""`holdfast ls`, `show` and `rm` of what environments on this machine keep."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.cli.datasets.order import in_order
from holdfast.cli.datasets.short_ids import short_ids
from holdfast.ids import ApplicationID, IntermediateDataSetID
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.storage.partition_directory import HITS_NAME, noted_hits
from holdfast.taskexecutor.partitions.partition_info import OutputID
from tests.unit.listed_results import COMPUTES, Command, keep

A, B, C, D = (digit * 64 for digit in "1234")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "root"


@pytest.fixture
def storage(root: Path) -> Iterator[EmbeddedStorage]:
    storage = EmbeddedStorage(root)
    yield storage
    storage.close()


@pytest.fixture
def holdfast(capsys: pytest.CaptureFixture[str], root: Path) -> Command:
    return Command(capsys, "--directory", str(root))


# -- what is listed --------------------------------------------------------------------------------


def test_every_dataset_is_an_object(storage: EmbeddedStorage, holdfast: Command) -> None:
    # Spark leaves no file of a partition without rows.
    (name, kept), (other, _) = keep(storage, A), keep(storage, B, 0, 3)
    storage.hit(kept)
    one, two = holdfast.json("ls")
    expected = {
        "id": name,
        "dataset": A,
        "application": storage.application.hex,
        "computes": "C",
        "state": "complete",
        "damage": None,
        "partitions_found": 2,
        "number_of_partitions": 2,
        "rows": 6,
        "bytes": kept.bytes,
        "hits": 2,
        "audience": None,
    }
    assert one == {**one, **expected}
    assert abs(datetime.now(timezone.utc) - datetime.fromisoformat(one["created"])).seconds < 60
    assert (two["id"], two["partitions_found"], two["number_of_partitions"]) == (other, 4, 4)
    (shown,) = holdfast.json("show", "1111")
    assert shown == {**shown, **one, "age_seconds": shown["age_seconds"]}
    assert shown["columns"] == [
        {"name": "a b", "type": "bigint", "nullable": False},
        {"name": "k", "type": "string", "nullable": True},
    ]
    for number, partition in enumerate(shown["partitions"]):
        assert Path(partition["location"]).stat().st_size == partition["bytes"]
        assert (partition["index"], partition["rows"]) == (number, 3)
    files = [each["file"] for each in shown["partitions"]]
    text = holdfast.shows("show", "1111")
    assert all(each in text for each in (name, "4.3.0", shown["created"], *files))


def test_they_are_listed_in_the_order_that_is_asked_for() -> None:
    first = datetime(2026, 1, 1, tzinfo=timezone.utc)
    second, third = first + timedelta(days=1), first + timedelta(days=2)

    def listed(
        created: datetime | None, last_used: datetime | None = None, saved: float = 0
    ) -> Any:
        sharing = last_used and SimpleNamespace(last_used=last_used, saved_seconds=saved)
        return SimpleNamespace(created=created, sharing=sharing)

    alone, unknown = listed(third), listed(None)
    much, late = listed(first, first, 9), listed(first, second, 3)
    datasets = [unknown, alone, late, much]
    assert in_order(datasets, None) == datasets
    assert in_order(datasets, "saved") == [much, late, unknown, alone]
    assert in_order(datasets, "used") == [alone, late, much, unknown]


def test_only_what_programs_keep_that_run_is_listed(root: Path, holdfast: Command) -> None:
    root.mkdir()
    assert holdfast.shows("ls") == f"Nothing is kept in {root}.\n"
    one, two = EmbeddedStorage(root), EmbeddedStorage(root)
    names = {each.application.hex: keep(each, A)[0] for each in (one, two)}
    dead = root / f"application-{ApplicationID.random().hex}"
    shutil.copytree(root / f"application-{one.application.hex}", dead)
    (root / "application-of-somebody").mkdir()
    assert {each["application"]: each["id"] for each in holdfast.json("ls")} == names
    one.close()
    assert [each["application"] for each in holdfast.json("ls")] == [two.application.hex]
    holdfast.shows("rm", "1111")
    holdfast.refuses("rm", "1111")
    (dead / "lock").unlink()
    assert holdfast.json("ls") == []
    assert len(list(dead.rglob("*.parquet"))) == 2
    two.close()


def test_what_a_job_could_not_read_is_marked(storage: EmbeddedStorage, holdfast: Command) -> None:
    whole, gone, changed, unexplained = (keep(storage, digits) for digits in (A, B, C, D))
    next(gone[1].directory.glob("part-00001*")).unlink()
    os.utime(next(changed[1].directory.glob("part-00000*")), (1, 1))
    (unexplained[1].directory / "_manifest.json").write_text("{}")
    found = {
        each["id"]: (each["state"], each["partitions_found"], each["damage"])
        for each in holdfast.json("ls")
    }
    assert found.pop(unexplained[0])[:2] == ("damaged", 0)
    assert found == {
        whole[0]: ("complete", 2, None),
        gone[0]: ("incomplete", 1, "partition 1 is missing"),
        changed[0]: ("damaged", 2, "partition 0 was modified"),
    }
    out = holdfast.shows("ls")
    assert ["!" in line for line in out.splitlines()[1:5]] == [False, True, True, True]
    for name, kept in (gone, changed, unexplained):
        holdfast.shows("show", name)
        holdfast.shows("rm", name)
        assert not kept.directory.exists()


@pytest.mark.timeout(60)
@pytest.mark.parametrize("name", ["lock", "_manifest.json", "_hits", "_output.json", "part"])
def test_a_pipe_in_the_place_of_a_file_holds_nothing_up(
    storage: EmbeddedStorage, holdfast: Command, name: str
) -> None:
    (_, kept), (other, _) = keep(storage, A), keep(storage, B)
    path = kept.directory / name
    if name == "lock":
        path = kept.directory.parents[1] / name
    elif name == "part":
        path = next(kept.directory.glob("part-*"))
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    found = {each["dataset"]: each for each in holdfast.json("ls")}
    if name == "lock":
        assert found == {}, "the application seems to have ended"
        return
    assert found[B]["state"] == "complete"
    assert found[A]["damage"] or name not in ("_manifest.json", "part")
    for command in ("show", "rm"):
        holdfast.shows(command, "1111")
    assert [each["id"] for each in holdfast.json("ls")] == [other]


def test_hits_that_can_not_be_noted_cost_nothing(
    storage: EmbeddedStorage, holdfast: Command, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    _, kept = keep(storage, A)
    note = kept.directory / HITS_NAME
    (tmp_path / "mine").write_text("mine")
    note.unlink()
    note.symlink_to(tmp_path / "mine")
    storage.hit(kept)
    assert (tmp_path / "mine").read_text() == "mine"
    for text in (b"", b"x", b"-1", b"\xff", b"9" * 5000, "²".encode()):
        note.unlink()
        note.write_bytes(text)
        assert noted_hits(kept.directory) is None
    assert [each["hits"] for each in holdfast.json("ls")] == [None]
    shutil.rmtree(kept.directory)
    storage.hit(kept)
    assert not kept.directory.exists() and caplog.records == []


# -- ids -------------------------------------------------------------------------------------------


def test_an_id_may_be_cut_short(storage: EmbeddedStorage, holdfast: Command) -> None:
    one, two = "abcd0" + "1" * 59, "abcd1" + "1" * 59
    first, second, again = (keep(storage, digits)[0] for digits in (one, two, two))
    attempt = again.rpartition("-")[2]
    for given, meant in (
        *(("abcd0", first), ("ABCD0", first), (one, first), (second, second)),
        *((again[:-1], again), (f"abcd1-{attempt}", again)),
    ):
        assert [each["id"] for each in holdfast.json("show", given)] == [meant]


def test_an_id_that_means_several_or_none_or_is_none_is_refused(
    storage: EmbeddedStorage, holdfast: Command
) -> None:
    names = [keep(storage, f"abcd{digit}" + "1" * 59)[0] for digit in range(3)]
    twins = {names[0], keep(storage, "abcd0" + "1" * 59)[0]}
    for action in ("show", "rm"):
        for given, meant in (("abcd", {*names, *twins}), ("abcd0", twins), ("abcd0-", twins)):
            first, *lines = holdfast.refuses(action, given).splitlines()
            assert f"{given} is ambiguous, it matches {len(meant)} datasets" in first
            assert {line.split()[0] for line in lines} == meant
        said = holdfast.refuses(action, "2222")
        assert "no dataset 2222 is kept in" in said and all(each in said for each in names)
        for given in ("abc", "", "xyzw", "abcd*", "../abcd", "abcd-x", "1" * 65, "abcd\n"):
            assert "is not a dataset id: expected at least 4 hex" in holdfast.refuses(action, given)
    assert len(holdfast.json("ls")) == 4


def test_ids_are_shown_as_short_as_they_can_be() -> None:
    def output(digits: str, attempt: str = "00000000") -> OutputID:
        return OutputID(IntermediateDataSetID(digits.ljust(64, "0")), attempt)

    alone, near = output("f" * 64), [output("a" * 10 + digit) for digit in "12"]
    twins = [output("b" * 64, "00001110"), output("b" * 64, "00001120")]
    assert short_ids([alone]) == {alone: "f" * 8}
    assert [*short_ids([alone, *near]).values()] == ["f" * 11, "a" * 10 + "1", "a" * 10 + "2"]
    shown = ["ffffffff", "bbbbbbbb-0000111", "bbbbbbbb-0000112"]
    assert [*short_ids([alone, *twins]).values()] == shown


# -- how it is shown -------------------------------------------------------------------------------


def test_a_pipe_gets_a_line_for_each_dataset(storage: EmbeddedStorage, holdfast: Command) -> None:
    for digits in (A, B):
        keep(storage, digits, computes=f"{COMPUTES} {'x' * 300}")
    heads, *lines, last = holdfast.shows("ls").splitlines()
    assert heads.split() == "ID COMPUTES PARTS ROWS SIZE AGE HITS APP".split()
    for digits, line in zip((A, B), lines, strict=True):
        assert line.startswith(f"{digits[:8]} {COMPUTES} xxx") and " 2/2 " in line
    assert last.startswith("in ")


def test_text_and_numbers_that_others_have_put_there_are_shown_as_such(
    storage: EmbeddedStorage, holdfast: Command
) -> None:
    _, kept = keep(storage, A, 0, computes="over \x1b[31m[bold]a\nb.parquet")
    manifest = json.loads((kept.directory / "_manifest.json").read_text())
    manifest["partitions"][0].update(version=f"1-{10**30}", rows=10**30)
    manifest["created"] = "yesterday"
    (kept.directory / "_manifest.json").write_text(json.dumps(manifest))
    (shown,) = holdfast.json("show", "1111")
    assert (shown["created"], shown["age_seconds"], shown["rows"]) == (None, None, 10**30)
    assert shown["computes"] == "over \x1b[31m[bold]a\nb.parquet"
    for arguments in (("ls",), ("show", "1111")):
        assert "over ?[31m[bold]a?b.parquet" in holdfast.shows(*arguments)


@pytest.mark.soak
def test_names_that_are_no_text_and_readers_that_have_seen_enough(tmp_path: Path) -> None:
    def run(**streams: Any) -> subprocess.CompletedProcess[bytes]:
        command = [sys.executable, "-m", "holdfast.cli.main", "ls", "--directory", str(root)]
        return subprocess.run(command, timeout=60, stderr=subprocess.PIPE, **streams)

    root = tmp_path / os.fsdecode(b"na\xefve")
    root.mkdir()
    assert b"is kept in" in run(stdout=subprocess.PIPE).stdout
    read, written = os.pipe()
    os.close(read)
    ended = run(stdout=written)
    os.close(written)
    assert (ended.returncode, ended.stderr) == (1, b"")


# -- what is refused -------------------------------------------------------------------------------


def test_what_can_not_be_removed_is_said(
    storage: EmbeddedStorage, holdfast: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, kept = keep(storage, A)

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    with monkeypatch.context() as patched:
        patched.setattr(os, "rename", refuse)
        patched.setattr(shutil, "rmtree", lambda *_, **__: None)
        assert f"{kept.directory}: can't be removed" in holdfast.refuses("rm", "1111", code=1)
    assert storage.damage(kept) is None


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("nowhere", "no such directory"),
        ("file", "can't be listed: Not a directory"),
        ("executors", "this directory belongs to a task executor; query it instead"),
    ],
)
def test_a_directory_that_can_not_be_looked_at_is_named(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, name: str, why: str
) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "executors").mkdir()
    (tmp_path / "executors" / "taskexecutor.lock").touch()
    for arguments in (("ls",), ("show", "1111"), ("ls", "--json")):
        said = Command(capsys, "--directory", str(tmp_path / name)).refuses(*arguments)
        assert f"{tmp_path / name}: {why}" in said and len(said.splitlines()) == 1


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        *(("show", "usage"), ("ls 1111", "usage"), ("ls --directory x --executors a:1", "usage")),
        ("ls --executors x", "a comma-separated list"),
        ("ls --executors a$b:1", "expected a task executor's address as HOST:PORT"),
        ("ls --executors a:1 --token-file /nowhere/token", "/nowhere/token"),
        ("ls --token-file /nowhere/token", "--token-file requires --executors"),
        ("ls --catalog-url sqlite:////c.db", "--catalog-url requires --executors"),
    ],
)
def test_arguments_that_make_no_sense_are_named(
    arguments: str,
    why: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", "0123456789abcdef" * 2)
    assert why in Command(capsys).refuses(*arguments.split(" "))
