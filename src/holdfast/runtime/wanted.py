"""Which computations are to be kept, and by whose wish."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from holdfast.plan.reasons import Reason

Q = TypeVar("Q")


@dataclass(slots=True)
class CachedComputation(Generic[Q]):
    """A computation that somebody called `cache()` on.

    Attributes:
        digest: of its canonical plan.
        query: the engine's form of it, from which it can be produced at any time.
        name: what it computes, for people.
        lifetime: how long its result stays after its last use, in seconds; None: as long as the
            program runs.
        tells_layout: its digest says how rows are partitioned among tasks, where they depend on
            that.
        is_deferred: jobs whose answer somebody waits for read what is kept of it, and keep nothing.
        is_unasked: nobody called it: its result makes room for others that are worth more.
        why_not: why the last job that should have kept it has not.
        handles: whoever holds a CachedTable of it.
    """

    digest: str
    query: Q
    name: str
    lifetime: float | None = None
    tells_layout: bool = False
    is_deferred: bool = False
    is_unasked: bool = False
    why_not: Reason | None = None
    handles: weakref.WeakSet[object] = field(default_factory=weakref.WeakSet)


class Wanted(Generic[Q]):
    """The computations that jobs keep. Safe for use by several threads.

    Attributes:
        registrations: how many there have been; another one may be a part of any plan.

    Source: FLIP-36: `cache()` says what is to be kept; the next job that needs it keeps it.
    """

    def __init__(self) -> None:
        self.registrations = 0
        self._lock = threading.RLock()
        self._computations: dict[str, CachedComputation[Q]] = {}
        self._distrusted: set[str] = set()
        self._unasked: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._computations)

    def register(self, computation: CachedComputation[Q], handle: object) -> None:
        """From now on jobs keep this computation. Does nothing new for one that is known.

        Does nothing for one that is distrusted.
        """
        with self._lock:
            self._register(computation, (handle,))

    def _register(self, computation: CachedComputation[Q], handles: Iterable[object]) -> None:
        if computation.digest in self._distrusted:
            return
        self.registrations += computation.digest not in self._computations
        known = self._computations.setdefault(computation.digest, computation)
        known.handles.update(handles)
        # It stays for as long as it is wanted for at most.
        known.lifetime = longer(known.lifetime, computation.lifetime)
        known.is_deferred &= computation.is_deferred
        known.is_unasked &= computation.is_unasked
        if known.is_unasked:
            self._unasked.add(known.digest)
        else:
            self._unasked.discard(known.digest)

    def held_by(self, handle: object) -> list[CachedComputation[Q]]:
        """The computations that somebody holds this handle on."""
        return [known for known in self.all() if handle in known.handles]

    def follow(
        self, computation: CachedComputation[Q], handle: object
    ) -> list[CachedComputation[Q]]:
        """Registers what a handle now stands for, if it stood for another computation before.

        Args:
            computation: which it now stands for.
            handle: nobody's, or of one who holds a CachedTable.

        Returns:
            what it stood for before and is kept no longer, as nobody else holds a handle on it.
        """
        held = [each for each in self.held_by(handle) if each.digest != computation.digest]
        if not held:
            return []
        computation.name, computation.lifetime = held[-1].name, held[-1].lifetime
        self.register(computation, handle)
        for known in held:
            self.release(known.digest, handle)
        return [known for known in held if not known.handles]

    def move(self, digest: str, computation: CachedComputation[Q]) -> None:
        """Registers what everybody now stands for who held a handle on another computation.

        Args:
            digest: of what it was before; it is kept no longer, if it is another one.
            computation: which it now is.
        """
        with self._lock:
            known = self._computations.pop(digest, None)
            self._register(computation, () if known is None else known.handles)

    def find(self, digest: str) -> CachedComputation[Q] | None:
        """The computation with this digest, if it is to be kept."""
        return self._computations.get(digest)

    def is_asked(self, digest: str) -> bool:
        """Whether somebody here has asked for a computation to be kept, and still does."""
        computation = self._computations.get(digest)
        return computation is not None and not computation.is_unasked

    def is_unasked(self, digest: str) -> bool:
        """Whether nobody has ever asked for a computation to be kept that is, or was, kept."""
        return digest in self._unasked

    def all(self) -> list[CachedComputation[Q]]:
        """Every computation that is to be kept, in the order of registration."""
        with self._lock:
            return list(self._computations.values())

    def release(self, digest: str, closing: object | None = None) -> None:
        """A computation is kept no longer, if nobody holds a handle on it any more.

        Args:
            digest: of the computation.
            closing: a handle that its holder is done with.
        """
        with self._lock:
            computation = self._computations.get(digest)
            if computation is not None:
                if closing is not None:
                    computation.handles.discard(closing)
                if not computation.handles:
                    del self._computations[digest]

    def drop(self, digest: str) -> None:
        """A computation is kept no longer, whoever holds a handle on it.

        Args:
            digest: of the computation.
        """
        with self._lock:
            self._computations.pop(digest, None)

    def distrust(self, digest: str) -> None:
        """A computation is not kept any more, whoever asks for it.

        Args:
            digest: of a computation of which other rows were kept than it gives.
        """
        with self._lock:
            self._distrusted.add(digest)
            self._computations.pop(digest, None)

    def clear(self) -> None:
        """No computation is to be kept any more."""
        with self._lock:
            self._computations.clear()


def longer(one: float | None, other: float | None) -> float | None:
    """The longer one of two lifetimes, each in seconds, or None for as long as the program runs.

    >>> longer(None, 60.0), longer(3600.0, 60.0)
    (60.0, 3600.0)
    """
    return max(one, other, key=lambda each: -1.0 if each is None else each)
