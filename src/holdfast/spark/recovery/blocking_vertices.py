"""The vertices that a job is cut into: each result is kept until the job ends, and found again."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from pyspark.sql.classic.dataframe import DataFrame

from holdfast.ids import IntermediateDataSetID, JobID, JobVertexID
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.session_inputs import SessionInputs
from holdfast.plan.substitution import find_matches
from holdfast.plan.summary import summarize
from holdfast.runtime.execution_graph import ExecutionVertex, VertexOutcome
from holdfast.runtime.recovery.job_recovery import JobRecovery
from holdfast.runtime.vertex_runner import KeptDataLost, NotKeptError
from holdfast.spark.catalyst_bridge import Query
from holdfast.spark.recovery.optimized_query import Cut
from holdfast.spark.vertex_runner import SparkVertexRunner
from holdfast.storage.kept_dataset import KeptDataSet

logger = logging.getLogger(__name__)


class BlockingVertices:
    """Runs vertices and keeps what comes out as job partitions, where no earlier start has.

    Args:
        runner: the engine, over the storage that outlives the driver.
        recovery: what earlier starts have left, and what this one records.
        job_id: the job.
        check: raises when a newer start of the job has taken over.

    Source: FLIP-383, "The Whole Workflow of Job Recovery".
    """

    def __init__(
        self,
        runner: SparkVertexRunner,
        recovery: JobRecovery,
        job_id: JobID,
        check: Callable[[], None],
    ) -> None:
        self._runner = runner
        self._recovery = recovery
        self._job_id = job_id
        self._check = check
        self._kept: dict[IntermediateDataSetID, KeptDataSet] = {}
        self._reports: dict[IntermediateDataSetID, ExecutionVertex] = {}

    def report(self) -> tuple[ExecutionVertex, ...]:
        """What became of each, in the order in which they were needed."""
        return tuple(self._reports.values())

    def substituted(self, query: Query, cuts: Iterable[Cut], inputs: SessionInputs) -> DataFrame:
        """The query with its vertices' results read; those that aren't there are run first.

        Args:
            query: an optimized query.
            cuts: where it is cut.
            inputs: the settings that it runs under.

        Raises:
            StaleEpochError: when a newer start of the job has taken over.
            SubstitutionRefusedError: when Spark doesn't take the plan.
        """
        needed = _Needed(self, {cut.node.digest: cut for cut in cuts}, inputs)
        needed.provide(query.root, below_root=False)
        return self._runner.substituted(query, query.root, needed.reads)

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Tells errors inside that come from reading the vertices' results from others.

        Raises:
            KeptDataLost: instead of an error that comes from the loss of one of them.
        """
        with self._runner.watching(self._kept):
            yield
