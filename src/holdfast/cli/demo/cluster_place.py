"""The place of `holdfast demo --cluster`: a Spark cluster with task executors, for the session."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from holdfast.cli.amounts import count
from holdfast.cli.demo.errors import BadDemoInputError, DemoError
from holdfast.cli.demo.place import Place
from holdfast.cli.demo.spark_session import cluster_memory_mib, demo_session
from holdfast.cli.local_cluster.errors import LocalClusterError, NamespacesUnavailableError
from holdfast.cli.local_cluster.local_cluster import LocalCluster
from holdfast.cli.local_cluster.namespaces import unshare_command

_WORKERS = 2
_PARTITIONS_PER_NODE = 4
_SECONDS_TO_COME_UP = 120
# Short, so that a task executor that is started again is soon found.
_HEARTBEATS = {"heartbeat.interval": "1 s", "heartbeat.timeout": "60 s"}
_LOGS = frozenset(("logs", "work"))


def refuse_without_namespaces(output: Path) -> None:
    """Raises DemoError where nodes can't be given files of their own.

    Args:
        output: the demo's folder.
    """
    try:
        unshare_command(output)
    except NamespacesUnavailableError as error:
        raise DemoError(f"--cluster is not supported here: {error}") from error


@contextmanager
def on_cluster(output: Path, log: Path) -> Iterator[Place]:
    """A cluster of this machine, and a session on it; all of it ends with the block.

    Args:
        output: the demo's folder. The cluster's logs stay in it where something failed.
        log: the file that takes what the driver's JVM writes to its standard error.

    Raises:
        DemoError: when the cluster or Spark doesn't start.
    """
    home = Path(tempfile.mkdtemp(prefix="cluster-", dir=output))
    kept_of_home: frozenset[str] = frozenset()
    try:
        with _started(home, log) as place:
            yield place
    except BadDemoInputError:
        raise
    except LocalClusterError as error:
        kept_of_home = _LOGS
        raise DemoError(f"the cluster failed to start: {error}") from error
    except DemoError:
        kept_of_home = _LOGS
        raise
    finally:
        _remove(home, kept_of_home)


@contextmanager
def _started(home: Path, log: Path) -> Iterator[Place]:
    memory = f"{cluster_memory_mib(_WORKERS)}m"
    cores = max(1, (os.cpu_count() or 1) // _WORKERS)
    settings = {
        "spark.app.name": "holdfast demo",
        "spark.driver.memory": memory,
        "spark.log.level": "ERROR",
        # Small data would all stay on the node that the first task happened to run on.
        "spark.shuffle.reduceLocality.enabled": "false",
    }
    with (
        LocalCluster(
            home, workers=_WORKERS, memory=memory, cores=cores, seconds=_SECONDS_TO_COME_UP
        ) as cluster,
        demo_session(log, lambda: cluster.session(settings)) as spark,
    ):
        hosts = " and ".join(node.host for node in cluster.workers)
        yield Place(
            spark,
            {
                "taskexecutor.addresses": ",".join(cluster.task_executor_addresses),
                "taskexecutor.token-file": str(cluster.token_file),
                **_HEARTBEATS,
            },
            f"Cluster  a worker and a task executor each on {hosts}; {count(cores, 'core')} and "
            f"{memory[:-1]} MiB each for Spark {spark.version}",
            f"{log}, {home / 'logs'} and {home / 'work'}",
            cluster,
            _WORKERS * _PARTITIONS_PER_NODE,
        )


def _remove(home: Path, but: frozenset[str]) -> None:
    for entry in list(home.iterdir()):
        if entry.name in but:
            continue
        if entry.is_dir() and not entry.is_symlink():
            shutil.rmtree(entry, ignore_errors=True)
        else:
            entry.unlink(missing_ok=True)
    if not but:
        shutil.rmtree(home, ignore_errors=True)
