"""Random pipelines: what is read from cache has the rows that Spark computes.

Each step is a piece of SQL over a table of four columns (two whole numbers, a float, a text), in
which `{1}` and the like are drawn; a step may be written in a second way, which computes the same.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import zip_longest
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import event, given, reject, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from holdfast import Environment, VertexOutcome
from holdfast.testing import assert_same, difference, outcomes

# -- what pipelines are made of --------------------------------------------------------------------

NAMES = ("k", "v", "d", "s")
OTHER_NAMES = ("key", "VALUE", "`a float`", "text")
NUMBERS = [-1, 0, 1, 2, 3, 4]
FLOATS = ["0.0D", "-0.0D", "1.5D", "DOUBLE('NaN')"]
TURNED = {"<": ">", ">": "<", "<=": ">=", ">=": "<=", "=": "=", "<=>": "<=>"}
# A total order in which only equal rows are ties: as texts, zeros of both signs differ.
ORDER = "{k}{0}, {v}, {s}, CAST({d} AS STRING)"
KEPT = "SELECT * FROM {t} t WHERE "

CONDITIONS = [
    ("{c} {o} {n}", "{n} {turned} {c}"),
    ("{c} IN ({n}, {m}, 1)", "{c} IN (1, {m}, {n})"),
    ("{s} = '{w}'", "'{w}' = {s}"),
    ("NOT {s} = '{w}'", "NOT '{w}' = {s}"),
    ("{x} IS NULL",),
    ("({c} {o} {n} AND {v} < {m})", "({m} > {v} AND {n} {turned} {c})"),
    ("({c} {o} {n} OR {s} = '{w}')", "('{w}' = {s} OR {n} {turned} {c})"),
]
JOIN = (
    "SELECT l.{k} AS {k}, r.{v} AS {v}, l.{d} AS {d}, r.{s} AS {s}"
    " FROM {t} l {join} JOIN {u} r ON l.{k} {equals} r.{k}"
)
SEMI = "SELECT l.* FROM {t} l LEFT {semi} JOIN {u} r ON l.{k} = r.{k}"
STEPS: dict[str, tuple[str, ...]] = {
    **{f"filter {n}": tuple(KEPT + each for each in way) for n, way in enumerate(CONDITIONS)},
    **{
        f"compute {sign}": tuple(
            f"SELECT {{k}} AS {{k}}, CASE WHEN {{c}} {{o}} {{n}} THEN {value} ELSE {{k}} END"
            " AS {v},"
            " coalesce({d}, {f}) AS {d}, concat({s}, '''') AS {s} FROM {t}"
            for value in values
        )
        for sign, values in {
            "+": ("{v} + {m}", "{m} + {v}"),
            "*": ("{v} * {m}", "{m} * {v}"),
            "-": ("{v} - {m}",),
            "%": ("{v} % 5",),
        }.items()
    },
    **{
        f"group {function}": (
            f"SELECT {{k}} AS {{k}}, CAST({function} AS BIGINT) AS {{v}},"
            " max({d} + 0.0D) AS {d}, max({s}) AS {s} FROM {t} GROUP BY {k}",
        )
        for function in (
            *("sum({v})", "sum(DISTINCT {v})", "count({v})"),
            *("count(DISTINCT {v})", "min({v})", "max({v})"),
        )
    },
    "join": (JOIN, JOIN.replace("l.{k} {equals} r.{k}", "r.{k} {equals} l.{k}")),
    "semi": (SEMI, SEMI.replace("l.{k} = r.{k}", "r.{k} = l.{k}")),
    **{
        f"window {function}": (
            f"SELECT {{k}} AS {{k}}, CAST({function} AS BIGINT) AS {{v}}, {{d}} AS {{d}},"
            " {s} AS {s} FROM {t} WINDOW w AS (PARTITION BY {k} ORDER BY "
            + ORDER.replace("{0}", "{desc}")
            + ")",
        )
        for function in ("rank() OVER w", "lag({v}, {one}) OVER w", "count({v}) OVER w")
    },
    "union": ("SELECT * FROM {t} UNION ALL SELECT * FROM {u}",),
    "union before": ("SELECT * FROM {u} UNION ALL SELECT * FROM {t}",),
    "distinct": ("SELECT DISTINCT * FROM {t}", "SELECT * FROM {t} GROUP BY ALL"),
    "intersect": ("SELECT * FROM {t} INTERSECT SELECT * FROM {t}",),
    "top": ("SELECT * FROM {t} ORDER BY " + ORDER.replace("{0}", "{desc}") + " LIMIT {rows}",),
    "order": ("SELECT * FROM {t} ORDER BY " + ORDER.replace("{0}", "{desc}"),),
    "explode": (
        "SELECT {k} AS {k}, {explode}(CASE WHEN {v} IS NOT NULL THEN array({v}, {v} + {one}) END)"
        " AS {v}, {d} AS {d}, {s} AS {s} FROM {t}",
    ),
    "in": (
        KEPT + "{k} IN (SELECT {k} FROM {u} WHERE {v} > {n})",
        KEPT + "t.{k} IN (SELECT o.{k} FROM {u} o WHERE {n} < o.{v})",
    ),
    "exists": (
        KEPT + "EXISTS (SELECT 1 FROM {u} o WHERE o.{k} = t.{k})",
        KEPT + "EXISTS (SELECT 1 FROM {u} o WHERE t.{k} = o.{k})",
    ),
    "scalar": (KEPT + "{v} < (SELECT max({v}) - {n} FROM {u})",),
}
SOURCES = 3
PARTS: dict[str, st.SearchStrategy[Any]] = {
    "column": st.sampled_from([0, 1, 2]),
    "any_column": st.sampled_from([0, 1, 2, 3]),
    "o": st.sampled_from(sorted(TURNED)),
    "n": st.sampled_from(NUMBERS),
    "m": st.sampled_from(NUMBERS),
    "w": st.sampled_from(["x", "y", "X", ""]),
    "f": st.sampled_from(FLOATS),
    "join": st.sampled_from(["INNER", "LEFT", "RIGHT", "FULL"]),
    "semi": st.sampled_from(["SEMI", "ANTI"]),
    "equals": st.sampled_from(["=", "<=>"]),
    "desc": st.sampled_from(["", " DESC", " DESC NULLS FIRST", " NULLS LAST"]),
    "explode": st.sampled_from(["explode", "explode_outer"]),
    "one": st.integers(1, 2),
    "rows": st.integers(1, 5),
    # A source, or the table itself.
    "other": st.sampled_from([*range(SOURCES), None]),
}
# Other ones each time only where there is time to look at what they find.
SAME_EACH_TIME = settings(derandomize=settings.default.max_examples < 1000)


@dataclass(frozen=True)
class Step:
    name: str
    drawn: dict[str, Any]

    def text(self, table: str, way: int, names: tuple[str, ...]) -> str:
        drawn = self.drawn
        other = table if drawn["other"] is None else source(drawn["other"], names)
        ways = STEPS[self.name]
        places = {"t": table, "u": other, "c": names[drawn["column"]]}
        places |= {"x": names[drawn["any_column"]], "turned": TURNED[drawn["o"]]}
        return ways[min(way, len(ways) - 1)].format(
            **dict(zip(NAMES, names, strict=True)) | drawn | places
        )


@dataclass(frozen=True)
class Pipeline:
    """A source, and what is done to it."""

    reads: int
    steps: tuple[Step, ...]

    def stages(self, way: int = 0) -> list[str]:
        """The query after no step, after one, and so on."""
        names = OTHER_NAMES if way else NAMES
        queries = [f"SELECT * FROM {source(self.reads, names)}"]
        for step in self.steps:
            queries.append(step.text(f"({queries[-1]})", way, names))
        return queries

    def is_united_further(self, place: int) -> bool:
        """Whether the table after so many steps is a union that the next step adds to."""
        united = [
            each.name.startswith("union") for each in self.steps[max(place - 1, 0) : place + 1]
        ]
        return united == [True, True]

    @property
    def ordered(self) -> bool:
        return self.steps[-1].name in ("top", "order")


def source(which: int, names: tuple[str, ...]) -> str:
    columns = ", ".join(f"{one} AS {other}" for one, other in zip(NAMES, names, strict=True))
    return f"(SELECT {columns} FROM source_{which})"


steps = st.builds(Step, st.sampled_from(sorted(STEPS)), st.fixed_dictionaries(PARTS))
pipelines = st.builds(
    Pipeline, st.integers(0, SOURCES - 1), st.lists(steps, min_size=1, max_size=4).map(tuple)
)


@st.composite
def mutants(draw: st.DrawFn, pipeline: Pipeline) -> Pipeline:
    """The pipeline with one thing that is drawn, or the whole of a step, replaced by another."""
    place = draw(st.integers(0, len(pipeline.steps) - 1))
    step, other = pipeline.steps[place], draw(steps)
    used = [each for each in PARTS if each in "".join(STEPS[step.name])] + ["column", "other"]
    part = draw(st.sampled_from([*used, "name"]))
    changed = (
        replace(step, name=other.name)
        if part == "name"
        else replace(step, drawn=step.drawn | {part: other.drawn[part]})
    )
    return replace(pipeline, steps=(*pipeline.steps[:place], changed, *pipeline.steps[place + 1 :]))


# -- running them ----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def sources(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """Three small tables: files in several parts, rows in the plan, and computed ones."""
    folder = str(tmp_path_factory.mktemp("sources") / "source_0")
    spark.sql("""SELECT * FROM VALUES
          (1L, 1L, 0.0D, 'x'), (1L, 1L, -0.0D, 'x'), (1L, 2L, DOUBLE('NaN'), 'y'),
          (2L, NULL, NULL, NULL), (2L, 3L, 1.5D, 'X'), (NULL, 0L, -2.5D, ''),
          (2L, 3L, 1.5D, 'X'), (3L, 4L, DOUBLE('Infinity'), 'it''s')
        AS t(k, v, d, s)""").repartition(3, "v").write.parquet(folder)
    spark.read.parquet(folder).createOrReplaceTempView("source_0")
    for name, query in {
        "source_1": "* FROM VALUES (1L, 3L, -0.0D, 'y'), (2L, 1L, 2.0D, NULL),"
        " (4L, NULL, 0.0D, 'x') AS t(k, v, d, s)",
        "source_2": "id % 3 AS k, id AS v, id / 2 AS d, CAST(id % 2 AS STRING) AS s"
        " FROM range(0, 6, 1, 2)",
    }.items():
        spark.sql(f"SELECT {query}").createOrReplaceTempView(name)
    yield spark
    for which in range(SOURCES):
        spark.catalog.dropTempView(f"source_{which}")


def texts(df: DataFrame) -> list[str]:
    """The rows as texts that know NaN and the sign of zero, without the columns' names."""
    return [repr(tuple(row)) for row in df.collect()]


def computed(spark: SparkSession, query: str) -> list[str]:
    """The rows that Spark computes, where it can."""
    try:
        return texts(spark.sql(query))
    except (PySparkException, Py4JJavaError):
        # An overflow, or what its optimizer makes of a table united with itself and then refuses.
        reject()


def check(rows: list[str], expected: list[str], pipeline: Pipeline) -> None:
    if any(step.name in ("distinct", "intersect") for step in pipeline.steps):
        # Which of two equal zeros is left depends on whether Spark knows of more than one row.
        rows, expected = ([row.replace("-0.0", "0.0") for row in each] for each in (rows, expected))
    assert sorted(rows) == sorted(expected)
    if pipeline.ordered:
        assert rows == expected


def environment(spark: SparkSession, folder: str, **more: object) -> Environment:
    directory = str(Path(folder) / "kept")
    return Environment(spark, config={"intermediate-result-storage.directory": directory, **more})


@settings(SAME_EACH_TIME, max_examples=settings.default.max_examples // 4)
@pytest.mark.timeout(0)
@given(data=st.data(), pipeline=pipelines)
def test_a_random_pipeline_reads_what_spark_computes(
    sources: SparkSession, data: st.DataObject, pipeline: Pipeline
) -> None:
    places = st.sets(st.integers(0, len(pipeline.steps)), min_size=1, max_size=2)
    cached, mutant = data.draw(places), data.draw(mutants(pipeline))
    query, other = pipeline.stages(), pipeline.stages(way=1)
    expected = computed(sources, query[-1])
    with TemporaryDirectory() as folder, environment(sources, folder) as env:
        for one, same in zip_longest(query, other):
            assert_same(env.sql(one), env.sql(same))
        for place in cached:
            env.sql(query[place]).cache()
        check(texts(env.sql(query[-1])), expected, pipeline)
        # Spark makes one union of several in a row: those below the last are not in the plan.
        reads = any(not pipeline.is_united_further(place) for place in cached)
        check(texts(env.sql(other[-1])), expected, pipeline)
        assert (VertexOutcome.READ in outcomes(env)) == reads
        changed = texts(env.sql(mutant.stages()[-1]))
        event(f"the mutant reads something: {VertexOutcome.READ in outcomes(env)}")
        if VertexOutcome.READ in outcomes(env):
            check(changed, computed(sources, mutant.stages()[-1]), mutant)


@settings(SAME_EACH_TIME)
@pytest.mark.timeout(0)
@given(data=st.data(), pipeline=pipelines)
def test_pipelines_that_are_one_computation_have_the_same_rows(
    sources: SparkSession, data: st.DataObject, pipeline: Pipeline
) -> None:
    queries = [pipeline.stages()[-1], data.draw(mutants(pipeline)).stages()[-1]]
    with TemporaryDirectory() as folder, environment(sources, folder) as env:
        same = difference(*map(env.sql, queries)) is None
    event(f"same: {same}")
    if same and queries[0] != queries[1]:
        check(*[computed(sources, query) for query in queries], pipeline)


@settings(SAME_EACH_TIME, max_examples=settings.default.max_examples // 15)
@pytest.mark.timeout(0)
@given(data=st.data(), pipeline=pipelines)
def test_what_recurs_in_random_pipelines_is_what_spark_computes(
    sources: SparkSession, data: st.DataObject, pipeline: Pipeline
) -> None:
    asked = [pipeline, *(data.draw(mutants(pipeline)) for _ in range(2))]
    config = {"implicit-cache.enabled": True, "implicit-cache.results.min-saved-time": "0 s"}
    with TemporaryDirectory() as folder, environment(sources, folder, **config) as env:
        for each in asked * 3:
            needed = data.draw(st.sets(st.sampled_from(NAMES), min_size=1))
            query = f"SELECT {', '.join(sorted(needed))} FROM ({each.stages()[-1]})"
            expected = computed(sources, query)
            # The order of what is asked of a table is none of its own.
            assert sorted(texts(env.sql(query))) == sorted(expected) or any(
                step.name in ("distinct", "intersect") for step in each.steps
            )
            event(f"reads something: {VertexOutcome.READ in outcomes(env)}")
