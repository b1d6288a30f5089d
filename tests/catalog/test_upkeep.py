"""`holdfast gc`, `verify` and `catalog rebuild`, over what programs have left."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from sqlalchemy import URL

from tests.catalog import commands
from tests.catalog.results import DATASET, STORAGE, pass_time
from tests.catalog.sharing import DIGEST, FOR_LONG, Program, Start
from tests.catalog.sharing import start as start


@pytest.fixture
def root(tmp_path: Path) -> Path:
    return tmp_path / "kept"


@pytest.fixture
def url(root: Path) -> URL:
    """Of the catalog in the directory, which is where the commands look."""
    root.mkdir(mode=0o700)
    (root / "identity").write_text(STORAGE)
    (root / "catalog").mkdir(mode=0o700)
    return URL.create("sqlite", database=str(root / "catalog" / "catalog.db"))


@pytest.fixture
def run(root: Path) -> Callable[..., tuple[int, str]]:
    return lambda *arguments: commands.run(*arguments, "--directory", root)


Run = Callable[..., tuple[int, str]]


def kept(start: Start) -> Path:
    """A result that outlives its program; the program."""
    program: Program = start()
    result = program.produce(facts=FOR_LONG)
    program.close()
    name = result.kept.name
    assert name is not None
    return result.kept.directory.parents[2] / "shared" / "datasets" / name


def test_what_is_held_is_no_garbage(start: Start, run: Run) -> None:
    directory = kept(start)
    assert run("gc") == (0, f"There is no garbage in {directory.parents[2]}.\n")
    assert run("gc", "--yes")[0] == 0
    assert directory.exists()


def test_garbage_is_shown_first_and_removed_if_that_is_wanted(
    start: Start, run: Run, root: Path
) -> None:
    expired = kept(start)
    pass_time(start().catalog, 700.0)
    unknown = root / "shared" / "datasets" / ("9" * 64 + "-00000000")
    shutil.copytree(expired, unknown)
    staged = root / "shared" / "staging" / ("8" * 64 + "-00000000")
    staged.mkdir(parents=True)
    dead = root / f"application-{'7' * 32}"
    (dead / "datasets").mkdir(parents=True)
    (dead / "lock").touch()
    code, shown = run("gc")
    assert code == 0 and "run `holdfast gc --yes`" in shown
    for path, why in (
        (expired, "its lifetime is over"),
        (unknown, "no catalog records it"),
        (staged, "no catalog records it"),
        (dead, "its program has ended"),
    ):
        assert f"{path}: {why}" in shown
        assert path.exists()
    code, shown = run("gc", "--yes")
    assert code == 0 and "Removed" in shown
    assert not any(path.exists() for path in (expired, unknown, staged, dead))
    assert run("gc")[1].startswith("There is no garbage")
    assert start().read() is None


def test_without_a_catalog_nothing_shared_is_taken_for_garbage(
    start: Start, run: Run, root: Path
) -> None:
    directory = kept(start)
    for file in (root / "catalog").glob("catalog.db*"):
        file.unlink()
    code, shown = run("gc", "--yes")
    assert code == 1 and "holdfast catalog rebuild" in shown
    assert directory.exists()


def test_a_catalog_that_is_lost_is_rebuilt_from_what_lies_there(
    start: Start, run: Run, root: Path
) -> None:
    directory = kept(start)
    damaged = root / "shared" / "datasets" / ("9" * 64 + "-00000000")
    shutil.copytree(directory, damaged)
    (damaged / "_result.json").write_text("{}")
    for file in (root / "catalog").glob("catalog.db*"):
        file.unlink()
    code, shown = run("catalog", "rebuild")
    assert code == 0 and "1 of 2 shared results" in shown
    assert f"{damaged} (rows): not recorded: its manifest or record" in shown
    again = start()
    assert again.read() == [1, 1, 1, 2, 2, 2]
    (result,) = again.catalog.search.all()
    assert (result.seconds, result.lifetime, result.user) == (12.0, 600.0, "ana")
    assert again.catalog.search.find([DATASET])[DATASET].made_from == FOR_LONG.made_from
    assert "it is recorded already" in run("catalog", "rebuild")[1]
    again.book.invalidate(DIGEST, everywhere=True)
    assert not directory.exists()


@pytest.mark.parametrize("how", ["footer", "content", "size", "gone", "manifest"])
def test_every_file_is_compared_with_what_was_published(start: Start, run: Run, how: str) -> None:
    directory = kept(start)
    assert run("verify")[1].startswith("1 datasets")
    file = next(directory.glob("part-00000-*"))
    status, content = file.stat(), bytearray(file.read_bytes())
    match how:
        case "footer":
            content[-12] ^= 1
        case "content":
            content[6] ^= 1
        case "size":
            content += b"x"
    if how == "gone":
        file.unlink()
    elif how == "manifest":
        (directory / "_manifest.json").write_text("{")
    else:
        file.write_bytes(content)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
    code, shown = run("verify")
    expected = {
        "footer": "partition 0 has another footer",
        "content": "partition 0 has another content",
        "size": "partition 0 has",
        "gone": "partition 0 is missing",
        "manifest": "its manifest is missing or invalid",
    }
    assert code == 1
    assert f"{directory}: {expected[how]}" in shown and "1 of them damaged" in shown


def test_a_directory_that_is_not_there_is_bad_input(run: Run, root: Path) -> None:
    for command in (["gc"], ["verify"], ["catalog", "rebuild"]):
        code, shown = run(*command)
        assert code == 2 and f"{root}: no such directory" in shown


def test_what_outlives_its_program_is_listed_shown_and_removed(start: Start, run: Run) -> None:
    directory = kept(start)
    reader = start()
    assert reader.read() is not None
    # Its reader has the same files, which count once.
    code, shown = run("ls")
    assert code == 0
    heads, line, _ = shown.splitlines()
    assert (
        heads.split() == "ID COMPUTES PARTS ROWS SIZE AGE HITS USED SAVED ABOUT STAYS OWNER".split()
    )
    # No job has said what it has saved by this.
    assert line.split()[-4:] == ["-", "10", "min", "ana"]
    code, shown = run("show", "1111")
    assert code == 0 and str(directory) in shown
    for fact in (
        *("kept by      ana on node-1", "for          ana alone", FOR_LONG.made_from.files[0].path),
        *("10 min after its last use", "uses         1\n"),
    ):
        assert fact in shown
    assert run("rm", "1111")[0] == 0
    assert not directory.exists()
    assert start().read() is None
    reader.close()
    assert "Nothing is kept" in run("ls")[1]


def test_a_catalog_that_can_t_be_read_is_said_and_the_rest_is_listed(
    start: Start, run: Run, root: Path
) -> None:
    kept(start)
    for file in (root / "catalog").glob("catalog.db*"):
        file.unlink()
    (root / "catalog" / "catalog.db").write_bytes(b"no database" * 1000)
    code, shown = run("ls")
    assert code == 1 and "11111111 rows" in shown and "not a database" in shown
    code, shown = run("gc", "--yes")
    assert code == 1 and "not a database" in shown
