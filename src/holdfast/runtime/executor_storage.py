"""What every storage over task executors does alike."""

from __future__ import annotations

from typing import Generic

from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.runtime.executor_outputs import Connection, ExecutorOutputs
from holdfast.storage.intermediate_result_storage import IntermediateResultStorage, StagedDataSet
from holdfast.storage.kept_dataset import KeptDataSet
from holdfast.storage.pinned_data_set import pin, rewritten_since, unpin


class ExecutorStorage(IntermediateResultStorage, Generic[Connection]):
    """A storage whose partitions are task executors'. What it publishes, and until when, differs.

    Args:
        outputs: what it has there.
    """

    def __init__(self, outputs: ExecutorOutputs[Connection]) -> None:
        self._outputs = outputs

    @property
    def spans_machines(self) -> bool:
        return self._outputs.spans_machines

    def stage(self, job_id: JobID, dataset_id: IntermediateDataSetID) -> StagedDataSet:
        return self._outputs.stage(job_id, dataset_id)

    def damage(self, kept: KeptDataSet) -> str | None:
        return self._outputs.damage(kept)

    def intact(self, kept: KeptDataSet) -> frozenset[int]:
        return self._outputs.intact(kept)

    def rewritten(self, kept: KeptDataSet) -> str | None:
        # A task executor of its own doesn't serve what isn't as it was published.
        return None if self.spans_machines else rewritten_since(kept)

    def pin(self, kept: KeptDataSet) -> KeptDataSet | None:
        return None if self.spans_machines else pin(kept)

    def unpin(self, pinned: KeptDataSet) -> None:
        unpin(pinned)

    def hit(self, kept: KeptDataSet) -> None:
        self._outputs.hit(kept)
