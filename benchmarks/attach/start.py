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
import holdfast
holdfast.attach(spark)
print(time.perf_counter() - t)
"""


def measure(rounds: int) -> list[Figure]:
    """Imports and attaches.

    Args:
        rounds: how many processes for each.
    """
    pairs = [
        (_run(_IMPORT.format("holdfast")), _run(_IMPORT.format("pyspark.sql")))
        for _ in range(rounds)
    ]
    attached = tuple(_run(_ATTACH) for _ in range(rounds))
    ours, spark = (statistics.median(each) for each in zip(*pairs, strict=True))
    return [
        Figure(
            "import holdfast / import pyspark.sql",
            tuple(one / other for one, other in pairs),
            "ratio",
            1.1,
            at_least=False,
            sides=f"{ours:.3f} s / {spark:.3f} s",
        ),
        Figure("import and attach, Spark runs", attached, "s", 0.3, at_least=False),
    ]


def _run(program: str) -> float:
    ran = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return float(ran.stdout.split()[-1])
