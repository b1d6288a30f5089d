"""Starts of jobs in a task executor's directory: how one takes over, and how they go."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Set
from dataclasses import dataclass
from pathlib import Path

from holdfast.errors import StaleEpochError, StorageError
from holdfast.ids import ApplicationID
from holdfast.taskexecutor.applications.holder import StartHolder
from holdfast.taskexecutor.applications.recovery_partitions import RecoveryPartitions
from holdfast.taskexecutor.recovery.claim_files import ClaimFiles
from holdfast.taskexecutor.recovery.recovery_claim import RecoveryClaim
from holdfast.taskexecutor.recovery.recovery_directory import (
    RecoveryDirectory,
    application_of_directory,
    remove_half_removed,
    remove_start,
    start_directories,
)

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class AdoptedStart:
    """The newest start of a job that an earlier run of this executor knew.

    Attributes:
        partitions: what it has here.
        lease_seconds: how long it lives if nothing is heard of it.
    """

    partitions: RecoveryPartitions
    lease_seconds: float


class RecoveryStarts:
    """The starts of jobs under a directory, which other processes may use at the same time.

    Args:
        root: the directory.
        claims: which starts there are.

    Source: FLIP-383: the partitions of a job outlive its job master.
    """

    def __init__(self, root: Path, claims: ClaimFiles) -> None:
        self._root = root
        self._claims = claims

    def begin(self, claim: RecoveryClaim, lease_seconds: float) -> RecoveryPartitions:
        """Makes a start the newest of its job, and gives it all that earlier ones have left.

        From its return on nothing that an earlier start does is seen here. It may be repeated.

        Args:
            claim: the start.
            lease_seconds: how long what it keeps outlives its last sign of life.

        Raises:
            StaleEpochError: when there is a newer one, or this one has ended its job.
            StorageError: when the directory can't be used.
        """
        try:
            self._claims.make(claim, lease_seconds)
            return self._assembled(claim)
        except OSError as error:
            raise StorageError(
                str(self._root), f"can't take over job {claim.job_id.hex}: {error}"
            ) from error

    def adopted(self) -> Iterator[AdoptedStart]:
        """The newest starts of all jobs that are neither over nor have lapsed.

        Raises:
            OSError: when the directory can't be read.
        """
        for claim in self._newest_claims():
            remaining = self._claims.remaining_seconds(claim)
            if remaining > 0 and not self._has_ended(claim):
                yield AdoptedStart(self._assembled(claim), remaining)

    def sweep(self, known: Set[ApplicationID], every_seconds: float) -> None:
        """Removes jobs that have lapsed and directories that no claim speaks for.

        Args:
            known: the starts that this process serves, which it lets lapse by its own clock.
            every_seconds: what has been looked for less than so long ago isn't looked for again.
        """
        if not self._claims.is_due(every_seconds):
            return
        try:
            remove_half_removed(self._root)
            # First what lies there, and then who claims it: a claim is made before a directory.
            lying = list(start_directories(self._root))
            claimed: set[ApplicationID] = set()
            for claim in self._newest_claims():
                starts = [
                    RecoveryClaim(claim.job_id, epoch).application
                    for epoch in self._claims.epochs(claim.job_id)
                    if epoch <= claim.epoch
                ]
                if known.isdisjoint(starts) and self._has_lapsed(claim):
                    for application in starts:
                        remove_start(RecoveryDirectory.of(self._root, application))
                    self._claims.forget(claim)
                elif not self._has_ended(claim):
                    claimed.update(starts)
            for path in lying:
                # Tasks of an earlier start that still write there write for nobody.
                if application_of_directory(path) not in claimed | known:
                    logger.debug("removed %s, which is not claimed by any start of a job", path)
                    remove_start(path)
        except FileNotFoundError:
            # Nobody has kept anything here yet.
            return
        except OSError as error:
            logger.warning("can't clean up %s: %s", self._root, error)

    def _newest_claims(self) -> list[RecoveryClaim]:
        newest = ((job_id, self._claims.newest(job_id)) for job_id in self._claims.jobs())
        return [RecoveryClaim(job_id, epoch) for job_id, epoch in newest if epoch]

    def _has_ended(self, claim: RecoveryClaim) -> bool:
        record = self._claims.record(claim)
        return record is not None and record.ended

    def _has_lapsed(self, claim: RecoveryClaim) -> bool:
        return self._claims.remaining_seconds(claim) <= 0

    def _assembled(self, claim: RecoveryClaim) -> RecoveryPartitions:
        directory = RecoveryDirectory(self._root, claim)
        directory.create()
        # The oldest first: what one takes from another only ever moves to a newer one.
        for epoch in self._claims.epochs(claim.job_id):
            if epoch < claim.epoch:
                directory.take_over(RecoveryClaim(claim.job_id, epoch))
        try:
            self._claims.check(claim)
        except StaleEpochError:
            directory.close()
            raise
        partitions = RecoveryPartitions(StartHolder(claim, directory, self._claims))
        partitions.adopt()
        self._claims.forget_before(claim)
        return partitions
