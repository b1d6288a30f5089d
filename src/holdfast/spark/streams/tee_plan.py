"""Where a job can keep a stream and read it at the same time."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.spark.catalyst_bridge import Query
from holdfast.spark.streams.compiler import KeptRead
from holdfast.streaming.chain import Pass

__all__ = ["KeptStream", "TeePlan", "tee_plan"]

_PASS = "MapInArrow"


@dataclass(frozen=True, eq=False)
class KeptStream:
    """A stream that is about to be kept.

    Attributes:
        query: what computes it.
        run: the pass at the query's top, which seals its batches.
    """

    query: Query
    run: Pass


@dataclass(frozen=True, eq=False)
class TeePlan:
    """A stream that is to be kept, and the one pass of the job that reads it.

    Attributes:
        kept: the stream.
        consumer: reads it.
        reader: the consumer in the job's canonical plan.
    """

    kept: KeptStream
    consumer: Pass
    reader: CanonicalNode


def tee_plan(
    root: CanonicalNode,
    reads: Iterable[KeptRead],
    stream_of: Callable[[KeptRead], KeptStream | None],
    is_cached: Callable[[str], bool],
) -> TeePlan | None:
    """How a job can do it; None if it keeps nothing, or more than that.

    Args:
        root: the job's canonical plan.
        reads: the passes from kept streams to shuffles, each of which reads all there is.
        stream_of: the stream that such a pass reads, if it is not kept yet.
        is_cached: whether what has a digest is, or is going to be, kept.
    """
    found = [(each, kept) for each in reads if (kept := stream_of(each)) is not None]
    if len(found) != 1:
        return None
    ((read, kept),) = found
    reader = _only_reader(root, kept.query.root.digest, is_cached)
    return None if reader is None else TeePlan(kept, read.run, reader)


def _only_reader(
    root: CanonicalNode, digest: str, is_cached: Callable[[str], bool]
) -> CanonicalNode | None:
    """The pass that reads a stream, if it is the only one, and the plan has nothing else cached."""
    readers: list[CanonicalNode] = []
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if is_cached(node.digest):
            return None
        for child in (*node.subqueries, *node.children):
            if child.digest == digest:
                readers.append(node)
            else:
                waiting.append(child)
    return readers[0] if len(readers) == 1 and readers[0].operator == _PASS else None
