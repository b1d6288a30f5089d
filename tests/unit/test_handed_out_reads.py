"""What a handed-out plan reads is held until nobody has the plan."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import ExitStack

import pytest

from holdfast.runtime.handed_out import HandedOutReads


class Engine:
    """Finds plans that nobody has, a look after another."""

    def __init__(self, *looks: Iterable[str]) -> None:
        self._looks = list(looks)

    def collected(self, thorough: bool) -> Iterable[str]:
        return self._looks.pop(0) if self._looks else ()


@pytest.fixture
def released() -> list[str]:
    return []


def holding(engine: Engine, released: list[str], *names: str) -> HandedOutReads:
    reads = HandedOutReads(engine.collected)
    for name in names:
        held = ExitStack()
        held.callback(released.append, name)
        reads.hold(name, held)
    return reads


def test_only_what_is_found_is_released(released: list[str]) -> None:
    reads = holding(Engine(["a", "unknown"]), released, "a", "b")
    reads.release_collected()
    assert released == ["a"]
    reads.close()
    assert released == ["a", "b"]


def test_who_is_thorough_looks_again_for_what_is_found_late(released: list[str]) -> None:
    reads = holding(Engine([], ["a"]), released, "a")
    reads.release_collected(thorough=True)
    assert released == ["a"]


def test_otherwise_it_is_found_the_next_time(released: list[str]) -> None:
    reads = holding(Engine([], ["a"]), released, "a")
    reads.release_collected()
    assert released == []
    reads.release_collected()
    assert released == ["a"]
