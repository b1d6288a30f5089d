"""What an application caches: what is wanted, what is kept, and what becomes of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Generic, TypeVar

from holdfast.runtime.result_book import KeptResult, ResultBook
from holdfast.runtime.wanted import CachedComputation, Wanted

Q = TypeVar("Q")


class CacheServiceManager(Generic[Q]):
    """Invalidates what is cached. Safe for use by several threads.

    Attributes:
        wanted: which computations are to be kept.
        results: the book of what is kept.

    Args:
        book: of what is kept, told what is wanted.

    Source: FLIP-36, "CacheServiceManager".
    """

    def __init__(self, book: Callable[[Wanted[Q]], ResultBook]) -> None:
        self.wanted: Wanted[Q] = Wanted()
        self.results = book(self.wanted)

    def invalidate(
        self, digest: str, closing: object | None = None, *, everywhere: bool = False
    ) -> list[KeptResult]:
        """Drops whatever is kept of a computation.

        It stays cached, to be kept again by the next job that needs it, as long as somebody holds
        a handle on it.

        Args:
            digest: of the computation.
            closing: a handle that its holder is done with.
            everywhere: other programs are to find nothing of it either, although one is closing.

        Returns:
            what was dropped.
        """
        # In this order: what is committed from now on is not wanted, what was before is found.
        self.wanted.release(digest, closing)
        return self.results.invalidate(digest, everywhere=everywhere or closing is None)

    def uncache(self, digest: str) -> list[KeptResult]:
        """Drops what this program keeps of a computation, which is not to be kept any more.

        Args:
            digest: of the computation.

        Returns:
            what was dropped.
        """
        self.wanted.drop(digest)
        return self.results.invalidate(digest)

    def follow(self, computation: CachedComputation[Q], handle: object) -> list[KeptResult]:
        """Keeps what a handle now stands for, in the place of what it stood for before.

        Args:
            computation: which it now stands for.
            handle: of who holds a CachedTable.

        Returns:
            what was dropped.
        """
        left = self.wanted.follow(computation, handle)
        return [kept for each in left for kept in self.results.invalidate(each.digest)]

    def move(
        self, digest: str, computation: CachedComputation[Q], *, is_known: bool
    ) -> list[KeptResult]:
        """Keeps a computation in the place of what it was before its sources were written.

        Args:
            digest: of what it was before.
            computation: what it is now.
            is_known: the same digest means the same rows, also after a write.

        Returns:
            what was dropped.
        """
        self.wanted.move(digest, computation)
        is_same = is_known and digest == computation.digest
        return [] if is_same else self.results.invalidate(digest)

    def distrust(self, digest: str) -> None:
        """Drops whatever is kept of a computation, which is not to be kept any more.

        Args:
            digest: of a computation of which other rows were kept than it gives, or none that can
                be read.
        """
        self.wanted.distrust(digest)
        self.results.invalidate(digest, everywhere=True)

    def close(self) -> None:
        """Forgets what was cached; what this program alone holds goes."""
        self.wanted.clear()
        self.results.close()

    def invalidate_all(self) -> list[KeptResult]:
        """Drops everything that is kept and forgets what was cached."""
        self.wanted.clear()
        return self.results.invalidate()
