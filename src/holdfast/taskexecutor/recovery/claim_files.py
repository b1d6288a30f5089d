"""Which starts of jobs have claimed a directory's recoverable partitions, as files in it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from holdfast.errors import StaleEpochError
from holdfast.files.durable_files import write_atomically, write_once
from holdfast.ids import JobID
from holdfast.taskexecutor.recovery.recovery_claim import EPOCH_LIMIT, RecoveryClaim

CLAIMS = "claims"
_CLAIM = re.compile(r"([0-9]{19})\.json")
_JOB = re.compile(r"[0-9a-f]{1,200}")
_LOOKED_AT = ".looked-at"
_ATTEMPTS = 5
_LEASE_OF_THE_UNREADABLE = 24 * 3600.0


class ClaimRecord(BaseModel):
    """What a claim's file says.

    Attributes:
        version: of this record's form.
        job_id: the job, in hexadecimal digits.
        epoch: the start's.
        lease_seconds: how long what is kept for it outlives the last sign of life.
        ended: the job has ended; the claim stays to refuse earlier starts that wake up.
    """

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    version: Literal[1] = 1
    job_id: str
    epoch: int = Field(ge=1, lt=EPOCH_LIMIT)
    lease_seconds: float = Field(gt=0)
    ended: bool = False


class ClaimFiles:
    """`claims/JOB/EPOCH.json` for each start. Safe for use by several processes, which no lock of
    one that is stopped holds up: a claim is made first and compared with others afterwards.

    A claim's age counts from its file's modification time, which each sign of life renews.

    Args:
        root: the directory that task executors keep partitions in.
        now: the time in seconds since 1970.
    """

    def __init__(self, root: Path, now: Callable[[], float] = time.time) -> None:
        self._root = root / CLAIMS
        self._now = now

    def make(self, claim: RecoveryClaim, lease_seconds: float) -> None:
        """Claims a job for a start; once more for the same start is no error while it hasn't ended.

        Raises:
            StaleEpochError: when a newer start has claimed it, or this very one has ended it.
            OSError: when the disk doesn't take it.
        """
        self.check(claim)
        record = ClaimRecord(
            job_id=claim.job_id.hex, epoch=claim.epoch, lease_seconds=lease_seconds
        )
        file = self._file(claim.job_id, claim.epoch)
        for attempt in range(_ATTEMPTS):
            try:
                self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
                file.parent.mkdir(mode=0o700, exist_ok=True)
                write_once(file, record.model_dump_json().encode())
                self.touch(claim)
                break
            except FileNotFoundError:
                # An expired job's directory went in this very moment.
                if attempt == _ATTEMPTS - 1:
                    raise
        try:
            # Of two that claim at the same time, each sees the other now, or made its claim later.
            self.check(claim)
        except StaleEpochError:
            if self.newest(claim.job_id) > claim.epoch:
                file.unlink(missing_ok=True)
            raise

    def check(self, claim: RecoveryClaim) -> None:
        """Sees to it that a start is still the newest of its job, and hasn't ended it.

        Raises:
            StaleEpochError: when it isn't.
            OSError: when that can't be told.
        """
        newest = self.newest(claim.job_id)
        if newest > claim.epoch or (newest == claim.epoch and self._has_ended(claim)):
            raise StaleEpochError(
                f"keeping partitions of job {claim.job_id.hex} in {self._root.parent}",
                claim.epoch,
                newest,
            )

    def epochs(self, job_id: JobID) -> list[int]:
        """The starts of a job that have claimed it and not been forgotten, oldest first.

        Raises:
            OSError: when they can't be listed.
        """
        try:
            names = os.listdir(self._root / job_id.hex)
        except (FileNotFoundError, NotADirectoryError):
            return []
        matches = (_CLAIM.fullmatch(name) for name in names)
        return sorted(int(match[1]) for match in matches if match is not None)

    def newest(self, job_id: JobID) -> int:
        """The newest start of a job; 0 when there is none.

        Raises:
            OSError: when they can't be listed.
        """
        return max(self.epochs(job_id), default=0)

    def jobs(self) -> list[JobID]:
        """The jobs that have been claimed."""
        try:
            names = os.listdir(self._root)
        except OSError:
            return []
        return [JobID(name) for name in sorted(names) if _JOB.fullmatch(name)]

    def record(self, claim: RecoveryClaim) -> ClaimRecord | None:
        """What is noted of a claim; None when that can't be read."""
        try:
            text = self._file(claim.job_id, claim.epoch).read_text(encoding="utf-8")
            return ClaimRecord.model_validate_json(text)
        except (OSError, UnicodeDecodeError, ValidationError):
            return None

    def touch(self, claim: RecoveryClaim) -> None:
        """Renews a claim: its start is alive. Nothing for one that isn't there any more."""
        now = self._now()
        with suppress(OSError):
            os.utime(self._file(claim.job_id, claim.epoch), (now, now))

    def is_due(self, seconds: float) -> bool:
        """Whether nobody has looked for what has lapsed for so long; if so, the caller does now."""
        note, now = self._root / _LOOKED_AT, self._now()
        # Without the note nobody has looked yet.
        with suppress(OSError):
            if 0 <= now - note.stat().st_mtime < seconds:
                return False
        with suppress(OSError):
            note.touch(mode=0o600)
            os.utime(note, (now, now))
        return True

    def end(self, claim: RecoveryClaim) -> None:
        """Notes that a job has ended. What can't be noted expires.

        Args:
            claim: of the newest start.
        """
        record = self.record(claim)
        if record is None or record.ended:
            return
        file = self._file(claim.job_id, claim.epoch)
        with suppress(OSError):
            ended = record.model_copy(update={"ended": True})
            write_atomically(file, ended.model_dump_json().encode())
            self.touch(claim)

    def forget_before(self, claim: RecoveryClaim) -> None:
        """Forgets the claims of earlier starts, once nothing of theirs is left."""
        for epoch in self.epochs(claim.job_id):
            if epoch < claim.epoch:
                self._file(claim.job_id, epoch).unlink(missing_ok=True)

    def forget(self, claim: RecoveryClaim) -> None:
        """Forgets a claim and those before it; what can't be removed stays for the next time."""
        with suppress(OSError):
            self.forget_before(claim)
            self._file(claim.job_id, claim.epoch).unlink(missing_ok=True)
            # Unless somebody has claimed it again meanwhile.
            (self._root / claim.job_id.hex).rmdir()

    def remaining_seconds(self, claim: RecoveryClaim) -> float:
        """How long a claim lives on if nothing is heard; 0 for one that isn't there."""
        record = self.record(claim)
        lease = _LEASE_OF_THE_UNREADABLE if record is None else record.lease_seconds
        try:
            touched = self._file(claim.job_id, claim.epoch).stat().st_mtime
        except OSError:
            return 0
        return touched + lease - self._now()

    def _has_ended(self, claim: RecoveryClaim) -> bool:
        record = self.record(claim)
        return record is not None and record.ended

    def _file(self, job_id: JobID, epoch: int) -> Path:
        return self._root / job_id.hex / f"{epoch:019}.json"
