"""The book of an environment's results, and how it is shared with other programs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

from holdfast.catalog.catalog import Catalog
from holdfast.catalog.catalog_database import CatalogDatabase
from holdfast.catalog.catalog_url import in_directory
from holdfast.catalog.cataloged_result import Audience
from holdfast.catalog.guarded_catalog import GuardedCatalog
from holdfast.catalog.this_program import this_program
from holdfast.config import (
    CATALOG_URL,
    INTERMEDIATE_RESULT_DIRECTORY,
    INTERMEDIATE_RESULT_MAX_SIZE,
    Configuration,
)
from holdfast.files.directory_identity import directory_identity
from holdfast.runtime.embedded_sharing_place import EmbeddedSharingPlace
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.runtime.kept_results import KeptResults
from holdfast.runtime.result_book import ResultBook
from holdfast.runtime.shared_results import SharedResults, SharingPolicy
from holdfast.runtime.task_executor_storage import TaskExecutorStorage
from holdfast.spark.source_versions import SourceAccess
from holdfast.storage.shared_directory import SHARED, SharedDirectory

_LEASE_SECONDS = 60.0


def result_book(
    configuration: Configuration,
    storage: TaskExecutorStorage,
    access: SourceAccess,
    environment: Callable[[], str],
    is_wanted: Callable[[str], bool],
) -> ResultBook:
    """The book of what an environment keeps, shared with other programs as configured.

    Args:
        configuration: says where the catalog is, and who may read what.
        storage: where the environment keeps results.
        access: which sources the user may read.
        environment: gives what digests take for granted.
        is_wanted: whether somebody in this program has asked for a computation to be kept.
    """
    url = configuration.get(CATALOG_URL)
    if url is None or not isinstance(storage, EmbeddedStorage):
        return KeptResults(storage.remove)
    root = Path(configuration.get(INTERMEDIATE_RESULT_DIRECTORY))
    most = configuration.get(INTERMEDIATE_RESULT_MAX_SIZE)
    place = EmbeddedSharingPlace(storage, SharedDirectory(root / SHARED))
    catalog = Catalog(
        CatalogDatabase(url or in_directory(root)),
        lambda: directory_identity(root),
        environment,
        this_program(storage.application),
        _LEASE_SECONDS,
    )
    policy = SharingPolicy(
        Audience.USER,
        lambda kept: most.limit(kept, shutil.disk_usage(root).free),
        access.unreadable,
        is_wanted,
    )
    guarded = GuardedCatalog(catalog, _LEASE_SECONDS)
    return SharedResults(guarded, place, policy)
