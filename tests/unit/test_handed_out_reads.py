"""What a handed-out plan reads is held for as long as the program has the plan."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

from holdfast.runtime.handed_out import HandedOutReads


def test_what_is_held_is_released_once_it_is_found_that_it_was_dropped() -> None:
    def collected(thorough: bool) -> Iterable[str]:
        return looks.pop(0) if looks else ()

    looks = [["a", "unknown"], [], ["b"], [], ["c"]]
    released: list[str] = []
    reads = HandedOutReads(collected)
    for name in "abcd":
        held = ExitStack()
        held.callback(released.append, name)
        reads.hold(name, held)
    for expected in (["a"], ["a"], ["a", "b"]):
        reads.release_collected()
        assert released == expected
    # What is found late is looked for again.
    reads.release_collected(thorough=True)
    assert released == ["a", "b", "c"]
    reads.close()
    assert released == ["a", "b", "c", "d"]
