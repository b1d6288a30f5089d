"""Each reason why a result is not read everywhere, or not kept, as the program itself shows it."""

from __future__ import annotations

import hashlib
import json

import pytest

from holdfast.api.cached_data_set import CachedDataSet, CachedDataSets
from holdfast.api.job_execution_result import JobExecutionResult
from holdfast.ids import IntermediateDataSetID, JobID, JobVertexID
from holdfast.plan.reasons import Reason, Why
from holdfast.plan.validity import Validity
from holdfast.runtime.execution_graph import ExecutionVertex
from holdfast.runtime.partitions import BlockingPersistentResultPartitionMeta

EACH = {why.name: why.of("<a thing & another>", "of it") for why in Why}


@pytest.mark.parametrize("reason", EACH.values(), ids=EACH)
def test_every_reason_is_shown_by_the_program_itself(reason: Reason) -> None:
    dataset = IntermediateDataSetID(hashlib.sha256(reason.kind.encode()).hexdigest())
    listed = CachedDataSet("it", "d" * 64, None, 0, 0, 0, None, (), None, 0, 0.0, reasons=(reason,))
    assert f"it: {reason.sentence}" in repr(CachedDataSets([listed]))
    is_kept = reason.where is not Validity.NOWHERE
    assert listed.not_kept_by_holdfast == (None if is_kept else str(reason))
    assert bool(listed.matches_only_itself) == (reason.where in (Validity.NODE, Validity.SESSION))
    vertex = ExecutionVertex(JobVertexID("ab" * 16), "it", dataset, reasons=(reason,))
    nothing = BlockingPersistentResultPartitionMeta({}, frozenset())
    result = JobExecutionResult(JobID("ab" * 16), "count", 0.1, nothing, (vertex,))
    assert f"it: {reason.sentence}" in repr(result)
    assert vertex.reason == (None if is_kept else str(reason))
    # As it is recorded in a catalog.
    assert Reason.read(json.loads(json.dumps(reason.recorded()))) == reason


def test_what_was_recorded_by_another_version_is_read() -> None:
    assert Reason.read(["OF_TOMORROW", "SESSION", "it"]).sentence.endswith("program reads it: it")
