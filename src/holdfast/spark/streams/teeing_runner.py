"""Runs the vertices of a job of which two may be one Spark job."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractContextManager

from pyspark.sql.classic.dataframe import DataFrame

from holdfast.ids import IntermediateDataSetID
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.runtime.vertex_runner import NotKeptError, Production, Reads
from holdfast.spark.catalyst_bridge import Query
from holdfast.spark.spark_vertex_runner import SparkVertexRunner
from holdfast.spark.streams.tee_job import TeeJob
from holdfast.storage.kept_dataset import KeptDataSet

__all__ = ["TeeingVertexRunner"]


class TeeingVertexRunner:
    """A `holdfast.runtime.vertex_runner.VertexRunner` for a single job.

    Args:
        runner: runs the vertices.
        tee: answers while it keeps one vertex's result.
    """

    def __init__(self, runner: SparkVertexRunner, tee: TeeJob) -> None:
        self._runner = runner
        self._tee = tee

    def substituted(self, query: Query, root: CanonicalNode, reads: Reads) -> DataFrame:
        """The query with everything kept read, or what is being run of it already."""
        running = self._tee.running
        return self._runner.substituted(query, root, reads) if running is None else running

    def produce(self, production: Production[Query]) -> KeptDataSet:
        """Computes a query and keeps its result; the job may answer meanwhile."""
        write = self._tee.write if self._tee.keeps(production.query) else None
        try:
            return self._runner.produce(production, write)
        except NotKeptError as error:
            error.is_answered = self._tee.running is not None
            raise

    def watching(
        self, kept: Mapping[IntermediateDataSetID, KeptDataSet]
    ) -> AbstractContextManager[None]:
        """Tells errors that come from reading kept data from others."""
        return self._runner.watching(kept)

    def answering(
        self, name: str, kept: Mapping[IntermediateDataSetID, KeptDataSet]
    ) -> AbstractContextManager[None]:
        """Tells what an answer is read from, see `VertexRunner`."""
        return self._runner.answering(name, kept)

    def may_be_answered(self, error: Exception) -> bool:
        """Whether a failed production may be gone without, see `VertexRunner`."""
        return self._runner.may_be_answered(error)
