"""A result that task executors hold for the catalog, from the parts that each of them has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pydantic import ValidationError

from holdfast.catalog.result_record import ResultRecord
from holdfast.runtime.cluster_directory import ClusterDirectory
from holdfast.storage.kept_dataset import KeptDataSet, Manifest
from holdfast.taskexecutor.calls.gateway import CatalogHolding, DataSetReport


@dataclass(frozen=True, slots=True)
class HeldPart:
    """What one task executor holds of a result.

    Attributes:
        report: what it says of it.
        damage: what is wrong with it; None where it is as it was published.
    """

    report: DataSetReport
    damage: str | None


@dataclass(frozen=True, slots=True)
class HeldResult:
    """A whole result.

    Attributes:
        kept: where it lies, as the catalog records it.
        record: why it is kept.
    """

    kept: KeptDataSet
    record: ResultRecord


def put_together(parts: Sequence[HeldPart]) -> HeldResult | str:
    """The result of all its parts, or why it can't be recorded. Pure.

    Args:
        parts: those of one output, of different task executors; at least one.
    """
    for part in parts:
        if part.damage is not None:
            return f"{part.damage} on {part.report.host}"
    reports = [part.report for part in parts]
    holdings = [report.holding for report in reports if report.holding is not None]
    record = _record_of(holdings)
    if record is None or len(holdings) != len(reports):
        return "its record is missing or invalid"
    indices = [partition.index for report in reports for partition in report.partitions]
    if len(set(indices)) != len(indices):
        return "a partition of it lies on several task executors"
    # What has no rows has no file, so that the number of partitions may be higher.
    expected = record.partitions or max(report.number_of_partitions for report in reports)
    if len(indices) != expected:
        return f"{len(indices)} of its {expected} partitions are there"
    return HeldResult(_whole(reports, holdings), record)


def _record_of(holdings: Sequence[CatalogHolding]) -> ResultRecord | None:
    results = {holding.result for holding in holdings}
    if len(results) != 1:
        return None
    try:
        return ResultRecord.model_validate_json(results.pop() or "")
    except ValidationError:
        return None


def _whole(reports: Sequence[DataSetReport], holdings: Sequence[CatalogHolding]) -> KeptDataSet:
    lying = []
    for report, holding in zip(reports, holdings, strict=True):
        manifest = Manifest(
            created=report.created, dataset=holding.dataset, partitions=report.partitions
        )
        place = ClusterDirectory(report.host, report.application, report.output)
        lying.append((str(place), manifest))
    return KeptDataSet.of_parts(lying, reports[0].output.name)
