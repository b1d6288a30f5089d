"""A model of the file system as far as programs go by it: what lies where, and what each step does.

Files are a mapping from paths to what is told of their content. None is changed; a step gives the
changes that it makes.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass

from tests.unit.named_files import DIRECTORY, ROOT

LOCK = "#lock"
"""At the end of a path that stands for a lock, whose content is who holds it."""

Files = Mapping[str, str]
Answer = tuple[str, object]
"""What kind of answer a step gives, and the answer: "error" with its number, "status" with what is
told of the content, "kind" with as much of that as tells whether it is a directory, "names",
"entries" with whether each is a directory, "content" with what is told of it, "truth", or
"nothing"."""
NOTHING: Answer = ("nothing", None)


@dataclass(frozen=True)
class Step:
    """What a program does next to its files.

    Attributes:
        what: the call.
        reads: the paths whose state it depends on.
        writes: those whose state it changes.
        content: what is told of what it writes.
    """

    what: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]
    content: str = ""


def done(step: Step, files: Files) -> tuple[Answer, dict[str, str | None]]:
    """What a step is answered with, and what it changes: None where nothing lies any more.

    Args:
        step: the step.
        files: what lies where before.
    """
    what, path = step.what, (step.writes or step.reads)[0]
    kind = DIRECTORY if path == ROOT else files.get(path)
    parent = path.rpartition(os.sep)[0]
    if what in ("stat", "lstat", "chmod", "chown", "utime"):
        if kind is None:
            return _no(errno.ENOENT), {}
        return ("status", kind) if what == "lstat" else ("kind", kind[:1] == DIRECTORY), {}
    if what in ("listdir", "scandir"):
        if kind is None:
            return _no(errno.ENOENT), {}
        start = 0 if path == ROOT else len(path) + 1
        own = sorted(each[start:] for each in _below(path, files) if os.sep not in each[start:])
        if what == "listdir":
            return ("names", tuple(own)), {}
        return ("entries", tuple((name, _is_directory(files, path, name)) for name in own)), {}
    if what == "open":
        return (_no(errno.ENOENT) if kind is None else NOTHING), {}
    if what == "read":
        return (_no(errno.ENOENT) if kind is None else ("content", kind)), {}
    if what in ("lock", "unlock"):
        return NOTHING, {path: step.content if what == "lock" else None}
    if what == "is locked":
        return ("truth", kind is not None and step.reads[1] in files), {}
    if what == "write":
        # What has been renamed or removed meanwhile is out of everybody's sight.
        return NOTHING, {} if kind is None else {path: step.content}
    if what in ("mkdir", "create", "truncate"):
        if kind is not None and what != "truncate":
            return _no(errno.EEXIST), {}
        if parent and parent not in files:
            return _no(errno.ENOENT), {}
        if kind is not None:
            return NOTHING, {}
        return NOTHING, {path: DIRECTORY + path if what == "mkdir" else ""}
    if what in ("unlink", "rmdir"):
        if kind is None:
            return _no(errno.ENOENT), {}
        assert (kind[:1] == DIRECTORY) == (what == "rmdir"), step
        if what == "rmdir" and _below(path, files):
            return _no(errno.ENOTEMPTY), {}
        return NOTHING, {path: None}
    source, to = (step.reads[0], path) if what == "link" else (path, step.writes[1])
    assert what in ("link", "rename", "replace", "put", "exchange"), step
    content, there = files.get(source), files.get(to)
    if content is None or to.rpartition(os.sep)[0] not in {"", *files}:
        return _no(errno.ENOENT), {}
    if what == "exchange":
        if there is None:
            return _no(errno.ENOENT), {}
        return NOTHING, _moved(source, to, files) | _moved(to, source, files)
    if source == to:
        return NOTHING, {}
    if there is not None:
        if what in ("link", "put"):
            return _no(errno.EEXIST), {}
        assert (content[:1] == DIRECTORY) == (there[:1] == DIRECTORY), step
        if content[:1] == DIRECTORY and _below(to, files):
            return _no(errno.ENOTEMPTY), {}
    if what == "link":
        return NOTHING, {to: content}
    gone: dict[str, str | None] = dict.fromkeys([source, *_all_below(source, files)])
    return NOTHING, gone | _moved(source, to, files)


def _moved(source: str, to: str, files: Files) -> dict[str, str | None]:
    """What lies at a path once something is moved there, or nothing is any more."""
    found: dict[str, str | None] = dict.fromkeys(_all_below(to, files))
    found[to] = files[source]
    return found | {to + each[len(source) :]: files[each] for each in _all_below(source, files)}


def _all_below(path: str, files: Files) -> list[str]:
    if path == ROOT:
        return list(files)
    return [each for each in files if each.startswith(path + os.sep)]


def _is_directory(files: Files, path: str, name: str) -> bool:
    return files[name if path == ROOT else f"{path}{os.sep}{name}"][:1] == DIRECTORY


def _below(path: str, files: Files) -> list[str]:
    return [each for each in _all_below(path, files) if not each.endswith(LOCK)]


def _no(number: int) -> Answer:
    return "error", number
