"""What a Python worker of Spark holds for good is not looked through for garbage."""

from __future__ import annotations

import gc
import sys

__all__ = ["settle"]

_DAEMON = "pyspark.daemon"
_is_settled = False


def settle() -> None:
    """Sets aside what is there when a worker runs its first pass, mostly modules.

    Spark's daemon looks through all objects after every task, which takes longer than many a pass.
    Does nothing in another process, or the second time.

    >>> before = gc.get_freeze_count()
    >>> settle()
    >>> gc.get_freeze_count() == before
    True
    """
    global _is_settled
    program = getattr(sys.modules["__main__"], "__spec__", None)
    # Later Pythons have set some objects aside by themselves.
    if program is not None and program.name == _DAEMON and not _is_settled:
        _is_settled = True
        gc.freeze()
