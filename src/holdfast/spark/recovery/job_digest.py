"""The identity of a job: what it computes, whatever versions its files have."""

from __future__ import annotations

from holdfast.plan.session_inputs import SessionInputs
from holdfast.plan.validity import Validity
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.plans.shapes import without_versions


def job_digest(bridge: CatalystBridge, query: Query, inputs: SessionInputs) -> str | None:
    """What tells a job from others when its program starts again.

    Files count with the paths that were asked for, their format, schema and options; neither which
    files were found there nor their versions. A path with a wildcard stands for what it matches.

    Args:
        bridge: reads the plans of the session.
        query: over the analyzed plan.
        inputs: the settings that it runs under.

    Returns:
        64 hexadecimal digits; None where the plan says too little of what it computes, so that
        only a name that a person gives tells the job.
    """
    root = bridge.canonical(
        query.reading, without_versions(query.reading.operators), as_written=True
    )
    if root.validity() is not Validity.ANYWHERE:
        return None
    return inputs.dataset_digest(root)
