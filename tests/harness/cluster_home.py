"""The directory of a local cluster: what lies where in it."""

from __future__ import annotations

import os
import secrets
import shutil
from pathlib import Path

_SECRET_BYTES = 32
_KEPT, _SPARK = "kept", "spark"


class ClusterHome:
    """Lays out a directory for a cluster.

    ```text
    HOME/node        the path that is another directory on each node; here, the driver's own
    HOME/node/kept   what the task executor of the node keeps
    HOME/node/spark  what Spark's executors on the node write
    HOME/nodes/w1    what the first worker's node sees as HOME/node
    HOME/work/w1     Spark's files of the first worker and its executors, their logs among them
    HOME/logs        a log for each process that the cluster starts
    HOME/conf        Spark's configuration directory for the cluster and its drivers
    HOME/token       the secret that the task executors share with their callers
    HOME/tmp         temporary files
    ```
    """

    def __init__(self, root: Path) -> None:
        self.root = root.expanduser().absolute()
        self.node = self.root / "node"
        # One mount for both: the task executor's files may be links to Spark's.
        self.kept = self.node / _KEPT
        self.spark = self.node / _SPARK
        self.logs = self.root / "logs"
        self.conf = self.root / "conf"
        self.tmp = self.root / "tmp"
        self.token = self.root / "token"

    def node_of(self, number: int) -> Path:
        """What the node with this number, from 1, sees as `node`."""
        return self.root / "nodes" / f"w{number}"

    def kept_of(self, number: int) -> Path:
        """What the node with this number, from 1, sees as `kept`."""
        return self.node_of(number) / _KEPT

    def work_of(self, number: int) -> Path:
        """Where the Spark worker with this number has its files."""
        return self.root / "work" / f"w{number}"

    def log_of(self, process: str) -> Path:
        """The log of a process."""
        return self.logs / f"{process}.log"

    def make(self, workers: int) -> None:
        """Makes what isn't there, with fresh secrets."""
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        nodes = range(1, workers + 1)
        for directory in (
            *(self.kept, self.spark, self.logs, self.conf, self.tmp),
            *(self.node_of(number) / each for number in nodes for each in (_KEPT, _SPARK)),
            *map(self.work_of, nodes),
        ):
            directory.mkdir(parents=True, exist_ok=True)
        _write_secretly(self.token, f"{secrets.token_hex(_SECRET_BYTES)}\n")
        # Who may talk to a master may run programs as its owner, also on loopback.
        _write_secretly(
            self.conf / "spark-defaults.conf",
            "spark.master.rest.enabled false\n"  # it asks for no secret, and has a fixed port
            "spark.authenticate true\n"
            f"spark.authenticate.secret {secrets.token_hex(_SECRET_BYTES)}\n",
        )

    def empty_kept_of(self, number: int) -> None:
        """Removes what a node keeps; the directory itself stays, as it may be mounted."""
        for entry in self.kept_of(number).iterdir():
            if entry.is_dir() and not entry.is_symlink():
                shutil.rmtree(entry)
            else:
                entry.unlink()


def _write_secretly(path: Path, text: str) -> None:
    path.unlink(missing_ok=True)
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(text)
