"""Results that programs have kept, as far as a catalog sees them."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

from sqlalchemy import update

from holdfast.catalog.audience import Audience
from holdfast.catalog.catalog import Catalog
from holdfast.catalog.cataloged_result import CatalogClaim, MadeFrom, ProducedResult
from holdfast.catalog.publications import Published
from holdfast.catalog.schema import CLAIMS, HOLDERS, PROGRAMS, RESULTS
from holdfast.cli.catalog_access import catalog_in
from holdfast.ids import IntermediateDataSetID
from holdfast.plan.outline import PlanStep
from holdfast.storage.column_statistics import ColumnStatistics
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


def publish_in(root: Path, **changed: Any) -> str:
    """Publishes a result in the catalog of a storage directory; its name. It has no files there.

    `computes`, `made_from` and `statistics` are texts: what the result, its source and the values
    of its column are called.
    """
    computes, statistics = changed.pop("computes", None), changed.pop("statistics", None)
    if "made_from" in changed:
        name = changed["made_from"]
        changed["made_from"] = MadeFrom(plan=(PlanStep(name, (), (name,)),))
    made = produced(**changed)
    if computes is not None:
        dataset = made.kept.manifest.dataset.model_copy(update={"computes": computes})
        manifest = made.kept.manifest.model_copy(update={"dataset": dataset})
        made = replace(made, kept=made.kept.model_copy(update={"manifest": manifest}))
    with catalog_in(root, make=True) as catalog:
        assert catalog is not None
        of_columns = {"a": ColumnStatistics(statistics, statistics, 0)} if statistics else None
        catalog.publications.publish(made, None, unlimited, statistics=of_columns)
    return str(made.kept.name)


def use_in(root: Path) -> None:
    """Has a program read each result of the catalog of a storage directory."""
    with catalog_in(root, make=False) as catalog:
        assert catalog is not None
        for result in catalog.search.all():
            catalog.holders.use(result.number)
