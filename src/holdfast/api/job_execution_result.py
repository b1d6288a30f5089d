"""The result of a job."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.api.text_table import as_html, as_text
from holdfast.ids import JobID
from holdfast.plan.reasons import sentences
from holdfast.runtime.execution_graph import ExecutionVertex
from holdfast.runtime.job_result import JobResult
from holdfast.runtime.partitions import BlockingPersistentResultPartitionMeta

_HEADINGS = ("vertex", "outcome", "partitions", "rows", "bytes", "attempts")
_RECOVERED = "recovered"
# In seconds, of what was saved.
_SHOWN = 0.05


@dataclass(frozen=True, repr=False)
class JobExecutionResult:
    """The result of a job: what it computed, what it read, and the locations of kept results.

    Source: FLINK-12406: the locations of BLOCKING_PERSISTENT result partitions flow from the
    ExecutionGraph to the client in the JobExecutionResult.

    Attributes:
        job_id: identifies the job.
        name: the action that was called.
        net_runtime: from submission to the end, in seconds.
        persistent_result_partitions: the kept partitions that the job produced or read, with
            location, bytes and rows of each; and the datasets whose locations are incomplete.
        vertices: the outcome of each vertex: produced, read from cache, recovered, run; with
            partitions, bytes, rows and attempts, for recovered jobs the number of partitions
            and tasks that an earlier start had completed, and where some partitions of a
            kept result were lost the number of those that were taken over. The last one computed
            the answer.
        losses: kept data that was lost, each with the reason. The job was then resubmitted, and
            its caches recreated.
        reused_exchanges: how many shuffles and broadcasts of earlier queries were read, with
            `implicit-cache.enabled`.
        reused_seconds: how long these had taken to run.

    Example:
        >>> hot = env.from_dataframe(spark.range(10)).where("id > 4").cache()
        >>> hot.count()
        5
        >>> result = env.last_job_result
        >>> [vertex.outcome.value for vertex in result.vertices]
        ['produced', 'run']
        >>> kept = result.persistent_result_partitions.descriptors.values()
        >>> sum(partition.rows for partitions in kept for partition in partitions)
        5
    """

    job_id: JobID
    name: str
    net_runtime: float
    persistent_result_partitions: BlockingPersistentResultPartitionMeta
    vertices: tuple[ExecutionVertex, ...]
    losses: tuple[str, ...] = ()
    reused_exchanges: int = 0
    reused_seconds: float = 0.0

    @property
    def saved_seconds(self) -> float:
        """About how much longer the job would have taken without what it has read, in seconds.

        That is what it would have taken to compute as much of it as the job needs, at the rate that
        was measured when it was produced, less reading it; and what reused exchanges had taken.
        """
        return sum((each.saved_seconds or 0.0 for each in self.vertices), self.reused_seconds)

    @classmethod
    def of(cls, result: JobResult) -> JobExecutionResult:
        """The client's form of what the JobMaster reports."""
        graph = result.execution_graph
        return cls(
            graph.job_id,
            graph.name,
            result.net_runtime,
            graph.persistent_result_partitions,
            graph.vertices,
            result.losses,
        )

    def __repr__(self) -> str:
        return as_text(self._title(), *self._columns(), self._notes())

    def _repr_html_(self) -> str:
        return as_html(self._title(), *self._columns(), self._notes())

    def _title(self) -> str:
        saved = f", about {self.saved_seconds:,.1f} s saved" if self.saved_seconds >= _SHOWN else ""
        return f"Job {self.job_id} {self.name!r}: {self.net_runtime:.3f} s{saved}"

    def _columns(self) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
        """The headings, and a row for each vertex."""
        rows = list(map(_cells, self.vertices))
        counts = [vertex.recovered for vertex in self.vertices]
        if all(count is None for count in counts):
            return _HEADINGS, rows
        column = map(_shown, counts)
        shown = [(*row, cell) for row, cell in zip(rows, column, strict=True)]
        return (*_HEADINGS, _RECOVERED), shown

    def _notes(self) -> Iterable[str]:
        for loss in self.losses:
            yield f"lost and recomputed: {loss}"
        if self.reused_exchanges:
            yield f"{self.reused_exchanges} shuffles and broadcasts of earlier queries were reused"
        for vertex in self.vertices:
            yield from (f"{vertex.name}: {each}" for each in sentences(vertex.reasons))
            if vertex.kept_by is not None:
                yield f"{vertex.name}: kept by {vertex.kept_by}"
            if vertex.taken_over is not None and vertex.partitions is not None:
                produced = vertex.partitions - vertex.taken_over
                yield (
                    f"{vertex.name}: {vertex.taken_over:,} partitions were taken over, "
                    f"{produced:,} recomputed"
                )
            if vertex.missed is not None:
                yield f"{vertex.name}: a similar result was not read: {vertex.missed}"
            if vertex.recovered_tasks:
                tasks = f"{vertex.recovered_tasks:,} tasks"
                yield f"{vertex.name}: {tasks} were completed by an earlier start"
        for dataset_id in sorted(self.persistent_result_partitions.incomplete):
            yield f"locations incomplete: {dataset_id}"


def _cells(vertex: ExecutionVertex) -> tuple[str, ...]:
    name = vertex.name if vertex.dataset_id is None else f"{vertex.dataset_id} {vertex.name}"
    return (
        name,
        vertex.outcome.value,
        _shown(vertex.partitions),
        _shown(vertex.rows),
        _shown(vertex.bytes),
        _shown(vertex.attempts),
    )


def _shown(number: int | None) -> str:
    return "" if number is None else f"{number:,}"
