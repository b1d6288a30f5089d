"""PySpark's own examples, with each base table cached: what passes on Spark passes on Holdfast."""

from __future__ import annotations

import doctest
import importlib
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.readwriter import DataFrameReader

from holdfast import Environment
from holdfast.api.table import Table
from holdfast.errors import UnsupportedTypeError

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
EACH = 16
"""Of the longest modules one example in so many is in the suite, beside those below."""
TELLING = {"exists", "lateralJoin", "mapInArrow", "mapInPandas", "outer", "rdd", "scalar"}
"""Methods whose examples have failed over kept tables: barriers, and outer references."""
_DATAFRAME = "pyspark.sql.dataframe.DataFrame"
DIFFERENT = {
    f"{_DATAFRAME}.__dir__": "a Table has members of its own",
    f"{_DATAFRAME}.cache": "explain() shows what is read, which is no InMemoryTableScan",
    f"{_DATAFRAME}.explain": "what is read from where comes first",
    f"{_DATAFRAME}.hint": "explain() shows what is read from where first",
    f"{_DATAFRAME}.na": "shows the name of the class",
    f"{_DATAFRAME}.persist": "explain() shows what is read from where first",
    f"{_DATAFRAME}.stat": "shows the name of the class",
    f"{_DATAFRAME}.storageLevel": "what is kept is on no executor's level",
    f"{_DATAFRAME}.write": "shows the name of the class",
}
"""Examples that can't come out as on Spark, each with the reason."""


class CachingSession:
    """A session, or a part of one, that gives cached tables where the other gives DataFrames."""

    def __init__(self, env: Environment, given: Any) -> None:
        self._env = env
        self._given = given

    def __getattr__(self, name: str) -> Any:
        return self._cached(getattr(self._given, name))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._cached(self._given(*args, **kwargs))

    def _cached(self, value: Any) -> Any:
        if isinstance(value, DataFrame):
            return self._table(value)
        leads_there = callable(value) or isinstance(value, DataFrameReader)
        return CachingSession(self._env, value) if leads_there else value

    def _table(self, df: DataFrame) -> Table:
        table = self._env.from_dataframe(df)
        try:
            return table if table.isStreaming else table.cache()
        except UnsupportedTypeError:
            return table


class _Checker(doctest.OutputChecker):
    """Takes a table that shows itself for a DataFrame that does."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        shown = re.sub(r"\b(Cached)?Table\[", "DataFrame[", got)
        return super().check_output(want, shown, optionflags)


def failures(test: doctest.DocTest, module: ModuleType, session: Any) -> list[str]:
    """What doctest says of the examples that fail."""
    said: list[str] = []
    test.globs = {**vars(module), "spark": session}
    runner = doctest.DocTestRunner(checker=_Checker(), verbose=False, optionflags=OPTIONS)
    runner.run(test, out=said.append, clear_globs=False)
    return said


@pytest.mark.parametrize(
    ("name", "whole"),
    [
        ("dataframe", False),
        ("column", False),
        ("group", True),
        pytest.param("dataframe", True, marks=pytest.mark.soak),
        pytest.param("column", True, marks=pytest.mark.soak),
    ],
)
@pytest.mark.timeout(900)
def test_what_passes_on_spark_passes_over_cached_tables(
    env: Environment,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    whole: bool,
) -> None:
    module = importlib.import_module(f"pyspark.sql.{name}")
    monkeypatch.chdir(tmp_path)
    failed: dict[str, str] = {}
    expected: set[str] = set()
    tests = doctest.DocTestFinder().find(module)
    for number, test in enumerate(tests):
        if not (whole or number % EACH == 0 or test.name.rpartition(".")[2] in TELLING):
            continue
        said = failures(test, module, CachingSession(env, spark)) if test.examples else []
        env.invalidate_all()
        expected |= {test.name} & DIFFERENT.keys()
        # Some fail on Spark as well, for want of a terminal or a library.
        if said and not failures(test, module, spark):
            failed[test.name] = "\n".join(said)
    unexpected = [said for key, said in failed.items() if key not in DIFFERENT]
    assert not unexpected, "\n".join(unexpected)
    assert failed.keys() == expected
