"""Each reason why a result is not read everywhere, or not kept: shown, recorded and found."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pytest

from holdfast.api.cached_data_set import CachedDataSet, CachedDataSets
from holdfast.api.job_execution_result import JobExecutionResult
from holdfast.ids import IntermediateDataSetID, JobID, JobVertexID
from holdfast.plan.canonicalizer import Canonicalizer
from holdfast.plan.reasons import Reason, Why
from holdfast.plan.validity import Validity
from holdfast.plan.value_digest import Undigestible
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


CATALYST = "org.apache.spark.sql.catalyst."
LOGICAL = f"{CATALYST}plans.logical."
ODD = {"f": [], "o": []}
ROWS = {"c": f"{LOGICAL}LocalRelation", "s": {"fields": []}, "rows": None, "out": []}


def leaf(argument: Any) -> dict[str, Any]:
    return {"c": f"{LOGICAL}Range", "f": [argument, 0, 0, 0, []], "out": []}


@pytest.mark.parametrize(
    ("operator", "reason"),
    [
        (leaf({"opaque": "a.b.Relation"}), Why.OPAQUE.of("Relation")),
        (leaf({"opaque": "a.b.Function", "why": "a lock"}), Why.OBJECT.of("a lock")),
        (leaf({"c": "a.b.Odd", **ODD}), Why.UNKNOWN_EXPRESSION.of("Odd")),
        (
            leaf({"c": f"{CATALYST}expressions.aggregate.Odd", **ODD}),
            Why.UNKNOWN_AGGREGATE.of("Odd"),
        ),
        (leaf({"python": "AAAA", "version": "3.11"}), Why.PYTHON.of("a lock")),
        (leaf({"id": 7}), Why.UNREADABLE.of("an expression id that something may refer to")),
        (ROWS, Why.INCOMPARABLE_ROWS.of()),
    ],
    ids=lambda each: each.kind if isinstance(each, Reason) else "",
)
def test_a_plan_says_what_it_is_doubted_for(operator: dict[str, Any], reason: Reason) -> None:
    def undigestible(pickled: str) -> str:
        raise Undigestible("a lock")

    plan: Any = {"i": 0, "n": 0, "t": "salt", "f": [], "o": [], **operator}
    made = Canonicalizer("session", undigestible, str).canonicalize([plan])
    assert list(made.reasons()) == [reason]
