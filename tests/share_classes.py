"""Makes an archive of the classes that Spark loads, from which JVMs start in half the time.

The test suite starts dozens of them, and each would read and check the same thousands of classes.
Takes the path of the archive. Where it can't be made, the suite only takes longer.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from holdfast import Environment
from tests.short_lived_jvm import OPTIONS

_DUMPS = "_HOLDFAST_DUMPS_CLASSES"


def main() -> int:
    """Returns the exit code."""
    # It is written from another directory.
    archive = Path(sys.argv[1]).absolute()
    if _DUMPS in os.environ:
        _load_classes()
        return 0
    print("Preparing the classes of Spark for the test suite: half a minute, the first time")
    with tempfile.TemporaryDirectory(dir=archive.parent) as directory:
        made = Path(directory, archive.name)
        dumps = f"{OPTIONS} -Xlog:disable -XX:ArchiveClassesAtExit={made}"
        root = Path(__file__).parents[1]
        ended = subprocess.run(
            [sys.executable, "-m", __spec__.name, str(archive)],
            env=os.environ | {_DUMPS: "1", "SPARK_SUBMIT_OPTS": dumps, "PYTHONPATH": str(root)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            cwd=directory,
        )
        if ended.returncode == 0 and made.exists():
            made.replace(archive)
        else:
            print(f"They can't be prepared: {ended.stderr[-2000:]}", file=sys.stderr)
    return 0


def _load_classes() -> None:
    builder = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.bindAddress", "127.0.0.1")
    spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
    kept = {"intermediate-result-storage.directory": str(Path("kept").absolute())}
    with Environment(spark, kept) as env:
        spark.range(100).selectExpr("id", "id % 7 AS k", "cast(id AS string) AS v").write.parquet(
            "rows"
        )
        table = env.from_dataframe(spark.read.parquet("rows").groupBy("k").count()).cache()
        for _ in range(2):
            table.join(spark.read.parquet("rows"), "k").orderBy("v").collect()
        env.from_collection(range(10)).map(str).cache().execute_and_collect().close()
    gateway = SparkContext._gateway
    assert gateway is not None
    jvm = gateway.proc
    spark.stop()
    # The archive is written when the JVM ends, which it does when nobody can speak to it.
    jvm.stdin.close()
    if jvm.wait() != 0:
        sys.exit(f"Java ended with {jvm.returncode}")


if __name__ == "__main__":
    sys.exit(main())
