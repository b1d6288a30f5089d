"""What is refused before anything of an output is touched."""

from __future__ import annotations

from collections.abc import Sequence

from holdfast.errors import MalformedRequestError, UnknownPartitionError
from holdfast.storage.kept_dataset import KeptPartition, Manifest
from holdfast.taskexecutor.partitions.partition_info import (
    PARTITIONS_LIMIT,
    OutputID,
    ResultPartitionID,
)


def refuse_bad_indices(
    output_id: OutputID, indices: Sequence[int] | None, number_of_partitions: int | None
) -> None:
    """Sees to it that partitions can be those of an output.

    Raises:
        MalformedRequestError: when one is given twice, or is beyond their number.
    """
    limit = PARTITIONS_LIMIT if number_of_partitions is None else number_of_partitions
    if not 1 <= limit <= PARTITIONS_LIMIT:
        raise MalformedRequestError(
            "finish_output", f"{output_id} can't have {number_of_partitions} partitions"
        )
    given = indices or ()
    if len(set(given)) != len(given):
        raise MalformedRequestError("finish_output", "duplicate partition")
    if any(not 0 <= index < limit for index in given):
        raise MalformedRequestError(
            "finish_output", f"expected partitions of {output_id} from 0 to {limit - 1}"
        )


def refuse_other_manifest(
    output_id: OutputID, manifest: Manifest, kept: Sequence[KeptPartition]
) -> None:
    """Sees to it that a manifest describes what an executor holds of an output.

    Args:
        output_id: the output.
        manifest: the manifest.
        kept: what the executor holds.

    Raises:
        MalformedRequestError: when it is another dataset's.
        UnknownPartitionError: when it describes other partitions.
    """
    if manifest.dataset.dataset_id != output_id.dataset_id.hex:
        raise MalformedRequestError(
            "promote",
            f"the manifest is of dataset {manifest.dataset.dataset_id}, not of "
            f"{output_id.dataset_id.hex}",
        )
    described = {partition.index: partition for partition in manifest.partitions}
    held = {partition.index: partition for partition in kept}
    differing = [
        index for index in described.keys() | held.keys() if described.get(index) != held.get(index)
    ]
    if differing:
        raise UnknownPartitionError(
            str(ResultPartitionID(output_id, min(differing))),
            "a manifest that describes exactly the partitions stored here",
        )
    if not held or len(manifest.partitions) != len(held):
        raise UnknownPartitionError(
            f"{output_id}/0", "a manifest that describes at least one partition, and each once"
        )
