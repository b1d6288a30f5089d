"""What the batches of streams are sealed with, and whether other programs can open them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import cached_property
from threading import RLock

from holdfast.errors import StorageError
from holdfast.plan.module_origin import installed_distributions
from holdfast.streaming.sealing import SealKey

__all__ = ["StreamSealing"]

logger = logging.getLogger(__name__)


class StreamSealing:
    """The key of a program's streams, looked for when it is first needed.

    Args:
        common: gives the one that all programs of the user have on the storage directory.
        cores: by which files are dealt to tasks.
    """

    def __init__(self, common: Callable[[], SealKey], cores: int) -> None:
        self._common = common
        self._cores = cores
        self._lock = RLock()
        self._found: tuple[SealKey, str | None] | None = None

    @classmethod
    def alone(cls, key: SealKey, why: str) -> StreamSealing:
        """One by which nobody else can open anything.

        Args:
            key: the program's.
            why: there is no other one, for people.
        """
        sealing = cls(lambda: key, 0)
        sealing._found = key, why
        return sealing

    @property
    def key(self) -> SealKey:
        """The key."""
        return self._key()[0]

    @property
    def why_not_common(self) -> str | None:
        """Why other programs of the user have another key; None where they have this one."""
        return self._key()[1]

    @cached_property
    def assumed(self) -> tuple[object, ...]:
        """What programs that read each other's records have in common, beside what computes them.

        By the number of cores files are dealt to tasks; and what a pickle is of, and whether it can
        be read, depends on what is installed.
        """
        if self.why_not_common is not None:
            return ()
        return (self._cores, installed_distributions())

    def _key(self) -> tuple[SealKey, str | None]:
        with self._lock:
            if self._found is None:
                found: tuple[SealKey, str | None]
                try:
                    found = self._common(), None
                except StorageError as error:
                    logger.warning("streams are not shared with other programs: %s", error)
                    found = SealKey.new(), str(error)
                # A finalizer may have needed it meanwhile.
                self._found = self._found or found
            return self._found
