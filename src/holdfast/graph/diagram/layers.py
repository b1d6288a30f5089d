"""Puts the boxes of a diagram into layers, and each layer in an order in which few edges cross."""

from __future__ import annotations

import itertools
from bisect import bisect_right, insort
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

_SWEEPS = 8


@dataclass(frozen=True, slots=True)
class Layers:
    """Nodes in layers, with an edge only from one layer to the next.

    Attributes:
        layers: the nodes of each layer, from left to right. Numbers from 0 are those that were
            given; where an edge passes a layer it has a node of its own there, below 0.
        routes: for each edge, as it was given, the nodes that it passes, both ends among them.
    """

    layers: tuple[tuple[int, ...], ...]
    routes: tuple[tuple[int, ...], ...]


def into_layers(nodes: Sequence[int], edges: Sequence[tuple[int, int]], *, step: int = 1) -> Layers:
    """Layers in which every edge leads down.

    Args:
        nodes: numbers from 0, each after all from which edges lead to it.
        edges: pairs of such numbers.
        step: how many layers an edge leads down at least. With 2, there is a layer in front of each
            node in which the edges that end there have nodes of their own.

    >>> into_layers([1, 2, 3], [(1, 2), (2, 3), (1, 3)])
    Layers(layers=((1,), (2, -1), (3,)), routes=((1, 2), (2, 3), (1, -1, 3)))
    """
    depth = {node: step * depth for node, depth in _depths(nodes, edges).items()}
    layers: list[list[int]] = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for node in nodes:
        layers[depth[node]].append(node)
    routes = []
    passing = 0
    for source, target in edges:
        route = [source]
        for layer in layers[depth[source] + 1 : depth[target]]:
            passing -= 1
            layer.append(passing)
            route.append(passing)
        routes.append((*route, target))
    return Layers(_uncrossed(layers, routes), tuple(routes))


def _depths(nodes: Sequence[int], edges: Sequence[tuple[int, int]]) -> dict[int, int]:
    entering: defaultdict[int, list[int]] = defaultdict(list)
    leaving: defaultdict[int, list[int]] = defaultdict(list)
    for source, target in edges:
        entering[target].append(source)
        leaving[source].append(target)
    depth: dict[int, int] = {}
    for node in nodes:
        depth[node] = max((depth[source] + 1 for source in entering[node]), default=0)
    # What nothing leads to moves down to where it is needed: its edges are short then.
    for node in nodes:
        if not entering[node] and leaving[node]:
            depth[node] = min(depth[target] for target in leaving[node]) - 1
    return depth


def _uncrossed(
    layers: Sequence[Sequence[int]], routes: Iterable[tuple[int, ...]]
) -> tuple[tuple[int, ...], ...]:
    above: defaultdict[int, list[int]] = defaultdict(list)
    below: defaultdict[int, list[int]] = defaultdict(list)
    for route in routes:
        for upper, lower in itertools.pairwise(route):
            above[lower].append(upper)
            below[upper].append(lower)
    best = current = tuple(map(tuple, layers))
    fewest = _crossings(best, below)
    for sweep in range(_SWEEPS):
        if not fewest:
            break
        current = _swept(current, above) if sweep % 2 == 0 else _swept(current[::-1], below)[::-1]
        crossings = _crossings(current, below)
        if crossings < fewest:
            best, fewest = current, crossings
    return best


def _swept(
    layers: tuple[tuple[int, ...], ...], neighbours: Mapping[int, list[int]]
) -> tuple[tuple[int, ...], ...]:
    """Each layer by where on the average the neighbours in the layer before it are."""
    swept: list[tuple[int, ...]] = []
    before: dict[int, int] = {}
    for layer in layers:
        wanted = {
            node: fmean(before[each] for each in neighbours[node]) if node in neighbours else index
            for index, node in enumerate(layer)
        }
        swept.append(tuple(sorted(layer, key=wanted.__getitem__)))
        before = {node: index for index, node in enumerate(swept[-1])}
    return tuple(swept)


def _crossings(layers: tuple[tuple[int, ...], ...], below: Mapping[int, list[int]]) -> int:
    crossings = 0
    for upper, lower in itertools.pairwise(layers):
        position = {node: index for index, node in enumerate(lower)}
        passed: list[int] = []
        for node in upper:
            ends = sorted(position[each] for each in below.get(node, ()))
            crossings += sum(len(passed) - bisect_right(passed, end) for end in ends)
            for end in ends:
                insort(passed, end)
    return crossings
