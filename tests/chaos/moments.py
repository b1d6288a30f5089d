"""When something is killed: what has to be seen first, and how long after that."""

from __future__ import annotations

import enum
import os
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.chaos.driver_process import Blow
from tests.chaos.orders import Diary
from tests.chaos.programs import COLLECTED, Job, Program


class Sight(enum.Enum):
    """What is seen from outside of a job that runs."""

    BEGUN = "the job has begun"
    VERTEX_WRITES = "a vertex has written a partition"
    VERTEX_KEPT = "a vertex's result is kept"
    LOGGED = "the job's directory has changed"
    SINK_WRITES = "the sink has written a file"
    SINK_COMMITS = "the sink's files are complete"
    SINK_COMMITTED = "the target has changed"
    ENDED = "the job has ended"


_DELAYS = {
    Sight.BEGUN: 4.0,
    Sight.VERTEX_WRITES: 0.5,
    Sight.VERTEX_KEPT: 0.4,
    Sight.LOGGED: 0.5,
    Sight.SINK_WRITES: 0.2,
    Sight.SINK_COMMITS: 0.03,
    Sight.SINK_COMMITTED: 0.05,
    Sight.ENDED: 0.1,
}
"""At most how many seconds after a sight the blow falls."""

_OF_SINKS = (Sight.SINK_WRITES, Sight.SINK_COMMITS, Sight.SINK_COMMITTED)


@dataclass(frozen=True)
class Moment:
    """When what is killed."""

    job: int
    sight: Sight
    delay: float
    blow: Blow

    def __str__(self) -> str:
        return f"job {self.job}: {self.sight.value} + {self.delay * 1000:.0f} ms, {self.blow.value}"


def random_moments(
    program: Program, count: int, chance: random.Random, blows: Sequence[Blow]
) -> tuple[Moment, ...]:
    """Moments of a program, each in the job of the one before it or in a later one."""
    jobs = sorted(chance.choices(range(len(program.jobs)), k=count))
    return tuple(moment_in(program, job, chance, blows) for job in jobs)


def moment_in(program: Program, index: int, chance: random.Random, blows: Sequence[Blow]) -> Moment:
    """A moment in a job."""
    writes = program.jobs[index].format != COLLECTED
    sights = [sight for sight in Sight if writes or sight not in _OF_SINKS]
    sight = chance.choice(sights)
    delay = chance.uniform(0, _DELAYS[sight])
    return Moment(index, sight, delay, chance.choice(blows))


@dataclass
class Scene:
    """Where the sights are seen."""

    diary: Diary
    kept: Sequence[Path]
    recorded: Path
    output: Path
    _before: frozenset[str] | None = field(default=None, init=False)

    def shows(self, sight: Sight, index: int, job: Job) -> bool:
        """Whether something is seen of a job now that was not there when it began."""
        if self.diary.has("end", index):
            return True
        if sight is Sight.ENDED or not self.diary.has("begin", index):
            return False
        look = _LOOKS.get(sight)
        if look is None:
            return True
        seen = look(self, job)
        if self._before is None:
            self._before = seen
        return bool(seen - self._before)


def _walk(root: Path) -> list[str]:
    return [os.path.join(folder, name) for folder, _, names in os.walk(root) for name in names]


def _partitions_being_written(scene: Scene, job: Job) -> frozenset[str]:
    return frozenset(
        path
        for root in scene.kept
        for path in _walk(root)
        if "/staging/" in path and os.path.basename(path).startswith("part-")
    )


def _results_kept(scene: Scene, job: Job) -> frozenset[str]:
    return frozenset(
        os.path.dirname(path)
        for root in scene.kept
        for path in _walk(root)
        if "/datasets/" in path and os.path.basename(path) == "_manifest.json"
    )


def _recorded(scene: Scene, job: Job) -> frozenset[str]:
    return frozenset(f"{path} {_size(path)}" for path in _walk(scene.recorded))


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except FileNotFoundError:
        return 0


def _stages(scene: Scene, job: Job) -> list[Path]:
    return list(scene.output.glob(f".{job.directory}.holdfast-*"))


def _written(scene: Scene, job: Job) -> frozenset[str]:
    paths = [path for stage in _stages(scene, job) for path in _walk(stage)]
    return frozenset(path for path in paths if os.path.basename(path).startswith("part-"))


def _complete(scene: Scene, job: Job) -> frozenset[str]:
    return frozenset(str(stage) for stage in _stages(scene, job) if (stage / "_SUCCESS").exists())


def _committed(scene: Scene, job: Job) -> frozenset[str]:
    return frozenset(_walk(job.path(scene.output)))


_LOOKS: dict[Sight, Callable[[Scene, Job], frozenset[str]]] = {
    Sight.VERTEX_WRITES: _partitions_being_written,
    Sight.VERTEX_KEPT: _results_kept,
    Sight.LOGGED: _recorded,
    Sight.SINK_WRITES: _written,
    Sight.SINK_COMMITS: _complete,
    Sight.SINK_COMMITTED: _committed,
}
