"""Why a partition can't be tracked, in the words of both trackers."""

from __future__ import annotations

from holdfast.errors import DuplicateRegistrationError, MalformedRequestError
from holdfast.taskexecutor.partitions.partition_info import (
    OutputID,
    ResultPartitionID,
    TaskExecutorPartitionInfo,
)


def another_owner(output: OutputID) -> DuplicateRegistrationError:
    """Another job produces the output.

    Args:
        output: whose partition was to be tracked.
    """
    return DuplicateRegistrationError(
        f"output {output}", "Its partitions belong to another job: produce them as a new attempt."
    )


def tracked_already(partition_id: ResultPartitionID) -> DuplicateRegistrationError:
    """The partition is tracked.

    Args:
        partition_id: which one.
    """
    return DuplicateRegistrationError(
        f"partition {partition_id}", "Release it first, or produce it as a new attempt."
    )


def another_number(
    info: TaskExecutorPartitionInfo, number_of_partitions: int
) -> MalformedRequestError:
    """The output has another number of partitions.

    Args:
        info: what was to be tracked.
        number_of_partitions: how many its output has.
    """
    return MalformedRequestError(
        f"to track partition {info.partition_id}",
        f"its output has {number_of_partitions} partitions, and this says "
        f"{info.number_of_partitions}",
    )
