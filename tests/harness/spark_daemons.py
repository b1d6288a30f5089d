"""The command lines of Spark's own master and worker, from the jars that PySpark brings."""

from __future__ import annotations

import os
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

import pyspark

from tests.harness.cluster_home import ClusterHome
from tests.harness.errors import JavaNotFoundError
from tests.short_lived_jvm import CLASS_PATH, options

SPARK_HOME = Path(pyspark.__file__).parent

_FOREIGN_SETTINGS = ("SPARK_", "_SPARK", "PYSPARK_", "HOLDFAST_")
_SMALL_JVM = ("-Xmx512m", "-XX:-UsePerfData")


def process_environment(home: ClusterHome, host: str) -> dict[str, str]:
    """The environment of a process of the cluster: without settings for another Spark."""
    own = {key: value for key, value in os.environ.items() if not key.startswith(_FOREIGN_SETTINGS)}
    return own | {
        "PYTHONUNBUFFERED": "1",
        "SPARK_CONF_DIR": str(home.conf),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_DIRS": str(home.spark),
        "SPARK_LOCAL_IP": host,
        # Spark's scripts say so, which are not what starts it here.
        "SPARK_SCALA_VERSION": _scala_version(),
        "TMPDIR": str(home.tmp),
    }


def _scala_version() -> str:
    """The version of Scala that the jars are built for, such as `2.13`."""
    (core,) = (SPARK_HOME / "jars").glob("spark-core_*.jar")
    return core.name.removeprefix("spark-core_").partition("-")[0]


def driver_environment(home: ClusterHome, host: str) -> dict[str, str]:
    """What a driver's JVM is to find in its environment."""
    return {
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_CONF_DIR": str(home.conf),  # holds the secret that the master asks for
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": host,
    }


def find_java() -> str:
    """The Java that Spark would take."""
    java_home = os.environ.get("JAVA_HOME")
    if java_home:
        java = Path(java_home, "bin", "java")
        if not os.access(java, os.X_OK):
            raise JavaNotFoundError(f"JAVA_HOME, {java_home}")
        return str(java)
    found = shutil.which("java")
    if found is None:
        raise JavaNotFoundError("JAVA_HOME, which is not set, or on the PATH")
    return found


def temporary_files_option(home: ClusterHome) -> str:
    """The JVM option that keeps temporary files of killed JVMs within the cluster's directory."""
    return f"-Djava.io.tmpdir={home.tmp}"


def master_command(home: ClusterHome, java: str, host: str) -> tuple[str, ...]:
    """Runs a master on free ports."""
    return (
        *_jvm(home, java),
        "org.apache.spark.deploy.master.Master",
        *("--host", host, "--port", "0", "--webui-port", "0"),
    )


@dataclass(frozen=True)
class WorkerSize:
    """What a worker has to give to executors.

    Attributes:
        cores: their number.
        memory: as Spark writes it, such as `1g`.
    """

    cores: int
    memory: str


def worker_command(
    home: ClusterHome, java: str, host: str, number: int, master_url: str, size: WorkerSize
) -> tuple[str, ...]:
    """Runs a worker on free ports."""
    return (
        *_jvm(home, java),
        "org.apache.spark.deploy.worker.Worker",
        *("--host", host, "--port", "0", "--webui-port", "0"),
        *("--cores", str(size.cores), "--memory", size.memory),
        *("--work-dir", str(home.work_of(number))),
        master_url,
    )


def _jvm(home: ClusterHome, java: str) -> tuple[str, ...]:
    small = (*_SMALL_JVM, *options().split(), temporary_files_option(home))
    return java, *small, "-cp", f"{CLASS_PATH}{os.pathsep}{home.conf}"
