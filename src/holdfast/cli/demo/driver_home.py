"""Where a driver of the third act has its files."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class DriverHome:
    """The folder of one job, the same for each start of it.

    Attributes:
        path: the folder.
    """

    path: Path

    @property
    def rows(self) -> Path:
        """What the job writes."""
        return self.path / "rows"

    @property
    def jobs(self) -> Path:
        """`high-availability.storageDir`."""
        return self.path / "jobs"

    @property
    def kept(self) -> Path:
        """`intermediate-result-storage.directory`."""
        return self.path / "kept"

    @property
    def temporary(self) -> Path:
        """What a driver that is killed can't remove."""
        return self.path / "temporary"

    @property
    def report(self) -> Path:
        """What the driver tells when its job has ended, a `DriverReport`."""
        return self.path / "report.json"

    @property
    def log(self) -> Path:
        """What the driver and its JVM write to their standard output and error."""
        return self.path / "driver.log"
