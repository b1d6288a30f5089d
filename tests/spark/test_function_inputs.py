"""What functions call themselves, import and see of their tasks, with real workers."""

from __future__ import annotations

import importlib
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest
from pyspark import TaskContext
from pyspark.sql import DataFrame
from pyspark.sql import functions as F


def first(x: int) -> int:
    return x


def second(x: int) -> int:
    return x


def named(function: Any) -> Any:
    return lambda x: str(getattr(function, "__name__"))  # noqa: B009


def shown(function: Any) -> Any:
    return lambda x: repr(function).split()[1]


def formatted(function: Any) -> Any:
    return lambda x: "{0.__name__}".format(function)  # noqa: UP030, UP032


def calling(function: Any) -> Any:
    return lambda x: str(function(x))


def local(name: str) -> Any:
    """A function of a notebook: pickled by what it is made of."""

    def function(x: int) -> int:
        return x

    function.__name__ = name
    function.__qualname__ = name
    function.__module__ = "__main__"
    return function


def of(function: Any, kind: str = "string") -> Callable[[Any], DataFrame]:
    return lambda p: p.spark.table("riders").select(F.udf(function, kind)("e").alias("x"))


@pytest.mark.parametrize("asking", [named, shown, formatted])
def test_what_a_function_is_called_counts_where_it_is_asked(probe: Any, asking: Any) -> None:
    probe.keep(of(asking(local("first"))))
    probe.assert_reads(of(asking(local("first"))))
    probe.assert_computes(of(asking(local("second"))))


def test_what_a_function_is_called_does_not_count_where_it_is_called(probe: Any) -> None:
    probe.keep(of(calling(local("first"))))
    probe.assert_reads(of(calling(local("second"))))


def test_the_local_time_counts_in_which_moments_are_handed_over(
    probe: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is that of Python's workers, whatever zone the session and Java have."""
    probe.keep(of(calling(local("first"))))
    try:
        with monkeypatch.context() as patch:
            patch.setenv("TZ", "Asia/Kathmandu")
            time.tzset()
            probe.assert_computes(of(calling(local("first"))))
    finally:
        time.tzset()
    probe.assert_reads(of(calling(local("first"))))


def test_a_time_zone_of_workers_counts(probe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """As `spark.executorEnv.TZ` sets it."""

    def moments(p: Any) -> DataFrame:
        moment = F.timestamp_seconds(F.lit(0))
        return p.spark.table("riders").select(F.udf(lambda t: str(t), "string")(moment).alias("x"))

    probe.keep(moments)
    monkeypatch.setitem(probe.spark.sparkContext.environment, "TZ", "Asia/Kathmandu")
    probe.assert_computes(moments)
    monkeypatch.undo()
    probe.assert_reads(moments)


def test_documentation_and_annotations_count_where_they_are_asked(probe: Any) -> None:
    def asking(name: str, **attributes: object) -> Any:
        function = local("first")
        for attribute, value in attributes.items():
            setattr(function, attribute, value)
        return lambda x: str(getattr(function, name))

    probe.keep(of(asking("__doc__", __doc__="a")))
    probe.assert_computes(of(asking("__doc__", __doc__="b")))
    probe.keep(of(asking("__annotations__", __annotations__={"x": "a"})))
    probe.assert_computes(of(asking("__annotations__", __annotations__={"x": "b"})))


@pytest.fixture
def module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Any]]:
    """Writes modules and loads them anew, as another run of the program would."""
    # Workers look for modules where the driver's module was found.
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)

    def write(**sources: str) -> Any:
        for name, source in sources.items():
            (tmp_path / f"{name}.py").write_text(source)
            sys.modules.pop(name, None)
        importlib.invalidate_caches()
        return importlib.import_module(next(iter(sources)))

    yield write
    for name in ("hf_outer", "hf_inner"):
        sys.modules.pop(name, None)


def test_a_module_behind_a_module_counts(probe: Any, module: Callable[..., Any]) -> None:
    outer = "import hf_inner\nTABLE = {'k': hf_inner.V}\ndef g(x): return TABLE['k']"

    def identity(value: int) -> str:
        loaded = module(hf_outer=outer, hf_inner=f"V = {value}")
        return str(probe.identity(of(loaded.g, "long")))

    one = identity(1)
    assert identity(1) == one
    two = identity(2)
    assert two != one
    # Workers that have imported one of them may go on with it.
    assert identity(2) != two
    assert identity(1) != one


def test_a_module_that_reads_its_environment_raises_a_doubt(
    probe: Any, module: Callable[..., Any]
) -> None:
    loaded = module(hf_outer="import os\nV = os.environ.get('A')\ndef g(x): return x")
    assert probe.identity(of(loaded.g, "long")) != probe.identity(of(loaded.g, "long"))


def property_of_the_job(x: int) -> str | None:
    context = TaskContext.get()
    return context.getLocalProperty("hf.test") if context is not None else None


def test_a_property_of_the_job_that_a_function_reads(probe: Any) -> None:
    context = probe.spark.sparkContext
    try:
        context.setLocalProperty("hf.test", "a")
        assert {row.x for row in probe.keep(of(property_of_the_job)).collect()} == {"a"}
        context.setLocalProperty("hf.test", "b")
        probe.assert_computes(of(property_of_the_job))
    finally:
        context.setLocalProperty("hf.test", None)


def test_a_file_that_a_function_reads(probe: Any, tmp_path: Path) -> None:
    path = tmp_path / "factor"
    place = str(path)

    def scaled(x: int) -> int:
        with open(place) as file:
            return x * int(file.read())

    path.write_text("2")
    probe.keep(of(scaled, "long"))
    path.write_text("3")
    probe.assert_computes(of(scaled, "long"))


def test_a_file_that_a_path_reads(probe: Any, tmp_path: Path) -> None:
    path = tmp_path / "factor"

    def query() -> Callable[[Any], DataFrame]:
        return of(lambda x: x * int(path.read_text()), "long")

    path.write_text("2")
    probe.keep(query())
    path.write_text("3")
    probe.assert_computes(query())


def test_a_variable_that_a_function_in_batches_reads(probe: Any) -> None:
    def batches(frames: Any) -> Any:
        import os

        for frame in frames:
            yield pd.DataFrame({"x": [os.environ.get("HF_TEST", "-")] * len(frame)})

    def query(p: Any) -> DataFrame:
        return p.spark.table("riders").select("e").mapInPandas(batches, "x string")

    probe.keep(query)
    probe.assert_computes(query)


def test_files_that_a_function_only_writes_raise_no_doubt(probe: Any, tmp_path: Path) -> None:
    place = str(tmp_path / "log")

    def logged(x: int) -> int:
        with open(place, "a") as log:
            log.write(".")
        return x

    probe.keep(of(logged, "long"))
    probe.assert_reads(of(logged, "long"))


def doubled(frame: pd.DataFrame) -> pd.DataFrame:
    return frame * 2


def groups(schema: str, function: Any = doubled) -> Callable[[Any], DataFrame]:
    return lambda p: (
        p.spark.table("riders").select("a", "e").groupBy("a").applyInPandas(function, schema)
    )


def test_the_schema_that_a_function_of_groups_returns(probe: Any) -> None:
    probe.keep(groups("a long, e long"))
    probe.assert_reads(groups("a long, e long"))
    probe.assert_computes(groups("a long, e int"))
    probe.assert_computes(groups("e long, a long"))


def test_the_kind_of_a_function_counts(probe: Any) -> None:
    def same(x: int) -> int:
        return x

    def same_in_pandas(x: pd.Series) -> pd.Series:
        return x

    def same_in_arrow(x: pa.Array) -> pa.Array:
        return x

    def query(function: Any) -> Callable[[Any], DataFrame]:
        return lambda p: p.spark.table("riders").select(function("e").alias("x"))

    kinds: list[Any] = [
        F.udf(same, "long", useArrow=False),
        F.udf(same, "long", useArrow=True),
        F.pandas_udf(same_in_pandas, "long"),  # type: ignore[call-overload]
        F.arrow_udf(same_in_arrow, "long"),  # type: ignore[call-overload]
    ]
    assert len({kind.evalType for kind in kinds}) == len(kinds)
    found = {probe.identity(query(kind)) for kind in kinds}
    assert len(found) == len(kinds)


def steps(by: int) -> Any:
    @F.udtf(returnType="n: int")
    class Steps:
        def eval(self, x: int) -> Iterator[tuple[int]]:
            yield (x + by,)

    return Steps.asDeterministic()  # type: ignore[attr-defined]


def test_functions_that_give_tables(probe: Any) -> None:
    def query(by: int) -> Callable[[Any], DataFrame]:
        return lambda p: steps(by)(F.lit(1))

    probe.keep(query(1))
    probe.assert_reads(query(1))
    probe.assert_computes(query(2))


def test_a_deep_value_ends_in_no_recursion_error(probe: Any) -> None:
    deep: list[Any] = []
    for _ in range(250):
        deep = [deep]

    def query(p: Any) -> DataFrame:
        return of(lambda x: x + len(deep), "long")(p)  # type: ignore[no-any-return]

    probe.keep(query)
    probe.assert_reads(query)
