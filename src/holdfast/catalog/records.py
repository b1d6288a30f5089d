"""How what the catalog records is written to its tables, and read from them."""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from sqlalchemy import Row

from holdfast.catalog.audience import Audience
from holdfast.catalog.cataloged_result import (
    CatalogedResult,
    MadeFrom,
    OfferedResult,
    ResultState,
)
from holdfast.ids import ApplicationID, IntermediateDataSetID
from holdfast.plan.file_version import FileVersion
from holdfast.plan.outline import PlanStep
from holdfast.plan.reasons import Reason
from holdfast.storage.column_statistics import ColumnStatistics
from holdfast.storage.kept_dataset import KeptDataSet


def result_in(row: Row[Any]) -> CatalogedResult:
    """The result of a row of the table of results."""
    used: list[float] = json.loads(row.used)
    return CatalogedResult(
        number=row.number,
        dataset_id=IntermediateDataSetID(row.dataset_id),
        digest=row.digest,
        shape=row.shape,
        name=row.name,
        state=ResultState(row.state),
        computes=row.computes,
        directories=tuple(json.loads(row.directories)),
        is_shared=bool(row.is_shared),
        audience=Audience(row.audience),
        user=row.user_name,
        group=row.group_name,
        host=row.host,
        application=ApplicationID(row.application),
        bytes=row.bytes,
        rows=row.row_count,
        partitions=row.partitions,
        seconds=row.seconds,
        cpu_seconds=row.cpu_seconds,
        created=row.created,
        lifetime=row.lifetime,
        uses=row.uses,
        saved_seconds=row.saved_seconds,
        last_used=used[-1] if used else row.created,
        why_gone=row.why_gone,
        reasons=tuple(map(Reason.read, json.loads(row.reasons or "[]"))),
    )


def offered_in(row: Row[Any]) -> OfferedResult | None:
    """The result of a row of the tables of results and manifests; None where that is damaged."""
    if checksum(row.content) != row.checksum:
        return None
    try:
        return OfferedResult(result_in(row), unpacked_sources(row.made_from), unpacked(row.content))
    except (ValueError, zlib.error):
        # Another version of Holdfast has described it.
        return None


def packed(kept: KeptDataSet) -> bytes:
    """A dataset with its manifest."""
    return zlib.compress(kept.model_dump_json().encode())


def unpacked(content: bytes) -> KeptDataSet:
    """What `packed` has packed.

    Raises:
        ValueError: when it is something else.
    """
    try:
        return KeptDataSet.model_validate_json(zlib.decompress(content))
    except zlib.error as error:
        raise ValueError(str(error)) from error


def checksum(content: bytes) -> str:
    """SHA-256 in hexadecimal digits."""
    return hashlib.sha256(content).hexdigest()


def packed_sources(made_from: MadeFrom) -> bytes:
    """What a result was made from."""
    plan = [[each.operator, each.inputs, each.sources] for each in made_from.plan]
    return _deflated({"files": made_from.files, "settings": dict(made_from.settings), "plan": plan})


def unpacked_sources(content: bytes) -> MadeFrom:
    """What `packed_sources` has packed."""
    found = json.loads(zlib.decompress(content))
    return MadeFrom(
        tuple(FileVersion(*file) for file in found["files"]),
        found["settings"],
        tuple(
            PlanStep(operator, tuple(inputs), tuple(sources))
            for operator, inputs, sources in found.get("plan", ())
        ),
    )


def packed_statistics(statistics: Mapping[str, ColumnStatistics]) -> bytes:
    """Statistics of columns, by their names."""
    return _deflated({name: asdict(each) for name, each in statistics.items()})


def unpacked_statistics(content: bytes) -> dict[str, ColumnStatistics]:
    """What `packed_statistics` has packed."""
    found = json.loads(zlib.decompress(content))
    return {name: ColumnStatistics(**each) for name, each in found.items()}


def _deflated(content: object) -> bytes:
    return zlib.compress(json.dumps(content).encode())
