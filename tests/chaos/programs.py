"""The programs that are killed: each runs a few jobs, one after another."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from benchmarks.tpch import QUERIES, TABLES

COLLECTED = "collected"


@dataclass(frozen=True)
class Job:
    """A query, and where its rows go."""

    name: str
    format: str = COLLECTED
    mode: str = "error"
    partition_by: tuple[str, ...] = ()
    target: str = ""

    @property
    def is_stream(self) -> bool:
        """Whether a stream's program makes the rows."""
        return self.name not in QUERIES

    @property
    def directory(self) -> str:
        """The name of the directory that the rows go to."""
        return self.target or f"{self.name}-{self.format}-{self.mode}"

    def path(self, home: Path) -> Path:
        """Where the rows go."""
        return home / self.directory

    @property
    def copies_before(self) -> int:
        """How often a target holds the job's rows before the program starts.

        A target that is overwritten holds them twice, so that old and new can be distinguished.
        """
        return {"append": 1, "overwrite": 2, "error": 0}[self.mode]

    def copies_after(self, before: int) -> int:
        """How often it holds them when the job has ended."""
        return before + 1 if self.mode == "append" else 1


@dataclass(frozen=True)
class Program:
    """Jobs that one driver runs."""

    name: str
    jobs: tuple[Job, ...]

    def copies(self, directory: str) -> tuple[int, ...]:
        """How often a target holds its job's rows, before the program and after each job."""
        jobs = [job for job in self.jobs if job.directory == directory]
        copies = [jobs[0].copies_before]
        for job in jobs:
            copies.append(job.copies_after(copies[-1]))
        return tuple(copies)


def query_of(name: str) -> str:
    """The text of a query, without its `LIMIT`, so that there are more rows to lose."""
    text = QUERIES[name]
    start, limit, _ = text.rpartition(" LIMIT ")
    return start if limit else text


def tables_of(jobs: Iterable[Job]) -> tuple[str, ...]:
    """The tables that jobs read."""
    words = {
        word for job in jobs if not job.is_stream for word in re.findall(r"\w+", QUERIES[job.name])
    }
    return tuple(table for table in TABLES if table in words)


PROGRAMS = (
    Program(
        "brands",
        (
            Job("q16", "parquet", "append", ("p_size",)),
            Job("q10", "csv", "overwrite"),
        ),
    ),
    Program(
        "profits",
        (Job("q03", "orc", "error"), Job("q05"), Job("q09", "json", "append")),
    ),
    Program(
        "waiting",
        (Job("q18", "parquet", "overwrite"), Job("q21", "json", "append"), Job("q07")),
    ),
    Program(
        "twice",
        (
            Job("q13", "csv", "append"),
            Job("q13", "csv", "append"),
            Job("q11", "orc", "overwrite"),
            Job("q02", "parquet", "error"),
        ),
    ),
)
"""Programs on tables."""

STREAM_PROGRAMS = (
    Program("words", (Job("words", "text", "append"),)),
    Program("sequence", (Job("sequence", "text", "overwrite"), Job("sums"))),
)
"""Programs on streams."""

CLUSTER_PROGRAMS = (
    Program(
        "on the cluster",
        (Job("q09", "json", "append"), Job("q05"), Job("q18", "parquet", "overwrite")),
    ),
)
"""Programs for the cluster of two workers."""

SUITE = Program(
    "a kill in each job",
    (
        Job("q16", "parquet", "append", ("p_size",)),
        Job("q10", "csv", "overwrite"),
        Job("words", "text", "append"),
        Job("q05"),
    ),
)
"""The test suite's program: one with each kind of job, as each start of a driver costs seconds.

What is collected comes last: each start computes it again.
"""
SUITE_CLUSTER = Program(
    "a kill in each job on the cluster",
    (Job("q09", "json", "append"),),
)
"""The test suite's program for the cluster."""
