"""What a driver is to do, and what it notes of it: files, as a killed process leaves them."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tests.chaos.programs import Job


@dataclass(frozen=True)
class Orders:
    """What a driver is to do."""

    jobs: tuple[Job, ...]
    data: Path
    output: Path
    diary: Path
    spark: Mapping[str, str]
    holdfast: Mapping[str, Any] | None
    slowness: float = 0.0

    def save(self, path: Path) -> None:
        """Writes the orders down."""
        path.write_text(json.dumps(asdict(self), default=str, indent=2))

    @classmethod
    def load(cls, path: Path) -> Orders:
        """Reads what `save` wrote."""
        document = json.loads(path.read_text())
        jobs = tuple(
            Job(**{**job, "partition_by": tuple(job["partition_by"])})
            for job in document.pop("jobs")
        )
        data, output, diary = (Path(document.pop(key)) for key in ("data", "output", "diary"))
        return cls(jobs, data, output, diary, **document)


class Diary:
    """Lines that a driver appends, each whole or missing, and its watcher reads."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def tell(self, event: str, **details: Any) -> None:
        """Appends a line in one write."""
        line = json.dumps({"event": event, "time": time.time(), **details})
        with self._path.open("a") as file:
            file.write(line + "\n")

    def entries(self) -> list[dict[str, Any]]:
        """What was noted so far."""
        if not self._path.exists():
            return []
        return [json.loads(line) for line in self._path.read_text().splitlines()]

    def has(self, event: str, job: int | None = None) -> bool:
        """Whether something was noted, of a job or at all."""
        return any(
            entry["event"] == event and (job is None or entry.get("job") == job)
            for entry in self.entries()
        )
