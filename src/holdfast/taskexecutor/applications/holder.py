"""For whom partitions stay on a task executor, and until when."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from holdfast.ids import ApplicationID
from holdfast.taskexecutor.applications.application_directory import ApplicationDirectory
from holdfast.taskexecutor.recovery.claim_files import ClaimFiles
from holdfast.taskexecutor.recovery.recovery_claim import RecoveryClaim
from holdfast.taskexecutor.recovery.recovery_directory import RecoveryDirectory


class Holder(Protocol):
    """Has a directory for itself. What lies in one that nobody holds is garbage.

    While the executor runs it has a lease, which lapses when nothing is heard of it; what is said
    here is for whoever comes after the executor, or shares its directory.

    Source: FLIP-36, "Step 3: Clean up"; FLIP-383, "The Whole Workflow of Job Recovery".
    """

    @property
    def application(self) -> ApplicationID:
        """What it is registered as."""

    def path(self) -> Path:
        """Its directory; an OSError when that isn't there any more and can't be made again."""

    def is_taken_over(self) -> bool:
        """Whether another one has what it had."""

    def is_before(self, claim: RecoveryClaim) -> bool:
        """Whether it is an earlier start of a job than this one."""

    def heard_of(self) -> None:
        """It has given a sign of life."""

    def ended(self) -> None:
        """It says itself that it has ended, and wants nothing kept."""

    def close(self) -> None:
        """Removes its directory with everything in it."""

    def leave(self) -> None:
        """Lets go of its directory as it is."""


class ApplicationHolder:
    """A running application: its results go with its process, or with its lease.

    Args:
        application: which one.
        directory: its own, whose lock the process that serves it holds.
    """

    def __init__(self, application: ApplicationID, directory: ApplicationDirectory) -> None:
        self.application = application
        self._directory = directory
        self.path = directory.path
        self.close = directory.close
        self.leave = directory.leave

    def is_taken_over(self) -> bool:
        """Nobody else ever has what it had."""
        return False

    def is_before(self, claim: RecoveryClaim) -> bool:
        """It is no start of a job."""
        return False

    def heard_of(self) -> None:
        """The lock on its directory says that it lives."""

    def ended(self) -> None:
        """Its directory goes, and with it the lock."""


class StartHolder:
    """A start of a job: what it has kept stays for its retention, for the job's next start.

    Args:
        claim: which start.
        directory: its own.
        claims: which starts there are.
    """

    def __init__(
        self, claim: RecoveryClaim, directory: RecoveryDirectory, claims: ClaimFiles
    ) -> None:
        self.claim = claim
        self._directory = directory
        self._claims = claims
        self.path = directory.path
        self.close = directory.close
        self.leave = directory.leave

    @property
    def application(self) -> ApplicationID:
        return self.claim.application

    def is_taken_over(self) -> bool:
        """Whether a newer start has taken its directory over, or somebody has removed it."""
        return not self._directory.exists()

    def is_before(self, claim: RecoveryClaim) -> bool:
        """Whether it is an earlier start of the same job."""
        return self.claim.job_id == claim.job_id and self.claim.epoch < claim.epoch

    def heard_of(self) -> None:
        """Renews its retention."""
        self._claims.touch(self.claim)

    def ended(self) -> None:
        """Its claim stays for a while, so that earlier starts stay refused."""
        self._claims.end(self.claim)
