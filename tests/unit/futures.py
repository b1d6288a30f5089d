"""What programs may still do, and which of their next steps nobody could ever tell from an earlier
or a later one.

Such a step need not be waited for by anybody: it is answered the same whenever it is done, nobody
goes by whether it has been done, and nothing that may be looked at changes. So of all orders of the
others' steps and this one it is enough to go through those in which it comes at once.

What a program may still do is what follows in its state machine, as far as that is known. It is
enough that it is known at the end of a search which goes by it: what others do without the start
whose step came at once, they do with it, and come across each of their states.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterable, Sequence

from tests.unit.learned_program import LearnedProgram
from tests.unit.modelled_files import Step

_MOVES = ("rename", "replace", "put", "exchange")
_NEEDS_PARENT = ("mkdir", "create", "truncate", "link", *_MOVES)
_MAKES = ("mkdir", "create", "truncate", "link", "lock")


class Futures:
    """What may still be done from each state of a program that several starts run.

    Args:
        program: what each of them runs.
        turned: a path as the start of an index calls it, as all call it.
    """

    def __init__(self, program: LearnedProgram, turned: Callable[[str, int], str]) -> None:
        self._program = program
        self._turned = turned
        self._bits: dict[str, int] = {}
        self._changed, self._seen = self._found()
        self._changes = functools.cache(self._all_of(self._changed))
        self._looks = functools.cache(self._all_of(self._seen))
        self._changes_of = functools.cache(lambda step: self._mask(_changes(step)))
        self._looks_of = functools.cache(lambda *asked: self._mask(_looks(*asked)))

    def is_known(self) -> bool:
        """Whether nothing has been learned of the program since."""
        changed, seen = self._found()
        return (changed, seen) == (self._changed, self._seen)

    def are_apart(
        self,
        step: Step,
        others: Sequence[tuple[int, int]],
        *,
        is_missing: bool,
        is_changing: bool,
    ) -> bool:
        """Whether it makes no difference if a step is done before or after what others may do.

        Args:
            step: the step, by the names that all know.
            others: the states of the other starts, each with its index.
            is_missing: whether it finds nothing where it looks.
            is_changing: whether it changes anything.
        """
        looks, changes = self._looks_of(step, is_missing), self._changes_of(step)
        return not any(
            looks & self._changes(*other) or (is_changing and changes & self._looks(*other))
            for other in others
        )

    def may_be_looked_at(self, paths: Iterable[str], others: Sequence[tuple[int, int]]) -> bool:
        """Whether any of some starts may still look at what lies at a path.

        Args:
            paths: the paths.
            others: the states of the starts, each with its index.
        """
        changed = self._mask(f"={path}" for path in paths)
        return any(changed & self._looks(*other) for other in others)

    def _found(self) -> tuple[list[int], list[int]]:
        return self._closed(_changes), self._closed(
            lambda step: [*_looks(step, True), *_looks(step, False)]
        )

    def _closed(self, of: Callable[[Step], Iterable[str]]) -> list[int]:
        """For each state what its step and all later ones do."""
        found = [self._mask(of(state.step)) if state.step else 0 for state in self._program.states]
        before = self._program.before()
        waiting = list(range(len(found)))
        while waiting:
            after = waiting.pop()
            for state in before[after]:
                if found[after] & ~found[state]:
                    found[state] |= found[after]
                    waiting.append(state)
        return found

    def _all_of(self, known: list[int]) -> Callable[[int, int], int]:
        """What follows from a state, by the names that all know; all there is where that is new."""

        def found(state: int, index: int) -> int:
            if state >= len(known):
                return -1
            own = known[state]
            paths = [path for path, bit in self._bits.items() if own & bit]
            return self._mask(
                kind + self._turned(path, index)
                for kind, path in ((path[:1], path[1:]) for path in paths)
            )

        return found

    def _mask(self, paths: Iterable[str]) -> int:
        found = 0
        for path in paths:
            found |= self._bits.setdefault(path, 1 << len(self._bits))
        return found


def _changes(step: Step) -> list[str]:
    """What others may see of a step: what is written (=), made (+) and moved with all below (>)."""
    found = [f"={path}" for path in step.writes]
    if step.what in _MAKES:
        found.append(f"+{step.writes[0]}")
    if step.what in _MOVES:
        source, goal = step.writes[:2]
        found += [f"+{goal}", f">{source}", f">{goal}"]
    if step.what == "exchange":
        found.append(f"+{step.writes[0]}")
    return found


def _looks(step: Step, is_missing: bool) -> list[str]:
    """What of others' steps changes a step's answer, or what it does."""
    # Where a step is done, what else lies in the directory doesn't matter.
    paths = [*step.reads, *(path for path in step.writes if not path.endswith(f"{os.sep}*"))]
    found = [f">{above}" for path in paths for above in _above(path)]
    if is_missing and step.what not in _NEEDS_PARENT:
        return [*found, f"+{(step.writes or step.reads)[0]}"]
    if step.what in _NEEDS_PARENT:
        paths += [path.rpartition(os.sep)[0] for path in paths]
    return [*found, *(f"={path}" for path in paths)]


def _above(path: str) -> list[str]:
    parts = path.split(os.sep)
    return [os.sep.join(parts[:count]) for count in range(1, len(parts))]
