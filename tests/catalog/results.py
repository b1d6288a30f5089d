"""Results that programs have kept, as far as a catalog sees them."""

from __future__ import annotations

import uuid
from typing import Any

from sqlalchemy import update

from holdfast.catalog.audience import Audience
from holdfast.catalog.catalog import Catalog
from holdfast.catalog.cataloged_result import CatalogClaim, ProducedResult
from holdfast.catalog.publications import Published
from holdfast.catalog.schema import CLAIMS, HOLDERS, PROGRAMS, RESULTS
from holdfast.ids import IntermediateDataSetID
from holdfast.storage.kept_dataset import (
    DataSetDescription,
    KeptDataSet,
    KeptPartition,
    Manifest,
)

DATASET = IntermediateDataSetID("1" * 64)
STORAGE = "5" * 32
OTHER = IntermediateDataSetID("2" * 64)


def unlimited(kept: int) -> int | None:
    return None


def kept(dataset_id: IntermediateDataSetID = DATASET, size: int = 100) -> KeptDataSet:
    name = f"{dataset_id.hex}-{uuid.uuid4().hex[:8]}"
    partition = KeptPartition(index=0, file="part-00000-x.parquet", bytes=size, rows=7, version="1")
    description = DataSetDescription(
        dataset_id=dataset_id.hex, computes="Join over a, b", columns=(), spark_version="4.3.0"
    )
    return KeptDataSet(
        directories=(f"/kept/{name}",),
        manifest=Manifest(created="2026-11-23", dataset=description, partitions=(partition,)),
        name=name,
    )


def produced(
    dataset_id: IntermediateDataSetID = DATASET, size: int = 100, **changed: Any
) -> ProducedResult:
    facts: dict[str, Any] = {
        "dataset_id": dataset_id,
        "digest": "d" + dataset_id.hex[1:],
        "shape": "e" + dataset_id.hex[1:],
        "kept": kept(dataset_id, size),
        "is_shared": False,
        "audience": Audience.USER,
        "lifetime": None,
        "seconds": 10.0,
    }
    return ProducedResult(**{**facts, **changed})


def publish(
    catalog: Catalog,
    dataset_id: IntermediateDataSetID = DATASET,
    size: int = 100,
    limit: int | None = None,
    **changed: Any,
) -> Published:
    claim = catalog.claims.claim(dataset_id)
    assert isinstance(claim, CatalogClaim)
    return catalog.publications.publish(
        produced(dataset_id, size, **changed), claim, lambda kept: limit
    )


def pass_time(catalog: Catalog, seconds: float) -> None:
    """Makes everything in a catalog so much older."""
    with catalog.database.writing() as connection:
        for column in (
            PROGRAMS.c.alive_until,
            CLAIMS.c.since,
            CLAIMS.c.until,
            HOLDERS.c.until,
            RESULTS.c.created,
        ):
            connection.execute(update(column.table).values({column: column - seconds}))
