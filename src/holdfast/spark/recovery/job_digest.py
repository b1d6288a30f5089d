"""The identity of a job: what it computes, whatever versions its files have."""

from __future__ import annotations

from holdfast.plan.document import OperatorDocument
from holdfast.plan.file_sources import FileListing, with_listings
from holdfast.plan.session_inputs import SessionInputs
from holdfast.plan.validity import Validity
from holdfast.spark.catalyst_bridge import CatalystBridge, Query
from holdfast.spark.plan_reader import PlanReading
from holdfast.spark.recovery.file_index import root_paths


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
    root = bridge.canonical(query.reading, without_versions(query.reading), as_written=True)
    if root.validity() is not Validity.ANYWHERE:
        return None
    return inputs.dataset_digest(root)


def without_versions(reading: PlanReading) -> list[OperatorDocument]:
    """A plan's operators with the paths that were asked for in the place of what was found."""

    def asked_for(handle: int, listing: FileListing) -> FileListing:
        roots = root_paths(reading.node(handle))
        return {**listing, "files": [], "partitions": "\n".join(["paths", *roots])}

    return with_listings(reading.operators, asked_for)
