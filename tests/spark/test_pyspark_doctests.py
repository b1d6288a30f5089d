"""PySpark's own examples on an attached session: what passes on Spark passes on Holdfast."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.readwriter import DataFrameReader

OPTIONS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
EACH = 32
TELLING = {"exists", "lateralJoin", "mapInArrow", "mapInPandas", "outer", "rdd", "scalar"}
"""Methods whose examples have failed over kept tables: barriers, and outer references."""
_DATAFRAME = "pyspark.sql.dataframe.DataFrame"
_CATALOG = "pyspark.sql.catalog.Catalog"
_READ_FIRST = "explain() shows what is read from where first"
_AS_IT_IS = "files that were replaced are read as they are, without a refresh"
DIFFERENT = {
    f"{_DATAFRAME}.__dir__": "a Table has members of its own",
    f"{_DATAFRAME}.cache": _READ_FIRST,
    f"{_DATAFRAME}.explain": _READ_FIRST,
    f"{_DATAFRAME}.hint": _READ_FIRST,
    f"{_DATAFRAME}.persist": _READ_FIRST,
    f"{_DATAFRAME}.storageLevel": "its table is cached before the example caches it",
    f"{_CATALOG}.refreshByPath": _AS_IT_IS,
    f"{_CATALOG}.refreshTable": _AS_IT_IS,
}
"""Examples that can't come out as on Spark, each with the reason; the README's table has them."""


class CachingSession:
    """A session, or a part of one, whose DataFrames are cached."""

    def __init__(self, given: Any) -> None:
        self._given = given

    def __getattr__(self, name: str) -> Any:
        return self._cached(getattr(self._given, name))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self._cached(self._given(*args, **kwargs))

    def _cached(self, value: Any) -> Any:
        if isinstance(value, DataFrame):
            return value if value.isStreaming else value.cache()
        leads_there = callable(value) or isinstance(value, DataFrameReader)
        return CachingSession(value) if leads_there else value


class _Checker(doctest.OutputChecker):
    """What Holdfast has in the place of an object of PySpark's shows the name of its own class."""

    def check_output(self, want: str, got: str, optionflags: int) -> bool:
        if want.startswith(("<...", "<class '...")) and "holdfast.api." in got:
            return True
        return super().check_output(want, got, optionflags)


def failures(test: doctest.DocTest, module: ModuleType, session: Any) -> list[str]:
    """What doctest says of the examples that fail."""
    said: list[str] = []
    test.globs = {**vars(module), "spark": session}
    runner = doctest.DocTestRunner(_Checker(), verbose=False, optionflags=OPTIONS)
    runner.run(test, out=said.append, clear_globs=False)
    return said


# Of each module one example in so many is in the suite, beside those of TELLING.
SUITE = {
    "catalog": 6,
    "column": 2 * EACH,
    "dataframe": 2 * EACH,
    "functions.builtin": 12 * EACH,
    "group": 4,
    "readwriter": EACH,
    "window": 4,
}
ALL = [
    pytest.param(name, 1, cached, id=f"all of {name}-{cached}", marks=pytest.mark.soak)
    for name in SUITE
    for cached in (True, False)
]


@pytest.mark.parametrize(
    ("name", "each", "cached"), [*((name, each, True) for name, each in SUITE.items()), *ALL]
)
@pytest.mark.timeout(3600)
def test_what_passes_on_spark_passes_on_an_attached_session(
    attached: Any,
    spark: SparkSession,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    each: int,
    cached: bool,
) -> None:
    module = importlib.import_module(f"pyspark.sql.{name}")
    monkeypatch.chdir(tmp_path)
    plain = spark.newSession()
    failed: dict[str, str] = {}
    tests = [test for test in doctest.DocTestFinder().find(module) if test.examples]
    for number, test in enumerate(tests):
        if number % each and test.name.rpartition(".")[2] not in TELLING:
            continue
        said = failures(test, module, CachingSession(attached) if cached else attached)
        attached.holdfast.invalidate_all()
        # Some fail on Spark as well, for want of a terminal or a library.
        if said and not failures(test, module, plain):
            failed[test.name] = "\n".join(said)
    # Some examples leave what Spark itself has cached.
    plain.catalog.clearCache()
    unexpected = [said for key, said in failed.items() if key not in DIFFERENT]
    assert not unexpected, "\n".join(unexpected)
