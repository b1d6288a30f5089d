"""Files and paths: what is durable, whose they are, and which are on this machine."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path

import pytest

from holdfast.config import ALL_OPTIONS, Configuration
from holdfast.errors import ConfigurationError
from holdfast.files.durable_files import create_once, write_atomically, write_durably, write_once
from holdfast.files.local_path import local_path
from holdfast.files.secret_key import SECRET_KEY_BYTES, secret_key

# -- what is written durably is on the disk before it is visible, and so is its name afterwards


CONTENT = b"all of it"
WRITES: dict[str, tuple[Callable[[Path], object], list[str]]] = {
    "atomically": (lambda path: write_atomically(path, CONTENT), ["content"]),
    "durably": (lambda path: write_durably(path, CONTENT), ["content", "name"]),
    "once": (lambda path: write_once(path, CONTENT), ["content", "name"]),
    "empty": (create_once, ["name"]),
}


@pytest.mark.parametrize(("write", "expected"), WRITES.values(), ids=WRITES.keys())
def test_a_machine_that_stops_leaves_all_of_a_file_or_nothing(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    write: Callable[[Path], object],
    expected: list[str],
) -> None:
    path, synced = tmp_path / "file", list[str]()

    def sync(descriptor: int) -> None:
        on_disk = Path(os.readlink(f"/proc/self/fd/{descriptor}"))
        if on_disk.is_file():
            assert not path.exists() and on_disk.read_bytes() == CONTENT
        synced.append("content" if on_disk.is_file() else "name" if path.exists() else "nothing")

    monkeypatch.setattr(os, "fsync", sync)
    write(path)
    assert synced == expected
    assert [each.name for each in tmp_path.iterdir()] == ["file"]


# -- the key that programs of one user have in common: made once, and no other user's


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


# -- where users name a place: paths and `file:` URLs of this machine, and nothing else


PLACES = (
    "intermediate-result-storage.directory",
    "high-availability.storageDir",
    "taskexecutor.token-file",
)
UNSUPPORTED = (
    "s3://bucket/x| s3a://bucket/x|hdfs://name/x|hdfs:/x|dbfs:/x|file://elsewhere/x|file:////x|"
    "file:x|file:|s3:/x|file:///x#y|file:///x?y|file:///x%zz|file:///x%00|file:///x%ff|"
    "~nobody-of-this-name/x|| \n|/x\0y"
).split("|")


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("/data/x", "/data/x"),
        ("file:///data/x", "/data/x"),
        ("FILE:/data/x", "/data/x"),
        ("file://localhost/data/x", "/data/x"),
        ("file:///data/my%20results/%C3%A9+", "/data/my results/é+"),
        ("/data/my%20results", "/data/my%20results"),
        (" /data/x\n", "/data/x"),
        ("~/x", "/home/somebody/x"),
        ("x/y", "{here}/x/y"),
        ("12:30/x", "{here}/12:30/x"),
    ],
)
def test_a_place_on_this_machine(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, text: str, path: str
) -> None:
    monkeypatch.setenv("HOME", "/home/somebody")
    monkeypatch.chdir(tmp_path)
    expected = path.format(here=tmp_path)
    assert local_path(text) == Path(expected)
    for option in ALL_OPTIONS:
        if option.key in PLACES:
            assert str(Configuration.merged({}, {option.key: text}).get(option)) == expected


@pytest.mark.parametrize("text", UNSUPPORTED)
def test_a_place_elsewhere_is_refused(text: str) -> None:
    for key in PLACES:
        with pytest.raises(ConfigurationError) as raised:
            Configuration.merged({}, {key: text})
        for part in (key, repr(text), "file:///path"):
            assert part in str(raised.value)
