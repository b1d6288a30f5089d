"""The key that programs of one user have in common: made once, and no other user's."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from holdfast.files.secret_key import SECRET_KEY_BYTES, secret_key

OTHER_USER = 12345


@pytest.fixture
def path(tmp_path: Path) -> Path:
    directory = tmp_path / "kept"
    directory.mkdir(mode=0o700)
    return directory / "seal-key"


@pytest.fixture(params=[0o000, 0o777], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_it_is_made_once_and_found_from_then_on(path: Path) -> None:
    key = secret_key(path)
    (other := path.with_name("other")).mkdir(mode=0o700)
    assert secret_key(other / path.name) != key
    assert len(key) == SECRET_KEY_BYTES == 32
    assert secret_key(path) == key == path.read_bytes()
    assert sorted(os.listdir(path.parent)) == ["other", path.name]


def test_it_is_its_owner_s_alone_under_any_umask(path: Path, umask: int) -> None:
    assert len(secret_key(path)) == SECRET_KEY_BYTES
    assert path.stat().st_mode & 0o777 == 0o600


def test_programs_that_need_it_at_once_make_one(path: Path) -> None:
    with ProcessPoolExecutor(4, mp_context=get_context("fork")) as programs:
        for attempt in range(5):
            found = set(programs.map(secret_key, [path] * 8))
            assert len(found) == 1, attempt
            path.unlink()


@pytest.mark.parametrize("content", [b"", b"short", b"k" * 33])
def test_in_place_of_what_is_no_key_there_is_a_new_one(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)
    key = secret_key(path)
    assert len(key) == SECRET_KEY_BYTES and secret_key(path) == key


def _link(path: Path) -> None:
    path.rename(path.with_name("known"))
    path.symlink_to(path.with_name("known"))


def _dangle(path: Path) -> None:
    path.unlink()
    path.symlink_to(path.with_name("nothing"))


UNSAFE: dict[str, tuple[Callable[[Path], object], str]] = {
    "read by a group": (
        lambda path: path.chmod(0o640),
        "other users may know the key in .*: remove it",
    ),
    "written by others": (lambda path: path.chmod(0o602), "other users may know the key"),
    "a link": (_link, "is a link"),
    "a link to nothing": (_dangle, "is a link"),
    "a directory": (lambda path: (path.unlink(), path.mkdir()), "is no regular file"),
    "a fifo": (lambda path: (path.unlink(), os.mkfifo(path, 0o600)), "is no regular file"),
    "another user's": (lambda path: os.chown(path, OTHER_USER, -1), "belongs to another user"),
    "in another user's directory": (
        lambda path: os.chown(path.parent, OTHER_USER, -1),
        "seal.* belongs to another user|kept belongs to another user",
    ),
}


@pytest.mark.parametrize("name", UNSAFE)
def test_a_key_that_others_may_know_or_replace_is_none(path: Path, name: str) -> None:
    change, message = UNSAFE[name]
    if "user's" in name and os.getuid() != 0:
        pytest.skip("root alone can give a file away")
    secret_key(path)
    change(path)
    with pytest.raises(PermissionError, match=message):
        secret_key(path)
    assert not path.with_name("nothing").exists()


@pytest.mark.parametrize("mode", [0o770, 0o707])
def test_there_is_none_where_others_can_replace_it(path: Path, mode: int) -> None:
    path.parent.chmod(mode)
    with pytest.raises(PermissionError, match="other users can replace files"):
        secret_key(path)
    assert not path.exists()
    path.parent.chmod(mode | 0o1000)
    assert len(secret_key(path)) == SECRET_KEY_BYTES
