"""Makes sure of a Chromium for the tests of the page, and prints where it is.

Needs nothing but Python. Looks at HOLDFAST_CHROMIUM and at the PATH; where there is none, installs
Debian's if it may, or else says what to install. The tests of the page are left out without one.
"""

from __future__ import annotations

import os
import shutil
import sys

from debian import install_first

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
INSTRUCTIONS = """\
No Chromium was found: the tests of the page in a browser are left out. Install one, for example
  Debian:       sudo apt-get install chromium
  Fedora, RHEL: sudo dnf install chromium
or set HOLDFAST_CHROMIUM to the executable of one that is there."""


def main() -> int:
    """Prints the path of a Chromium, or nothing; returns the exit code, which is always 0."""
    found = find()
    if found is None and install_first(("chromium",), "No Chromium was found: installing Debian's"):
        found = find()
    print(INSTRUCTIONS if found is None else found, file=sys.stderr if found is None else None)
    return 0


def find() -> str | None:
    """The Chromium to use; None where none is found."""
    named = os.environ.get("HOLDFAST_CHROMIUM")
    if named:
        return named
    return next(filter(None, map(shutil.which, NAMES)), None)


if __name__ == "__main__":
    sys.exit(main())
