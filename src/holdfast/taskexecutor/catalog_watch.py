"""Asks the catalog, every now and then, which results a task executor is to hold still."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from holdfast.catalog.catalog import Catalog
from holdfast.catalog.catalog_database import CatalogDatabase
from holdfast.catalog.this_program import this_program
from holdfast.errors import CatalogError
from holdfast.ids import CATALOG_APPLICATION, ApplicationID
from holdfast.taskexecutor.letting_go import letting_go
from holdfast.taskexecutor.partitions.partition_info import OutputID
from holdfast.taskexecutor.task_executor import TaskExecutor

_BATCH = 500
# It claims nothing, and reads nothing.
_LEASE_SECONDS = 60.0

logger = logging.getLogger(__name__)


class CatalogWatch:
    """Releases what the catalog has let go of. To be used by one thread at a time.

    What it can't be asked about stays: while it is away, and what was announced in another catalog.

    Args:
        executor: has the results.
        url: of the catalog.

    Source: FLIP-36, phase 2: results outlive the application, and go when nobody holds them.
    """

    def __init__(self, executor: TaskExecutor, url: str) -> None:
        self._executor = executor
        self._url = url
        self._unknown: frozenset[OutputID] = frozenset()
        self._is_away = False
        self._foreign: frozenset[OutputID] = frozenset()

    def look(self) -> None:
        """Asks once for everything that is held; of nothing held, nothing is asked."""
        held = self._executor.held()
        if not held:
            # A catalog that is made anew is not to be taken for another one.
            self._executor.catalog_is(None)
            return
        # Another one may have been put in its place since, and none is waited on meanwhile.
        database = CatalogDatabase(self._url)
        try:
            self._compare(database, held)
            self._is_away = False
        except CatalogError as error:
            if not self._is_away:
                logger.warning(
                    "%d results stay until the catalog that holds them answers: %s",
                    len(held),
                    error,
                )
            self._is_away = True
        finally:
            database.close()

    def _compare(self, database: CatalogDatabase, held: dict[OutputID, str | None]) -> None:
        if not database.is_there():
            # Made here, an empty one would be taken for the one that is lost.
            raise CatalogError(database.name, "there is no such file")
        identity = database.identity()
        self._executor.catalog_is(identity)
        own = sorted(output for output, catalog in held.items() if catalog == identity)
        self._warn_of(frozenset(held) - frozenset(own), database.name)
        going = letting_go(own, self._recorded(database, own), self._unknown)
        self._unknown = going.unknown
        if going.forgotten:
            logger.warning(
                "released %d results that %s doesn't record", len(going.forgotten), database.name
            )
        self._executor.release_outputs(CATALOG_APPLICATION, going.gone | going.forgotten)

    def _recorded(self, database: CatalogDatabase, own: Sequence[OutputID]) -> dict[str, bool]:
        storage = self._executor.describe().executor_id
        program = this_program(ApplicationID.random())
        catalog = Catalog(database, lambda: storage, _nothing, program, _LEASE_SECONDS)
        # Lifetimes end, and programs die, also while no program is there to see it.
        catalog.holders.sweep()
        recorded: dict[str, bool] = {}
        for first in range(0, len(own), _BATCH):
            names = [output.name for output in own[first : first + _BATCH]]
            recorded |= catalog.holders.recorded(names)
        return recorded

    def _warn_of(self, foreign: frozenset[OutputID], name: str) -> None:
        if foreign - self._foreign:
            logger.warning(
                "%d results are held for another catalog than %s, and stay: `holdfast catalog "
                "rebuild --executors` records them there, `holdfast rm` removes them",
                len(foreign),
                name,
            )
        self._foreign = foreign


def _nothing() -> str:
    return ""
