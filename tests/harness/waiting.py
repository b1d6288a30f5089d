"""Waiting for a fact."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

_SECONDS_BETWEEN_LOOKS = 0.02


def wait_for(fact: Callable[[], T | None], seconds: float) -> T | None:
    """Looks again and again until there is something to see; None when the time is up."""
    deadline = time.monotonic() + seconds
    while (seen := fact()) is None and time.monotonic() < deadline:
        time.sleep(_SECONDS_BETWEEN_LOOKS)
    return seen
