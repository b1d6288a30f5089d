"""What tells a job of streams from others when its program starts again."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from holdfast.ids import IntermediateDataSetID
from holdfast.plan.function_digest import Undigestible, digest_value
from holdfast.plan.hashing import hash_parts
from holdfast.plan.session_inputs import SessionInputs
from holdfast.spark.catalyst_bridge import CatalystBridge
from holdfast.spark.recovery.job_digest import job_digest
from holdfast.spark.recovery.stream_identity import StreamIdentity
from holdfast.spark.streams.compiler import Flow
from holdfast.streaming.outputs import BatchOutput

__all__ = ["stream_identity"]


def stream_identity(
    bridge: CatalystBridge,
    inputs: SessionInputs,
    flows: Sequence[tuple[object, Flow]],
    kept: Iterable[IntermediateDataSetID],
) -> StreamIdentity:
    """What a job of streams is known by.

    Args:
        bridge: reads plans.
        inputs: the settings that the job runs under.
        flows: for each sink what it is, and the pass of which it is the end.
        kept: what is kept on the way.
    """
    vertices = tuple(sorted(dataset_id.hex for dataset_id in kept))
    parts = []
    for sink, flow in flows:
        below = job_digest(bridge, bridge.query(flow.frame), inputs)
        if below is None:
            return StreamIdentity(None, vertices)
        try:
            # What a sink makes of the records says where they go, which may be a port of today's.
            parts.append((digest_value(sink), digest_value(flow.run(BatchOutput())), below))
        except Undigestible:
            return StreamIdentity(None, vertices)
    return StreamIdentity(hash_parts("a job of streams", tuple(parts)), vertices)
