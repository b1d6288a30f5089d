"""Queries that have run before in a session, and what they read."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass

from holdfast.advice.kept_forms import KeptForm
from holdfast.last_used import put

_MOST = 1_000
# A repeated query that takes less of its first time reads what that has left behind.
_STILL_COMPUTED = 0.5


class RepeatedQueries:
    """What queries of a session read the last time. Safe for use by several threads.

    A query that is asked again is run as it was before, as long as that is cheap: its shuffles may
    still be there, which those of another plan are not.

    >>> repeated = RepeatedQueries()
    >>> repeated.ran("digest", {}, 4.0)
    >>> repeated.forms_before("digest")
    {}
    >>> repeated.ran("digest", {}, 3.0)
    >>> repeated.forms_before("digest") is None
    True
    """

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._known: OrderedDict[str, _Repeated] = OrderedDict()

    def ran(self, digest: str, forms: Mapping[str, KeptForm], elapsed: float) -> None:
        """A query has run.

        Args:
            digest: of all of it, with the settings it ran under.
            forms: what it read, or kept, by keys of parts.
            elapsed: how long it took, in seconds.
        """
        with self._lock:
            before = self._known.get(digest)
            first = elapsed if before is None else before.first
            is_cheap = before is None or elapsed < first * _STILL_COMPUTED
            put(self._known, digest, _Repeated(forms, first, is_cheap), _MOST)

    def forms_before(self, digest: str) -> Mapping[str, KeptForm] | None:
        """What a query read, or kept, the last time; None where that is no reason to do it again.

        Args:
            digest: of all of it, with the settings it runs under.
        """
        with self._lock:
            before = self._known.get(digest)
        return before.forms if before is not None and before.is_cheap else None


@dataclass(frozen=True, slots=True)
class _Repeated:
    """A query that has run.

    Attributes:
        forms: what it read, or kept.
        first: how long it took the first time, in seconds.
        is_cheap: it reads what it has left behind, as far as is known.
    """

    forms: Mapping[str, KeptForm]
    first: float
    is_cheap: bool
