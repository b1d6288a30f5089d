"""Where a start of a job keeps what its shuffles have written, and how the next one has it."""

from __future__ import annotations

from pathlib import Path

SHUFFLES = "shuffles"
"""Below a start's directory: for each shuffle a directory with what its map tasks have written."""

_INDEX = ".index"


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


def kept_map_tasks(directory: Path) -> int:
    """How many map tasks have their output in a directory of shuffles; 0 where there is none.

    Args:
        directory: the directory called `SHUFFLES` of a start.

    Raises:
        OSError: when it can't be listed.
    """
    return sum(
        # A task that was run twice has left two files, whose names begin with its place.
        len({file.name.partition("-")[0] for file in _listed(shuffle) if file.suffix == _INDEX})
        for shuffle in _listed(directory)
    )


def _listed(directory: Path) -> list[Path]:
    try:
        return sorted(directory.iterdir())
    except (FileNotFoundError, NotADirectoryError):
        return []
