"""`python -m tests.two_programs`: writes the tables of `docs/sharing.md`."""

import tempfile
from pathlib import Path

from tests.two_programs.played import played, write

if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as home:
        write(played(Path(home), ()))
