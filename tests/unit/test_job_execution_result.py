"""A job's result can be read by people, in a console and in a notebook."""

from __future__ import annotations

from dataclasses import replace
from html.parser import HTMLParser
from typing import Any

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


class Cells(HTMLParser):
    """The texts of an HTML document, whose tags are those of tables."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.texts: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in "div p b table thead tbody tr th td".split()
        self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_it_reads_as_a_table() -> None:
    assert repr(RESULT).splitlines()[:4] == [
        "Job abababababab 'count': 1.235 s",
        "  vertex             outcome   partitions  rows   bytes      attempts",
        "  1a1a1a1a1a1a Join  produced  3           1,000  1,234,567  1",
        "  count              run                                     1",
    ]
    texts = Cells(RESULT._repr_html_()).texts
    assert {"1a1a1a1a1a1a Join", "produced", "1,234,567", "run"} <= {*texts}
    assert "recovered" not in {*repr(RESULT).split(), *texts}


def test_losses_reasons_and_incomplete_datasets_are_shown() -> None:
    failed = kept("Sort", reasons=(Why.FAILED.of("the disk is full"),), partitions=8, recovered=3)
    result = replace(RESULT, vertices=(failed, VERTEX))
    texts = Cells(result._repr_html_()).texts
    for text in (repr(result), " ".join(texts)):
        assert "lost and recomputed: 1a1a: partition 2 is gone" in text
        assert "Sort: not kept: the disk is full" in text
        assert "locations incomplete: 1a1a1a1a1a1a" in text
    _, head, aggregate, *_ = repr(result).splitlines()
    assert (head.split()[-1], aggregate.split()[-1]) == ("recovered", "3")
    assert "recovered" in texts


@given(st.one_of(st.just(EVIL), st.text()))
def test_no_text_gets_out_of_its_cell(text: str) -> None:
    vertices = (kept(text, reasons=(Why.FAILED.of(text),)), replace(VERTEX, name=text))
    shown = replace(RESULT, name=text, losses=(text,), vertices=vertices)._repr_html_()
    assert EVIL not in shown
    Cells(shown)
