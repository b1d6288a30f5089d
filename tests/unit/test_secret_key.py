"""The key that programs of one user have in common: made once, and nobody else's."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from holdfast.files.secret_key import SECRET_KEY_BYTES, secret_key

OTHER_USER = 12345
as_root = pytest.mark.skipif(os.getuid() != 0, reason="root alone can give a file away")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    directory = tmp_path / "kept"
    directory.mkdir(mode=0o700)
    return directory / "seal-key"


@pytest.fixture(params=[0o000, 0o022, 0o077, 0o777], ids=oct)
def umask(request: pytest.FixtureRequest) -> Iterator[int]:
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_it_is_made_once_and_found_from_then_on(path: Path) -> None:
    key = secret_key(path)
    assert len(key) == SECRET_KEY_BYTES == 32
    assert secret_key(path) == key == path.read_bytes()
    assert os.listdir(path.parent) == [path.name]


def test_it_is_its_owner_s_alone_whatever_the_umask(path: Path, umask: int) -> None:
    assert len(secret_key(path)) == SECRET_KEY_BYTES
    assert path.stat().st_mode & 0o777 == 0o600


def test_it_is_another_one_in_another_directory(path: Path, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    assert secret_key(path) != secret_key(other / path.name)


def test_programs_that_need_it_at_once_make_one(path: Path) -> None:
    with ProcessPoolExecutor(4, mp_context=get_context("fork")) as programs:
        for attempt in range(20):
            found = set(programs.map(secret_key, [path] * 8))
            assert len(found) == 1, attempt
            path.unlink()


@pytest.mark.parametrize("content", [b"", b"short", b"k" * 33])
def test_in_place_of_what_is_no_key_there_is_a_new_one(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    path.chmod(0o600)
    key = secret_key(path)
    assert len(key) == SECRET_KEY_BYTES and secret_key(path) == key


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602, 0o601])
def test_one_that_is_open_to_others_is_none(path: Path, mode: int) -> None:
    secret_key(path)
    path.chmod(mode)
    with pytest.raises(PermissionError, match=r"other users may know the key in .*: remove it"):
        secret_key(path)


def test_one_behind_a_link_is_none(path: Path, tmp_path: Path) -> None:
    (tmp_path / "known").write_bytes(b"k" * SECRET_KEY_BYTES)
    (tmp_path / "known").chmod(0o600)
    path.symlink_to(tmp_path / "known")
    with pytest.raises(PermissionError, match="is a link"):
        secret_key(path)
    # Nor is one made where a link leads to.
    path.unlink()
    path.symlink_to(tmp_path / "nothing")
    with pytest.raises(PermissionError, match="is a link"):
        secret_key(path)
    assert not (tmp_path / "nothing").exists()


@pytest.mark.parametrize("kind", ["directory", "fifo"])
def test_what_is_no_file_is_no_key(path: Path, kind: str) -> None:
    if kind == "directory":
        path.mkdir()
    else:
        os.mkfifo(path, 0o600)
    with pytest.raises(PermissionError, match="is no regular file"):
        secret_key(path)


@as_root
def test_one_of_another_user_is_none(path: Path) -> None:
    secret_key(path)
    os.chown(path, OTHER_USER, -1)
    with pytest.raises(PermissionError, match="belongs to another user"):
        secret_key(path)


@as_root
def test_there_is_none_in_another_user_s_directory(path: Path) -> None:
    secret_key(path)
    os.chown(path.parent, OTHER_USER, -1)
    with pytest.raises(PermissionError, match=f"{path.parent} belongs to another user"):
        secret_key(path)


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o2770])
def test_there_is_none_where_others_can_replace_it(path: Path, mode: int) -> None:
    path.parent.chmod(mode)
    with pytest.raises(PermissionError, match="other users can replace files"):
        secret_key(path)
    assert not path.exists()
    path.parent.chmod(mode | 0o1000)
    assert len(secret_key(path)) == SECRET_KEY_BYTES
