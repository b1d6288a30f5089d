"""Where a start of a job keeps what its shuffles have written, and how the next one has it."""

from __future__ import annotations

from pathlib import Path

SHUFFLES = "shuffles"
"""Below a start's directory: for each shuffle a directory with what its map tasks have written."""


def gather_shuffles(earlier: Path, own: Path) -> None:
    """Moves the files of an earlier start's shuffles to those of this start.

    What both have stays as this start has it: it was moved before, or is the same.

    Args:
        earlier: the directory of a start that was taken over.
        own: the directory of the start that has taken over.

    Raises:
        OSError: when something can't be moved.
    """
    for shuffle in _listed(earlier / SHUFFLES):
        target = own / SHUFFLES / shuffle.name
        target.parent.mkdir(mode=0o700, exist_ok=True)
        if not target.exists():
            shuffle.rename(target)
            continue
        # Data come before the index that says that they are whole: "data" sorts first.
        for file in _listed(shuffle):
            if not (target / file.name).exists():
                file.rename(target / file.name)


def _listed(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
