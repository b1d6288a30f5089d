"""A catalog that costs nobody an answer: where it can't be used, its users do without."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from threading import Event, RLock, Thread
from typing import TYPE_CHECKING, TypeVar

from holdfast.errors import CatalogError, CatalogVersionError, ClaimFencedError

if TYPE_CHECKING:
    from holdfast.catalog.catalog import Catalog

T = TypeVar("T")

_PAUSE_SECONDS = 30.0
_BEATS_IN_A_LEASE = 4
_SOON_SECONDS = 0.3

logger = logging.getLogger(__name__)


class GuardedCatalog:
    """Asks a catalog; after a failure not again for a while, so that no job waits for it twice.

    A thread renews the program's lease for as long as it has been asked for anything.

    Args:
        opened: makes the catalog, when it is asked for something.
        is_there: whether there may be anything in it.
        lease_seconds: how long the program's lease is.
    """

    def __init__(
        self, opened: Callable[[], Catalog], is_there: Callable[[], bool], lease_seconds: float
    ) -> None:
        self._opened = opened
        self._is_there = is_there
        self._made: Catalog | None = None
        self._making = RLock()
        self._look_after: Callable[[Catalog], None] = lambda catalog: None
        self._tell: Callable[[Catalog], None] = lambda catalog: None
        self._has_news = Event()
        self._seconds = lease_seconds / _BEATS_IN_A_LEASE
        self._lock = RLock()
        self._paused_until = 0.0
        self._is_given_up = False
        self._stopped = Event()
        self._thread: Thread | None = None

    def on_renewal(self, look_after: Callable[[Catalog], None]) -> None:
        """What else is to be done with each renewal of the lease.

        Args:
            look_after: does it; called by the thread that renews.
        """
        self._look_after = look_after

    def on_news(self, tell: Callable[[Catalog], None]) -> None:
        """What is to be written soon after `has_news` was called.

        Args:
            tell: writes it; called by the thread that renews.
        """
        self._tell = tell

    def has_news(self) -> None:
        """There is something to be written that nobody waits for."""
        self._has_news.set()

    def ask(self, what: Callable[[Catalog], T], otherwise: T) -> T:
        """Asks the catalog for something.

        Args:
            what: asks it.
            otherwise: the answer where the catalog can't be used.

        Raises:
            ClaimFencedError: as the catalog does.
        """
        if self._is_away() or self._stopped.is_set():
            return otherwise
        try:
            self._begin()
            return what(self._catalog())
        except ClaimFencedError:
            raise
        except CatalogError as error:
            self._failed(error)
        return otherwise

    def is_there(self) -> bool:
        """Whether there may be anything in it; what isn't there isn't made for the question."""
        return self._is_there()

    def close(self) -> None:
        """The program has ended. Does nothing the second time."""
        # First, so that nothing renews the lease of a program that has left.
        self._stopped.set()
        self._has_news.set()
        with self._lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.join()
            try:
                self._catalog().programs.leave()
            except CatalogError as error:
                logger.debug("can't leave the catalog, the lease will expire: %s", error)
        if self._made is not None:
            self._made.database.close()

    def _catalog(self) -> Catalog:
        with self._making:
            if self._made is None:
                made = self._opened()
                # A finalizer may have needed it meanwhile.
                self._made = self._made or made
            return self._made

    def _is_away(self) -> bool:
        return self._is_given_up or time.monotonic() < self._paused_until

    def _failed(self, error: CatalogError) -> None:
        with self._lock:
            # Another thread may have said so in this very moment.
            if self._is_away():
                return
            if isinstance(error, CatalogVersionError):
                self._is_given_up = True
                logger.warning("results are not shared with other programs: %s", error)
            else:
                self._paused_until = time.monotonic() + _PAUSE_SECONDS
                logger.warning("results are not shared with other programs for now: %s", error)

    def _begin(self) -> None:
        with self._lock:
            if self._thread is not None or self._stopped.is_set():
                return
            self._catalog().programs.renew()
            self._start()

    def _start(self) -> None:
        # A finalizer may have begun meanwhile.
        if self._thread is None:
            self._thread = Thread(target=self._beat, name="holdfast-catalog", daemon=True)
            self._thread.start()

    def _beat(self) -> None:
        while not self._stopped.is_set():
            self.ask(self._renew, None)
            until = time.monotonic() + self._seconds
            while self._has_news.wait(max(0.0, until - time.monotonic())):
                # What comes meanwhile goes with it.
                if self._stopped.wait(_SOON_SECONDS):
                    return
                self._has_news.clear()
                self.ask(self._tell, None)

    def _renew(self, catalog: Catalog) -> None:
        catalog.programs.renew()
        self._look_after(catalog)
