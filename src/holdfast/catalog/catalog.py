"""The catalog of kept results: which there are, who produces one, and who holds them.

Every call is one transaction. Rows are changed before files are removed, and after they are put in
their place, so that what a crash leaves behind is known to be garbage.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.catalog.catalog_database import CatalogDatabase
from holdfast.catalog.catalog_scope import CatalogScope
from holdfast.catalog.cataloged_result import ProgramIdentity
from holdfast.catalog.claims import CatalogClaims
from holdfast.catalog.holders import CatalogHolders
from holdfast.catalog.programs import CatalogPrograms
from holdfast.catalog.publications import CatalogPublications
from holdfast.catalog.queries import CatalogQueries
from holdfast.catalog.reading.catalog_reading import CatalogReading
from holdfast.catalog.search import CatalogSearch


class Catalog:
    """The catalog, as one program uses it. Safe for use by several threads.

    Attributes:
        database: where it is.
        scope: which of its rows are the program's business.
        programs: the program's lease.
        search: which results there are.
        claims: who produces one.
        publications: how they come.
        holders: why they stay, and how they go.
        queries: the last ones that programs have run.
        reading: what people see of it.

    Args:
        database: where it is.
        storage: gives the identity of where the program keeps bytes: what is elsewhere can't be
            read. An OSError where it has none.
        environment: gives what the digests of the program's computations take for granted, 64
            hexadecimal digits; an OSError where that can't be told.
        program: which program.
        lease_seconds: how long the program, and what it claims, lives without a sign of life.

    Source: FLIP-36, phase 2, and "Long Term Goal".
    """

    def __init__(
        self,
        database: CatalogDatabase,
        storage: Callable[[], str],
        environment: Callable[[], str],
        program: ProgramIdentity,
        lease_seconds: float,
    ) -> None:
        self.database = database
        self.scope = CatalogScope(database, storage, environment, program, lease_seconds)
        self.programs = CatalogPrograms(self.scope)
        self.search = CatalogSearch(self.scope)
        self.claims = CatalogClaims(self.scope)
        self.publications = CatalogPublications(self.scope, self.claims)
        self.holders = CatalogHolders(self.scope)
        self.queries = CatalogQueries(self.scope)
        self.reading = CatalogReading(self.scope)
