"""`python -m holdfast program.py` runs a program, as `holdfast run` does; or any other command."""

from __future__ import annotations

import sys

from holdfast.cli.main import main_of_module

if __name__ == "__main__":
    sys.exit(main_of_module(sys.argv[1:]))
