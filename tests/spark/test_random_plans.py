"""Random pipelines: whatever is read from cache has the rows that Spark computes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import event, given, reject, settings
from hypothesis import strategies as st
from py4j.protocol import Py4JJavaError
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from holdfast import Environment
from holdfast.runtime.vertex_outcome import VertexOutcome
from holdfast.spark.session_settings import session_inputs

# Every table of a pipeline has these four columns: two whole numbers, a float, a text.
K, V, D, S = range(4)


@dataclass(frozen=True)
class Style:
    """A way to write one and the same pipeline down.

    Attributes:
        names: what the columns are called.
        turned: commutative operands, comparisons and lists go the other way round.
    """

    names: tuple[str, str, str, str]
    turned: bool

    def column(self, place: int, side: str = "") -> Column:
        return F.col(side + self.names[place])

    def named(self, *columns: Column) -> list[Column]:
        return [column.alias(name) for column, name in zip(columns, self.names, strict=True)]


PLAIN = Style(("k", "v", "d", "s"), turned=False)
OTHER = Style(("key", "VALUE", "a float", "text"), turned=True)


# -- predicates and expressions -----------------------------------------------------------------


@dataclass(frozen=True)
class Compare:
    place: int
    operator: str
    number: int

    def column(self, style: Style) -> Column:
        mirrored = {"<": ">", ">": "<", "<=": ">=", ">=": "<="}
        left, right = style.column(self.place), F.lit(self.number)
        operator = self.operator
        if style.turned:
            left, right, operator = right, left, mirrored.get(operator, operator)
        match operator:
            case "<":
                return left < right
            case ">":
                return left > right
            case "<=":
                return left <= right
            case ">=":
                return left >= right
            case "<=>":
                return left.eqNullSafe(right)
        return left == right


@dataclass(frozen=True)
class Within:
    place: int
    numbers: tuple[int, ...]

    def column(self, style: Style) -> Column:
        numbers = self.numbers[::-1] if style.turned else self.numbers
        return style.column(self.place).isin(*numbers)


@dataclass(frozen=True)
class TextIs:
    text: str
    negated: bool

    def column(self, style: Style) -> Column:
        if style.turned:
            same = F.lit(self.text) == style.column(S)
        else:
            same = style.column(S) == F.lit(self.text)
        return ~same if self.negated else same


@dataclass(frozen=True)
class Missing:
    place: int

    def column(self, style: Style) -> Column:
        return style.column(self.place).isNull()


@dataclass(frozen=True)
class Both:
    one: Any
    other: Any
    either: bool

    def column(self, style: Style) -> Column:
        one, other = self.one.column(style), self.other.column(style)
        if style.turned:
            one, other = other, one
        return (one | other) if self.either else (one & other)


numbers = st.integers(-1, 4)
simple_predicates = st.one_of(
    st.builds(
        Compare,
        st.sampled_from([K, V, D]),
        st.sampled_from(["<", ">", "<=", ">=", "=", "<=>"]),
        numbers,
    ),
    st.builds(
        Within, st.sampled_from([K, V]), st.lists(numbers, min_size=1, max_size=3).map(tuple)
    ),
    st.builds(TextIs, st.sampled_from(["x", "y", "X", ""]), st.booleans()),
    st.builds(Missing, st.sampled_from([K, V, D, S])),
)


def not_complementary(both: Both) -> bool:
    """Of `a >= 0 AND a < 0` Spark leaves whether one is null: of which one depends on the style."""
    one, other = both.one, both.other
    if not (isinstance(one, Compare) and isinstance(other, Compare)):
        return True
    operators = {one.operator, other.operator}
    same = (one.place, one.number) == (other.place, other.number)
    return not (same and operators in ({"<", ">="}, {">", "<="}))


predicates = st.recursive(
    simple_predicates,
    lambda below: st.builds(Both, below, below, st.booleans()).filter(not_complementary),
    max_leaves=3,
)


# -- steps ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Keep:
    """A filter."""

    predicate: Any

    def apply(self, df: DataFrame, style: Style) -> DataFrame:
        return df.where(self.predicate.column(style))


@dataclass(frozen=True)
class Compute:
    """A projection with expressions."""

    operator: str
    number: int
    condition: Any
    fallback: float

    def apply(self, df: DataFrame, style: Style) -> DataFrame:
        value, number = style.column(V), F.lit(self.number).cast("bigint")
        match self.operator:
            case "+":
                value = number + value if style.turned else value + number
            case "*":
                value = number * value if style.turned else value * number
            case "-":
                value = value - number
            case "%":
                value = value % F.lit(5)
        chosen = F.when(self.condition.column(style), value).otherwise(style.column(K))
        return df.select(
            *style.named(
                style.column(K),
                chosen,
                F.coalesce(style.column(D), F.lit(self.fallback)),
                F.concat(style.column(S), F.lit("'")),
            )
        )


@dataclass(frozen=True)
class Group:
    """An aggregation; what it computes doesn't depend on the order of the rows."""

    function: str
    distinct: bool

    def apply(self, df: DataFrame, style: Style) -> DataFrame:
        value = style.column(V)
        match self.function:
            case "sum":
                total = F.sum_distinct(value) if self.distinct else F.sum(value)
            case "count":
                total = F.count_distinct(value) if self.distinct else F.count(value)
            case "min":
                total = F.min(value)
            case _:
                total = F.max(value)
        # Zeros of both signs are equal, so which of them is the greatest would be left open.
        greatest = F.max(style.column(D) + F.lit(0.0))
        return (
            df.groupBy(style.column(K))
            .agg(total, greatest, F.max(style.column(S)))
            .toDF(*style.names)
        )


@dataclass(frozen=True)
class Meet:
    """A join with a source, or with the table itself."""

    how: str
    with_itself: bool
    null_safe: bool
    reads: int

    def apply(self, df: DataFrame, style: Style) -> DataFrame:
        other = df if self.with_itself else source(df.sparkSession, self.reads, style)
        one, two = style.column(K, "one."), style.column(K, "two.")
        if style.turned:
            one, two = two, one
        condition = one.eqNullSafe(two) if self.null_safe else one == two
        joined = df.alias("one").join(other.alias("two"), condition, self.how)
        if self.how in ("left_semi", "left_anti"):
            return joined.select(*style.named(*[style.column(place, "one.") for place in range(4)]))
        return joined.select(
            *style.named(
                style.column(K, "one."),
                style.column(V, "two."),
                style.column(D, "one."),
                style.column(S, "two."),
            )
        )


@dataclass(frozen=True)
class Look:
    """A window function over a total order."""

    function: str
    descending: bool
    back: int

    def apply(self, df: DataFrame, style: Style) -> DataFrame:
        order = total_order(style)
        if self.descending:
            order = [column.desc() for column in order]
        window = Window.partitionBy(style.column(K)).orderBy(*order)
        match self.function:
            case "rank":
                value = F.rank().over(window).cast("bigint")
            case "lag":
                value = F.lag(style.column(V), self.back).over(window)
            case _:
                value = F.sum(style.column(V)).over(window.rowsBetween(-self.back, 0))
        kept = [style.column(place) for place in (K, D, S)]
        return df.select(*style.named(kept[0], value, kept[1], kept[2]))


@dataclass(frozen=True)
class Add:
    """A union with a source or with the table itself."""

    with_itself: bool
    reads: int
    before: bool

    def apply(self, df: DataFrame, style: Style) -> DataFrame:
        other = df if self.with_itself else source(df.sparkSession, self.reads, style)
        return other.union(df) if self.before else df.union(other)


@dataclass(frozen=True)
class Unique:
    """Distinct rows."""

    within: bool

    def apply(self, df: DataFrame, style: Style) -> DataFrame:
        return df.distinct() if self.within else df.intersect(df)


@dataclass(frozen=True)
class Top:
    """The first rows of a total order."""

    rows: int
    descending: bool

    def apply(self, df: DataFrame, style: Style) -> DataFrame:
        order = total_order(style)
        if self.descending:
            order = [column.desc_nulls_first() for column in order]
        return df.orderBy(*order).limit(self.rows)


@dataclass(frozen=True)
class Order:
    """All rows in a total order."""

    descending: bool
    nulls_last: bool

    def apply(self, df: DataFrame, style: Style) -> DataFrame:
        first, *rest = total_order(style)
        if self.descending:
            first = first.desc_nulls_last() if self.nulls_last else first.desc_nulls_first()
        elif self.nulls_last:
            first = first.asc_nulls_last()
        return df.orderBy(first, *rest)


@dataclass(frozen=True)
class Spread:
    """Several rows of each."""

    outer: bool
    step: int

    def apply(self, df: DataFrame, style: Style) -> DataFrame:
        value = style.column(V)
        explode = F.explode_outer if self.outer else F.explode
        several = F.when(value.isNotNull(), F.array(value, value + F.lit(self.step)))
        return df.select(
            style.column(K).alias(style.names[K]),
            explode(several).alias(style.names[V]),
            style.column(D).alias(style.names[D]),
            style.column(S).alias(style.names[S]),
        )


@dataclass(frozen=True)
class Ask:
    """A subquery in SQL."""

    form: str
    with_itself: bool
    reads: int
    limit: int

    def apply(self, df: DataFrame, style: Style) -> DataFrame:
        other = df if self.with_itself else source(df.sparkSession, self.reads, style)
        k, v = (f"`{style.names[place]}`" for place in (K, V))
        alias = "a_table" if style.turned else "t"
        match self.form:
            case "in":
                condition = f"{k} IN (SELECT {k} FROM {{other}} WHERE {v} > {self.limit})"
                if style.turned:
                    condition = f"{k} IN (SELECT o.{k} FROM {{other}} o WHERE {self.limit} < o.{v})"
            case "exists":
                sides = (f"o.{k}", f"{alias}.{k}")
                one, two = sides[::-1] if style.turned else sides
                condition = f"EXISTS (SELECT 1 FROM {{other}} o WHERE {one} = {two})"
            case _:
                condition = f"{v} < (SELECT max({v}) - {self.limit} FROM {{other}})"
        return df.sparkSession.sql(
            f"SELECT * FROM {{df}} AS {alias} WHERE {condition}", df=df, other=other
        )


def total_order(style: Style) -> list[Column]:
    """An order in which only equal rows are ties: as texts, zeros of both signs differ."""
    columns = [style.column(place) for place in (K, V, S)]
    return [*columns, style.column(D).cast("string")]


# Other ones each time only where there is time to look at what they find.
SAME_EACH_TIME = settings(derandomize=settings.default.max_examples < 1000)
SOURCES = 3
sources = st.integers(0, SOURCES - 1)
STEPS: dict[type, st.SearchStrategy[Any]] = {
    Keep: st.builds(Keep, predicates),
    Compute: st.builds(
        Compute,
        st.sampled_from("+*-%"),
        numbers,
        simple_predicates,
        st.sampled_from([0.0, -0.0, 1.5, float("nan")]),
    ),
    Group: st.builds(Group, st.sampled_from(["sum", "count", "min", "max"]), st.booleans()),
    Meet: st.builds(
        Meet,
        st.sampled_from(["inner", "left", "right", "full", "left_semi", "left_anti"]),
        st.booleans(),
        st.booleans(),
        sources,
    ),
    Look: st.builds(
        Look, st.sampled_from(["rank", "lag", "sum"]), st.booleans(), st.integers(1, 2)
    ),
    Add: st.builds(Add, st.booleans(), sources, st.booleans()),
    Unique: st.builds(Unique, st.booleans()),
    Top: st.builds(Top, st.integers(1, 5), st.booleans()),
    Order: st.builds(Order, st.booleans(), st.booleans()),
    Spread: st.builds(Spread, st.booleans(), st.integers(1, 2)),
    Ask: st.builds(
        Ask, st.sampled_from(["in", "exists", "scalar"]), st.booleans(), sources, st.integers(0, 2)
    ),
}
steps = st.one_of(*STEPS.values())


@dataclass(frozen=True)
class Pipeline:
    """A source, and what is done to it."""

    reads: int
    steps: tuple[Any, ...]

    def stages(self, spark: SparkSession, style: Style) -> list[DataFrame]:
        """The table after no step, after one, and so on."""
        tables = [source(spark, self.reads, style)]
        for step in self.steps:
            tables.append(step.apply(tables[-1], style))
        return tables

    def is_united_further(self, place: int) -> bool:
        """Whether the table after so many steps is a union that the next step adds to."""
        united = [isinstance(step, Add) for step in self.steps[max(place - 1, 0) : place + 1]]
        return united == [True, True]

    @property
    def ordered(self) -> bool:
        return bool(self.steps) and isinstance(self.steps[-1], (Top, Order))


def source(spark: SparkSession, which: int, style: Style) -> DataFrame:
    """One of the sources under the style's names."""
    return spark.table(f"source_{which}").select(
        *[F.col(name).alias(other) for name, other in zip(PLAIN.names, style.names, strict=True)]
    )


pipelines = st.builds(Pipeline, sources, st.lists(steps, min_size=1, max_size=4).map(tuple))


@st.composite
def mutations(draw: st.DrawFn, pipeline: Pipeline) -> Pipeline:
    """The pipeline with one field of one step replaced by another value."""
    place = draw(st.integers(0, len(pipeline.steps) - 1))
    step = pipeline.steps[place]
    field = draw(st.sampled_from([field.name for field in fields(step)]))
    before = repr(getattr(step, field))
    donor = draw(STEPS[type(step)].filter(lambda donor: repr(getattr(donor, field)) != before))
    changed = replace(step, **{field: getattr(donor, field)})
    return replace(pipeline, steps=(*pipeline.steps[:place], changed, *pipeline.steps[place + 1 :]))


# -- running them -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def random_sources(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SparkSession]:
    """Three small tables: files in several parts, rows in the plan, and computed ones."""
    folder = tmp_path_factory.mktemp("sources") / "source_0"
    rows = """
        SELECT * FROM VALUES
          (1L, 1L, 0.0D, 'x'), (1L, 1L, -0.0D, 'x'), (1L, 2L, DOUBLE('NaN'), 'y'),
          (2L, NULL, NULL, NULL), (2L, 3L, 1.5D, 'X'), (NULL, 0L, -2.5D, ''),
          (2L, 3L, 1.5D, 'X'), (3L, 4L, DOUBLE('Infinity'), 'it''s')
        AS t(k, v, d, s)"""
    spark.sql(rows).repartition(3, "v").write.parquet(str(folder))
    spark.read.parquet(str(folder)).createOrReplaceTempView("source_0")
    spark.sql(
        "SELECT * FROM VALUES (1L, 3L, -0.0D, 'y'), (2L, 1L, 2.0D, NULL), (4L, NULL, 0.0D, 'x')"
        " AS t(k, v, d, s)"
    ).createOrReplaceTempView("source_1")
    spark.sql(
        "SELECT id % 3 AS k, id AS v, id / 2 AS d, CAST(id % 2 AS STRING) AS s"
        " FROM range(0, 6, 1, 2)"
    ).createOrReplaceTempView("source_2")
    yield spark
    for which in range(SOURCES):
        spark.catalog.dropTempView(f"source_{which}")


def texts(df: DataFrame) -> list[str]:
    """The rows as texts that know NaN and the sign of zero, without the columns' names."""
    return [repr(tuple(row)) for row in df.collect()]


def computed(df: DataFrame) -> list[str]:
    """The rows that Spark computes, where it can."""
    try:
        return texts(df)
    except Py4JJavaError as error:
        # Of a table united with itself its optimizer makes plans, now and then, that it refuses.
        if "PLAN_VALIDATION_FAILED_RULE_IN_BATCH" not in str(error.java_exception):
            raise
        reject()


def read_something(env: Environment) -> bool:
    result = env.last_job_result
    assert result is not None
    return VertexOutcome.READ in [vertex.outcome for vertex in result.vertices]


# Ten jobs to each.
@settings(SAME_EACH_TIME, max_examples=settings.default.max_examples // 2)
@pytest.mark.timeout(0)
@given(data=st.data(), pipeline=pipelines)
def test_a_random_pipeline_reads_what_spark_computes(
    random_sources: SparkSession, data: st.DataObject, pipeline: Pipeline
) -> None:
    spark = random_sources
    cached = data.draw(
        st.sets(st.integers(0, len(pipeline.steps)), min_size=1, max_size=2), label="cached"
    )
    mutated = data.draw(mutations(pipeline), label="mutated")
    expected = computed(pipeline.stages(spark, PLAIN)[-1])
    with TemporaryDirectory() as folder, environment(spark, folder) as env:
        table = env.from_dataframe(source(spark, pipeline.reads, PLAIN))
        for place, step in enumerate((None, *pipeline.steps)):
            table = table if step is None else env.from_dataframe(step.apply(table, PLAIN))
            if place in cached:
                table = table.cache()

        first = texts(table)
        check(first, expected, pipeline)

        # Spark makes one union of several in a row: those below the last are not in the plan.
        reads = any(not pipeline.is_united_further(place) for place in cached)
        again = texts(table)
        assert read_something(env) == reads
        check(again, expected, pipeline)

        retyped = pipeline.stages(spark, OTHER)
        for one, other in zip(pipeline.stages(spark, PLAIN), retyped, strict=True):
            assert identity(env, one) == identity(env, other)
        rewritten = texts(env.from_dataframe(retyped[-1]))
        assert read_something(env) == reads
        check(rewritten, expected, pipeline)

        mutant = mutated.stages(spark, PLAIN)[-1]
        changed = texts(env.from_dataframe(mutant))
        event(f"the mutant reads something: {read_something(env)}")
        if read_something(env):
            check(changed, computed(mutant), mutated)


@settings(SAME_EACH_TIME)
@pytest.mark.timeout(0)
@given(data=st.data(), pipeline=pipelines)
def test_pipelines_of_one_identity_have_the_same_rows(
    random_sources: SparkSession, data: st.DataObject, pipeline: Pipeline
) -> None:
    """Of one identity: found by the same digest, though one is a mutant of the other."""
    spark = random_sources
    mutated = data.draw(mutations(pipeline), label="mutated")
    one, other = pipeline.stages(spark, PLAIN)[-1], mutated.stages(spark, PLAIN)[-1]
    with TemporaryDirectory() as folder, environment(spark, folder) as env:
        same = identity(env, one) == identity(env, other)
    event(f"same: {same}")
    if same:
        check(computed(one), computed(other), pipeline)


# Nine jobs to each, and as many of plain Spark.
@settings(SAME_EACH_TIME, max_examples=settings.default.max_examples // 4)
@pytest.mark.timeout(0)
@given(data=st.data(), pipeline=pipelines)
def test_what_recurs_in_random_pipelines_is_what_spark_computes(
    random_sources: SparkSession, data: st.DataObject, pipeline: Pipeline
) -> None:
    spark = random_sources
    mutated = [data.draw(mutations(pipeline), label="mutated") for _ in range(2)]
    with TemporaryDirectory() as folder, environment(spark, folder, **KEEPS_ALL) as env:
        recurring = env._implicit.recurring
        assert recurring is not None
        for each in (pipeline, *mutated) * 3:
            needed = data.draw(st.sets(st.sampled_from(PLAIN.names), min_size=1), label="needed")
            asked = each.stages(spark, PLAIN)[-1].select(*sorted(needed))
            expected = computed(asked)
            check(texts(env.from_dataframe(asked)), expected, each)
            event(f"reads something: {read_something(env)}")
            # What it has cost is known now.
            recurring.learn_all()


KEEPS_ALL: dict[str, object] = {
    "implicit-cache.enabled": True,
    "implicit-cache.results.min-saved-time": "0 s",
}


def environment(spark: SparkSession, folder: str, **more: object) -> Environment:
    directory = str(Path(folder) / "kept")
    return Environment(spark, config={"intermediate-result-storage.directory": directory, **more})


def identity(env: Environment, df: DataFrame) -> str:
    return session_inputs(env.spark).dataset_digest(env._bridge.query(df).root)


def check(rows: list[str], expected: list[str], pipeline: Pipeline) -> None:
    if any(isinstance(step, Unique) for step in pipeline.steps):
        # Which of two equal zeros is left depends on whether Spark knows of more than one row.
        rows, expected = ([row.replace("-0.0", "0.0") for row in each] for each in (rows, expected))
    assert sorted(rows) == sorted(expected)
    if pipeline.ordered:
        assert rows == expected
