"""The partitions of one application, as files that Spark's tasks leave in a directory."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock

from holdfast.errors import UnknownPartitionError
from holdfast.ids import JobID
from holdfast.storage.kept_dataset import KeptPartition
from holdfast.taskexecutor.partitions.partition_info import (
    OutputID,
    PartitionMetrics,
    ResultPartitionID,
)
from holdfast.taskexecutor.partitions.shuffle_environment import ResultPartitionWriter

logger = logging.getLogger(__name__)


@dataclass(slots=True)
class _Output:
    """An output's files.

    Attributes:
        directory: where they lie.
        being_written: Spark's tasks still write here, so the directory stays.
        partitions: the files that have arrived, by index.
    """

    directory: Path
    being_written: bool = True
    partitions: dict[int, KeptPartition] = field(default_factory=dict)


class DirectoryShuffleEnvironment:
    """A ShuffleEnvironment whose writers are Spark's tasks: it takes over what they have written.

    Nothing in here knows of jobs that live or die. Safe for use by several threads.

    Args:
        remove: removes an output's directory, as far as that can be done.

    Source: FLINK-12612, "General Idea".
    """

    def __init__(self, remove: Callable[[Path], None]) -> None:
        self._remove = remove
        self._outputs: dict[OutputID, _Output] = {}
        self._lock = Lock()

    def open(self, output: OutputID, directory: Path) -> None:
        """Spark's tasks begin to write an output's partitions to a directory."""
        with self._lock:
            self._outputs[output] = _Output(directory)

    def arrived(self, output: OutputID, partitions: Iterable[KeptPartition]) -> None:
        """Files have been found in an output's directory; writers may finish them now."""
        with self._lock:
            known = self._outputs.get(output)
            if known is not None:
                known.partitions.update((partition.index, partition) for partition in partitions)

    def partitions(self, output: OutputID) -> tuple[KeptPartition, ...]:
        """The partitions of an output that have arrived and not been released, by index."""
        with self._lock:
            known = self._outputs.get(output)
            kept = {} if known is None else known.partitions
            return tuple(kept[index] for index in sorted(kept))

    def discard(self, output: OutputID) -> None:
        """Removes an output's directory, whatever lies in it and whoever writes there."""
        with self._lock:
            known = self._outputs.pop(output, None)
        if known is not None:
            self._remove(known.directory)

    def closed(self, output: OutputID) -> None:
        """No task writes to the output's directory any more: it goes with its last partition."""
        with self._lock:
            known = self._outputs.get(output)
            if known is None:
                return
            known.being_written = False
            emptied = not known.partitions
            if emptied:
                del self._outputs[output]
        if emptied:
            self._remove(known.directory)

    def moved(self, output: OutputID, directory: Path) -> bool:
        """An output's directory has been renamed.

        Returns:
            False when it has been released in the meantime, so that it is garbage now.
        """
        with self._lock:
            known = self._outputs.get(output)
            if known is not None:
                known.directory = directory
            return known is not None

    def create_result_partition_writers(
        self, job_id: JobID, ids: Collection[ResultPartitionID]
    ) -> list[ResultPartitionWriter]:
        """Writers that finish what Spark's tasks have written."""
        return [_TaskOutput(self, partition_id) for partition_id in ids]

    def release_partitions_locally(self, ids: Collection[ResultPartitionID]) -> None:
        """Removes files, and the directory with the last of them; unknown ones are no error."""
        directories: list[Path] = []
        files: list[Path] = []
        by_output: defaultdict[OutputID, list[int]] = defaultdict(list)
        for partition_id in ids:
            by_output[partition_id.output].append(partition_id.index)
        with self._lock:
            for output, indices in by_output.items():
                known = self._outputs.get(output)
                if known is None:
                    continue
                gone = [known.partitions.pop(index, None) for index in indices]
                if known.partitions or known.being_written:
                    files += [known.directory / kept.file for kept in gone if kept is not None]
                else:
                    del self._outputs[output]
                    directories.append(known.directory)
        for file in files:
            remove_file(file)
        for directory in directories:
            self._remove(directory)

    def metrics(self, partition_id: ResultPartitionID) -> PartitionMetrics:
        """How large a partition is that has arrived.

        Raises:
            UnknownPartitionError: when it has not, or has been released.
        """
        with self._lock:
            known = self._outputs.get(partition_id.output)
            kept = None if known is None else known.partitions.get(partition_id.index)
        if kept is None:
            raise UnknownPartitionError(str(partition_id), "one that a task has written here")
        return PartitionMetrics(bytes=kept.bytes, rows=kept.rows)


class _TaskOutput:
    """Stands for the task that has written one partition: its file is there, or never will be."""

    def __init__(
        self, environment: DirectoryShuffleEnvironment, partition_id: ResultPartitionID
    ) -> None:
        self._environment = environment
        self._partition_id = partition_id

    @property
    def partition_id(self) -> ResultPartitionID:
        return self._partition_id

    def setup(self) -> None:
        """Spark has made room already."""

    def finish(self) -> PartitionMetrics:
        return self._environment.metrics(self._partition_id)

    def fail(self, cause: str | None = None) -> None:
        self._environment.release_partitions_locally([self._partition_id])


def remove_file(file: Path) -> None:
    """Removes a partition's file and the checksums that Hadoop lays beside it."""
    for path in (file, file.with_name(f".{file.name}.crc")):
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            # It is garbage: the sweep comes by again.
            logger.warning("can't remove %s: %s", path, error)
