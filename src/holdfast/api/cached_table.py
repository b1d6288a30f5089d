"""A table whose rows are kept."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

from holdfast.api.table import Table

if TYPE_CHECKING:
    from types import TracebackType

    from typing_extensions import Self


class CachedTable(Table):
    """A table whose rows are kept, as returned by :meth:`Table.cache`.

    It is a Table in every respect. The first job whose plan contains its computation leaves the
    rows behind; every later job reads them. As a context manager it is kept until the end of the
    block.

    Source: FLIP-36, phase 1 (``CachedTable``).

    Example:
        >>> with table.groupBy("k").count().cache() as hot:
        ...     hot.count()
        2
    """

    def cache(self, lifetime: timedelta | str | None = None, *, name: str | None = None) -> Self:
        """Caches this table again, if the `with` block that it was used in has ended.

        Args:
            lifetime: For how long, as in :meth:`Table.cache`; the longer one counts.
            name: As in :meth:`Table.cache`; what it was called first, counts.

        Returns:
            This table.

        Source: FLIP-36, phase 1 (``Table.cache()``).

        Example:
            >>> hot = table.cache()
            >>> hot.cache() is hot
            True
        """
        super().cache(lifetime, name=name)
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.is_cached = False
        self._holdfast_context.forget(self)
