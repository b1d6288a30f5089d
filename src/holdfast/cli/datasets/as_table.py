"""What the commands show to people."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime, timezone

from rich.console import Console, RenderableType
from rich.table import Table
from rich.text import Text

from holdfast.catalog.audience import Audience
from holdfast.catalog.cataloged_result import CatalogedResult
from holdfast.cli.amounts import size
from holdfast.cli.datasets.dataset_source import Released
from holdfast.cli.datasets.listed_dataset import (
    Contents,
    DataSetState,
    ListedDataSet,
    PartitionsPlace,
    Sharing,
)
from holdfast.cli.datasets.short_ids import short_ids
from holdfast.cli.terminal import UNKNOWN, age, as_text, duration, plain_table, show
from holdfast.ids import CATALOG_APPLICATION, ApplicationID
from holdfast.plan.file_version import FileVersion
from holdfast.plan.reasons import sentences
from holdfast.storage.kept_dataset import KeptPartition

_APPLICATION_DIGITS = 8
_SHOWN_SOURCES = 20
_MARKS = {
    DataSetState.COMPLETE: "",
    DataSetState.INCOMPLETE: "!",
    DataSetState.DAMAGED: "!",
    DataSetState.UNCLEAR: "?",
}
_MEANING = {
    "!": "! incomplete or damaged: recomputed by the next job that needs it",
    "?": "? the missing partitions are empty, or on task executors that did not respond",
    "~": "~ one of several right answers: its rows depend on how they were distributed to tasks",
}


def show_all(
    console: Console, datasets: Sequence[ListedDataSet], now: datetime, directory: str | None
) -> None:
    """Shows a row for each dataset.

    Args:
        console: where to.
        datasets: which ones.
        now: ages are counted from here.
        directory: where all of them lie on this machine; None when they lie with executors.
    """
    ids = short_ids([dataset.output for dataset in datasets])
    table = plain_table()
    table.add_column("ID", no_wrap=True)
    table.add_column("COMPUTES", overflow="fold")
    for name in ("PARTS", "ROWS", "SIZE", "AGE", "HITS"):
        table.add_column(name, justify="right", no_wrap=True)
    if directory is None:
        table.add_column("WHERE", overflow="fold")
    is_shared = any(dataset.sharing is not None for dataset in datasets)
    if is_shared:
        for name in ("USED", "SAVED ABOUT", "STAYS"):
            table.add_column(name, justify="right", no_wrap=True)
    table.add_column("OWNER" if is_shared else "APP", no_wrap=True)
    for dataset in datasets:
        row = [
            ids[dataset.output],
            dataset.computes or UNKNOWN,
            _parts(dataset),
            _short_count(dataset.rows) + _ambiguity(dataset),
            size(dataset.bytes),
            age(dataset.created, now),
            _hits(dataset),
        ]
        if directory is None:
            row.append(", ".join(sorted({place.host for place in dataset.places})))
        application = dataset.application
        if is_shared:
            row += _sharing(dataset, now)
        else:
            row.append(UNKNOWN if application is None else _short(application))
        table.add_row(*map(as_text, row))
    show(console, table)
    marks = [mark for each in datasets for mark in (_MARKS[each.state], _ambiguity(each))]
    for mark in dict.fromkeys(marks):
        if mark:
            show(console, as_text(_MEANING[mark]))
    for dataset in datasets:
        for said in () if dataset.sharing is None else sentences(dataset.sharing.reasons):
            show(console, as_text(f"{ids[dataset.output]}: {said}"))
    if directory is not None:
        show(console, as_text(f"in {directory}"))


def show_refused(console: Console, results: Sequence[CatalogedResult], now: datetime) -> None:
    """Shows what programs have tried to keep last, and could not."""
    for each in results:
        when = age(datetime.fromtimestamp(each.created, timezone.utc), now)
        show(console, as_text(f"{each.computes} ({each.user}, {when} ago):"))
        for said in sentences(each.reasons):
            show(console, as_text(f"  {said}"))


def _short(application: ApplicationID) -> str:
    is_the_catalog_s = application == CATALOG_APPLICATION
    return "catalog" if is_the_catalog_s else application.hex[:_APPLICATION_DIGITS]


def show_one(
    console: Console, dataset: ListedDataSet, contents: Contents | None, now: datetime
) -> None:
    """Shows everything about a dataset."""
    created = dataset.created
    facts = {
        "computes": dataset.computes or "unknown",
        "state": _state(dataset),
        "partitions": f"{dataset.partitions_found} of {dataset.number_of_partitions or 'unknown'}",
        "rows": f"{dataset.rows:,}",
        **({"answer": _MEANING["~"].removeprefix("~ ")} if dataset.ambiguous else {}),
        "size": f"{size(dataset.bytes)} ({dataset.bytes:,} bytes)",
        "created": "unknown"
        if created is None
        else f"{created.isoformat()} ({age(created, now)} ago)",
        "hits": "unknown" if dataset.hits is None else f"{dataset.hits:,}",
        **_shared_facts(dataset, now),
        "Spark": (contents.spark_version if contents is not None else None) or "unknown",
        "application": "unknown" if dataset.application is None else dataset.application.hex,
    }
    show(console, as_text(dataset.output.name))
    show(console, Text())
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, fact in facts.items():
        table.add_row(name, as_text(fact))
    show(console, table)
    show(console, Text())
    show(console, _columns(contents))
    if contents is not None and contents.sources:
        show(console, Text())
        show(console, _sources(contents.sources))
    for place in dataset.places:
        show(console, Text())
        show(console, as_text(f"on {_where(place)}"))
        if place.damage is not None:
            show(console, as_text(f"! {place.damage}"))
        if place.partitions:
            show(console, _partitions(place.partitions))


def show_released(console: Console, dataset: ListedDataSet, released: Released) -> None:
    """Shows what has been released, and where."""
    show(console, as_text(f"released {dataset.output.name}"))
    table = plain_table()
    table.add_column("PARTS", justify="right", no_wrap=True)
    table.add_column("SIZE", justify="right", no_wrap=True)
    table.add_column("WHERE", overflow="fold")
    for place in released.places:
        table.add_row(
            str(len(place.partitions)),
            size(sum(partition.bytes for partition in place.partitions)),
            as_text(_where(place)),
        )
    show(console, table)
    show(console, Text("The next job that needs it recomputes it."))


def _hits(dataset: ListedDataSet) -> str:
    known = [] if dataset.hits is None else [dataset.hits]
    if dataset.sharing is not None:
        # The job that has produced it reads it, too; a program notes hits sooner than its uses.
        known.append(1 + dataset.sharing.uses)
    return str(max(known)) if known else UNKNOWN


def _sharing(dataset: ListedDataSet, now: datetime) -> list[str]:
    """When it was used, what that has saved, how long it stays, and whose it is."""
    sharing = dataset.sharing
    if sharing is None:
        return [UNKNOWN] * 4
    stays = "app" if sharing.lifetime is None else duration(sharing.lifetime)
    saved = duration(sharing.saved_seconds) if sharing.saved_seconds else "-"
    return [age(sharing.last_used, now), saved, stays, sharing.user]


def _shared_facts(dataset: ListedDataSet, now: datetime) -> dict[str, str]:
    sharing = dataset.sharing
    if sharing is None:
        return {}
    lifetime = sharing.lifetime
    cpu = "unknown" if sharing.cpu_seconds is None else f"{sharing.cpu_seconds:,.1f} s"
    return {
        "kept by": f"{sharing.user} on {sharing.host}",
        "for": _readers(sharing),
        **({"why": "\n".join(sentences(sharing.reasons))} if sharing.reasons else {}),
        "produced in": f"{sharing.seconds:,.1f} s, CPU time {cpu}",
        "stays": "as long as its program"
        if lifetime is None
        else f"{duration(lifetime)} after its last use",
        "last used": f"{sharing.last_used.isoformat()} ({age(sharing.last_used, now)} ago)",
        "uses": f"{sharing.uses:,}",
        "saved": f"about {duration(sharing.saved_seconds)}",
    }


def _readers(sharing: Sharing) -> str:
    match sharing.audience:
        case Audience.NOBODY:
            return "its program alone"
        case Audience.USER:
            return f"{sharing.user} alone"
        case Audience.GROUP:
            return f"the group {sharing.group}, where they may read its sources"
        case Audience.ALL:
            return "all users who may read its sources"


def _sources(sources: Sequence[FileVersion]) -> Table:
    table = plain_table()
    table.add_column("MADE FROM", overflow="fold")
    table.add_column("SIZE", justify="right", no_wrap=True)
    for file in sources[:_SHOWN_SOURCES]:
        table.add_row(as_text(file.path), size(file.length))
    if len(sources) > _SHOWN_SOURCES:
        table.add_row(f"… and {len(sources) - _SHOWN_SOURCES:,} more", "")
    return table


def _ambiguity(dataset: ListedDataSet) -> str:
    return "~" if dataset.ambiguous else ""


def _parts(dataset: ListedDataSet) -> str:
    number = "?" if dataset.number_of_partitions is None else dataset.number_of_partitions
    return f"{dataset.partitions_found}/{number}{_MARKS[dataset.state]}"


def _state(dataset: ListedDataSet) -> str:
    match dataset.state:
        case DataSetState.UNCLEAR:
            return f"unclear: {_MEANING['?'].removeprefix('? ')}"
        case DataSetState.COMPLETE:
            return "complete"
        case DataSetState.INCOMPLETE | DataSetState.DAMAGED as state:
            return f"{state.value}: {dataset.damage or 'partitions are missing'}"


def _columns(contents: Contents | None) -> RenderableType:
    if contents is None:
        return Text("Its columns are unknown.")
    if not contents.columns:
        return Text("It has no columns.")
    table = plain_table()
    table.add_column("COLUMN", overflow="fold")
    table.add_column("TYPE", overflow="fold")
    table.add_column("NULLS", no_wrap=True)
    for column in contents.columns:
        nulls = "yes" if column.nullable else "no"
        table.add_row(as_text(column.name), as_text(column.type), nulls)
    return table


def _partitions(partitions: Sequence[KeptPartition]) -> Table:
    table = plain_table()
    table.add_column("PART", justify="right", no_wrap=True)
    table.add_column("ROWS", justify="right", no_wrap=True)
    table.add_column("SIZE", justify="right", no_wrap=True)
    table.add_column("FILE", overflow="fold")
    for each in partitions:
        table.add_row(str(each.index), f"{each.rows:,}", size(each.bytes), as_text(each.file))
    return table


def _where(place: PartitionsPlace) -> str:
    address = "" if place.address is None else f" (task executor {place.address})"
    return f"{place.host}{address} in {place.directory}"


def _short_count(number: int) -> str:
    """`5,432`, and `6.0M` for what is longer."""
    if number < 10_000:
        return f"{number:,}"
    shown = float(number)
    for unit in ("", "k", "M", "G"):
        if shown < 999.5:
            return f"{shown:.0f}{unit}" if shown >= 9.95 else f"{shown:.1f}{unit}"
        shown /= 1000
    return f"{shown:.0f}T"
