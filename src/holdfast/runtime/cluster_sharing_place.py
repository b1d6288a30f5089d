"""Where the bytes of shared results are on a cluster."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from holdfast.catalog.audience import Audience
from holdfast.catalog.result_record import RESULT_RECORD_NAME
from holdfast.errors import (
    StorageError,
    TaskExecutorError,
    TaskExecutorUnreachableError,
)
from holdfast.ids import CATALOG_APPLICATION, ApplicationID, JobID
from holdfast.runtime.cluster_directory import ClusterDirectory, cluster_identity
from holdfast.runtime.lying_partition import LyingPartition
from holdfast.runtime.sharing_place import how_it_differs
from holdfast.runtime.task_executor_connection import TaskExecutorConnection
from holdfast.runtime.task_executor_storage import TaskExecutorStorage
from holdfast.storage.column_statistics import ColumnStatistics
from holdfast.storage.kept_dataset import KeptDataSet
from holdfast.taskexecutor.partitions.partition_info import OutputID, ResultPartitionID


class ClusterSharingPlace:
    """The outputs of programs on task executors, and those that the catalog holds there.

    Args:
        storage: this program's.
        catalog: gives the identity of the catalog; a CatalogError where that can't be had.
        read_root: the URL that an application's outputs are read under, by the address of the task
            executor.

    Source: FLIP-36, phase 2; FLINK-12612.
    """

    def __init__(
        self,
        storage: TaskExecutorStorage,
        catalog: Callable[[], str],
        read_root: Callable[[str, ApplicationID], str],
    ) -> None:
        self._storage = storage
        self._catalog = catalog
        self._read_root = read_root
        self.remove = storage.remove

    def identity(self) -> str:
        """What tells these task executors from others, whatever program asks.

        Raises:
            OSError: when one of them has not been reached yet.
        """
        try:
            return cluster_identity(
                each.description.executor_id for each in self._storage.connections
            )
        except TaskExecutorUnreachableError as error:
            raise OSError(str(error)) from error

    def recorded(self, kept: KeptDataSet) -> KeptDataSet:
        """A dataset of this program, without the keys that its partitions are read with."""
        directories = []
        for directory in kept.directories:
            scheme, _, address, _, _, _, name = directory.split("/")
            assert scheme == "webhdfs:"
            host = address.rpartition(":")[0]
            place = ClusterDirectory(host, self._storage.application, OutputID.parse(name))
            directories.append(str(place))
        return kept.model_copy(update={"directories": tuple(directories)})

    def readable(self, lying: KeptDataSet) -> KeptDataSet | None:
        """Where this program reads another one's dataset; None where no executor responds."""
        try:
            directories = []
            for directory in lying.directories:
                place = ClusterDirectory.parse(directory)
                address = self._beside(place.host).read_root.split("/")[2]
                root = self._read_root(address, place.application)
                directories.append(f"{root}/{place.output.name}")
        except (StorageError, TaskExecutorUnreachableError):
            return None
        return lying.model_copy(update={"directories": tuple(directories)})

    def take_in(self, lying: KeptDataSet) -> KeptDataSet:
        """Links another program's dataset, or the catalog's, to an output of this program.

        Raises:
            StorageError: when it isn't what was published there, or can't be linked.
        """
        places = [ClusterDirectory.parse(directory) for directory in lying.directories]
        partitions = [
            LyingPartition(
                ResultPartitionID(places[holder].output, partition.index),
                places[holder].host,
                partition.rows,
            )
            for partition, holder in lying.placed
        ]
        number = max(partition.index for partition in lying.manifest.partitions) + 1
        job_id, source = JobID.random(), places[0].application
        try:
            kept = self._storage.publish_linked(
                job_id, lying.manifest.dataset, source, partitions, number
            )
        finally:
            self._storage.end_job(job_id)
        changed = how_it_differs(kept, lying)
        if changed is not None:
            self._storage.remove(kept)
            raise StorageError(
                lying.directories[0], f"it was modified after publication: {changed}"
            )
        return kept

    def damage(self, lying: KeptDataSet) -> str | None:
        """What is wrong with another program's dataset, as far as executors can be asked."""
        for directory in lying.directories:
            place = ClusterDirectory.parse(directory)
            try:
                found = self._damage_at(place)
            except (TaskExecutorUnreachableError, StorageError):
                # It may be back, with everything.
                continue
            except TaskExecutorError as error:
                return str(error)
            if found is not None:
                return found
        return None

    def put(self, kept: KeptDataSet, beside: Mapping[str, str], audience: Audience) -> KeptDataSet:
        """Has the executors hold a dataset of this program for the catalog as well.

        Args:
            kept: the dataset, as `recorded` gives it.
            beside: what else is to lie there, by file name.
            audience: as the catalog says; executors serve whoever has their token.

        Raises:
            StorageError: when one of them doesn't; nothing of it is held then, as far as they can
                be reached.
        """
        places = [ClusterDirectory.parse(directory) for directory in kept.directories]
        catalog, result = self._catalog(), beside[RESULT_RECORD_NAME]
        try:
            for place in places:
                self._beside(place.host).call(
                    lambda gateway, place=place: gateway.hold_output(  # type: ignore[misc]
                        place.application, place.output, catalog, result
                    )
                )
        except (TaskExecutorError, StorageError) as error:
            self.take_away(places[0].output.name)
            if isinstance(error, StorageError):
                raise
            raise StorageError("task executors", str(error)) from error
        held = (ClusterDirectory(each.host, CATALOG_APPLICATION, each.output) for each in places)
        return kept.model_copy(update={"directories": tuple(map(str, held))})

    def open_up(self, kept: KeptDataSet, audience: Audience) -> None:
        """Nothing: executors serve whoever has their token."""

    def statistics(self, kept: KeptDataSet) -> dict[str, ColumnStatistics]:
        """None: footers lie on other machines."""
        return {}

    def take_away(self, name: str) -> bool:
        """Has the executors let go of what the catalog held, all of them."""
        output, is_gone = OutputID.parse(name), True
        for connection in self._storage.connections:
            try:
                connection.call(
                    lambda gateway: gateway.release_outputs(CATALOG_APPLICATION, (output,))
                )
            except TaskExecutorError:
                is_gone = False
        return is_gone

    def _damage_at(self, place: ClusterDirectory) -> str | None:
        return self._beside(place.host).call(
            lambda gateway: gateway.damage(place.application, place.output)
        )

    def _beside(self, host: str) -> TaskExecutorConnection:
        for connection in self._storage.connections:
            if connection.is_up and connection.description.host == host:
                return connection
        raise StorageError(host, "no task executor of this program responds there")
