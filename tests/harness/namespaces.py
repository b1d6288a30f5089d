"""How processes get namespaces of their own on this machine."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from tests.harness.errors import NamespacesUnavailableError

# If `unshare` itself is killed, the kernel kills its child, and so all of the namespace.
_OWN_FILES_AND_PROCESSES = (
    "unshare",
    "--mount",
    "--propagation=private",
    "--pid",
    "--fork",
    "--mount-proc",
    "--kill-child=SIGKILL",
)
_AS_ROOT_OF_A_USER_NAMESPACE = ("--user", "--map-root-user")
_PROBE_SECONDS = 10


def unshare_command(directory: Path) -> tuple[str, ...]:
    """What to put before a command so that it sees mounts and processes of its own."""
    tried = []
    for command in (
        _OWN_FILES_AND_PROCESSES,
        (*_OWN_FILES_AND_PROCESSES, *_AS_ROOT_OF_A_USER_NAMESPACE),
    ):
        refusal = _refusal(command, directory)
        if refusal is None:
            return command
        tried.append(f"`{' '.join(command)}`: {refusal}")
    raise NamespacesUnavailableError("; ".join(tried))


def _refusal(command: tuple[str, ...], directory: Path) -> str | None:
    if shutil.which(command[0]) is None:
        return f"there is no {command[0]} on the PATH"
    mount = ("mount", "--bind", str(directory), str(directory))
    try:
        # Some systems allow user namespaces, but no mount in them.
        tried = subprocess.run(
            [*command, *mount], capture_output=True, text=True, timeout=_PROBE_SECONDS
        )
    except subprocess.TimeoutExpired:
        return f"has not ended within {_PROBE_SECONDS} s"
    if tried.returncode == 0:
        return None
    return tried.stderr.strip() or f"has failed with {tried.returncode}"
