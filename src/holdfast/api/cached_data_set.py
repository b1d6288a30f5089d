"""What `Environment.list_cached()` lists."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.api.text_table import as_html, as_text
from holdfast.plan.reasons import Reason, sentences
from holdfast.plan.validity import Validity

if TYPE_CHECKING:
    from holdfast.ids import IntermediateDataSetID
    from holdfast.runtime.result_book import KeptResult
    from holdfast.runtime.wanted import CachedComputation

_NOTHING = "Nothing is cached"
_ALONE = (Validity.NODE, Validity.SESSION)
_HEADINGS = (
    "cached",
    "dataset",
    "partitions",
    "rows",
    "bytes",
    "kept at",
    "read by",
    "saved about",
)


@dataclass(frozen=True, slots=True)
class CachedDataSet:
    """A cached computation, as listed by `Environment.list_cached()`.

    Attributes:
        computes: a short description of the computation.
        digest: of its plan, 64 hexadecimal digits.
        dataset_id: the kept dataset; None if no job has needed it yet.
        partitions: how many result partitions are kept.
        rows: how many rows they hold.
        bytes: their size.
        location: their directory on this machine; None if nothing is kept, or if task executors of
            a cluster keep them.
        locations: their directories, as paths on this machine or URLs; empty if nothing is kept.
        since: when they were kept.
        hits: how many jobs have read them, the one that has produced them included.
        saved_seconds: about how much longer all but that one would have taken without.
        reasons: why it is not found everywhere, or not kept, if so: each says where it is found all
            the same, and why; its `sentence` is what is shown of it everywhere.
    """

    computes: str
    digest: str
    dataset_id: IntermediateDataSetID | None
    partitions: int
    rows: int
    bytes: int
    location: Path | None
    locations: tuple[str, ...]
    since: datetime | None
    hits: int
    saved_seconds: float
    reasons: tuple[Reason, ...] = ()

    @property
    def matches_only_itself(self) -> tuple[Reason, ...]:
        """Why no other program finds it, or not even the same query written again, if so."""
        return tuple(each for each in self.reasons if each.where in _ALONE)

    @property
    def not_kept_by_holdfast(self) -> str | None:
        """Why Spark's own cache has it, or nothing has, as after a failed attempt to keep it.

        None where Holdfast keeps it, or is going to.
        """
        found = (each.text for each in self.reasons if each.where is Validity.NOWHERE)
        return next(found, None)


class CachedDataSets(list[CachedDataSet]):
    """A list of cached computations that is shown as a table, also in a notebook.

    Example:
        >>> CachedDataSets()
        Nothing is cached
    """

    __slots__ = ()

    def __repr__(self) -> str:
        return as_text(*self._shown()) if self else _NOTHING

    def _repr_html_(self) -> str:
        return as_html(*self._shown()) if self else f"<p>{_NOTHING}</p>"

    def summary(self) -> str:
        """How much is cached, in one line.

        Source: FLIP-36, CacheServiceManager.

        Example:
            >>> CachedDataSets().summary()
            '0 cached, 0 kept: 0 bytes'
        """
        kept = [each for each in self if each.dataset_id is not None]
        size = sum(each.bytes for each in kept)
        saved = sum(each.saved_seconds for each in kept)
        shown = f", about {saved:,.1f} s saved" if saved else ""
        return f"{len(self)} cached, {len(kept)} kept: {size:,} bytes{shown}"

    def _shown(self) -> tuple[str, Sequence[str], list[tuple[str, ...]], list[str]]:
        notes = [f"{each.computes}: {said}" for each in self for said in sentences(each.reasons)]
        return self.summary(), _HEADINGS, [_cells(each) for each in self], notes


def cached_data_set(
    computation: CachedComputation[Any],
    dataset_id: IntermediateDataSetID | None,
    entry: KeptResult | None,
    reasons: tuple[Reason, ...],
) -> CachedDataSet:
    """What is listed of a computation.

    Args:
        computation: what is to be kept.
        dataset_id: of what is kept; None where nothing is.
        entry: the same in the book of results.
        reasons: why it is not found everywhere, or not kept, if so.
    """
    if entry is None:
        name, digest = computation.name, computation.digest
        return CachedDataSet(name, digest, None, 0, 0, 0, None, (), None, 0, 0.0, reasons)
    return CachedDataSet(
        computation.name,
        computation.digest,
        dataset_id,
        len(entry.kept.manifest.partitions),
        entry.kept.rows,
        entry.kept.bytes,
        _local(entry.kept.directories),
        entry.kept.directories,
        datetime.fromtimestamp(entry.since, timezone.utc),
        entry.hits,
        entry.saved_seconds,
        reasons,
    )


def _cells(listed: CachedDataSet) -> tuple[str, ...]:
    if listed.dataset_id is None or listed.since is None:
        state = "not kept yet" if listed.not_kept_by_holdfast is None else "not kept, see below"
        return (listed.computes, state, "", "", "", "", "", "")
    since = listed.since.astimezone().strftime("%Y-%m-%d %H:%M:%S")
    numbers = (f"{each:,}" for each in (listed.partitions, listed.rows, listed.bytes))
    jobs = f"{listed.hits:,} job" + ("" if listed.hits == 1 else "s")
    saved = f"{listed.saved_seconds:,.1f} s"
    return (listed.computes, str(listed.dataset_id), *numbers, since, jobs, saved)


def _local(directories: tuple[str, ...]) -> Path | None:
    return Path(directories[0]) if directories[0].startswith("/") else None
