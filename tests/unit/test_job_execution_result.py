"""A job's result can be read by people, in a console and in a notebook."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from xml.etree import ElementTree

from hypothesis import given
from hypothesis import strategies as st

from holdfast.api.job_execution_result import JobExecutionResult
from holdfast.ids import IntermediateDataSetID, JobID, JobVertexID
from holdfast.plan.reasons import Why
from holdfast.runtime.execution_graph import ArchivedExecutionGraph, ExecutionVertex
from holdfast.runtime.job_result import JobResult
from holdfast.runtime.partitions import BlockingPersistentResultPartitionMeta as Kept
from holdfast.runtime.vertex_outcome import VertexOutcome

ONE = IntermediateDataSetID("1a" * 32)
EVIL = "<script>alert(\"x & 'y'\")</script>"
VERTEX = ExecutionVertex(JobVertexID("cd" * 16), "count", None, VertexOutcome.RUN, attempts=1)


def kept(name: str, **more: Any) -> ExecutionVertex:
    return replace(VERTEX, name=name, dataset_id=ONE, **more)


JOIN = kept("Join", outcome=VertexOutcome.PRODUCED, partitions=3, bytes=1234567, rows=1000)
GRAPH = ArchivedExecutionGraph(
    JobID("ab" * 16), "count", (JOIN, VERTEX), Kept({}, frozenset({ONE}))
)
RESULT = JobExecutionResult.of(JobResult(GRAPH, 1.23456, ("1a1a: partition 2 is gone",)))


# What XML can hold as well.
TEXTS = st.text(st.characters(exclude_categories=["Cc", "Cn", "Cs"]))


def texts_of(result: JobExecutionResult) -> list[str]:
    """The texts of its HTML, which is well-formed and has the tags of tables alone."""
    root = ElementTree.fromstring(result._repr_html_())
    assert {each.tag for each in root.iter()} <= {*"div p b table thead tbody tr th td".split()}
    return [*root.itertext()]


def test_it_reads_as_a_table() -> None:
    whole = replace(RESULT, losses=(), persistent_result_partitions=Kept({}, frozenset()))
    assert repr(whole).splitlines() == [
        "Job abababababab 'count': 1.235 s",
        "  vertex             outcome   partitions  rows   bytes      attempts",
        "  1a1a1a1a1a1a Join  produced  3           1,000  1,234,567  1",
        "  count              run                                     1",
    ]
    texts = texts_of(RESULT)
    assert {"1a1a1a1a1a1a Join", "produced", "1,234,567", "run"} <= {*texts}
    assert "recovered" not in {*repr(RESULT).split(), *texts}


def test_losses_reasons_and_incomplete_datasets_are_shown() -> None:
    failed = kept("Sort", reasons=(Why.FAILED.of("the disk is full"),), partitions=8, recovered=3)
    result = replace(RESULT, vertices=(failed, VERTEX))
    texts = texts_of(result)
    for text in (repr(result), " ".join(texts)):
        assert "lost and recomputed: 1a1a: partition 2 is gone" in text
        assert "Sort: not kept: the disk is full" in text
        assert "locations incomplete: 1a1a1a1a1a1a" in text
    _, head, aggregate, *_ = repr(result).splitlines()
    assert (head.split()[-1], aggregate.split()[-1]) == ("recovered", "3")
    assert "recovered" in texts


@given(st.just(EVIL) | TEXTS)
def test_no_text_gets_out_of_its_cell(text: str) -> None:
    vertices = (kept(text, reasons=(Why.FAILED.of(text),)), replace(VERTEX, name=text))
    texts = texts_of(replace(RESULT, name=text, losses=(text,), vertices=vertices))
    assert sum(text in each for each in texts) >= 4
