"""The programs on streams that are killed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from holdfast import DataStream, Environment, FileSink, NumberSequenceSource
from tests.chaos.data import LINES
from tests.chaos.programs import Job

_NUMBERS = 200_000
_KEYS = 97


def stream_of(env: Environment, data: Path, name: str) -> DataStream:
    """The stream of a job."""
    if name == "words":
        words = env.read_text_file(str(data / LINES)).flat_map(str.split)
        counted = words.map(lambda word: (word, 1)).key_by(lambda pair: pair[0]).sum(1)
        return counted.map(lambda pair: f"{pair[0]} {pair[1]}")
    numbers = env.from_source(NumberSequenceSource(1, _NUMBERS)).map(lambda n: (n % _KEYS, n))
    if name == "sequence":
        return numbers.filter(lambda pair: pair[0] % 5 == 0).map(lambda pair: f"{pair[1]}")
    return numbers.key_by(lambda pair: pair[0]).reduce(lambda a, b: (a[0], a[1] + b[1]))


def write(env: Environment, data: Path, job: Job, path: Path) -> None:
    """Runs a stream's job, which writes files."""
    stream_of(env, data, job.name).sink_to(FileSink(str(path), mode=job.mode))  # type: ignore[arg-type]
    env.execute(job.name)


def collect(env: Environment, data: Path, job: Job) -> list[Any]:
    """Runs a stream's job, whose records come here."""
    with stream_of(env, data, job.name).execute_and_collect() as records:
        return list(records)
