"""Why a local cluster doesn't come up."""

from __future__ import annotations

from pathlib import Path

from holdfast.errors import HoldfastError

_SHOWN_LOG_LINES = 12


class LocalClusterError(HoldfastError):
    """A local cluster can't be started, or has lost a part of itself."""


class NamespacesUnavailableError(LocalClusterError):
    """Nodes can't be given files of their own on this machine."""

    def __init__(self, why: str) -> None:
        super().__init__(
            "a local cluster gives each node its own mount and process namespace. That needs Linux "
            "with util-linux's `unshare`, and either root (in a container: CAP_SYS_ADMIN) or user "
            f"namespaces that are allowed to everyone. Tried: {why}"
        )
        self.why = why


class JavaNotFoundError(LocalClusterError):
    """There is no Java to run Spark with."""

    def __init__(self, where: str) -> None:
        super().__init__(
            f"no Java at {where}: Spark needs Java 17 or later. Install one, or set JAVA_HOME."
        )
        self.where = where


class ClusterProcessError(LocalClusterError):
    """A process of the cluster has not come up."""

    def __init__(self, name: str, why: str, log: Path) -> None:
        super().__init__(f"{name} {why}. The end of {log}:\n{_end_of(log)}")
        self.name = name
        self.why = why
        self.log = log


def _end_of(log: Path) -> str:
    lines = log.read_text(errors="replace").splitlines() if log.exists() else []
    return "\n".join(f"  {line}" for line in lines[-_SHOWN_LOG_LINES:])
