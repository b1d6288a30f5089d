"""A catalog that is lost, from what lies beside the results."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from pydantic import ValidationError

from holdfast.catalog.catalog import Catalog
from holdfast.catalog.result_record import RESULT_RECORD_NAME, ResultRecord
from holdfast.files.regular_file import text_of
from holdfast.storage.kept_dataset import KeptDataSet
from holdfast.storage.partition_directory import damage
from holdfast.storage.shared_directory import SHARED, SharedDirectory

RECORDED_ALREADY = "it is recorded already"


@dataclass(frozen=True, slots=True)
class Rebuilt:
    """A shared result that was looked at.

    Attributes:
        name: its directory, or what task executors call it.
        computes: the computation in a few words; None where that can't be told.
        why_not: why it was not recorded; None where it was.
    """

    name: str
    computes: str | None
    why_not: str | None


def rebuild(root: Path, catalog: Catalog) -> list[Rebuilt]:
    """Records every shared result that is whole and that the catalog doesn't know.

    Their lifetimes begin anew; what they were used for is forgotten.

    Args:
        root: the storage directory.
        catalog: its catalog.

    Raises:
        CatalogError: when the catalog can't be used.
    """
    found = []
    for directory, manifest in SharedDirectory(root / SHARED).published():
        computes = None if manifest is None else manifest.dataset.computes
        record = _record_in(directory)
        why: str | None
        if manifest is None or record is None:
            why = "its manifest or record is missing or invalid"
        else:
            kept = KeptDataSet(
                directories=(str(directory),), manifest=manifest, name=directory.name
            )
            why = damage(directory, manifest)
            if why is None and not catalog.publications.restore(
                record.produced(kept), record.program(), record.environment
            ):
                why = RECORDED_ALREADY
        found.append(Rebuilt(str(directory), computes, why))
    return found


def _record_in(directory: Path) -> ResultRecord | None:
    try:
        return ResultRecord.model_validate_json(text_of(directory / RESULT_RECORD_NAME))
    except (OSError, UnicodeDecodeError, ValidationError):
        return None
