"""Which partitions are tracked, and for whom."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from threading import Lock
from typing import Generic, TypeVar

from holdfast.errors import (
    UnknownPartitionError,
)
from holdfast.taskexecutor.partitions.packed_metrics import pack, unpack
from holdfast.taskexecutor.partitions.partition_info import (
    OutputID,
    ResultPartitionID,
    TaskExecutorPartitionInfo,
)
from holdfast.taskexecutor.partitions.tracking_refusals import (
    another_number,
    another_owner,
    tracked_already,
)

Owner = TypeVar("Owner", bound=Hashable)
OtherOwner = TypeVar("OtherOwner", bound=Hashable)


class _Output(Generic[Owner]):
    """The tracked partitions of one output: by index their metrics, packed."""

    __slots__ = ("metrics", "number_of_partitions", "output", "owner")

    def __init__(self, output: OutputID, owner: Owner, number_of_partitions: int) -> None:
        self.output = output
        self.owner = owner
        self.number_of_partitions = number_of_partitions
        self.metrics: dict[int, int] = {}

    def check_addition(self, info: TaskExecutorPartitionInfo, owner: Owner | None) -> None:
        if owner is not None and owner != self.owner:
            raise another_owner(self.output)
        if info.partition_id.index in self.metrics:
            raise tracked_already(info.partition_id)
        if info.number_of_partitions != self.number_of_partitions:
            raise another_number(info, self.number_of_partitions)

    def infos(self) -> Iterable[TaskExecutorPartitionInfo]:
        output, number = self.output, self.number_of_partitions
        for index, packed in self.metrics.items():
            partition_id = ResultPartitionID(output, index)
            yield TaskExecutorPartitionInfo(partition_id, unpack(packed), number)


class ResultPartitionTable(Generic[Owner]):
    """Partitions by their owner, by output and by index. Thread-safe.

    All partitions of an output have one owner. A partition is given to exactly one caller of those
    that stop tracking it at the same time, so whoever gets it may release it.

    Every operation costs in proportion to the partitions that it names.

    Source: FLINK-12612, "What about concurrency?".

    >>> from holdfast.ids import IntermediateDataSetID
    >>> from holdfast.taskexecutor.partitions.partition_info import PartitionMetrics
    >>> output = OutputID(IntermediateDataSetID("00ff" * 16), "0badcafe")
    >>> partition = ResultPartitionID(output, 0)
    >>> table = ResultPartitionTable[str]()
    >>> table.start_tracking(
    ...     "a job", TaskExecutorPartitionInfo(partition, PartitionMetrics(7, 2), 1)
    ... )
    >>> table.stop_tracking("a job") == [partition]
    True
    >>> table.stop_tracking("a job")
    []
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._outputs: dict[OutputID, _Output[Owner]] = {}
        # By owner, the keys of an ordered set.
        self._owners: dict[Owner, dict[OutputID, None]] = {}

    def start_tracking(self, owner: Owner, info: TaskExecutorPartitionInfo) -> None:
        """Adds a partition.

        Args:
            owner: whose it is.
            info: the partition.

        Raises:
            DuplicateRegistrationError: when the partition is tracked, or its output is another's.
            MalformedRequestError: when its output has another number of partitions.
        """
        partition_id = info.partition_id
        with self._lock:
            output = self._outputs.get(partition_id.output)
            if output is None:
                number = info.number_of_partitions
                output = self._new_output(partition_id.output, owner, number)
            else:
                output.check_addition(info, owner)
            output.metrics[partition_id.index] = pack(info.metrics)

    def check_addition(self, info: TaskExecutorPartitionInfo, owner: Owner | None = None) -> None:
        """Sees to it that a partition neither is tracked nor contradicts what is.

        Args:
            info: the partition.
            owner: whose it is to be; None when that doesn't matter.

        Raises:
            DuplicateRegistrationError: when the partition is tracked, or its output is another's.
            MalformedRequestError: when its output has another number of partitions.
        """
        with self._lock:
            output = self._outputs.get(info.partition_id.output)
            if output is not None:
                output.check_addition(info, owner)

    def stop_tracking(self, owner: Owner) -> list[ResultPartitionID]:
        """Takes out all of an owner's partitions.

        Args:
            owner: whose partitions.

        Returns:
            those that were tracked.
        """
        with self._lock:
            taken = [self._outputs.pop(output) for output in self._owners.pop(owner, ())]
        return _ids(taken)

    def stop_tracking_outputs(self, outputs: Iterable[OutputID]) -> list[ResultPartitionID]:
        """Takes out all partitions of outputs.

        Args:
            outputs: which outputs; unknown ones are passed over.

        Returns:
            those that were tracked.
        """
        taken = []
        with self._lock:
            for name in outputs:
                output = self._outputs.get(name)
                if output is not None:
                    self._forget(output)
                    taken.append(output)
        return _ids(taken)

    def stop_tracking_partitions(
        self, ids: Iterable[ResultPartitionID], owner: Owner | None = None
    ) -> list[ResultPartitionID]:
        """Takes out partitions.

        Args:
            ids: which partitions; those that are not tracked are passed over.
            owner: only its own; None for those of any owner.

        Returns:
            those that were tracked.
        """
        taken = []
        with self._lock:
            for partition_id in ids:
                output = self._outputs.get(partition_id.output)
                if output is None or partition_id.index not in output.metrics:
                    continue
                if owner is None or output.owner == owner:
                    self._remove(output, partition_id.index)
                    taken.append(partition_id)
        return taken

    def stop_tracking_all(self) -> list[ResultPartitionID]:
        """Takes out everything.

        Returns:
            what was tracked.
        """
        with self._lock:
            taken = list(self._outputs.values())
            self._outputs.clear()
            self._owners.clear()
        return _ids(taken)

    def move(
        self,
        ids: Collection[ResultPartitionID],
        other: ResultPartitionTable[OtherOwner],
        owner: Callable[[OutputID], OtherOwner],
    ) -> None:
        """Moves partitions to another table, all of them or none.

        Args:
            ids: which partitions; the other table must not have them.
            other: where to.
            owner: whose an output is there.

        Raises:
            UnknownPartitionError: when one of them is not tracked here.
        """
        with self._lock, other._lock:
            for partition_id in ids:
                output = self._outputs.get(partition_id.output)
                if output is None or partition_id.index not in output.metrics:
                    raise UnknownPartitionError(
                        str(partition_id), "a finished partition of a job that has not released it"
                    )
            for partition_id in ids:
                output = self._outputs.get(partition_id.output)
                if output is None or partition_id.index not in output.metrics:
                    # It was named twice.
                    continue
                there = other._outputs.get(partition_id.output)
                if there is None:
                    name = partition_id.output
                    there = other._new_output(name, owner(name), output.number_of_partitions)
                there.metrics[partition_id.index] = output.metrics[partition_id.index]
                self._remove(output, partition_id.index)

    def has_tracked_partitions(self, owner: Owner) -> bool:
        """Whether an owner has any partition."""
        with self._lock:
            return owner in self._owners

    def tracked(self, owner: Owner) -> tuple[TaskExecutorPartitionInfo, ...]:
        """An owner's partitions, in the order in which they came.

        Args:
            owner: whose partitions.
        """
        with self._lock:
            outputs = self._owners.get(owner, {})
            return tuple(info for name in outputs for info in self._outputs[name].infos())

    def tracked_outputs(self) -> dict[OutputID, tuple[TaskExecutorPartitionInfo, ...]]:
        """All partitions, by output."""
        with self._lock:
            return {name: tuple(output.infos()) for name, output in self._outputs.items()}

    def _new_output(self, name: OutputID, owner: Owner, number: int) -> _Output[Owner]:
        output = _Output(name, owner, number)
        self._outputs[name] = output
        self._owners.setdefault(owner, {})[name] = None
        return output

    def _remove(self, output: _Output[Owner], index: int) -> None:
        del output.metrics[index]
        if not output.metrics:
            self._forget(output)

    def _forget(self, output: _Output[Owner]) -> None:
        del self._outputs[output.output]
        others = self._owners[output.owner]
        del others[output.output]
        if not others:
            del self._owners[output.owner]


def _ids(outputs: Iterable[_Output[Owner]]) -> list[ResultPartitionID]:
    return [
        ResultPartitionID(output.output, index) for output in outputs for index in output.metrics
    ]
