"""`CACHE TABLE`, `UNCACHE TABLE`, `CLEAR CACHE` and `ALTER TABLE … RENAME TO` in SQL."""

from __future__ import annotations

import re
from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

from pyspark import StorageLevel
from pyspark.errors import AnalysisException
from pyspark.sql.classic.dataframe import DataFrame

from holdfast.api.storage_levels import is_kept
from holdfast.runtime.vertex_outcome import VertexOutcome

if TYPE_CHECKING:
    from holdfast.api.table import Table
    from holdfast.api.table_session import TableSession

# Spark's parser has the last word; the others need not be parsed twice.
_MAY_BE_ONE = re.compile(
    r"(\s|--[^\n]*\n|/\*.*?\*/)*((UN)?C(ACHE|LEAR)\b|ALTER\b.*\bRENAME\s+TO\b)",
    re.IGNORECASE | re.DOTALL,
)
_STORAGE_LEVEL = "storagelevel"
_KEPT = (VertexOutcome.PRODUCED, VertexOutcome.READ)


def run_cache_command(session: TableSession, text: str) -> DataFrame | None:
    """Runs a command that caches, releases or renames a table.

    Args:
        session: The session whose catalog knows the table.
        text: Any SQL statement.

    Returns:
        What Spark's command returns; None where the statement is another one, or is left to Spark.

    Raises:
        pyspark.errors.AnalysisException: There is no such table.
        pyspark.errors.ParseException: Spark can't parse the statement.
    """
    if not _MAY_BE_ONE.match(text):
        return None
    state = cast(Any, session._jsparkSession).sessionState()
    plan = state.sqlParser().parsePlan(text)
    match plan.getClass().getSimpleName():
        case "CacheTable":
            return _cached(session, _quoted(plan.multipartIdentifier()), plan)
        case "CacheTableAsSelect":
            return _cached_query(session, plan)
        case "UncacheTable":
            name = _quoted(plan.table().multipartIdentifier())
            if session.catalog.tableExists(name):
                session.holdfast.uncache(_table(session, name))
        case "RenameTable":
            return _renamed(session, plan, text)
        case "ClearCacheCommand" | "ClearCacheCommand$":
            session.holdfast.uncache_all()
        case _:
            return None
    # Spark may hold it as well, knows what else is uncached with it, and what is an error.
    return _run_by_spark(session, text)


def _cached(session: TableSession, name: str, plan: Any) -> DataFrame | None:
    level = _level(plan)
    if level is None:
        return None
    table = session.holdfast.persist(_table(session, name), level, name)
    if not plan.isLazy():
        try:
            _compute(session, table)
        except BaseException:
            table.unpersist()
            raise
    return _nothing(session)


def _compute(session: TableSession, table: Table) -> None:
    """Keeps all rows of a cached table, or fails as its query does."""
    table.count()
    result = session.holdfast.last_job_result
    if result is None or all(each.outcome not in _KEPT for each in result.vertices):
        # Of a query that can't be kept, not every column has been computed.
        table.write.format("noop").mode("overwrite").save()


def _cached_query(session: TableSession, plan: Any) -> DataFrame | None:
    if _level(plan) is None:
        return None
    # A text, or a literal of one.
    name = _quoted_part(str(plan.tempViewName()))
    # The view is of the text, which means something else when what it names has changed.
    _run_by_spark(session, f"CREATE TEMPORARY VIEW {name} AS {plan.originalText()}")
    try:
        return _cached(session, name, plan)
    except BaseException:
        session.catalog.dropTempView(str(plan.tempViewName()))
        raise


def _renamed(session: TableSession, plan: Any, text: str) -> DataFrame:
    """What is cached stays cached under its new name, which is in the same place by default."""
    name, new_name = _parts(plan.child().multipartIdentifier()), _parts(plan.newName())
    level = None
    # A view of what is no longer there can be renamed.
    with suppress(AnalysisException):
        level = session.holdfast.storage_level(_table(session, ".".join(name)))
    if level is not None:
        # With all that reads it, and also where the new name is taken.
        session.catalog.uncacheTable(".".join(name))
    answer = _run_by_spark(session, text)
    if level is not None:
        place = name[:-1] if len(new_name) == 1 else []
        session.catalog.cacheTable(".".join([*place, *new_name]), level)
    return answer


def _quoted(parts: Any) -> str:
    return ".".join(_parts(parts))


def _parts(parts: Any) -> list[str]:
    return [_quoted_part(str(parts.apply(index))) for index in range(parts.size())]


def _quoted_part(part: str) -> str:
    return "`" + part.replace("`", "``") + "`"


def _run_by_spark(session: TableSession, text: str) -> DataFrame:
    """Runs a command that Spark runs at once, and that reads nothing kept."""
    with session.holdfast.left_alone():
        return DataFrame(cast(Any, session._jsparkSession).sql(text), session)


def _level(plan: Any) -> StorageLevel | None:
    """The level that a command asks for; None where Spark is to see to it."""
    options = plan.options()
    for key in options.keys().mkString("\n").split("\n"):
        if key.lower() == _STORAGE_LEVEL:
            level = getattr(StorageLevel, options.apply(key).upper(), None)
            return level if level is not None and is_kept(level) else None
    return StorageLevel.MEMORY_AND_DISK_DESER


def _table(session: TableSession, name: str) -> Table:
    return cast("Table", session.table(name))


def _nothing(session: TableSession) -> DataFrame:
    return DataFrame(cast(Any, session._jsparkSession).emptyDataFrame(), session)
