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
from tests.catalog.user_program import is_open_to_others

ANA, BO = (pwd.getpwnam(name) for name in ("daemon", "bin"))
TEAM = grp.getgrnam("users").gr_gid

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


def program(user: pwd.struct_passwd, root: Path, source: Path) -> dict[str, Any]:
    config = {
        "intermediate-result-storage.directory": str(root),
        "intermediate-result-storage.sharing": "group",
    }
    command = [sys.executable, "-m", "tests.spark.user_program"]
    ended = subprocess.run(
        [*command, user.pw_name, json.dumps([TEAM]), json.dumps(config), str(source)],
        input="",
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    found: dict[str, Any] = json.loads(ended.stdout)
    return found


def test_what_another_user_has_kept_is_read_by_who_may_read_its_sources(
    spark: SparkSession, home: Path
) -> None:
    root, source = home / "kept", home / "rows"
    root.mkdir()
    os.chown(root, -1, TEAM)
    root.chmod(0o3770)
    spark.range(0, 1000, 1, 2).write.parquet(str(source))
    plain = sorted(
        [row.k, row["count"]]
        for row in spark.read.parquet(str(source))
        .selectExpr("id % 3 AS k")
        .groupBy("k")
        .count()
        .collect()
    )
    kept = program(ANA, root, source)
    assert kept["rows"] == plain and "produced" in kept["told"]
    read = program(BO, root, source)
    assert read["rows"] == plain and f"kept by {ANA.pw_name}" in read["told"]
    # Whoever may not read a source gets what plain Spark gives them: an error.
    secret = next(source.glob("part-*"))
    secret.chmod(0o600)
    os.chown(secret, ANA.pw_uid, -1)
    refused = program(BO, root, source)
    assert "rows" not in refused and "Permission denied" in refused["error"]
