"""The key that programs of one user have in common: made once, and no other user's."""

from __future__ import annotations

import os
from collections.abc import Callable
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


def test_it_is_made_once_and_found_from_then_on(path: Path) -> None:
    key = secret_key(path)
    (other := path.with_name("other")).mkdir(mode=0o700)
    assert secret_key(other / path.name) != key
    assert secret_key(path) == key == path.read_bytes() and len(key) == SECRET_KEY_BYTES
    assert sorted(os.listdir(path.parent)) == ["other", path.name]
    # In place of what is no key there is a new one.
    for content in (b"", b"short", b"k" * 33):
        path.write_bytes(content)
        key = secret_key(path)
        assert len(key) == SECRET_KEY_BYTES and secret_key(path) == key


@pytest.mark.parametrize("umask", [0o000, 0o777])
def test_it_is_its_owner_s_alone_under_any_umask(path: Path, umask: int) -> None:
    before = os.umask(umask)
    try:
        assert len(secret_key(path)) == SECRET_KEY_BYTES
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o600


def test_programs_that_need_it_at_once_make_one(path: Path) -> None:
    with ProcessPoolExecutor(4, mp_context=get_context("fork")) as programs:
        for attempt in range(5):
            found = set(programs.map(secret_key, [path] * 8))
            assert len(found) == 1, attempt
            path.unlink()


def _link(path: Path) -> None:
    path.rename(path.with_name("known"))
    path.symlink_to(path.with_name("known"))


def _is_another_user_s(path: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("root alone can give a file away")
    os.chown(path, OTHER_USER, -1)


UNSAFE: dict[str, tuple[Callable[[Path], object], str]] = {
    "read by a group": (lambda path: path.chmod(0o640), "other users may know the key"),
    "written by others": (lambda path: path.chmod(0o602), "other users may know the key"),
    "a link": (_link, "is a link"),
    "a fifo": (lambda path: (path.unlink(), os.mkfifo(path, 0o600)), "is no regular file"),
    "another user's": (_is_another_user_s, "belongs to another user"),
    "in another user's directory": (
        lambda path: _is_another_user_s(path.parent),
        "belongs to another user",
    ),
    "in a directory of several": (
        lambda path: path.parent.chmod(0o770),
        "other users can replace files",
    ),
}


@pytest.mark.parametrize("name", UNSAFE)
def test_a_key_that_others_may_know_or_replace_is_none(path: Path, name: str) -> None:
    change, message = UNSAFE[name]
    secret_key(path)
    change(path)
    with pytest.raises(PermissionError, match=message):
        secret_key(path)
