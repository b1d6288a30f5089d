"""What tests ask of programs that use Holdfast: what is read, what is computed, what is the same.

Nothing here runs a Spark job of its own; `settle` waits for those of the implicit cache. The
fixtures of pytest are in `holdfast.testing.plugin`, which is off unless a `conftest.py` asks for
it:

    pytest_plugins = ["holdfast.testing.plugin"]
"""

from __future__ import annotations

from pyspark.sql import DataFrame, SparkSession

from holdfast.api.environment import Environment
from holdfast.api.explained import ExplainedPart, Fate
from holdfast.api.table import Table
from holdfast.plan.difference import ComputationDifference
from holdfast.plan.difference import difference as _difference
from holdfast.runtime.vertex_outcome import VertexOutcome

__all__ = [
    "ComputationDifference",
    "assert_computes",
    "assert_differ",
    "assert_reads",
    "assert_same",
    "difference",
    "outcomes",
    "parts",
    "settle",
]


def parts(df: DataFrame) -> list[ExplainedPart]:
    """What the next job of a DataFrame makes of the parts of its plan that are cached or kept.

    Args:
        df: of an attached session, or of an environment.

    Returns:
        for each of them what becomes of it, and what it computes, once however often it stands in
        the plan; empty where nothing is cached or kept of it.

    Raises:
        TypeError: when it is a DataFrame of plain Spark.

    Example:
        >>> hot = env.from_dataframe(spark.range(10)).where("id > 6").cache()
        >>> [part.fate.value for part in parts(hot.groupBy().count())]
        ['to be kept by the next job']
    """
    return _environment_of(df).explained(_table(df))


def assert_reads(df: DataFrame, times: int | None = None) -> None:
    """A job of a DataFrame would read what is kept.

    Args:
        df: of an attached session, or of an environment.
        times: how many kept results it reads; one that is joined with itself is one. None: any
            number, from 1.

    Raises:
        AssertionError: when it would not: with what it would do instead.
        TypeError: when it is a DataFrame of plain Spark.

    Example:
        >>> hot = env.from_dataframe(spark.range(10)).where("id > 4").cache()
        >>> hot.count()
        5
        >>> assert_reads(env.from_dataframe(spark.range(10)).where("id > 4").groupBy().count())
    """
    found = [part for part in parts(df) if part.fate is Fate.READ]
    if not found if times is None else len(found) != times:
        expected = "at least one kept result" if times is None else f"{times} kept results"
        raise AssertionError(f"expected that {expected} would be read:\n{_explained(df)}")


def assert_computes(df: DataFrame) -> None:
    """A job of a DataFrame would read nothing that is kept.

    Args:
        df: of an attached session, or of an environment.

    Raises:
        AssertionError: when it would: with what it would read.
        TypeError: when it is a DataFrame of plain Spark.

    Example:
        >>> assert_computes(env.from_dataframe(spark.range(10)).where("id > 8"))
    """
    if any(part.fate is Fate.READ for part in parts(df)):
        raise AssertionError(f"expected that nothing would be read:\n{_explained(df)}")


def difference(one: DataFrame, other: DataFrame) -> ComputationDifference | None:
    """Where two DataFrames part that aren't the same computation.

    Args:
        one: of an attached session, or of an environment.
        other: another one, which may be of another session.

    Returns:
        the first operator, expression, source or setting at which they differ, from the top, or
        why one of them matches only itself; None where what is kept of one is read for the other.

    Raises:
        TypeError: when one is a DataFrame of plain Spark.
        UnsupportedPlanError: when a plan can't be read.

    Example:
        >>> numbers = env.from_dataframe(spark.range(10))
        >>> print(difference(numbers.where("id > 4"), numbers.where("4 < id")))
        None
        >>> difference(numbers.where("id > 4"), numbers.where("id > 5")).kind
        'expression'
    """
    compared = (_environment_of(each).compared(_table(each)) for each in (one, other))
    return _difference(*compared)


def assert_same(one: DataFrame, other: DataFrame) -> None:
    """Two DataFrames are the same computation.

    Args:
        one: of an attached session, or of an environment.
        other: another one, which may be of another session.

    Raises:
        AssertionError: when they aren't: with where they part.
        TypeError: when one is a DataFrame of plain Spark.

    Example:
        >>> numbers = env.from_dataframe(spark.range(10))
        >>> assert_same(numbers.where("id > 4"), numbers.where("4 < id"))
    """
    found = difference(one, other)
    if found is not None:
        raise AssertionError(f"expected the same computation: {found}")


def assert_differ(one: DataFrame, other: DataFrame, kind: str | None = None) -> None:
    """Two DataFrames are not the same computation.

    Args:
        one: of an attached session, or of an environment.
        other: another one, which may be of another session.
        kind: what they differ in: `operator`, `expression`, `source`, `setting` or `reason`; None:
            in anything.

    Raises:
        AssertionError: when they are, or differ in something else.
        TypeError: when one is a DataFrame of plain Spark.

    Example:
        >>> numbers = env.from_dataframe(spark.range(10))
        >>> assert_differ(numbers.where("id > 4"), numbers.where("id > 5"), "expression")
    """
    found = difference(one, other)
    if found is None:
        raise AssertionError("expected two computations, found the same one")
    if kind is not None and found.kind != kind:
        raise AssertionError(f"expected a difference in kind {kind!r}: {found}")


def outcomes(session: SparkSession | Environment) -> list[VertexOutcome]:
    """What became of each vertex of the last job.

    Args:
        session: an attached session, or an environment.

    Returns:
        in the order of the job, the last one for what computed the answer; empty before any job.

    Raises:
        TypeError: when it is a session of plain Spark.

    Example:
        >>> hot = env.from_dataframe(spark.range(10)).where("id > 5").cache()
        >>> hot.count()
        4
        >>> [outcome.value for outcome in outcomes(env)]
        ['produced', 'run']
    """
    result = _environment_of_session(session).last_job_result
    return [] if result is None else [vertex.outcome for vertex in result.vertices]


def settle(session: SparkSession | Environment, seconds: float = 60.0) -> None:
    """Waits until all that queries have left to be kept without being asked is kept or refused.

    What the implicit cache keeps while a program is idle, and what it learns of queries that have
    ended, is the work of threads in the background, which any action holds up.

    Args:
        session: an attached session, or an environment.
        seconds: how long it waits for what is being kept.

    Raises:
        TimeoutError: when something is still to be kept then.
        TypeError: when it is a session of plain Spark.

    Example:
        >>> settle(env)
    """
    if not _environment_of_session(session).settle(seconds):
        raise TimeoutError(f"results are still to be kept after {seconds:g} s")


def _environment_of_session(session: SparkSession | Environment) -> Environment:
    if isinstance(session, Environment):
        return session
    found = getattr(session, "holdfast", None)
    if not isinstance(found, Environment):
        raise TypeError(
            "expected an Environment or an attached session, found a session of plain Spark: "
            "attach it with holdfast.attach(spark)"
        )
    return found


def _table(df: DataFrame) -> Table:
    if not isinstance(df, Table):
        raise TypeError(
            f"expected a DataFrame of an attached session or of an Environment, found a "
            f"{type(df).__name__} of plain Spark: attach its session with holdfast.attach(spark)"
        )
    return df


def _environment_of(df: DataFrame) -> Environment:
    context = _table(df)._holdfast_context
    assert isinstance(context, Environment)
    return context


def _explained(df: DataFrame) -> str:
    return _environment_of(df).explain_kept(_table(df))
