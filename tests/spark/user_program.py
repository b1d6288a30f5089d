"""A program with Spark of another user: asks one question over a source for each line it gets."""

from __future__ import annotations

import json
import os
import pwd
import sys
import tempfile
from pathlib import Path

from pyspark import SparkContext
from pyspark.sql import SparkSession

from holdfast import Environment
from tests.catalog.user_program import become


def main(user: str, groups: str, config: str, source: str) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        # Python itself may be in root's home: whatever is imported late is so before that is shut.
        spark = _spark()
        spark.range(10).write.parquet(f"{scratch}/rows")
        kept = {"intermediate-result-storage.directory": f"{scratch}/kept"}
        with Environment(spark, config=kept) as env:
            ask(env, f"{scratch}/rows")
        end(spark)
    become(pwd.getpwnam(user), json.loads(groups))
    os.umask(0o077)
    with tempfile.TemporaryDirectory() as home:
        os.chdir(home)
        spark = _spark()
        try:
            with Environment(spark, config=json.loads(config)) as env:
                for _ in sys.stdin:
                    print(json.dumps(ask(env, source)), flush=True)
        finally:
            end(spark)


def _spark() -> SparkSession:
    return (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.sql.warehouse.dir", str(Path.cwd() / "warehouse"))
        .getOrCreate()
    )


def ask(env: Environment, source: str) -> dict[str, object]:
    """Rows and what became of the job, or what Spark has against it."""
    # Spark itself looks into no file before it computes.
    table = env.read.schema("id long").parquet(source)
    answer = table.groupBy((table.id % 3).alias("k")).count().cache(lifetime="1 h")
    try:
        rows = sorted([row.k, row["count"]] for row in answer.where("k >= 0").collect())
    except Exception as error:
        return {"error": str(error)}
    return {"rows": rows, "job": repr(env.last_job_result)}


def end(spark: SparkSession) -> None:
    spark.stop()
    gateway = SparkContext._gateway
    assert gateway is not None
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait(timeout=60)
    SparkContext._gateway = SparkContext._jvm = None


if __name__ == "__main__":
    main(*sys.argv[1:])
