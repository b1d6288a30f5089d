"""Spark jobs that tests count, and jobs in the middle of which tests do something."""

from __future__ import annotations

import os
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession


def spark_jobs(session: SparkSession, action: Callable[[], Any]) -> tuple[Any, int]:
    """What an action gives, and how many Spark jobs it takes."""
    answer, stages = _stages_of_jobs(session, action)
    return answer, len(stages)


def spark_tasks(session: SparkSession, action: Callable[[], Any]) -> int:
    """How many tasks the first stage of an action's last Spark job has."""
    _, stages = _stages_of_jobs(session, action)
    stage = session.sparkContext.statusTracker().getStageInfo(min(stages[-1]))
    assert stage is not None
    return stage.numTasks


def _stages_of_jobs(session: SparkSession, action: Callable[[], Any]) -> tuple[Any, list[Any]]:
    group, context = uuid.uuid4().hex, session.sparkContext
    context.setJobGroup(group, "counted")
    try:
        answer = action()
    finally:
        for key in ("spark.jobGroup.id", "spark.job.description"):
            context.setLocalProperty(key, None)
    jobs = sorted(context.statusTracker().getJobIdsForGroup(group))
    found = [context.statusTracker().getJobInfo(job) for job in jobs]
    return answer, [job.stageIds for job in found if job is not None]


class SlowJob(AbstractContextManager["SlowJob"]):
    """A function of rows that waits while a test does something.

    It waits for a reader of a pipe: one that knew of the clock, or of files, would be doubted.
    """

    def __init__(self, home: Path) -> None:
        self._started, self._listened = str(home / "started"), str(home / "listened")
        self._listeners: list[int] = []
        os.mkfifo(self._listened)

    @property
    def function(self) -> Callable[[Any], Any]:
        """Gives back what it is given."""
        started, listened = self._started, self._listened

        def waiting(value: Any) -> Any:
            open(started, "a").close()
            open(listened, "a").close()
            return value

        return waiting

    def run(self, action: Callable[[], Any], meanwhile: Callable[[], Any]) -> Any:
        """Runs an action that has the function in it; gives its answer, or its error."""
        answers: list[Any] = []

        def act() -> None:
            try:
                answers.append(action())
            except Exception as error:
                answers.append(error)

        thread = threading.Thread(target=act)
        thread.start()
        self.wait(thread)
        try:
            meanwhile()
        finally:
            self._listeners.append(os.open(self._listened, os.O_RDONLY | os.O_NONBLOCK))
            thread.join()
        return answers[0]

    def wait(self, thread: threading.Thread) -> None:
        """Waits until the function is called in a thread's job."""
        while not Path(self._started).exists():
            assert thread.is_alive()
            time.sleep(0.01)

    def expect_another(self) -> None:
        """The next `wait` is for a call that is yet to come."""
        Path(self._started).unlink()

    def __exit__(self, *_: object) -> None:
        for listener in self._listeners:
            os.close(listener)
