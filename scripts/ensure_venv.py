"""Makes sure that the Python that runs this can make virtual environments.

Debian splits the venv module off its Python: it is installed if that is possible without asking,
or else the person is told what to install.
"""

from __future__ import annotations

import subprocess
import sys

from debian import install_first


def main() -> int:
    """Returns the exit code."""
    if _can_make_environments():
        return 0
    packages = ("python{}.{}-venv".format(*sys.version_info), "python3-venv")
    # Debian's packages help no Python but Debian's.
    if sys.base_prefix == "/usr" and install_first(
        packages, f"{sys.executable} has no venv module: installing Debian's {packages[0]}"
    ):
        return 0 if _can_make_environments() else 1
    print(
        f"{sys.executable} can't make virtual environments: its venv or ensurepip module is "
        f"missing.\n  Debian, Ubuntu:  sudo apt-get install {packages[0]}\n"
        "or name another Python: make PYTHON=/path/to/python3.11 ...",
        file=sys.stderr,
    )
    return 1


def _can_make_environments() -> bool:
    probe = [sys.executable, "-c", "import ensurepip, venv"]
    return subprocess.run(probe, capture_output=True).returncode == 0


if __name__ == "__main__":
    sys.exit(main())
