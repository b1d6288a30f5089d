"""A model of the file system as far as programs go by it: what lies where, and what each step does.

Files are a mapping from paths to what is told of their content. None is changed; a step gives the
changes that it makes.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from dataclasses import dataclass

DIRECTORY = "/"
"""In the place of a directory's content."""
LOCK = "#lock"
"""At the end of a path that stands for a lock."""

Files = Mapping[str, str]
Answer = tuple[str, object]
"""What kind of answer a step gives, and the answer: "error" with its number, "kind" with whether it
is a directory, "names", "content" with what is told of it, "truth", or "nothing"."""
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
    kind = files.get(path)
    parent = path.rpartition(os.sep)[0]
    if what in ("stat", "lstat", "chmod", "utime"):
        return (_no(errno.ENOENT) if kind is None else ("kind", kind == DIRECTORY)), {}
    if what == "listdir":
        if kind is None:
            return _no(errno.ENOENT), {}
        names = (each[len(path) + 1 :] for each in _below(path, files))
        return ("names", tuple(sorted(name for name in names if os.sep not in name))), {}
    if what == "open":
        return (_no(errno.ENOENT) if kind is None else NOTHING), {}
    if what == "read":
        return (_no(errno.ENOENT) if kind is None else ("content", kind)), {}
    if what in ("lock", "unlock"):
        return NOTHING, {path: "" if what == "lock" else None}
    if what == "is locked":
        return ("truth", kind is not None), {}
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
        return NOTHING, {path: DIRECTORY if what == "mkdir" else ""}
    if what in ("unlink", "rmdir"):
        if kind is None:
            return _no(errno.ENOENT), {}
        assert (kind == DIRECTORY) == (what == "rmdir"), step
        if what == "rmdir" and _below(path, files):
            return _no(errno.ENOTEMPTY), {}
        return NOTHING, {path: None}
    source, to = (step.reads[0], path) if what == "link" else (path, step.writes[1])
    assert what in ("link", "rename", "replace"), step
    content = files.get(source)
    if content is None or to.rpartition(os.sep)[0] not in files:
        return _no(errno.ENOENT), {}
    if content == DIRECTORY:
        assert what == "rename" and to not in files, step
        moved = [source, *(each for each in files if each.startswith(source + os.sep))]
        gone: dict[str, str | None] = dict.fromkeys(moved)
        return NOTHING, gone | {to + each[len(source) :]: files[each] for each in moved}
    assert files.get(to) != DIRECTORY, step
    if what != "link":
        return NOTHING, {source: None, to: content}
    return (_no(errno.EEXIST), {}) if to in files else (NOTHING, {to: content})


def _below(path: str, files: Files) -> list[str]:
    return [each for each in files if each.startswith(path + os.sep) and not each.endswith(LOCK)]


def _no(number: int) -> Answer:
    return "error", number
