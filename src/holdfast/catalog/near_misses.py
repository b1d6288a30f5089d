"""Why a result that is much like what is asked for is not read."""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from datetime import datetime, timezone

from holdfast.catalog.cataloged_result import CatalogedResult, MadeFrom, ResultState
from holdfast.ids import IntermediateDataSetID
from holdfast.plan.file_version import FileVersion

_SHOWN = 3


@dataclass(frozen=True, slots=True)
class AskedFor:
    """A computation that is not kept, as far as that could be told.

    Attributes:
        dataset_id: what its result would be.
        digest: of the computation, without the settings it runs under.
        shape: of the computation, whatever versions its files have.
        made_from: the files and settings of now.
    """

    dataset_id: IntermediateDataSetID
    digest: str
    shape: str
    made_from: MadeFrom


def why_not(
    asked: AskedFor,
    result: CatalogedResult,
    made_from: MadeFrom,
    unreadable: Callable[[Collection[str]], str | None],
) -> str:
    """Why a result is not the one that is asked for, or can't be read.

    Args:
        asked: what is asked for.
        result: of the same computation, or of the same over other versions of its files.
        made_from: what the result was made from.
        unreadable: a file that the user may not read, if any.
    """
    moment = datetime.fromtimestamp(result.created, timezone.utc)
    kept = f"kept by {result.user} on {result.host} at {moment:%F %T} UTC"
    if result.digest != asked.digest:
        return f"{kept}, stale: {_changes(asked.made_from.files, made_from.files)}"
    if result.dataset_id != asked.dataset_id:
        return f"{kept}, under other settings: {_settings(asked.made_from, made_from)}"
    if result.state is not ResultState.KEPT:
        return f"{kept}, and gone since: {result.why_gone}"
    forbidden = unreadable([file.path for file in made_from.files])
    if forbidden is not None:
        return f"{kept}, not permitted: {forbidden} can't be read by this user"
    return f"{kept}, and can't be read from here"


def _changes(now: Collection[FileVersion], then: Collection[FileVersion]) -> str:
    before, after = ({file.path: file for file in files} for files in (then, now))
    found = {
        "changed since": [path for path, file in after.items() if before.get(path, file) != file],
        "came since": sorted(after.keys() - before.keys()),
        "went since": sorted(before.keys() - after.keys()),
    }
    texts = [f"{_some(paths)} {what}" for what, paths in found.items() if paths]
    return "; ".join(texts) or "its files were listed in another way"


def _settings(now: MadeFrom, then: MadeFrom) -> str:
    keys = now.settings.keys() | then.settings.keys()
    different = [
        f"{key} is {_shown(now.settings.get(key))} and was {_shown(then.settings.get(key))}"
        for key in sorted(keys)
        if now.settings.get(key) != then.settings.get(key)
    ]
    more = len(different) - _SHOWN
    shown = "; ".join(different[:_SHOWN]) or "another version of Spark or Holdfast"
    return f"{shown}; and {more} more" if more > 0 else shown


def _shown(value: str | None) -> str:
    return "not set" if value is None else repr(value)


def _some(paths: list[str]) -> str:
    more = len(paths) - 1
    return f"{paths[0]} and {more:,} more" if more else paths[0]
