"""The book of an environment's results, and how it is shared with other programs."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.api.storage import task_executor_token
from holdfast.catalog.catalog_file import catalog_file, may_be_there
from holdfast.catalog.guarded_catalog import GuardedCatalog
from holdfast.catalog.this_program import this_program
from holdfast.config import (
    CATALOG_URL,
    INTERMEDIATE_RESULT_DIRECTORY,
    INTERMEDIATE_RESULT_MAX_SIZE,
    INTERMEDIATE_RESULT_SHARE_AMBIGUOUS,
    INTERMEDIATE_RESULT_SHARING,
    JOB_RECOVERY_ENABLED,
    JOB_RECOVERY_RETENTION,
    Configuration,
)
from holdfast.files.directory_identity import directory_identity
from holdfast.lazy_module import LazyModule
from holdfast.runtime.cluster_sharing_place import ClusterSharingPlace
from holdfast.runtime.embedded_sharing_place import EmbeddedSharingPlace
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.runtime.kept_results import KeptResults
from holdfast.runtime.result_book import ResultBook
from holdfast.runtime.shared_results import SharedResults, SharingPolicy
from holdfast.runtime.sharing_place import SharingPlace
from holdfast.runtime.task_executor_storage import TaskExecutorStorage
from holdfast.spark.source_versions import SourceAccess
from holdfast.storage.shared_directory import SHARED, SharedDirectory
from holdfast.taskexecutor.reading.webhdfs import read_root

if TYPE_CHECKING:
    from holdfast.catalog import catalog, catalog_database, catalog_url
else:
    # Databases take longer to import than all of the rest.
    catalog = LazyModule("holdfast.catalog.catalog")
    catalog_database = LazyModule("holdfast.catalog.catalog_database")
    catalog_url = LazyModule("holdfast.catalog.catalog_url")

_LEASE_SECONDS = 60.0


def result_book(
    configuration: Configuration,
    storage: TaskExecutorStorage,
    access: SourceAccess,
    environment: Callable[[], str],
    is_wanted: Callable[[str], bool],
    why_own_seal: Callable[[], str | None],
    is_unasked: Callable[[str], bool] = lambda digest: False,
) -> ResultBook:
    """The book of what an environment keeps, shared with other programs as configured.

    Args:
        configuration: says where the catalog is, and who may read what.
        storage: where the environment keeps results.
        access: which sources the user may read.
        environment: gives what digests take for granted.
        is_wanted: whether a computation is to be kept in this program.
        why_own_seal: why the environment's streams aren't sealed as those of other programs, if so.
        is_unasked: whether nobody has asked for a computation to be kept that is kept.
    """
    url = configuration.get(CATALOG_URL)
    # A file beside this driver is nothing that other drivers of a cluster would find.
    if url is None or not (url or isinstance(storage, EmbeddedStorage)):
        return KeptResults(storage.remove)
    root = Path(configuration.get(INTERMEDIATE_RESULT_DIRECTORY))
    audience = configuration.get(INTERMEDIATE_RESULT_SHARING)
    most = configuration.get(INTERMEDIATE_RESULT_MAX_SIZE)

    @cache
    def database() -> catalog_database.CatalogDatabase:
        return catalog_database.CatalogDatabase(
            url or catalog_url.in_directory(root), audience.modes
        )

    def opened() -> catalog.Catalog:
        return catalog.Catalog(database(), identity, environment, program, _LEASE_SECONDS)

    def is_there() -> bool:
        return database().is_there() if url else may_be_there(catalog_file(root))

    place: SharingPlace
    identity: Callable[[], str]
    if isinstance(storage, EmbeddedStorage):
        place = EmbeddedSharingPlace(storage, SharedDirectory(root / SHARED, audience.modes))
        identity = partial(directory_identity, root)
        program = this_program(storage.application, audience, root.stat().st_gid)
    else:
        token = task_executor_token(configuration)
        place = ClusterSharingPlace(
            storage,
            lambda: database().identity(),
            lambda address, whose: read_root(address, token, whose),
        )
        identity = place.identity
        program = this_program(storage.application, audience)

    def limit(kept: int) -> int | None:
        # How much is free on the disks of executors isn't known here.
        is_here = isinstance(storage, EmbeddedStorage)
        return most.limit(kept, shutil.disk_usage(root).free) if is_here else most.bytes

    is_recovered = configuration.get(JOB_RECOVERY_ENABLED)
    retention = configuration.get(JOB_RECOVERY_RETENTION).total_seconds() if is_recovered else None
    policy = SharingPolicy(
        audience,
        limit,
        access.unreadable,
        is_wanted,
        why_own_seal,
        is_unasked,
        configuration.get(INTERMEDIATE_RESULT_SHARE_AMBIGUOUS),
        retention,
        program.user,
    )
    return SharedResults(GuardedCatalog(opened, is_there, _LEASE_SECONDS), place, policy)
