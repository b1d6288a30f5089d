"""What is cached, what is kept, and who is producing what at the moment.

Source: FLIP-36: the client maintains a mapping of DIGEST -> (IntermediateDataSetID, [Locations]).
"""

from __future__ import annotations

import threading
import time
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from holdfast.ids import IntermediateDataSetID
from holdfast.storage.intermediate_result_storage import IntermediateResultStorage
from holdfast.storage.kept_dataset import KeptDataSet

Q = TypeVar("Q")


@dataclass(slots=True)
class CachedComputation(Generic[Q]):
    """A computation that somebody called `cache()` on.

    Attributes:
        digest: of its canonical plan.
        query: the engine's form of it, from which it can be produced at any time.
        name: what it computes, for people.
        handles: whoever holds a CachedTable of it.
    """

    digest: str
    query: Q
    name: str
    handles: weakref.WeakSet[object] = field(default_factory=weakref.WeakSet)


@dataclass(slots=True)
class KeptEntry:
    """A kept dataset with what this application does with it.

    Attributes:
        digest: of the computation, without the settings it ran under.
        kept: where it lies.
        since: when it was published, in seconds since 1970.
        hits: how many jobs have read it.
        readers: how many jobs are reading it.
        dropped: it has been invalidated; its files go with the last reader.
    """

    digest: str
    kept: KeptDataSet
    since: float
    hits: int = 0
    readers: int = 0
    dropped: bool = False


@dataclass(slots=True)
class _Claim:
    """A dataset that somebody is producing.

    Attributes:
        digest: of the computation.
        stale: it has been invalidated since, so nobody but its producer may read it.
    """

    digest: str
    stale: bool = False


class CacheServiceManager(Generic[Q]):
    """The client's book of cached computations and kept datasets. Safe for use by several threads.

    Args:
        storage: where kept datasets lie.
    """

    def __init__(self, storage: IntermediateResultStorage) -> None:
        self._storage = storage
        self._changed = threading.Condition()
        self._cached: dict[str, CachedComputation[Q]] = {}
        self._kept: dict[IntermediateDataSetID, KeptEntry] = {}
        self._producing: dict[IntermediateDataSetID, _Claim] = {}
        self._distrusted: set[str] = set()

    # -- what is cached ---------------------------------------------------------------------------

    def register(self, computation: CachedComputation[Q], handle: object) -> None:
        """From now on jobs keep this computation. Does nothing new for one that is known.

        Does nothing for one that is distrusted.
        """
        with self._changed:
            if computation.digest in self._distrusted:
                return
            known = self._cached.setdefault(computation.digest, computation)
            known.handles.add(handle)

    def follow(self, computation: CachedComputation[Q], handle: object) -> None:
        """Registers what a handle now stands for, if it stood for another computation before."""
        with self._changed:
            held = any(handle in known.handles for known in self._cached.values())
        if held:
            self.register(computation, handle)

    def computation(self, digest: str) -> CachedComputation[Q] | None:
        """The cached computation with this digest."""
        return self._cached.get(digest)

    def computations(self) -> list[CachedComputation[Q]]:
        """Every cached computation, in the order of registration."""
        with self._changed:
            return list(self._cached.values())

    def has_computations(self) -> bool:
        """Whether anything is cached at all."""
        return bool(self._cached)

    # -- what is kept -----------------------------------------------------------------------------

    def entries(self) -> dict[IntermediateDataSetID, KeptEntry]:
        """Every kept dataset."""
        with self._changed:
            return dict(self._kept)

    def claim(self, dataset_id: IntermediateDataSetID, digest: str) -> KeptEntry | None:
        """Asks for the right to produce a dataset; waits while another job is at it.

        Args:
            dataset_id: the dataset.
            digest: of its computation.

        Returns:
            the entry, when it has been kept meanwhile; None when the caller has to produce it and
            then to `publish` or to `abandon` it. One claim a thread: waiting while holding another
            could wait for ever.
        """
        with self._changed:
            self._changed.wait_for(lambda: dataset_id not in self._producing)
            entry = self._kept.get(dataset_id)
            if entry is None:
                self._producing[dataset_id] = _Claim(digest)
            return entry

    def publish(self, dataset_id: IntermediateDataSetID, kept: KeptDataSet) -> KeptEntry:
        """A claimed dataset is there.

        Where it has been invalidated meanwhile, it is there for its producer alone.

        Returns:
            its entry, which the caller is a reader of and has to `release`.
        """
        with self._changed:
            claim = self._producing.pop(dataset_id)
            entry = KeptEntry(claim.digest, kept, time.time(), hits=1, readers=1)
            if claim.stale or claim.digest not in self._cached:
                entry.dropped = True
            else:
                self._kept[dataset_id] = entry
            self._changed.notify_all()
            return entry

    def abandon(self, dataset_id: IntermediateDataSetID) -> None:
        """A claimed dataset is not going to be there."""
        with self._changed:
            self._producing.pop(dataset_id, None)
            self._changed.notify_all()

    @contextmanager
    def reading(self) -> Iterator[ReadingLease]:
        """For as long as it lasts, the files of the datasets it is asked for stay."""
        lease = ReadingLease(self)
        try:
            yield lease
        finally:
            lease.release()

    def acquire(self, dataset_id: IntermediateDataSetID) -> KeptEntry | None:
        """Notes one more reader of a dataset; None when it isn't kept any more."""
        with self._changed:
            entry = self._kept.get(dataset_id)
            if entry is not None:
                entry.readers += 1
                entry.hits += 1
            return entry

    def release(self, entries: Iterable[KeptEntry]) -> None:
        """Notes that a reader has finished with these; files of dropped ones go with the last."""
        unused = []
        with self._changed:
            for entry in entries:
                entry.readers -= 1
                if entry.dropped and entry.readers == 0:
                    unused.append(entry.kept)
        for kept in unused:
            self._storage.remove(kept)

    # -- invalidation -----------------------------------------------------------------------------

    def drop(self, entries: Iterable[KeptEntry]) -> list[KeptEntry]:
        """Forgets these entries and removes their files, as soon as nobody reads them.

        What has been kept since in the place of one of them stays.

        Returns:
            what was forgotten, each entry once.
        """
        with self._changed:
            dropped = []
            for entry in entries:
                if not entry.dropped:
                    entry.dropped = True
                    dropped.append(entry)
            self._kept = {key: entry for key, entry in self._kept.items() if not entry.dropped}
            unused = [entry.kept for entry in dropped if entry.readers == 0]
        for kept in unused:
            self._storage.remove(kept)
        return dropped

    def invalidate(self, digest: str, closing: object | None = None) -> list[KeptEntry]:
        """Drops whatever is kept of a computation.

        It stays cached, to be kept again by the next job that needs it, as long as somebody holds
        a handle on it.

        Args:
            digest: of the computation.
            closing: a handle that its holder is done with.

        Returns:
            what was dropped.
        """
        with self._changed:
            of_digest = [entry for entry in self._kept.values() if entry.digest == digest]
            self._outdate(claim for claim in self._producing.values() if claim.digest == digest)
            computation = self._cached.get(digest)
            if computation is not None:
                if closing is not None:
                    computation.handles.discard(closing)
                if not computation.handles:
                    del self._cached[digest]
        return self.drop(of_digest)

    def distrust(self, digest: str) -> None:
        """Drops whatever is kept of a computation, which is not to be kept any more.

        Args:
            digest: of a computation of which other rows were kept than it gives.
        """
        with self._changed:
            self._distrusted.add(digest)
            self._cached.pop(digest, None)
        self.invalidate(digest)

    def invalidate_all(self) -> list[KeptEntry]:
        """Drops everything that is kept and forgets what was cached."""
        with self._changed:
            self._cached.clear()
            everything = list(self._kept.values())
            self._outdate(self._producing.values())
        return self.drop(everything)

    @staticmethod
    def _outdate(claims: Iterable[_Claim]) -> None:
        for claim in claims:
            claim.stale = True


class ReadingLease:
    """The datasets that one job reads.

    Args:
        manager: whose datasets they are.
    """

    def __init__(self, manager: CacheServiceManager[Q]) -> None:
        self._manager = manager
        self.entries: dict[IntermediateDataSetID, KeptEntry] = {}

    def acquire(self, dataset_id: IntermediateDataSetID) -> KeptEntry | None:
        """Adds a dataset to the lease; None when it isn't kept any more."""
        if dataset_id not in self.entries:
            entry = self._manager.acquire(dataset_id)
            if entry is None:
                return None
            self.entries[dataset_id] = entry
        return self.entries[dataset_id]

    def publish(self, dataset_id: IntermediateDataSetID, kept: KeptDataSet) -> KeptEntry:
        """Publishes a claimed dataset and adds it to the lease."""
        entry = self.entries[dataset_id] = self._manager.publish(dataset_id, kept)
        return entry

    def drop(self, dataset_ids: Iterable[IntermediateDataSetID]) -> None:
        """Ends the lease of datasets that turned out to be damaged; nobody gets them any more."""
        dropped = [self.entries.pop(each) for each in dataset_ids if each in self.entries]
        self._manager.drop(dropped)
        self._manager.release(dropped)

    def release(self) -> None:
        """Ends the lease. Does nothing the second time."""
        entries, self.entries = self.entries, {}
        self._manager.release(entries.values())
