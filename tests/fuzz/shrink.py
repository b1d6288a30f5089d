"""Makes a case smaller, as long as it goes wrong in the same way."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

from tests.fuzz.expressions import LITERALS
from tests.fuzz.node import Node
from tests.fuzz.script import Build, Enter, Script, Step


def shrunk(script: Script, is_bad: Callable[[Script], bool], attempts: int) -> Script:
    """The smallest case found that is bad in the same way, in so many attempts at most."""
    left = attempts
    found = True
    while found and left > 0:
        found = False
        for smaller in _smaller(script):
            left -= 1
            if is_bad(smaller):
                script, found = smaller, True
                break
            if left <= 0:
                break
    return script


def _smaller(script: Script) -> Iterator[Script]:
    steps = script.steps
    # The first half is one order of the pair, the second half the other.
    for size in (len(steps) // 2, 3, 2, 1):
        if size < 1:
            continue
        for place in range(1, len(steps) - size + 1):
            yield replace(script, steps=steps[:place] + steps[place + size :])
    for line in _lines(steps):
        yield replace(script, steps=tuple(_without(step, line) for step in steps))
    for old, new in _replacements(steps):
        yield replace(script, steps=tuple(_replaced(step, old, new) for step in steps))


def _lines(steps: tuple[Step, ...]) -> list[str]:
    """The settings by their keys, and other statements that stand alone."""
    lines = [line for step in steps if isinstance(step, Enter) for line in step.text.splitlines()]
    return list(dict.fromkeys(line.partition(",")[0] for line in lines if line[:1].strip()))


def _without(step: Step, beginning: str) -> Step:
    if not isinstance(step, Enter):
        return step
    lines = [line for line in step.text.splitlines() if not line.startswith(beginning)]
    return replace(step, text="\n".join(lines))


def _replacements(steps: tuple[Step, ...]) -> Iterator[tuple[Node, Node]]:
    nodes = dict.fromkeys(
        node for step in steps if isinstance(step, Build) for node in step.plan.walk()
    )
    for node in sorted(nodes, key=lambda node: -len(str(node))):
        same = [below for child in node.children for below in child.walk()]
        for below in sorted({n for n in same if n.kind == node.kind}, key=lambda n: len(str(n))):
            if node.kind != "text":
                yield node, below
        if node.children and node.kind in LITERALS:
            yield node, Node(LITERALS[node.kind][0], kind=node.kind)


def _replaced(step: Step, old: Node, new: Node) -> Step:
    return replace(step, plan=step.plan.with_all(old, new)) if isinstance(step, Build) else step
