"""What the JobMaster needs of an engine; `holdfast.spark` has the one implementation."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.reasons import Reason
from holdfast.plan.session_inputs import SessionInputs
from holdfast.runtime.execution_listeners import ExecutionListeners
from holdfast.storage.kept_dataset import KeptDataSet

Q_contra = TypeVar("Q_contra", contravariant=True)
Q_co = TypeVar("Q_co", covariant=True)
D_co = TypeVar("D_co", covariant=True)

Reads = Callable[[CanonicalNode], KeptDataSet | None]
"""For a node of a plan, the kept dataset to read instead of computing it."""


@dataclass(frozen=True, slots=True)
class Production(Generic[Q_co]):
    """A vertex whose result is to be kept.

    Attributes:
        query: what it computes.
        inputs: the settings that its job runs under, whatever they have become since.
        job_id: whose vertex it is.
        dataset_id: what the result is.
        name: what it computes, for people.
        reads: what is read instead of being computed.
        listeners: hear what happens to it.
        left: an earlier production of the dataset that has lost partitions, whose others may be
            taken over.
    """

    query: Q_co
    inputs: SessionInputs
    job_id: JobID
    dataset_id: IntermediateDataSetID
    name: str
    reads: Reads
    listeners: ExecutionListeners
    left: KeptDataSet | None = None


class NotKeptError(Exception):
    """A vertex's result could not be kept, through no fault of the query.

    Args:
        reason: why, for people.
        incomplete: it was computed, but where it lies could not be collected.
        is_expected: nothing is wrong: the job had no use for all of it.

    Attributes:
        is_answered: the job computes its answer at the same time, so that nothing ran in vain.
    """

    def __init__(
        self, reason: Reason, *, incomplete: bool = False, is_expected: bool = False
    ) -> None:
        super().__init__(str(reason))
        self.reason = reason
        self.incomplete = incomplete
        self.is_expected = is_expected
        self.is_answered = False


class KeptDataLost(Exception):
    """Kept datasets turned out to be damaged or gone.

    Args:
        damages: for each dataset what is wrong with it.
    """

    def __init__(self, damages: Mapping[IntermediateDataSetID, str]) -> None:
        super().__init__("; ".join(f"{key}: {value}" for key, value in damages.items()))
        self.damages = dict(damages)


class SubstitutionRefusedError(Exception):
    """The engine refuses a plan in which kept data is read; without that it may well run.

    Args:
        reason: what the engine says.
        suspects: kept datasets that may not be readable, as the engine failed while it read files.
            They are, if it doesn't fail without them.
    """

    def __init__(self, reason: str, suspects: Collection[IntermediateDataSetID] = ()) -> None:
        super().__init__(reason)
        self.suspects = frozenset(suspects)


class VertexRunner(Protocol[Q_contra, D_co]):
    """Runs the vertices of a job: `Q` is the engine's form of a query, `D` what an action gets."""

    def substituted(self, query: Q_contra, root: CanonicalNode, reads: Reads) -> D_co:
        """The query with everything that `reads` knows read instead of computed. Runs nothing.

        Raises:
            SubstitutionRefusedError: when the engine doesn't take the plan.
        """

    def produce(self, production: Production[Q_contra]) -> KeptDataSet:
        """Computes a query under the settings of its job, and keeps the result.

        Publishes that the vertex has started, and that it was produced; or that it was recovered.

        Raises:
            NotKeptError: when the result could not be kept.
        """

    def watching(
        self, kept: Mapping[IntermediateDataSetID, KeptDataSet]
    ) -> AbstractContextManager[None]:
        """Tells errors inside that come from reading kept data from those of the query itself.

        Raises:
            KeptDataLost: instead of an error that comes from the loss of one of `kept`.
            SubstitutionRefusedError: instead of one that comes from the plan being another one.
        """

    def answering(
        self, name: str, kept: Mapping[IntermediateDataSetID, KeptDataSet]
    ) -> AbstractContextManager[None]:
        """Tells whoever watches the engine what the answer of a job, computed inside, is read from.

        Args:
            name: what the person calls the job.
            kept: what it reads.
        """

    def may_be_answered(self, error: Exception) -> bool:
        """Whether a query may have an answer although a part of it, computed alone, has none.

        Args:
            error: what the production of the part failed with.
        """


class TeedVertex(Protocol[D_co]):
    """A vertex whose result is kept by the job that answers, while its rows flow on."""

    @property
    def dataframe(self) -> D_co:
        """The query whose answer asks for the rows."""

    @property
    def seconds(self) -> float:
        """How long it took until all rows were written, once they are kept."""

    def running(self) -> AbstractContextManager[None]:
        """The answer is computed inside; after an error, nothing of what was written stays."""

    def keep(self) -> KeptDataSet:
        """Publishes what was written, and that the vertex was produced. To be called once.

        Raises:
            NotKeptError: when the result could not be kept.
        """


class HandingOutRunner(VertexRunner[Q_contra, D_co], Protocol[Q_contra, D_co]):
    """A runner whose plans may go to where their jobs aren't seen, or keep results on their way."""

    def teed(
        self, production: Production[Q_contra], query: Q_contra, root: CanonicalNode
    ) -> TeedVertex[D_co] | None:
        """A query that keeps the result of one of its parts while it is answered. Runs nothing.

        Publishes that the vertex of the part has started, if there is one.

        Args:
            production: what is kept: a part of the query, and of its canonical plan.
            query: what is answered.
            root: its canonical plan.

        Returns:
            None where it takes a job for each.

        Raises:
            NotKeptError: when the result can't be kept.
            SubstitutionRefusedError: when the engine doesn't take the plan.
        """

    def handed_out(
        self,
        query: Q_contra,
        root: CanonicalNode,
        reads: Reads,
        name: str,
        *,
        is_run_later: bool = False,
    ) -> D_co:
        """Like `substituted`, for a plan that goes to where its jobs aren't seen.

        Args:
            query: what is handed out.
            root: its canonical plan.
            reads: what is read instead of being computed.
            name: what `collected` calls it.
            is_run_later: its tables are listed again each time that it is run.

        Raises:
            SubstitutionRefusedError: when the engine doesn't take the plan.
        """

    def unsubstituted(self, query: Q_contra) -> D_co:
        """The query as one that is handed out, with nothing kept in it. Runs nothing.

        Its tables are listed again each time that it is run.
        """

    def collected(self, thorough: bool) -> list[str]:
        """The names of handed-out plans that nobody has any more; each one once.

        Args:
            thorough: whether to look for them first, which takes time.
        """
