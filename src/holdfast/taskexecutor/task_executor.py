"""A task executor: keeps partitions for applications, and lets go of them when it is time."""

from __future__ import annotations

import logging
import math
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from operator import attrgetter
from pathlib import Path
from threading import Lock, RLock

from typing_extensions import assert_never

from holdfast.errors import (
    HoldingRefusedError,
    MalformedRequestError,
    StorageError,
    UnknownApplicationError,
    UnknownDataSetError,
    UnknownJobError,
    VersionMismatchError,
)
from holdfast.files.access_modes import PRIVATE, AccessModes
from holdfast.ids import CATALOG_APPLICATION, ApplicationID, JobID
from holdfast.storage.kept_dataset import KeptPartition, Manifest
from holdfast.storage.partition_directory import DATASETS
from holdfast.taskexecutor.applications.application_directory import (
    ApplicationDirectory,
    application_of,
)
from holdfast.taskexecutor.applications.application_partitions import ApplicationPartitions
from holdfast.taskexecutor.applications.held_partitions import HeldPartitions
from holdfast.taskexecutor.applications.holder import ApplicationHolder
from holdfast.taskexecutor.applications.recovery_partitions import RecoveryPartitions
from holdfast.taskexecutor.applications.recovery_starts import RecoveryStarts
from holdfast.taskexecutor.calls.gateway import (
    CatalogHolding,
    DataSetReport,
    Registration,
    TaskExecutorDescription,
)
from holdfast.taskexecutor.connections.connection_events import (
    ApplicationAdopted,
    ApplicationRegistered,
    ApplicationTakenOver,
    ApplicationUnregistered,
    ConnectionEvent,
    HeartbeatReceived,
    JobEnded,
    JobRegistered,
    PartitionsChanged,
    SlotClosed,
    SlotOpened,
    Tick,
)
from holdfast.taskexecutor.connections.connection_instructions import (
    CancelTasks,
    EndConnection,
    Instruction,
    MarkJobActive,
    MarkJobInactive,
    ReleaseClusterPartitions,
    ReleaseFinishedPartitions,
)
from holdfast.taskexecutor.connections.job_connections import JobConnections
from holdfast.taskexecutor.garbage import Garbage
from holdfast.taskexecutor.outputs.linked_files import PublishedPartition, refuse_bad_links
from holdfast.taskexecutor.outputs.output import Output, OutputState
from holdfast.taskexecutor.outputs.output_part import OutputPart
from holdfast.taskexecutor.outputs.output_record import OutputRecord
from holdfast.taskexecutor.outputs.publication import Publication
from holdfast.taskexecutor.outputs.recovered_output import RecoveredOutput
from holdfast.taskexecutor.partitions.partition_info import OutputID, ResultPartitionID
from holdfast.taskexecutor.recovery.claim_files import ClaimFiles
from holdfast.taskexecutor.recovery.recovery_claim import RecoveryClaim
from holdfast.version import __version__

GRACE_SECONDS = 60.0

logger = logging.getLogger(__name__)


class TaskExecutor:
    """A TaskExecutorGateway over a directory of this machine. Safe for use by several threads.

    It starts no thread: whoever runs it calls `tick` every now and then, which lets leases lapse
    and sweeps up.

    Args:
        root: the directory that it keeps partitions in.
        executor_id: which executor it is; a new one when None.
        host: the name under which other machines reach it.
        read_root: the URL that Spark reads an application's outputs under; by default their
            directory on this machine.
        grace_seconds: how long nothing must happen in a directory that nobody knows, or that tasks
            of a lost job write to, before it is removed.
        holds_for_catalog: whether there is a catalog that it asks what to hold.
        clock: the time in seconds; it never goes back.
        wall_clock: the time in seconds since 1970, by which what was kept for a job grows old
            while nobody serves it.
        modes: whose programs keep something in `root`.

    Source: FLINK-12612, "General Idea" and "Abnormal events / Special cases".
    """

    def __init__(
        self,
        root: Path,
        *,
        executor_id: str | None = None,
        host: str = "localhost",
        read_root: Callable[[ApplicationID], str] | None = None,
        grace_seconds: float = GRACE_SECONDS,
        holds_for_catalog: bool = False,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
        modes: AccessModes = PRIVATE,
    ) -> None:
        self._modes = modes
        self._root = root
        self._read_root = read_root
        self._clock = clock
        self._description = TaskExecutorDescription(
            executor_id=executor_id or ApplicationID.random().hex,
            incarnation=ApplicationID.random().hex,
            version=__version__,
            host=host,
            directory=str(root),
        )
        self._connections = JobConnections()
        self._applications: dict[ApplicationID, ApplicationPartitions] = {}
        self._jobs: dict[JobID, ApplicationPartitions] = {}
        # Guards the three above, and is never held while partitions are read or removed.
        self._lock = RLock()
        self._grace_seconds = grace_seconds
        self._garbage = Garbage(root, grace_seconds, clock)
        self._sweeping = Lock()
        self._holds_for_catalog = holds_for_catalog
        self._catalog: str | None = None
        self._starts = RecoveryStarts(root, ClaimFiles(root, wall_clock))
        self._recovering = RLock()

    def adopt(self, lease_seconds: float) -> None:
        """Takes over what an earlier run has left in the directory, and removes what isn't whole.

        To be called before anybody else calls.

        Args:
            lease_seconds: how long each application that is found has to be heard of.

        Raises:
            StorageError: when the directory can't be used.
        """
        try:
            found = [path for path in sorted(self._root.iterdir()) if not path.is_symlink()]
            for path in found:
                application = application_of(path)
                directory = None if application is None else ApplicationDirectory.adopt(path)
                if application is None or directory is None:
                    continue
                if application == CATALOG_APPLICATION:
                    self._hold(directory)
                    continue
                partitions = ApplicationPartitions(ApplicationHolder(application, directory))
                partitions.adopt()
                if partitions.tracker.all():
                    with self._lock:
                        now = self._clock()
                        self._connections.handle(
                            ApplicationAdopted(application, lease_seconds, now)
                        )
                        self._applications[application] = partitions
                else:
                    partitions.holder.close()
            if self._holds_for_catalog and CATALOG_APPLICATION not in self._applications:
                self._hold(ApplicationDirectory.create(self._root, CATALOG_APPLICATION))
            for start in self._starts.adopted():
                application = start.partitions.application
                with self._lock:
                    lease, now = start.lease_seconds, self._clock()
                    self._connections.handle(ApplicationAdopted(application, lease, now))
                    self._applications[application] = start.partitions
        except OSError as error:
            raise StorageError(str(self._root), f"can't be read: {error}") from error

    def describe(self) -> TaskExecutorDescription:
        return self._description

    def register_application(
        self, application: ApplicationID, lease_seconds: float, version: str
    ) -> Registration:
        _refuse_bad_registration("register_application", application, lease_seconds, version)
        _refuse_the_catalog("register_application", application)
        with self._lock:
            now = self._clock()
            self._handle(ApplicationRegistered(application, lease_seconds, now))
            if application not in self._applications:
                try:
                    directory = ApplicationDirectory.create(self._root, application, self._modes)
                except StorageError:
                    self._handle(ApplicationUnregistered(application))
                    raise
                holder = ApplicationHolder(application, directory)
                self._applications[application] = ApplicationPartitions(holder)
        return Registration(self._description.incarnation, self._root_of(application))

    def register_recovery(
        self,
        application: ApplicationID,
        claim: RecoveryClaim,
        lease_seconds: float,
        version: str,
    ) -> Registration:
        _refuse_bad_registration("register_recovery", application, lease_seconds, version)
        if application != claim.application or math.isinf(lease_seconds):
            raise MalformedRequestError(
                "register_recovery",
                f"expected application {claim.application.hex}, which is that of {claim}, and a "
                f"lease that ends; got {application.hex} and {lease_seconds}",
            )
        registered = ApplicationRegistered(application, lease_seconds, self._clock())
        # One at a time: of two starts of a job, the second has what the first has taken over.
        with self._recovering:
            with self._lock:
                known = self._applications.get(application)
                if known is not None and not known.holder.is_taken_over():
                    self._handle(registered)
            if known is None or known.holder.is_taken_over():
                self._forget(application)
                partitions = self._starts.begin(claim, lease_seconds)
                self._forget_earlier(claim)
                with self._lock:
                    self._handle(registered)
                    self._applications[application] = partitions
        return Registration(self._description.incarnation, self._root_of(application))

    def recovered(self, application: ApplicationID) -> tuple[RecoveredOutput, ...]:
        return self._start(application).recovered()

    def open_shuffles(self, application: ApplicationID) -> str:
        return str(self._start(application).open_shuffles())

    def heartbeat(self, application: ApplicationID, hits: Mapping[OutputID, int]) -> str:
        partitions = self._registered(application)
        with self._lock:
            self._handle(HeartbeatReceived(application, self._clock()))
        partitions.holder.heard_of()
        for output_id, count in hits.items():
            output = partitions.tracker.get(output_id)
            if output is not None:
                output.hits = count
        return self._description.incarnation

    def unregister_application(self, application: ApplicationID) -> None:
        _refuse_the_catalog("unregister_application", application)
        with self._lock:
            if not self._connections.is_registered(application):
                return
            partitions = self._applications[application]
            if partitions.holder.is_taken_over():
                self._forget(application)
                return
            steps = self._handle(ApplicationUnregistered(application))
        partitions.holder.ended()
        self._carry_out(steps)
        # Its own word: no task is waited for.
        for output in partitions.tracker.all(OutputState.OPEN):
            self._give_up(partitions, output)
        self._end_if_over(partitions)

    def register_job(self, application: ApplicationID, job_id: JobID) -> None:
        _refuse_the_catalog("register_job", application)
        with self._lock:
            self._registered(application)
            self._handle(JobRegistered(application, job_id))

    def open_output(
        self,
        application: ApplicationID,
        job_id: JobID,
        output: OutputID,
        part: OutputPart | None = None,
    ) -> str:
        with self._lock:
            partitions = self._of_active_job(application, job_id)
            self._handle(SlotOpened(application, job_id, output))
        try:
            return str(partitions.open(job_id, output, part))
        except BaseException:
            self._act(SlotClosed(application, job_id, output))
            raise

    def finish_output(
        self,
        application: ApplicationID,
        job_id: JobID,
        output: OutputID,
        indices: Sequence[int] | None,
        number_of_partitions: int | None,
    ) -> tuple[KeptPartition, ...]:
        partitions = self._of_active_job(application, job_id)
        try:
            kept = partitions.finish(job_id, output, indices, number_of_partitions)
        except UnknownJobError:
            self._close_slot(partitions, job_id, output)
            raise
        self._close_slot(partitions, job_id, output)
        return kept

    def fail_output(self, application: ApplicationID, job_id: JobID, output: OutputID) -> None:
        partitions = self._registered(application)
        if partitions.fail(job_id, output):
            self._close_slot(partitions, job_id, output)
        else:
            self._partitions_changed(job_id)

    def link_output(
        self,
        application: ApplicationID,
        job_id: JobID,
        output: OutputID,
        source_application: ApplicationID,
        partitions: Sequence[ResultPartitionID],
        numbers: Sequence[int] | None = None,
    ) -> None:
        own = self._of_active_job(application, job_id)
        indices = [each.index for each in partitions] if numbers is None else list(numbers)
        refuse_bad_links(output, partitions, indices)
        own.link(job_id, output, self._published(source_application, partitions), indices)

    def promote(
        self,
        application: ApplicationID,
        job_id: JobID,
        output: OutputID,
        manifest: Manifest,
        publication: Publication | None = None,
    ) -> None:
        partitions = self._of_active_job(application, job_id)
        partitions.promote(job_id, output, manifest, publication)
        self._partitions_changed(job_id)

    def promote_recovered(
        self,
        application: ApplicationID,
        job_id: JobID,
        output: OutputID,
        manifest: Manifest,
        publication: Publication,
    ) -> None:
        start = self._start(application)
        self._of_active_job(application, job_id)
        start.promote_recovered(output, manifest, publication)

    def hold_output(
        self, application: ApplicationID, output: OutputID, catalog: str, result: str
    ) -> None:
        source = self._registered(application)
        held = self._held_partitions()
        if held is None or not self._holds_for_catalog:
            raise HoldingRefusedError("it was started without one")
        if self._catalog not in (None, catalog):
            raise HoldingRefusedError("it was started with another one")
        promoted = self.promoted(application, output)
        assert promoted.manifest is not None
        ids = [ResultPartitionID(output, each.index) for each in promoted.manifest.partitions]
        record = OutputRecord(number_of_partitions=promoted.number_of_partitions, catalog=catalog)
        held.hold(output, source.published(ids), promoted.manifest, record, result)

    def change_catalog(self, output: OutputID, catalog: str) -> None:
        if not self._holds_for_catalog:
            raise HoldingRefusedError("it was started without one")
        held = self._held_partitions()
        if held is None:
            raise UnknownDataSetError(output.name, "an output that is held for a catalog")
        held.change_catalog(output, catalog)

    def held(self) -> dict[OutputID, str | None]:
        """What it holds for the catalog, each with the identity of the one that it is held for."""
        held = self._held_partitions()
        return {} if held is None else held.held()

    def catalog_is(self, identity: str | None) -> None:
        """Which catalog answers: what is announced in another one is not held from now on.

        Args:
            identity: of the catalog; None where that isn't known any more.
        """
        self._catalog = identity

    def release_outputs(self, application: ApplicationID, outputs: Collection[OutputID]) -> None:
        if application == CATALOG_APPLICATION and self._held_partitions() is None:
            return
        self._registered(application).release_outputs(outputs)

    def end_job(self, application: ApplicationID, job_id: JobID) -> None:
        partitions = self._registered(application)
        try:
            self._act(JobEnded(application, job_id))
        except UnknownJobError:
            return
        for output in partitions.tracker.all(OutputState.OPEN):
            if output.job_id == job_id:
                self._give_up(partitions, output)

    def damage(self, application: ApplicationID, output: OutputID) -> str | None:
        return self._registered(application).damage(output)

    def report(self, application: ApplicationID | None) -> tuple[DataSetReport, ...]:
        with self._lock:
            asked = [
                partitions
                for id, partitions in self._applications.items()
                if self._connections.is_registered(id)
                and application in (None, id)
                and not partitions.holder.is_taken_over()
            ]
            if application is not None and not asked:
                raise UnknownApplicationError(application.hex)
        return tuple(
            self._reported(partitions, output, with_holding=application is not None)
            for partitions in sorted(asked, key=lambda each: each.application)
            for output in sorted(
                partitions.tracker.all(OutputState.PROMOTED), key=attrgetter("output_id")
            )
        )

    def promoted(self, application: ApplicationID, output: OutputID) -> Output:
        """An output that can be read.

        Raises:
            UnknownApplicationError: when the application is not registered.
            UnknownDataSetError: when no such output has been promoted, or it has been released.
        """
        found = self._registered(application).promoted(output)
        if found is None:
            raise UnknownDataSetError(output.name, "a promoted output that is not released")
        return found

    def promoted_outputs(self, application: ApplicationID) -> list[Output]:
        """All outputs of an application that can be read.

        Raises:
            UnknownApplicationError: when the application is not registered.
        """
        return self._registered(application).tracker.all(OutputState.PROMOTED)

    def tick(self) -> None:
        """Lets leases lapse and removes what tasks without a job, or nobody, has left behind."""
        steps = self._handle(Tick(self._clock()))
        self._carry_out(steps)
        has_lapsed = any(isinstance(step, ReleaseClusterPartitions) for step in steps)
        if not self._sweeping.acquire(blocking=False):
            return
        try:
            with self._lock:
                known = list(self._applications.values())
            for partitions in known:
                for output in partitions.tracker.all(OutputState.OPEN):
                    self._sweep(partitions, output)
            self._garbage.sweep(known)
            self.sweep_recoverable(0.0 if has_lapsed else self._grace_seconds)
        finally:
            self._sweeping.release()

    def sweep_recoverable(self, every_seconds: float = GRACE_SECONDS) -> None:
        """Removes what was kept for jobs whose leases have lapsed while nobody served them.

        Args:
            every_seconds: does nothing when that was done less than so long ago.
        """
        with self._lock:
            known = set(self._applications)
        self._starts.sweep(known, every_seconds)

    def close(self) -> None:
        """Releases everything of every application, as an environment that ends wants it."""
        with self._lock:
            applications = set(self._applications) - {CATALOG_APPLICATION}
        for application in applications:
            self.unregister_application(application)
        with self._lock:
            left = list(self._applications.values())
            self._applications.clear()
        for partitions in left:
            if partitions.application == CATALOG_APPLICATION:
                partitions.holder.leave()
            else:
                partitions.holder.close()

    def leave(self) -> None:
        """Ends without releasing anything, so that a later start finds it."""
        with self._lock:
            left = list(self._applications.values())
            self._applications.clear()
        for partitions in left:
            partitions.holder.leave()

    def _root_of(self, application: ApplicationID) -> str:
        if self._read_root is not None:
            return self._read_root(application)
        return f"file:{self._applications[application].holder.path() / DATASETS}"

    def _reported(
        self, partitions: ApplicationPartitions, output: Output, *, with_holding: bool
    ) -> DataSetReport:
        manifest = output.manifest
        assert manifest is not None
        holding = None
        if with_holding and isinstance(partitions, HeldPartitions):
            result = partitions.result(output)
            holding = CatalogHolding(output.catalog, manifest.dataset, result)
        return DataSetReport(
            application=partitions.application,
            output=output.output_id,
            computes=manifest.dataset.computes,
            created=manifest.created,
            partitions=manifest.partitions,
            number_of_partitions=output.number_of_partitions,
            hits=output.hits,
            executor_id=self._description.executor_id,
            host=self._description.host,
            directory=str(output.directory),
            holding=holding,
            ambiguous=manifest.dataset.ambiguous,
        )

    def _hold(self, directory: ApplicationDirectory) -> None:
        """Takes over what is held for the catalog: no lease of it lapses."""
        partitions = HeldPartitions(ApplicationHolder(CATALOG_APPLICATION, directory))
        partitions.adopt()
        held = partitions.tracker.all()
        if not held and not self._holds_for_catalog:
            partitions.holder.close()
            return
        if not self._holds_for_catalog:
            logger.warning(
                "%d results are held for a catalog, and stay: there is none to ask. Give its "
                "--catalog-url",
                len(held),
            )
        with self._lock:
            adopted = ApplicationAdopted(CATALOG_APPLICATION, math.inf, self._clock())
            self._connections.handle(adopted)
            self._applications[CATALOG_APPLICATION] = partitions

    def _held_partitions(self) -> HeldPartitions | None:
        with self._lock:
            found = self._applications.get(CATALOG_APPLICATION)
        return found if isinstance(found, HeldPartitions) else None

    def _registered(self, application: ApplicationID) -> ApplicationPartitions:
        with self._lock:
            self._connections.require_application(application)
            partitions = self._applications[application]
            if not partitions.holder.is_taken_over():
                return partitions
            # By another process, which shares the directory.
            self._forget(application)
        raise UnknownApplicationError(application.hex)

    def _published(
        self, application: ApplicationID, partitions: Sequence[ResultPartitionID]
    ) -> list[PublishedPartition]:
        try:
            return self._registered(application).published(partitions)
        except UnknownApplicationError as error:
            # Who asks is registered, and would take it for a word about itself.
            raise UnknownDataSetError(
                partitions[0].output.name,
                f"one of a registered application, and {application.hex} is not registered",
            ) from error

    def _start(self, application: ApplicationID) -> RecoveryPartitions:
        partitions = self._registered(application)
        if not isinstance(partitions, RecoveryPartitions):
            raise UnknownApplicationError(application.hex)
        return partitions

    def _of_active_job(self, application: ApplicationID, job_id: JobID) -> ApplicationPartitions:
        with self._lock:
            partitions = self._registered(application)
            self._connections.require_active_job(application, job_id)
            return partitions

    def _forget(self, application: ApplicationID) -> None:
        """Lets go of an application that was taken over: nothing of it is its own any more."""
        with self._lock:
            self._applications.pop(application, None)
            steps = self._handle(ApplicationTakenOver(application))
        self._carry_out(steps)

    def _forget_earlier(self, claim: RecoveryClaim) -> None:
        with self._lock:
            earlier = [
                application
                for application, partitions in self._applications.items()
                if partitions.holder.is_before(claim)
            ]
        for application in earlier:
            self._forget(application)

    def _act(self, event: ConnectionEvent) -> None:
        self._carry_out(self._handle(event))

    def _handle(self, event: ConnectionEvent) -> list[Instruction]:
        """Takes an event in and does at once what must not be overtaken; returns the rest."""
        with self._lock:
            if isinstance(event, PartitionsChanged) and event.job_id not in self._jobs:
                return []
            steps = self._connections.handle(event)
            if isinstance(event, JobRegistered):
                self._jobs[event.job_id] = self._applications[event.application]
            rest: list[Instruction] = []
            for step in steps:
                match step:
                    case MarkJobActive(job_id):
                        self._jobs[job_id].tracker.mark_job_active(job_id)
                    case MarkJobInactive(job_id):
                        self._jobs[job_id].tracker.mark_job_inactive(job_id)
                    case _:
                        rest.append(step)
            return rest

    def _carry_out(self, steps: Sequence[Instruction]) -> None:
        for step in steps:
            match step:
                case MarkJobActive() | MarkJobInactive():
                    continue
                case CancelTasks(job_id, outputs):
                    # Spark's tasks are Spark's to cancel: what they still leave is swept up.
                    logger.debug("job %s has ended with %d open outputs", job_id, len(outputs))
                case ReleaseFinishedPartitions(job_id):
                    with self._lock:
                        partitions = self._jobs.get(job_id)
                    if partitions is not None:
                        partitions.release_finished_of(job_id)
                        self._partitions_changed(job_id)
                case ReleaseClusterPartitions(application):
                    with self._lock:
                        partitions = self._applications.get(application)
                    if partitions is not None:
                        partitions.release_promoted()
                        self._end_if_over(partitions)
                case EndConnection(job_id):
                    with self._lock:
                        partitions = self._jobs.pop(job_id, None)
                    if partitions is not None:
                        self._end_if_over(partitions)
                case _:
                    assert_never(step)

    def _partitions_changed(self, job_id: JobID) -> None:
        with self._lock:
            partitions = self._jobs.get(job_id)
            if partitions is None or not self._connections.is_connected(job_id):
                return
            held = partitions.tracker.is_tracking_partitions_for(job_id)
            steps = self._handle(PartitionsChanged(job_id, held))
        self._carry_out(steps)

    def _close_slot(
        self, partitions: ApplicationPartitions, job_id: JobID, output: OutputID
    ) -> None:
        # What it holds is told first, or a job that has ended would be let go with its partitions.
        self._partitions_changed(job_id)
        with self._lock:
            if output not in self._connections.slots(job_id):
                return
            steps = self._handle(SlotClosed(partitions.application, job_id, output))
        self._carry_out(steps)

    def _give_up(self, partitions: ApplicationPartitions, output: Output) -> None:
        partitions.fail(output.job_id, output.output_id)
        self._close_slot(partitions, output.job_id, output.output_id)

    def _sweep(self, partitions: ApplicationPartitions, output: Output) -> None:
        if partitions.tracker.is_job_active(output.job_id):
            return
        partitions.sweep_output(output)
        if self._garbage.is_forsaken(output.directory):
            self._give_up(partitions, output)

    def _end_if_over(self, partitions: ApplicationPartitions) -> None:
        """Lets go of an application that is lost once none of its tasks can write any more."""
        application = partitions.application
        with self._lock:
            if (
                self._connections.is_registered(application)
                or self._connections.jobs(application)
                or self._applications.get(application) is not partitions
            ):
                return
            del self._applications[application]
            # Everything in it has been released, so this is quick; a new one may take its name.
            partitions.holder.close()


def _refuse_the_catalog(call: str, application: ApplicationID) -> None:
    """A program that mistook the catalog for itself would give up what others have kept."""
    if application == CATALOG_APPLICATION:
        raise MalformedRequestError(call, f"application {application.hex} is the catalog")


def _refuse_bad_registration(
    call: str, application: ApplicationID, lease_seconds: float, version: str
) -> None:
    if version != __version__:
        raise VersionMismatchError(f"application {application.hex}", version, __version__)
    if math.isnan(lease_seconds) or lease_seconds <= 0:
        raise MalformedRequestError(
            call, f"expected a lease of more than 0 seconds, got {lease_seconds}"
        )
