"""Users of this machine with Spark programs on one storage directory."""

from __future__ import annotations

import grp
import json
import os
import pwd
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import SparkSession

import holdfast
from holdfast import Environment
from tests.catalog.user_program import is_open_to_others
from tests.spark.user_program import ask

BO, TEAM = pwd.getpwnam("bin"), grp.getgrnam("users").gr_gid

pytestmark = pytest.mark.skipif(
    os.getuid() != 0
    or not is_open_to_others(
        *(Path(each.__file__).resolve().parent for each in (holdfast, pyspark)),
        Path(os.environ.get("JAVA_HOME", "/")).resolve(),
    ),
    reason="only root becomes other users, who have to get to Holdfast, Spark and Java",
)


@pytest.fixture
def home() -> Iterator[Path]:
    """Where other users get to."""
    with tempfile.TemporaryDirectory() as home:
        Path(home).chmod(0o711)
        yield Path(home)


def test_what_another_user_has_kept_is_read_by_who_may_read_its_sources(
    spark: SparkSession, home: Path
) -> None:
    root, source = home / "kept", home / "rows"
    root.mkdir()
    os.chown(root, -1, TEAM)
    root.chmod(0o3770)
    spark.range(0, 1000, 1, 2).write.parquet(str(source))
    counts = spark.read.parquet(str(source)).selectExpr("id % 3 AS k").groupBy("k").count()
    plain = sorted([row.k, row["count"]] for row in counts.collect())
    config = {
        "intermediate-result-storage.directory": str(root),
        "intermediate-result-storage.sharing": "group",
    }
    with Environment(spark, config=config) as env:
        kept = ask(env, str(source))
        assert kept["rows"] == plain and "produced" in kept["job"]
    arguments = (BO.pw_name, json.dumps([TEAM]), json.dumps(config), str(source))
    with subprocess.Popen(
        [sys.executable, "-m", "tests.spark.user_program", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as program:
        assert program.stdin is not None and program.stdout is not None

        def answer() -> dict[str, Any]:
            program.stdin.write("ask\n")
            program.stdin.flush()
            found: dict[str, Any] = json.loads(program.stdout.readline())
            return found

        read = answer()
        assert read["rows"] == plain and "kept by root" in read["job"]
        # Who may not read a source gets what plain Spark gives them: an error.
        secret = next(source.glob("part-*"))
        os.chown(secret, pwd.getpwnam("daemon").pw_uid, -1)
        secret.chmod(0o600)
        refused = answer()
        assert "rows" not in refused and "Permission denied" in refused["error"]
        program.stdin.close()
        assert program.wait(60) == 0
