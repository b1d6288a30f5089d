"""How the directories are called in which a sink prepares what it publishes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from holdfast.ids import JobID

__all__ = ["StageNames", "StageState"]

_NAME_BYTES = 120  # Of the 255 that a name may have; the rest is for what is put around it.


class StageState(Enum):
    """What a directory beside the target is, by what its name ends with."""

    WRITTEN = ""
    """Spark's tasks write into it."""
    SEALED = ".sealed"
    """It holds everything, and takes the target's place next; after that, what the target was."""
    OLD = ".old"
    """What the target was, where two directories can't be exchanged in one step."""
    FENCED = ".fenced"
    """It was sealed, and a later start has taken it out of reach."""
    GONE = ".gone"
    """It is being removed."""


@dataclass(frozen=True, slots=True)
class StageNames:
    """The hidden siblings of a target that belong to one of a job's sinks.

    They begin with a dot, so that no reader of the directory around them takes them for data.

    Args:
        target: the directory to publish.
        job_id: the job that writes it.
        ordinal: which of the job's sinks it is.

    >>> names = StageNames(Path("/data/out"), JobID("ab12" * 8), 0)
    >>> names.path(3, StageState.SEALED)
    PosixPath('/data/.out.holdfast-ab12ab12ab12-0-3.sealed')
    >>> names.epoch_of(".out.holdfast-ab12ab12ab12-0-3.sealed"), names.epoch_of("out")
    (3, None)
    """

    target: Path
    job_id: JobID
    ordinal: int

    def path(self, epoch: int, state: StageState) -> Path:
        """Where a start has its directory of a state.

        Args:
            epoch: the start's.
            state: the state.
        """
        return self.target.parent / f"{self._prefix}{epoch}{state.value}"

    def epoch_of(self, name: str) -> int | None:
        """Whose directory this is, if it is one of these.

        Args:
            name: of a sibling of the target.
        """
        if not name.startswith(self._prefix):
            return None
        states = "|".join(re.escape(state.value) for state in StageState)
        match = re.fullmatch(rf"([0-9]+)(?:{states})", name[len(self._prefix) :])
        return None if match is None else int(match[1])

    @property
    def _prefix(self) -> str:
        name = self.target.name
        while len(name.encode(errors="surrogateescape")) > _NAME_BYTES:
            name = name[:-1]
        return f".{name}.holdfast-{self.job_id}-{self.ordinal}-"
