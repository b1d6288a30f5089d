"""Installs Debian's packages where that is possible without asking anybody."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence


def install_first(packages: Sequence[str], reason: str) -> bool:
    """Installs the first of some packages that can be had.

    Args:
        packages: names of packages, the most wanted first.
        reason: what to tell the person before anything is installed.

    Returns:
        Whether one was installed; False too without apt-get, or without the right to use it.
    """
    apt = shutil.which("apt-get")
    as_root = _as_root()
    if apt is None or as_root is None:
        return False
    print(reason, file=sys.stderr, flush=True)
    # sudo drops the environment, so env sets it again behind it.
    command = [*as_root, "env", "DEBIAN_FRONTEND=noninteractive", apt]
    _succeeds([*command, "update", "-q"])
    return any(
        _succeeds([*command, "install", "-y", "-q", "--no-install-recommends", package])
        for package in packages
    )


def _as_root() -> list[str] | None:
    """What to put before a command to run it as root; None where that needs a password."""
    if os.geteuid() == 0:
        return []
    sudo = shutil.which("sudo")
    if sudo is None or subprocess.run([sudo, "-n", "true"], capture_output=True).returncode:
        return None
    return [sudo, "-n"]


def _succeeds(command: list[str]) -> bool:
    # What a caller reads from stdout must stay free of apt-get's words.
    done = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=sys.stderr)
    return done.returncode == 0
