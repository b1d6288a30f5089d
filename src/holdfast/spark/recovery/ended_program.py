"""How a program ends: by itself, or with an exception of its own."""

from __future__ import annotations

import sys


def has_raised() -> bool:
    """Whether an exception is on its way through the program, or has ended it uncaught.

    >>> try:
    ...     1 / 0
    ... finally:
    ...     print(has_raised())
    Traceback (most recent call last):
    ZeroDivisionError: division by zero
    """
    # What Python has shown as uncaught is there until the process is gone.
    return sys.exc_info()[0] is not None or getattr(sys, "last_type", None) is not None
