"""How the suite's JVMs are started. They live for seconds: starting is what they mostly do."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Mapping
from pathlib import Path

import pyspark
from pyspark.sql import SparkSession

# Compiling hot code a second time, for speed, takes longer here than it saves.
# Frames of code that is compiled once are larger, and Spark walks expressions by recursion.
OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xss4m"
# A few rows are not to have 64 MB cleared for them, and then moved by the garbage collector.
_SMALL_PAGES = "-Dspark.buffer.pageSize=1m"
# What `python -m tests.share_classes` makes.
SHARED_CLASSES = Path(sys.prefix, "spark-classes.jsa")
_JARS = Path(pyspark.__file__).with_name("jars")
# As Spark's launcher has them.
CLASS_PATH = os.pathsep.join(map(str, (*_JARS.glob("slf4j-api-*.jar"), _JARS / "*")))
# The launcher has a cluster's directory of settings before them, and then the archive doesn't fit.
JARS_FIRST = {
    "spark.driver.extraClassPath": CLASS_PATH,
    "spark.executor.extraClassPath": CLASS_PATH,
}
# To compile code for a few rows takes longer than to do without. Files are still read in batches.
NO_CODEGEN = {"spark.sql.codegen.factoryMode": "NO_CODEGEN"}
# Some files do as users do.
COMPILED = {"spark.sql.codegen.factoryMode": "FALLBACK"}
# A task of a shuffle writes a file for each of its partitions, of which there are 200 by default.
# Nobody looks at the pages that a driver would serve.
OF_PROGRAMS = NO_CODEGEN | {"spark.sql.shuffle.partitions": "4", "spark.ui.enabled": "false"}


def options() -> str:
    """The options of a JVM that begins with Spark's jars: with the archive, where there is one."""
    if not SHARED_CLASSES.exists():
        return OPTIONS
    # Another Java or another Spark does without, and is not to talk of it.
    return f"{OPTIONS} -Xlog:disable -XX:SharedArchiveFile={SHARED_CLASSES}"


def start_them_fast() -> None:
    """Has JVMs that this process and its children start get the options, unless it has its own."""
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", OPTIONS)
    os.environ.setdefault("SPARK_SUBMIT_OPTS", f"{options()} {_SMALL_PAGES}")


def local_session(name: str, home: Path) -> SparkSession.Builder:
    """What builds a session on two cores that leaves nothing but below a directory.

    Args:
        name: of its application.
        home: the directory.
    """
    os.environ["PYSPARK_PYTHON"] = sys.executable
    return (
        SparkSession.builder.master("local[2]")
        .appName(name)
        .config("spark.driver.memory", "2g")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        # Looking up the call site of every column takes longer than most tests.
        .config("spark.python.sql.dataFrameDebugging.enabled", "false")
        # New sessions take this over as well, as they do what is set like this only.
        .config(map=NO_CODEGEN)
        .config("spark.sql.warehouse.dir", str(home / "warehouse"))
        .config("spark.local.dir", str(home / "local"))
    )


def environment_of_program() -> dict[str, str]:
    """What a program finds in its environment that makes a session of its own."""
    return _submitted(OF_PROGRAMS)


def _submitted(settings: Mapping[str, str]) -> dict[str, str]:
    words = [word for pair in settings.items() for word in ("--conf", "=".join(pair))]
    return {"PYSPARK_SUBMIT_ARGS": shlex.join((*words, "pyspark-shell"))}
