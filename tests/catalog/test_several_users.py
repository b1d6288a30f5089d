"""Programs of several users of this machine on one storage directory: processes with other ids."""

from __future__ import annotations

import grp
import os
import pwd
import stat
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import holdfast
from tests.catalog.user_program import is_open_to_others, main
from tests.harness.forked import CONTEXT

ANA, BO, STRANGER = (pwd.getpwnam(name) for name in ("daemon", "bin", "nobody"))
TEAM = grp.getgrnam("users").gr_gid
SECONDS = 60
OPTION = "intermediate-result-storage"


pytestmark = pytest.mark.skipif(
    os.getuid() != 0 or not is_open_to_others(Path(holdfast.__file__).resolve().parent),
    reason="only root becomes other users, who have to get to Holdfast",
)


class UserProgram:
    """A program that runs."""

    def __init__(self, said: Path, *arguments: object) -> None:
        said.touch()
        self._said = said
        self._pipe, end = CONTEXT.Pipe()
        self._process = CONTEXT.Process(target=main, args=(*arguments, end, said), daemon=True)
        self._process.start()
        end.close()

    def __call__(self, *call: object) -> Any:
        self._pipe.send(call)
        return self.answer()

    def answer(self) -> Any:
        try:
            return self._pipe.recv()
        except EOFError:
            self._process.join(SECONDS)
            raise AssertionError(self._said.read_text()) from None

    def close(self) -> str:
        """Ends it; what it has complained of."""
        self._pipe.close()
        self._process.join(SECONDS)
        assert self._process.exitcode == 0, self._said.read_text()
        return self._said.read_text()

    def kill(self) -> None:
        self._process.kill()
        self._process.join()


Start = Callable[..., UserProgram]


@pytest.fixture
def root() -> Iterator[Path]:
    """A directory of the team, as its administrator makes it, where other users get to."""
    with tempfile.TemporaryDirectory() as home:
        os.chmod(home, 0o711)
        root = Path(home) / "kept"
        root.mkdir()
        os.chown(root, -1, TEAM)
        root.chmod(0o3770)
        yield root


@pytest.fixture
def start(root: Path, tmp_path: Path) -> Iterator[Start]:
    started: list[UserProgram] = []

    def make(
        user: pwd.struct_passwd, sharing: str, umask: int = 0o077, *, is_in_team: bool = True
    ) -> UserProgram:
        config = {f"{OPTION}.directory": str(root), f"{OPTION}.sharing": sharing}
        said = tmp_path / f"said-{len(started)}"
        started.append(UserProgram(said, user.pw_name, [TEAM] * is_in_team, umask, config))
        assert started[-1].answer() == "ready"
        return started[-1]

    yield make
    for program in started:
        program.kill()


def modes(directory: Path) -> dict[str, str]:
    """The modes and groups of everything below, without the changing parts of names."""
    found = {}
    for path in sorted(directory.rglob("*")):
        status = path.lstat()
        kind = "directory" if path.is_dir() else "file"
        found[f"{kind} {path.name}"] = f"{stat.S_IMODE(status.st_mode):o} {status.st_gid}"
    return found


@pytest.mark.parametrize("umask", [0, 0o077])
@pytest.mark.parametrize("lifetime", [600.0, None])
@pytest.mark.sampled(3, 1)
def test_the_group_reads_what_one_of_it_has_kept(
    start: Start, root: Path, umask: int, lifetime: float | None
) -> None:
    ana = start(ANA, "group", umask)
    assert ana("keep", "1", [3, 4], lifetime) is None
    if lifetime is not None:
        ana.close()
        found = modes(root / "shared")
        assert {mode for name, mode in found.items() if name.startswith("directory")} == {
            f"2770 {TEAM}"
        }
        files = {mode for name, mode in found.items() if name.startswith("file")}
        assert files == {f"640 {TEAM}"}
    bo = start(BO, "group", umask)
    assert bo("read", "1") == {"values": [3, 4], "owners": [BO.pw_uid], "from": ANA.pw_name}
    # Twice: the files of the catalog are taken over in turn.
    again = start(ANA, "group", umask)
    assert again("read", "1")["values"] == [3, 4]
    assert again("keep", "2", [5], lifetime) is None
    assert bo("read", "2")["from"] == ANA.pw_name
    if lifetime is not None:
        # What its owner writes to later reaches no reader: one has a copy for as long as it holds
        # it; for another footer, size and time are the same, so it is compared as a whole.
        (file,) = (root / "shared").glob("datasets/1*/*.parquet")
        status, content = file.stat(), bytearray(file.read_bytes())
        content[10] ^= 1
        file.write_bytes(content)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert bo("read", "1")["values"] == [3, 4]
        assert start(BO, "group")("read", "1") is None
    assert bo.close() == again.close() == ""
    with pytest.raises(AssertionError, match="StorageError.*isn't shared with this one"):
        start(STRANGER, "group", is_in_team=False)


def test_who_shares_with_nobody_has_a_directory_of_their_own(start: Start, root: Path) -> None:
    with pytest.raises(AssertionError, match="StorageError.*belongs to another user"):
        start(ANA, "private")
    os.chown(root, ANA.pw_uid, -1)
    assert start(ANA, "private", 0)("keep", "1", [3, 4], 600.0) is None
    below = [path for path in root.iterdir() if path.is_dir()]
    assert {stat.S_IMODE(path.stat().st_mode) & 0o777 for path in below} == {0o700}
    bo = start(BO, "group")
    # A catalog that can't be looked at is none, and costs no program an answer.
    assert bo("may find") is False
    assert bo("read", "1") is None


def test_all_users_read_what_is_for_all(start: Start, root: Path) -> None:
    root.chmod(0o1777)
    ana, stranger = start(ANA, "all"), start(STRANGER, "all", is_in_team=False)
    assert ana("keep", "1", [3], 600.0) is None
    assert ana("keep", "2", [4], None) is None
    assert stranger("read", "1")["values"] == [3] and stranger("read", "2")["values"] == [4]
    # In both directions, or not at all.
    assert start(BO, "group")("read", "1") is None
    assert stranger("keep", "3", [5], 600.0) is None
    assert ana("read", "3") == {
        "values": [5],
        "owners": [ANA.pw_uid],
        "from": STRANGER.pw_name,
    }


@pytest.mark.soak
def test_room_is_made_by_the_one_that_needs_it(start: Start, root: Path) -> None:
    ana = start(ANA, "group")
    assert ana("keep", "1", [3, 4], 0.2) is None
    ana.close()
    bo = start(BO, "group")
    assert bo("keep", "2", [5], 600.0) is None
    bo.close()
    assert start(BO, "group")("read", "1") is None
    names = {path.name[:1] for path in (root / "shared" / "datasets").iterdir()}
    assert names == {"2"}


@pytest.mark.soak
def test_directories_of_other_users_are_let_be(start: Start, root: Path) -> None:
    ana = start(ANA, "group")
    ana("keep", "1", [3, 4], None)
    ana.kill()
    bo = start(BO, "group")
    assert sum(path.name.startswith("application-") for path in root.iterdir()) == 2
    assert bo.close() == ""
    start(ANA, "group")
    assert sum(path.name.startswith("application-") for path in root.iterdir()) == 1


def test_commands_of_another_user(start: Start, root: Path) -> None:
    ana, bo = start(ANA, "group"), start(BO, "group")
    ana("keep", "1", [3, 4], 600.0)
    ana("keep", "2", [5], None)
    assert bo("read", "2")["values"] == [5]
    private = start(BO, "group")
    private("keep", "3", [6], None)
    at = ("--directory", str(root))
    code, listed = ana("run", "ls", *at)
    assert code == 0
    owners = {
        line.split()[0][:1]: line.split()[-1] for line in listed.splitlines() if "rows" in line
    }
    assert owners == {"1": ANA.pw_name, "2": ANA.pw_name, "3": BO.pw_name}
    code, shown = bo("run", "show", "1111", *at)
    assert code == 0 and f"the group {grp.getgrgid(TEAM).gr_name}" in shown
    code, verified = bo("run", "verify", *at)
    assert code == 0 and ", 0 of them damaged" in verified
    assert bo("run", "gc", "--yes", *at)[1].startswith("There is no garbage")
    code, removed = bo("run", "rm", "1111", *at)
    assert code == 1 and "can't be removed; check its owner" in removed
    assert not list((root / "shared" / "datasets").iterdir())
    assert start(BO, "group")("read", "1") is None and bo("read", "2")["values"] == [5]
