"""A catalog that is lost, from what lies beside the results on task executors."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

from holdfast.catalog.catalog import Catalog
from holdfast.cli.catalog_access import catalog_at
from holdfast.cli.datasets.errors import DataSetsError
from holdfast.cli.task_executors import ask_at_once
from holdfast.cli.upkeep.held_parts import held_by
from holdfast.cli.upkeep.held_result import HeldPart, HeldResult, put_together
from holdfast.cli.upkeep.rebuilding import RECORDED_ALREADY, Rebuilt
from holdfast.errors import UnknownDataSetError
from holdfast.runtime.cluster_directory import cluster_identity
from holdfast.taskexecutor.calls.client import RemoteTaskExecutor
from holdfast.taskexecutor.partitions.partition_info import OutputID


def rebuild_from_executors(
    executors: Mapping[str, RemoteTaskExecutor], catalog_url: str
) -> tuple[list[Rebuilt], tuple[str, ...]]:
    """Records every result that task executors hold whole and that the catalog doesn't know.

    They are then held for this catalog: it lets go of them. What isn't recorded stays what it was,
    held for the one that is lost.

    Args:
        executors: by address, all those of the programs.
        catalog_url: of the catalog; it is made where there is none.

    Returns:
        what was looked at, and which executors could not be told.

    Raises:
        CatalogError: when the catalog can't be used.
        DataSetsError: when one of the executors doesn't respond. Nothing is recorded then: it
            would be incomplete, and not found by programs that use all of them.
    """
    answers, failures = ask_at_once(executors, dict.fromkeys(executors, held_by))
    if failures:
        raise DataSetsError(
            f"nothing was recorded, as all task executors have to respond: "
            f"{'; '.join(failures.values())}"
        )
    # Two addresses may lead to the same executor.
    parts_of = dict(answers.values())
    by_output: dict[OutputID, list[HeldPart]] = {}
    for parts in parts_of.values():
        for part in parts:
            by_output.setdefault(part.report.output, []).append(part)
    found, recorded = [], set()
    with catalog_at(catalog_url, cluster_identity(parts_of), make=True) as catalog:
        assert catalog is not None
        identity = catalog.database.identity()
        for output in sorted(by_output):
            parts = by_output[output]
            why = _record(catalog, put_together(parts))
            if why in (None, RECORDED_ALREADY):
                recorded.add(output)
            found.append(Rebuilt(output.name, parts[0].report.computes, why))
    # Only now: what a catalog is asked for and doesn't record is released.
    changes = {
        address: _change(_held_for_another(parts, recorded, identity), identity)
        for address, (_, parts) in answers.items()
    }
    _, untold = ask_at_once(executors, changes)
    return found, tuple(untold.values())


def _record(catalog: Catalog, held: HeldResult | str) -> str | None:
    """Records a result; why not, where it doesn't."""
    if isinstance(held, str):
        return held
    record = held.record
    is_new = catalog.publications.restore(
        record.produced(held.kept), record.program(), record.environment
    )
    return None if is_new else RECORDED_ALREADY


def _held_for_another(
    parts: Iterable[HeldPart], recorded: set[OutputID], identity: str
) -> list[OutputID]:
    return [
        report.output
        for report in (part.report for part in parts)
        if report.output in recorded
        and report.holding is not None
        and report.holding.catalog != identity
    ]


def _change(outputs: Sequence[OutputID], identity: str) -> Callable[[RemoteTaskExecutor], None]:
    def change(executor: RemoteTaskExecutor) -> None:
        for output in outputs:
            try:
                executor.change_catalog(output, identity)
            except UnknownDataSetError:
                # Released since the report; whoever reads it finds out.
                continue

    return change
