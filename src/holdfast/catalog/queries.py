"""The last queries of programs that keep what recurs."""

from __future__ import annotations

import zlib

from sqlalchemy import ColumnElement, delete, select, true

from holdfast.catalog.catalog_scope import CatalogScope
from holdfast.catalog.schema import QUERIES

# One takes about a kilobyte.
_MOST = 5_000
_LONGEST_SECONDS = 30 * 24 * 3600.0
_EACH = 100


class CatalogQueries:
    """Past queries, of which there are never more than some thousands.

    Args:
        scope: of the program.
    """

    def __init__(self, scope: CatalogScope) -> None:
        self._scope = scope

    def add(self, content: bytes) -> None:
        """A query has run.

        Args:
            content: what is told of it.
        """
        scope = self._scope
        with scope.database.writing() as connection:
            now = scope.database.now(connection)
            added = connection.execute(
                QUERIES.insert().values(
                    storage=scope.storage,
                    environment=scope.environment,
                    audience=scope.program.shares_with.value,
                    user_name=scope.program.user,
                    group_name=scope.program.groups[0] if scope.program.groups else "",
                    started=now,
                    content=zlib.compress(content),
                )
            )
            key = added.inserted_primary_key
            assert key is not None
            if int(key[0]) % _EACH == 0:
                old = (QUERIES.c.number <= int(key[0]) - _MOST) | (
                    QUERIES.c.started < now - _LONGEST_SECONDS
                )
                connection.execute(delete(QUERIES).where(old))

    def last(self, most: int, *, anywhere: bool = False) -> list[bytes]:
        """What is told of the last queries that the program may know of, in order.

        Args:
            most: how many.
            anywhere: also those that run elsewhere, or in another environment.
        """
        scope = self._scope
        here: ColumnElement[bool] = true()
        if not anywhere:
            here = (QUERIES.c.storage == scope.storage) & (
                QUERIES.c.environment == scope.environment
            )
        with scope.database.reading() as connection:
            rows = connection.execute(
                select(QUERIES.c.content)
                .where(here, scope.may_read(QUERIES))
                .order_by(QUERIES.c.number.desc())
                .limit(most)
            ).all()
        found = []
        for row in reversed(rows):
            try:
                found.append(zlib.decompress(row.content))
            except zlib.error:
                # It is of no use, and no harm.
                continue
        return found
