"""Says where in the plane the nodes of layers go."""

from __future__ import annotations

import itertools
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from holdfast.graph.diagram.layers import Layers

_SWEEPS = 6


def horizontal_centres(layers: Layers, widths: Mapping[int, float], gap: float) -> dict[int, float]:
    """The middle of each node, so that it is near to those that it has edges with.

    Args:
        layers: the nodes, in the order in which they stay.
        widths: the width of each node; 0 of one that is not there.
        gap: what is free at least between two nodes of a layer.

    Returns:
        A number for each node. The leftmost node begins at 0.

    >>> layers = Layers(((1, 2), (3,)), ((1, 3), (2, 3)))
    >>> horizontal_centres(layers, {1: 10, 2: 10, 3: 10}, 5)
    {1: 5.0, 2: 20.0, 3: 12.5}
    """
    above: defaultdict[int, list[int]] = defaultdict(list)
    below: defaultdict[int, list[int]] = defaultdict(list)
    for route in layers.routes:
        for upper, lower in itertools.pairwise(route):
            above[lower].append(upper)
            below[upper].append(lower)
    centres: dict[int, float] = {}
    for layer in layers.layers:
        centres.update(_apart(layer, dict.fromkeys(layer, 0.0), widths, gap))
    for sweep in range(_SWEEPS):
        down = sweep % 2 == 0
        near = above if down else below
        for layer in layers.layers if down else reversed(layers.layers):
            wanted = {
                node: fmean(centres[each] for each in near[node]) if near[node] else centres[node]
                for node in layer
            }
            centres.update(_apart(layer, wanted, widths, gap))
    left = min((centre - widths.get(node, 0) / 2 for node, centre in centres.items()), default=0)
    return {node: centre - left for node, centre in sorted(centres.items())}


@dataclass
class _Block:
    """Nodes that stand side by side with nothing but the gap between them."""

    wanted: float
    size: int
    first: int


def _apart(
    layer: Sequence[int], wanted: Mapping[int, float], widths: Mapping[int, float], gap: float
) -> dict[int, float]:
    """As near to what is wanted as the widths and the order allow (in the sense of squares)."""
    offsets = [0.0]
    for left, right in itertools.pairwise(layer):
        offsets.append(offsets[-1] + (widths.get(left, 0) + widths.get(right, 0)) / 2 + gap)
    blocks: list[_Block] = []
    for index, node in enumerate(layer):
        block = _Block(wanted[node] - offsets[index], 1, index)
        while blocks and blocks[-1].wanted >= block.wanted:
            left_block = blocks.pop()
            size = left_block.size + block.size
            mean = (left_block.wanted * left_block.size + block.wanted * block.size) / size
            block = _Block(mean, size, left_block.first)
        blocks.append(block)
    return {
        layer[index]: block.wanted + offsets[index]
        for block in blocks
        for index in range(block.first, block.first + block.size)
    }
