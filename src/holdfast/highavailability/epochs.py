"""Numbers that are taken once: a start of a job that has a higher one has taken over.

Each is a file of that name, which only one of several can make. The newest stay for ever, so that a
number never comes back.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from holdfast.files.durable_files import create_once

KEPT_NUMBERS = 64
"""How many of the newest numbers `take_epoch` leaves. So few names are read in one call of the
system, so that none is missed."""
_NAME = re.compile(r"[0-9]{10,19}")


def take_epoch(directory: Path, above: int = 0) -> int:
    """Takes a number that nobody has had from here. Safe for use by several processes and machines.

    Args:
        directory: where they are taken from; it is made when it isn't there, its parent is not.
        above: it has to be above this one, too.

    Returns:
        the number, above all that had been taken before this call, from one.

    Raises:
        OSError: when the disk doesn't take it.

    Source: FLIP-383 presumes Flink's leader election, whose session ids this stands for.

    >>> import tempfile
    >>> directory = Path(tempfile.mkdtemp(), "epochs")
    >>> take_epoch(directory), take_epoch(directory), newest_epoch(directory)
    (1, 2, 2)
    """
    directory.mkdir(mode=0o700, exist_ok=True)
    while True:
        number = max(newest_epoch(directory), above) + 1
        if not claim_epoch(directory, number):
            continue
        taken = taken_epochs(directory)
        if max(taken, default=number) < number + KEPT_NUMBERS:
            break
        # Whoever paused since it looked has made one again that had been taken and removed.
        epoch_file(directory, number).unlink(missing_ok=True)
    for old in taken:
        if old <= number - KEPT_NUMBERS:
            epoch_file(directory, old).unlink(missing_ok=True)
    return number


def claim_epoch(directory: Path, epoch: int) -> bool:
    """Takes this very number, from a directory that none is ever removed from.

    Args:
        directory: where it is taken from.
        epoch: the number.

    Returns:
        whether nobody had it before.

    Raises:
        FileNotFoundError: when the directory isn't there.
        OSError: when the disk doesn't take it.
    """
    return create_once(epoch_file(directory, epoch))


def forget_epochs(directory: Path, up_to: int) -> None:
    """Removes the files by which numbers were taken.

    Args:
        directory: where they were taken.
        up_to: the highest of these numbers.

    Raises:
        OSError: when they can't be removed.
    """
    for number in taken_epochs(directory):
        if number <= up_to:
            epoch_file(directory, number).unlink(missing_ok=True)


def taken_epochs(directory: Path) -> list[int]:
    """The numbers that were taken from a directory; none when it isn't there.

    Raises:
        OSError: when it can't be listed.
    """
    try:
        names = os.listdir(directory)
    except FileNotFoundError:
        return []
    return [int(name) for name in names if _NAME.fullmatch(name)]


def newest_epoch(directory: Path) -> int:
    """The highest number that was taken from a directory; 0 when none was, or it isn't there.

    Raises:
        OSError: when it can't be listed.
    """
    return max(taken_epochs(directory), default=0)


def epoch_file(directory: Path, epoch: int) -> Path:
    """The file by which a number was taken."""
    return directory / f"{epoch:010}"
