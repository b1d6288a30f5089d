"""Which process is whose child, as the kernel tells it."""

from __future__ import annotations

from collections import defaultdict
from contextlib import suppress
from pathlib import Path

_ENDED = ("", "X", "Z")
_STOPPED = "T"
_WAITS_FOR_THE_KERNEL = "D"


def descendants(pid: int) -> list[int]:
    """The living descendants of a process, parents before their children."""
    children: dict[int, list[int]] = defaultdict(list)
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            state, parent = _state_and_parent(int(entry.name))
            if state not in _ENDED:
                children[parent].append(int(entry.name))
    found = children[pid]
    for each in found:
        found += children[each]
    return found


def is_alive(pid: int) -> bool:
    """Whether a process runs, or is stopped."""
    return _state_and_parent(pid)[0] not in _ENDED


def is_stopped(pid: int) -> bool:
    """Whether a process has been stopped by a signal, and does nothing until it gets another one.

    One that has started a child by vfork isn't woken, not even to be stopped, before the child has
    gone on to its program: where the child is stopped, so is it.
    """
    state, _ = _state_and_parent(pid)
    if state != _WAITS_FOR_THE_KERNEL:
        return state == _STOPPED
    return any(_state_and_parent(child)[0] == _STOPPED for child in descendants(pid))


def pid_in_namespace(pid: int) -> int | None:
    """The number that a process has in its innermost process namespace."""
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    return None


def _state_and_parent(pid: int) -> tuple[str, int]:
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(errors="replace")
    except OSError:
        return "", 0
    # The name, in parentheses, may hold any character.
    state, parent, *_ = stat.rpartition(")")[2].split()
    return state, int(parent)
