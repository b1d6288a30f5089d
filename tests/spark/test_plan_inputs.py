"""What a plan's rows depend on and its operators don't show: splits, bytes, lots that are drawn."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import functions as F

from holdfast.plan.determinism import is_known_aggregate
from holdfast.plan.document import EXPRESSIONS
from holdfast.runtime.vertex_outcome import VertexOutcome
from tests.spark.conftest import assert_same

SPLITS = {
    "spark.sql.files.maxPartitionBytes": "200",
    "spark.sql.files.openCostInBytes": "1",
}


@pytest.fixture
def lines(probe: Any, tmp_path: Path) -> str:
    """A file that is read in more parts where parts are smaller."""
    (tmp_path / "lines.csv").write_text(
        "".join(f"{number},{number % 7}\n" for number in range(400))
    )
    return str(tmp_path / "lines.csv")


@pytest.mark.parametrize(
    "column", ["_metadata.file_block_start", "_metadata.file_block_length", "_metadata"]
)
def test_what_tells_the_parts_of_a_file_depends_on_how_it_is_split(
    probe: Any, lines: str, column: str
) -> None:
    def starts(p: Any) -> Any:
        return p.spark.read.csv(lines).select(F.col(column).alias("m")).groupBy("m").count()

    whole = probe.plain_rows(starts)
    probe.keep(starts)
    with probe.settings(SPLITS):
        expected = probe.plain_rows(starts)
        assert expected != whole
        assert_same(probe.rows(probe.table(starts)), expected)
        assert VertexOutcome.READ not in probe.outcomes()
    probe.assert_reads(starts)


def test_what_does_not_tell_them_is_read_however_a_file_is_split(probe: Any, lines: str) -> None:
    def names(p: Any) -> Any:
        return p.spark.read.csv(lines).select("_c1").distinct()

    probe.keep(names)
    with probe.settings(SPLITS):
        probe.assert_reads(names)


BYTES = ("ff", "fe", "efbfbd", "c328", "", "61ff", "61fe", "edA080", "edb080")


@pytest.mark.parametrize("kept", BYTES)
def test_texts_that_are_not_valid_utf8_are_told_apart(probe: Any, kept: str) -> None:
    tables = {each: f"VALUES (1, CAST(X'{each}' AS STRING))" for each in BYTES}
    literals = {each: f"SELECT CAST(X'{each}' AS STRING) AS s, id FROM range(2)" for each in BYTES}
    for queries in (tables, literals):
        identities = {each: probe.identity(query) for each, query in queries.items()}
        assert len(set(identities.values())) == len(BYTES)
    probe.keep(tables[kept])
    probe.assert_reads(tables[kept])


def test_literals_that_are_not_valid_utf8_are_told_apart_once_they_are_folded(probe: Any) -> None:
    jvm: Any = probe.spark._jvm
    catalyst = jvm.org.apache.spark.sql.catalyst
    below = probe.spark.range(3)._jdf.queryExecution().analyzed()
    digests = set()
    for each in (b"\xff", b"\xfe", "\ufffd".encode()):
        text = jvm.org.apache.spark.unsafe.types.UTF8String.fromBytes(bytearray(each))
        literal = catalyst.expressions.Literal.create(
            text, jvm.org.apache.spark.sql.types.StringType.apply("UTF8_BINARY")
        )
        condition = catalyst.expressions.IsNotNull(literal)
        plan = catalyst.plans.logical.Filter(condition, below)
        digests.add(probe.env._bridge.read(plan).root.digest)
    assert len(digests) == 3


def test_a_lone_half_of_a_character_is_none_other(probe: Any) -> None:
    queries = [
        f"SELECT from_json(CAST(id AS STRING), 'a INT', map('timestampFormat', '{half}')) AS x"
        " FROM range(2)"
        for half in ("\\\\uD800", "\\\\uD801", "?")
    ]
    assert len({probe.identity(query) for query in queries}) == 3


def test_inline_rows_of_any_type_are_told_by_value(probe: Any) -> None:
    def rows(*values: str) -> str:
        return f"SELECT * FROM VALUES {', '.join(values)}"

    first = "(array(1, NULL), map('k', 1), named_struct('x', 'x'), TIMESTAMP'2020-01-01 00:00:00')"
    second = "(NULL, NULL, NULL, NULL)"
    one = rows(first, second)
    probe.keep(one)
    probe.assert_reads(one)
    for other in (
        rows(second, first),
        rows(first.replace("array(1, NULL)", "array(1)"), second),
        rows(first.replace("map('k', 1)", "map('k', 2)"), second),
        rows(first.replace("'x', 'x'", "'x', 'y'"), second),
        rows(first.replace("00:00:00", "00:00:01"), second),
    ):
        assert probe.identity(other) != probe.identity(one)


@pytest.mark.parametrize(
    "literals",
    [
        ("array(1, 2)", "array(2, 1)"),
        ("map('a', 1)", "map('b', 1)"),
        ("INTERVAL '1' DAY", "INTERVAL '2' DAY"),
        ("0.0D", "-0.0D"),
        ("CAST('NaN' AS FLOAT)", "CAST('NaN' AS DOUBLE)"),
        ("named_struct('a', 1)", "named_struct('b', 1)"),
        ("TIMESTAMP'2020-01-01 00:00:00'", "TIMESTAMP_NTZ'2020-01-01 00:00:00'"),
        ("1.0", "1.00"),
        ("CAST('a' AS STRING COLLATE UTF8_LCASE)", "CAST('a' AS STRING)"),
        ("array(CAST('a' AS STRING COLLATE UTF8_LCASE))", "array(CAST('a' AS STRING))"),
        ("X'00'", "X''"),
        ("parse_json('1')", "parse_json('2')"),
    ],
)
def test_literals_count_by_value_and_type(probe: Any, literals: tuple[str, str]) -> None:
    one, other = (f"SELECT id, {each} AS x FROM range(2)" for each in literals)
    assert probe.identity(one) != probe.identity(other)


def test_settings_are_told_apart_whatever_characters_they_have(probe: Any) -> None:
    def identity(*pairs: tuple[str, str]) -> Any:
        with probe.settings(dict(pairs)):
            return probe.identity("SELECT 1")

    written = [
        identity(("a.x", "y -> z")),
        identity(("a.x -> y", "z")),
        identity(("a.x", "y"), ("a.z", "w")),
        identity(("a.x", "y\x1ea.z -> w")),
        identity(("a.x", "y, a.z -> w")),
        identity(("a.x", 'y","a.z":"w')),
    ]
    assert len(set(written)) == len(written)


SOURCES = (
    "programmatically",
    "mapred-site.xml",
    "Set by Spark from keys starting with 'spark.hive'",
)


@pytest.mark.parametrize("source", SOURCES)
def test_what_is_set_in_hadoop_s_configuration_counts(probe: Any, lines: str, source: str) -> None:
    def whole(p: Any) -> Any:
        return p.spark.read.text(lines)

    key = "mapreduce.input.linerecordreader.line.maxlength"
    configuration = probe.spark.sparkContext._jsc.hadoopConfiguration()
    probe.keep(whole)
    configuration.set(key, "3", source)
    try:
        few = probe.plain_rows(whole)
        assert len(few) < 400
        assert_same(probe.rows(probe.table(whole)), few)
        assert VertexOutcome.READ not in probe.outcomes()
        probe.assert_reads(whole)
    finally:
        configuration.unset(key)
    probe.assert_reads(whole)


RANDOM = (
    "kll_sketch_agg_bigint(id)",
    "kll_sketch_agg_double(CAST(id AS DOUBLE))",
    "kll_merge_agg_bigint(s)",
    "kll_sketch_merge_bigint(s, s)",
)


@pytest.mark.parametrize("expression", RANDOM)
def test_sketches_that_draw_lots_match_only_themselves(probe: Any, expression: str) -> None:
    below = "SELECT id, kll_sketch_agg_bigint(id) AS s FROM range(9) GROUP BY id"
    query = f"SELECT {expression} AS x FROM (SELECT id FROM range(9))"
    if "(s" in expression:
        query = f"SELECT {expression} AS x FROM ({below})"
    assert probe.identity(query) != probe.identity(query)


@pytest.mark.parametrize(
    "expression", ["histogram_numeric(id, 3)", "hll_sketch_agg(id)", "approx_top_k(id)"]
)
def test_aggregates_of_an_order_depend_on_how_rows_are_dealt(probe: Any, expression: str) -> None:
    query = f"SELECT {expression} AS x FROM range(9)"
    assert probe.identity(query) == probe.identity(query)
    before = probe.identity(query)
    with probe.settings({"spark.sql.shuffle.partitions": "3"}):
        assert probe.identity(query) != before


def test_each_of_sparks_aggregate_functions_has_been_looked_at(probe: Any) -> None:
    """A new one is doubted; whoever sees this fail decides what its value depends on."""
    jars = Path(pyspark.__file__).parent / "jars"
    (catalyst,) = jars.glob("spark-catalyst_*.jar")
    package = "org/apache/spark/sql/catalyst/expressions/aggregate/"
    with zipfile.ZipFile(catalyst) as jar:
        names = [
            name.removeprefix(package).removesuffix(".class")
            for name in jar.namelist()
            if name.startswith(package) and name.endswith(".class") and "$" not in name
        ]
    unknown = {name for name in names if not is_known_aggregate(f"{EXPRESSIONS}aggregate.{name}")}
    functions = {name for name in unknown if not re.search(NO_FUNCTIONS, name)}
    assert functions == {"V2Aggregator", "Measure"}


NO_FUNCTIONS = (
    r"Aggregate(Function|Mode)|ativeAggregate$|Base$|Buffer$|Builder$|Sketch(State)?$|^(Binary|Byte|Int|Long|Short"
    r"|BloomFilter)|Updater|^(Complete|Final|Partial|PartialMerge|NoOp|CombineInternal)$"
    r"|TypedAggregate|Serializer|Normalizer|Heap$|MaxMinBy|^(Collect|CollectUnion|FirstLast|Covariance|BitAgg"
    r"|CentralMomentAgg|MaxMinByK|BitAggregate|RegrReplacement|PandasAggregate)$|^Supports"
)


# A function in SQL, a call of it, what takes its place, and whether the call is read then.
FUNCTIONS_IN_SQL = {
    "the same": ("f(x BIGINT) RETURNS BIGINT RETURN x + 1", "f(a)", "", True),
    "other names": (
        "f(x BIGINT) RETURNS BIGINT RETURN x + 1",
        "f(a)",
        "f(y BIGINT) RETURNS BIGINT RETURN y + 1",
        True,
    ),
    "another body": (
        "f(x BIGINT) RETURNS BIGINT RETURN x + 1",
        "f(a)",
        "f(x BIGINT) RETURNS BIGINT RETURN x + 2",
        False,
    ),
    "another default": (
        "f(x BIGINT, y BIGINT DEFAULT 4) RETURNS BIGINT RETURN x * y",
        "f(a)",
        "f(x BIGINT, y BIGINT DEFAULT 5) RETURNS BIGINT RETURN x * y",
        False,
    ),
    "another argument": (
        "f(x BIGINT) RETURNS STRING RETURN x",
        "f(a)",
        "f(x DOUBLE) RETURNS STRING RETURN x",
        False,
    ),
    "another result": (
        "f(x BIGINT) RETURNS BIGINT RETURN x",
        "f(a)",
        "f(x BIGINT) RETURNS STRING RETURN x",
        False,
    ),
    "another zone": (
        "f(x TIMESTAMP) RETURNS INT RETURN hour(x)",
        "f(ts)",
        "f(x TIMESTAMP) RETURNS INT RETURN hour(x)",
        False,
    ),
    "a query": (
        "f(x BIGINT) RETURNS BIGINT RETURN SELECT max(e) FROM riders WHERE riders.a = x",
        "f(a)",
        "f(x BIGINT) RETURNS BIGINT RETURN SELECT min(e) FROM riders WHERE riders.a = x",
        False,
    ),
    "said not to be deterministic": (
        "f(x BIGINT) RETURNS BIGINT NOT DETERMINISTIC RETURN x + 1",
        "f(a) * 2",
        "",
        True,
    ),
    "said to be deterministic": (
        "f(x BIGINT) RETURNS DOUBLE DETERMINISTIC RETURN x + rand()",
        "f(a) * 2",
        "",
        False,
    ),
}


@pytest.mark.parametrize("kind", FUNCTIONS_IN_SQL)
def test_a_call_of_a_function_in_sql_counts_as_its_body(probe: Any, kind: str) -> None:
    function, call, other, is_read = FUNCTIONS_IN_SQL[kind]
    query = f"SELECT {call} AS r FROM trips"
    try:
        # Functions are evaluated under the settings under which they were created.
        zone = {"spark.sql.session.timeZone": "Asia/Tokyo"} if kind == "another zone" else {}
        with probe.settings(zone):
            probe.spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {function}")
        probe.keep(query)
        if other:
            probe.spark.sql(f"CREATE OR REPLACE TEMPORARY FUNCTION {other}")
        if is_read:
            probe.assert_reads(query)
        else:
            probe.assert_computes(query, steady="rand" not in function)
    finally:
        probe.spark.sql("DROP TEMPORARY FUNCTION IF EXISTS f")
