"""Makes Tables of the DataFrames that PySpark creates for a TableSession.

PySpark creates a DataFrame in some forty places, most of which name the class. Each of them goes
through the class's `__new__`, which is told the session.
"""

from __future__ import annotations

from typing import Any

from pyspark.sql.classic.dataframe import DataFrame

from holdfast.api.table import Table
from holdfast.api.table_session import TableSession


def install() -> None:
    """From now on DataFrames of a TableSession are Tables. Has no effect the second time."""
    DataFrame.__new__ = _new  # type: ignore[method-assign, assignment]


def _new(kind: type[DataFrame], *args: Any, **kwargs: Any) -> DataFrame:
    if kind is DataFrame:
        session = args[1] if len(args) > 1 else kwargs.get("sql_ctx")
        # Some libraries hand over an SQLContext.
        if isinstance(getattr(session, "sparkSession", session), TableSession):
            return object.__new__(Table)
    return object.__new__(kind)
