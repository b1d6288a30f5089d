"""How long imports take, and attaching a session, each in a new process."""

from __future__ import annotations

import statistics
import subprocess
import sys

from benchmarks.figure import Figure

_IMPORT = "import time; t = time.perf_counter(); import {}; print(time.perf_counter() - t)"
_ATTACH = """
import time
from pyspark.sql import SparkSession
spark = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false").getOrCreate()
spark.range(3).count()
t = time.perf_counter()
from holdfast import attach
imported = time.perf_counter()
attach(spark)
print(imported - t, time.perf_counter() - imported)
"""


def measure(rounds: int) -> list[Figure]:
    """Imports and attaches.

    Args:
        rounds: how many processes for each.
    """
    imports = [
        (*_run(_IMPORT.format("holdfast")), *_run(_IMPORT.format("pyspark.sql")))
        for _ in range(rounds)
    ]
    ours, spark = (statistics.median(each) for each in zip(*imports, strict=True))
    engine, attached = zip(*(_run(_ATTACH) for _ in range(rounds)), strict=True)
    return [
        Figure(
            "import holdfast / import pyspark.sql",
            tuple(one / other for one, other in imports),
            "ratio",
            1.1,
            at_least=False,
            sides=f"{ours:.3f} s / {spark:.3f} s",
        ),
        Figure("attach a session of a Spark that runs", attached, "s", 0.3, at_least=False),
        Figure("import what attach needs, once a program", engine, "s", 0.3, at_least=False),
    ]


def _run(program: str) -> list[float]:
    command = [sys.executable, "-c", program]
    ran = subprocess.run(command, capture_output=True, text=True, check=True)
    return [float(each) for each in ran.stdout.split()]
