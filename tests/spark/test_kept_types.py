"""Every type, name and shape that Spark can put in Parquet survives being kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from pyspark.ml.linalg import Vectors
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame
from pyspark.sql.types import LongType, StructField, StructType
from pyspark.testing.objects import ExamplePoint, ExamplePointUDT

from holdfast import Environment
from holdfast.api.table import Table
from holdfast.api.table_session import plain_session
from holdfast.config import INTERMEDIATE_RESULT_DIRECTORY
from holdfast.errors import UnsupportedTypeError
from holdfast.plan.reasons import Why
from holdfast.runtime.vertex_outcome import VertexOutcome

PRODUCED = [VertexOutcome.PRODUCED, VertexOutcome.RUN]
READ = [VertexOutcome.READ, VertexOutcome.RUN]


def outcomes(env: Environment) -> list[VertexOutcome]:
    assert env.last_job_result is not None
    return [vertex.outcome for vertex in env.last_job_result.vertices]


def plain(table: Table) -> DataFrame:
    return ClassicDataFrame(table._jdf, plain_session(table.sparkSession))


def shown(rows: list[Row]) -> list[str]:
    """Rows as texts that tell 0.0 from -0.0 and know NaN, sorted."""
    return sorted(repr(row) for row in rows)


def texts(df: DataFrame) -> list[str]:
    """The rows as Spark itself writes their values."""
    places = df.toDF(*[f"c{index}" for index in range(len(df.columns))])
    return shown(places.select(*[F.col(name).cast("string") for name in places.columns]).collect())


def keep(env: Environment, df: DataFrame) -> Table:
    """Caches a query and has a job keep its rows."""
    hot = env.from_dataframe(df).cache()
    hot.count()
    assert outcomes(env) == PRODUCED, env.last_job_result
    return hot


def assert_survives(env: Environment, df: DataFrame, *, collectable: bool = True) -> Table:
    """What is read has the rows and the schema of what Spark computes."""
    hot = keep(env, df)
    read = hot.to_dataframe()
    assert read.schema.json() == df.schema.json()
    assert texts(read) == texts(df)
    if collectable:
        assert shown(hot.collect()) == shown(df.collect())
        assert outcomes(env) == READ
    return hot


# -- types -----------------------------------------------------------------------------------------

ATOMICS = {
    "boolean": "SELECT * FROM VALUES (true), (false), (NULL) AS t(v)",
    "byte": "SELECT * FROM VALUES (-128Y), (127Y), (NULL) AS t(v)",
    "short": "SELECT * FROM VALUES (-32768S), (32767S), (NULL) AS t(v)",
    "int": "SELECT * FROM VALUES (-2147483648), (2147483647), (NULL) AS t(v)",
    "long": "SELECT * FROM VALUES (-9223372036854775808L), (9223372036854775807L), (NULL) AS t(v)",
    "float": "SELECT CAST(v AS FLOAT) AS v FROM VALUES ('NaN'), ('-0.0'), ('0.0'), ('Infinity'), "
    "('-Infinity'), ('1.4E-45'), ('3.4028235E38'), (NULL) AS t(v)",
    "double": "SELECT CAST(v AS DOUBLE) AS v FROM VALUES ('NaN'), ('-0.0'), ('0.0'), ('Infinity'), "
    "('-Infinity'), ('4.9E-324'), ('1.7976931348623157E308'), (NULL) AS t(v)",
    "string": "SELECT * FROM VALUES (''), (NULL), (' '), ('\\u0000'), ('é😀'), ('a\\nb') AS t(v)",
    "binary": "SELECT * FROM VALUES (X''), (NULL), (X'00FF'), (X'C328') AS t(v)",
    "narrow decimal": "SELECT CAST(v AS DECIMAL(9, 2)) AS v FROM VALUES ('-9999999.99'), "
    "('0.01'), (NULL) AS t(v)",
    "middle decimal": "SELECT CAST(v AS DECIMAL(18, 0)) AS v FROM VALUES "
    "('-999999999999999999'), ('1'), (NULL) AS t(v)",
    "widest decimal": "SELECT CAST(v AS DECIMAL(38, 18)) AS v FROM VALUES "
    "('-99999999999999999999.999999999999999999'), ('0.000000000000000001'), (NULL) AS t(v)",
    "decimal of fractions": "SELECT CAST(v AS DECIMAL(38, 38)) AS v FROM VALUES "
    "('0.00000000000000000000000000000000000001'), (NULL) AS t(v)",
    "date": "SELECT * FROM VALUES (DATE'0001-01-01'), (DATE'1582-10-04'), (DATE'1582-10-15'), "
    "(DATE'1969-12-31'), (DATE'9999-12-31'), (NULL) AS t(v)",
    "timestamp": "SELECT * FROM VALUES (TIMESTAMP'0001-01-02 00:00:00.000001'), "
    "(TIMESTAMP'1582-10-10 12:00:00'), (TIMESTAMP'1900-01-01 00:00:00'), "
    "(TIMESTAMP'1969-12-31 23:59:59.999999'), (TIMESTAMP'9999-12-30 23:59:59.999999'), (NULL) "
    "AS t(v)",
    "timestamp_ntz": "SELECT * FROM VALUES (TIMESTAMP_NTZ'0001-01-01 00:00:00.000001'), "
    "(TIMESTAMP_NTZ'1582-10-10 12:00:00'), (TIMESTAMP_NTZ'2021-03-28 02:30:00'), "
    "(TIMESTAMP_NTZ'9999-12-31 23:59:59.999999'), (NULL) AS t(v)",
    "variant": """SELECT parse_json(v) AS v FROM VALUES ('{"a": [1, 2.5, null, "x"]}'), ('null'),
    ('[]'), ('123456789012345678901234567890'), (NULL) AS t(v)""",
    "collated": "SELECT v COLLATE UNICODE_CI AS v FROM VALUES ('a'), ('A'), (NULL) AS t(v)",
    "void": "SELECT NULL AS v FROM range(3)",
    "void beside another": "SELECT NULL AS v, id FROM range(3)",
}


@pytest.mark.parametrize("query", ATOMICS.values(), ids=ATOMICS.keys())
@pytest.mark.sampled(2)
def test_a_type_survives(spark: SparkSession, env: Environment, query: str) -> None:
    assert_survives(env, spark.sql(query))


@pytest.mark.parametrize("precision", [0, 3, 6])
def test_a_time_survives(
    spark: SparkSession, env: Environment, settings: Any, precision: int
) -> None:
    with settings({"spark.sql.timeType.enabled": "true"}):
        query = (
            f"SELECT CAST(v AS TIME({precision})) AS v FROM VALUES (TIME'00:00:00'), "
            "(TIME'23:59:59.999999'), (NULL) AS t(v)"
        )
        assert_survives(env, spark.sql(query))


YEAR_MONTH_UNITS = ["YEAR", "MONTH", "YEAR TO MONTH"]
DAY_TIME_UNITS = [
    "DAY",
    "HOUR",
    "MINUTE",
    "SECOND",
    "DAY TO HOUR",
    "DAY TO MINUTE",
    "DAY TO SECOND",
    "HOUR TO MINUTE",
    "HOUR TO SECOND",
    "MINUTE TO SECOND",
]


def test_year_month_intervals_of_all_units_survive(spark: SparkSession, env: Environment) -> None:
    columns = [
        f"CAST(v AS INTERVAL {units}) AS v{index}" for index, units in enumerate(YEAR_MONTH_UNITS)
    ]
    values = "(INTERVAL '11-0' YEAR TO MONTH), (INTERVAL '-3-0' YEAR TO MONTH), (NULL)"
    df = spark.sql(f"SELECT {', '.join(columns)} FROM VALUES {values} AS t(v)")
    # Python has no type for them, with plain Spark as with Holdfast.
    assert_survives(env, df, collectable=False)


def test_day_time_intervals_of_all_units_survive(spark: SparkSession, env: Environment) -> None:
    columns = [
        f"CAST(v AS INTERVAL {units}) AS v{index}" for index, units in enumerate(DAY_TIME_UNITS)
    ]
    values = (
        "(INTERVAL '5 04:03:02.000001' DAY TO SECOND), (INTERVAL '-1 00:00:00' DAY TO SECOND), "
        "(NULL)"
    )
    df = spark.sql(f"SELECT {', '.join(columns)} FROM VALUES {values} AS t(v)")
    assert_survives(env, df)


NESTED = {
    "arrays three deep": "SELECT array(array(array(1, NULL), NULL), NULL) AS v",
    "empty containers": "SELECT array() AS v, map() AS m, CAST(array() AS ARRAY<INT>) AS w, "
    "CAST(map() AS MAP<STRING, INT>) AS n",
    "maps three deep": "SELECT map('a', map(1, map('b', CAST(NULL AS DOUBLE)))) AS v",
    "a map with keys of structs": "SELECT map(struct(1 AS x, 'a' AS y), array(struct(2 AS z))) "
    "AS v",
    "structs three deep": "SELECT struct(struct(struct(1 AS a) AS b) AS c, NULL AS n) AS v",
    "null at every level": "SELECT v FROM VALUES (named_struct('a', named_struct('b', 1))), "
    "(named_struct('a', CAST(NULL AS STRUCT<b: INT>))), (NULL) AS t(v)",
    "fields that differ by case": "SELECT struct(1 AS a, 2 AS A, struct('x' AS k, 'y' AS K) AS s) "
    "AS v",
    "fields that differ by case, deep": "SELECT array(map('k', struct(array(struct(1 AS x, 2 AS X))"
    " AS l))) AS v, map(struct(1 AS y, 2 AS Y), 1) AS m",
    "fields of one name": "SELECT named_struct('a', 1, 'a', 'x') AS v",
    "fields with odd names": "SELECT named_struct('a b', 1, 'c.d', 2, 'é', 3, '`', 4, ',;{}()=', 5)"
    " AS v",
    "everything inside": "SELECT array(struct(DATE'1500-01-01' AS d, X'00' AS b, "
    "INTERVAL '1' DAY AS i, TIMESTAMP_NTZ'1500-01-01 00:00:00' AS n, "
    "CAST(1 AS DECIMAL(38, 18)) AS m, parse_json('[1]') AS j)) AS v",
}


@pytest.mark.parametrize("query", NESTED.values(), ids=NESTED.keys())
@pytest.mark.sampled(2)
def test_nested_types_survive(
    spark: SparkSession, env: Environment, settings: Any, query: str
) -> None:
    with settings({"spark.sql.caseSensitive": "true"}):
        assert_survives(env, spark.sql(query))


def test_chars_and_varchars_of_a_table_survive(spark: SparkSession, env: Environment) -> None:
    spark.sql("CREATE TABLE padded (c CHAR(5), v VARCHAR(3), n INT NOT NULL) USING parquet")
    try:
        spark.sql("INSERT INTO padded VALUES ('a', 'b', 1), ('abcde', NULL, 2), ('', '', 3)")
        hot = assert_survives(env, spark.table("padded"))
        assert sorted(row.c for row in hot.collect()) == ["     ", "a    ", "abcde"]
        # Spark pads the literal by the metadata of the column.
        for condition in ["c = 'a'", "c = 'a  '", "v = 'b'"]:
            assert hot.where(condition).count() == spark.table("padded").where(condition).count()
            assert outcomes(env) == READ
    finally:
        spark.sql("DROP TABLE padded")


def test_user_defined_types_survive(spark: SparkSession, env: Environment) -> None:
    points = StructType([StructField("p", ExamplePointUDT()), StructField("id", LongType(), False)])
    rows = [(ExamplePoint(1.0, 2.0), 1), (None, 2)]
    hot = assert_survives(env, spark.createDataFrame(rows, points), collectable=False)
    assert sorted(hot.collect(), key=lambda row: row.id) == [
        Row(p=row[0], id=row[1]) for row in rows
    ]
    vectors = [(Vectors.dense([1.0, -0.0]),), (Vectors.sparse(3, {1: 2.0}),), (None,)]
    assert_survives(env, spark.createDataFrame(vectors, ["v"]))


# -- values under filters --------------------------------------------------------------------------

FILTERS = [
    "x = 0.0D",
    "x = -0.0D",
    "x <=> DOUBLE('NaN')",
    "x = DOUBLE('NaN')",
    "x > 1E300D",
    "x >= DOUBLE('NaN')",
    "x < 0.0D",
    "x <= -0.0D",
    "x != 0.0D",
    "x IN (0.0D, DOUBLE('NaN'))",
    "x IS NULL",
    "f = FLOAT('-0.0')",
    "f <=> FLOAT('NaN')",
    "s = ''",
    "s IS NULL",
    "s <=> NULL",
    "s > ''",
    "length(s) = 0",
    "s LIKE 'a%'",
]


def test_filters_find_the_same_odd_values(spark: SparkSession, env: Environment) -> None:
    df = spark.sql(
        "SELECT CAST(x AS DOUBLE) AS x, CAST(x AS FLOAT) AS f, s FROM VALUES ('NaN', ''), "
        "('-0.0', NULL), ('0.0', 'a'), ('Infinity', 'ab'), ('-Infinity', ' '), (NULL, ''), "
        "('1.5', 'b') AS t(x, s)"
    )
    hot = keep(env, df.repartition(1))
    # One kind of value a file, so that a file's statistics are about that value alone.
    scattered = keep(env, df.repartitionByRange(7, "x"))
    for condition in FILTERS:
        expected = shown(df.where(condition).collect())
        assert shown(hot.where(condition).collect()) == expected, condition
        assert outcomes(env) == READ
        assert shown(scattered.where(condition).collect()) == expected, condition
        assert outcomes(env) == READ


# -- names and shapes ------------------------------------------------------------------------------


def test_columns_of_one_name_survive(spark: SparkSession, env: Environment) -> None:
    assert_survives(env, spark.sql("SELECT id AS a, id * 2 AS a, id * 3 AS a FROM range(3)"))
    # Twice the very same attribute, not only the same name.
    df = spark.range(3).select("id", "id")
    hot = assert_survives(env, df)
    assert hot.toDF("x", "y").where("x = y").count() == 3


@pytest.mark.parametrize("sensitive", ["true", "false"])
def test_names_that_differ_by_case_survive(
    spark: SparkSession, env: Environment, settings: Any, sensitive: str
) -> None:
    with settings({"spark.sql.caseSensitive": sensitive}):
        df = spark.sql("SELECT id AS a, id * 2 AS A, id * 3 AS c1, id * 4 AS C1 FROM range(3)")
        hot = assert_survives(env, df)
        if sensitive == "true":
            assert [row[0] for row in hot.select("A").orderBy("A").collect()] == [0, 2, 4]
            assert outcomes(env) == READ


NAMES = [
    "with space",
    "a.b",
    "é",
    "日本",
    "`",
    "``a`b",
    " ",
    ",;{}()=",
    "new\nline",
    "tab\t",
    "_metadata",
    "_tmp",
    ".hidden",
    "0",
    "1a",
    "c0",
    "c1",
    "c1_1",
    "holdfast_position",
    "holdfast_filler",
    "HOLDFAST_POSITION",
    "ß",
    "ss",
    "ſ",
    "İ",
    "i̇",
    "_corrupt_record",
    "a/b",
    "x" * 300,
    "%20",
    "col",
    "*",
    "a\\b",
    '"',
]


def test_any_name_survives(spark: SparkSession, env: Environment) -> None:
    df = spark.range(3).select(*[(F.col("id") + i).alias(name) for i, name in enumerate(NAMES)])
    assert_survives(env, df.orderBy("c0"))
    env.invalidate_all()
    hot = assert_survives(env, df)
    for index, name in enumerate(NAMES):
        quoted = f"`{name.replace('`', '``')}`"
        ambiguous = [other for other in NAMES if other.lower() == name.lower()]
        if len(ambiguous) == 1 and index % 4 == 0:
            assert hot.where(f"{quoted} = {index}").count() == 1, name
            assert outcomes(env) == READ


def test_any_name_of_a_field_survives(spark: SparkSession, env: Environment) -> None:
    fields = [F.struct(F.col("id").alias(name)).alias(f"s{i}") for i, name in enumerate(NAMES)]
    assert_survives(env, spark.range(2).select(*fields))


@pytest.mark.parametrize("name", ["a.b", "holdfast_position", "_metadata", "`"])
def test_a_name_survives_alone(spark: SparkSession, env: Environment, name: str) -> None:
    assert_survives(env, spark.range(2).select(F.col("id").alias(name)))


def test_no_name_at_all_survives(spark: SparkSession, env: Environment) -> None:
    df = spark.range(2).select(F.col("id").alias(""), F.lit("x").alias(""))
    assert_survives(env, df)


@pytest.mark.parametrize("rows", [0, 1, 5])
def test_rows_without_columns_survive(spark: SparkSession, env: Environment, rows: int) -> None:
    df = spark.range(rows).repartition(3).select()
    hot = keep(env, df)
    assert hot.count() == rows
    assert outcomes(env) == READ
    assert hot.collect() == df.collect() == [Row()] * rows
    assert outcomes(env) == READ
    assert hot.to_dataframe().schema == StructType()
    assert hot.select(F.lit(1).alias("one")).collect() == [Row(one=1)] * rows
    ordered = keep(env, spark.range(rows).orderBy("id").select())
    assert ordered.collect() == [Row()] * rows


EMPTY = {
    "no rows": "SELECT * FROM range(10) WHERE id < 0",
    "no rows of many types": "SELECT id, array(id) AS a, struct(id, 'x' AS s) AS t, NULL AS n "
    "FROM range(10) WHERE id < 0",
    "no rows in order": "SELECT * FROM range(10) WHERE id < 0 ORDER BY id",
    "limit zero": "SELECT * FROM range(10) LIMIT 0",
    "a condition that is false": "SELECT * FROM range(10) WHERE false",
}


@pytest.mark.parametrize("query", EMPTY.values(), ids=EMPTY.keys())
@pytest.mark.sampled(3)
def test_no_rows_survive(spark: SparkSession, env: Environment, query: str) -> None:
    hot = assert_survives(env, spark.sql(query))
    assert hot.isEmpty()
    assert hot.toPandas().dtypes.to_dict() == spark.sql(query).toPandas().dtypes.to_dict()


def test_no_partitions_survive(spark: SparkSession, env: Environment) -> None:
    df = spark.createDataFrame(spark.sparkContext.emptyRDD(), "a long, b string")
    assert df.rdd.getNumPartitions() == 0
    hot = assert_survives(env, df)
    assert hot.agg(F.sum("a")).collect() == df.agg(F.sum("a")).collect()


def test_five_hundred_columns_survive(spark: SparkSession, env: Environment) -> None:
    df = spark.range(2).select(*[(F.col("id") * i).alias(f"column {i}") for i in range(500)])
    hot = assert_survives(env, df)
    assert [row[0] for row in hot.select("column 499").orderBy("column 499").collect()] == [0, 499]
    assert outcomes(env) == READ


def test_metadata_and_nullability_of_columns_survive(spark: SparkSession, env: Environment) -> None:
    inner = StructType([StructField("x", LongType(), False, {"unit": "m"})])
    schema = StructType(
        [
            StructField(
                "id", LongType(), False, {"comment": "the key", "n": [1, 2], "d": {"k": 1}}
            ),
            StructField("s", inner, True, {"é": "ü"}),
            StructField("t", inner, False),
        ]
    )
    df = spark.createDataFrame([(1, (2,), (3,)), (2, None, (4,))], schema)
    hot = assert_survives(env, df)
    assert hot.to_dataframe().schema["id"].metadata == schema["id"].metadata
    assert hot.select("s").to_dataframe().schema["s"].metadata == {"é": "ü"}
    # Also where the reader takes over the attributes as they are.
    bare = assert_survives(env, spark.range(3).select((F.col("id") + 1).alias("n")))
    assert bare.to_dataframe().schema["n"].nullable is False


# -- settings that could spoil it ------------------------------------------------------------------

_PARQUET = "spark.sql.parquet."
_COMMITTER = "org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter"
_PROTOCOL = "org.apache.spark.internal.io.HadoopMapReduceCommitProtocol"

SETTINGS: dict[str, dict[str, str]] = {
    "legacy files": {
        _PARQUET + "outputTimestampType": "INT96",
        _PARQUET + "writeLegacyFormat": "true",
        _PARQUET + "datetimeRebaseModeInWrite": "LEGACY",
        _PARQUET + "datetimeRebaseModeInRead": "LEGACY",
        _PARQUET + "int96RebaseModeInWrite": "LEGACY",
        _PARQUET + "int96RebaseModeInRead": "LEGACY",
        _PARQUET + "int96TimestampConversion": "true",
        _PARQUET + "inferTimestampNTZ.enabled": "false",
    },
    "old dates refused": {
        _PARQUET + "outputTimestampType": "TIMESTAMP_MILLIS",
        _PARQUET + "datetimeRebaseModeInWrite": "EXCEPTION",
        _PARQUET + "datetimeRebaseModeInRead": "EXCEPTION",
    },
    "broken files ignored": {
        "spark.sql.files.ignoreCorruptFiles": "true",
        "spark.sql.files.ignoreMissingFiles": "true",
        _PARQUET + "mergeSchema": "true",
        _PARQUET + "respectSummaryFiles": "true",
    },
    "one row a file": {
        "spark.sql.files.maxRecordsPerFile": "1",
        "spark.sql.maxConcurrentOutputFileWriters": "2",
        "spark.sql.sources.partitionOverwriteMode": "dynamic",
    },
    "second version of sources": {
        "spark.sql.sources.useV1SourceList": "",
        "spark.sql.sources.default": "json",
    },
    "field ids": {
        _PARQUET + "fieldId.write.enabled": "true",
        _PARQUET + "fieldId.read.enabled": "true",
    },
    "rows read one by one": {
        _PARQUET + "enableVectorizedReader": "false",
        _PARQUET + "recordLevelFilter.enabled": "true",
        "spark.sql.optimizer.nestedSchemaPruning.enabled": "false",
    },
    "other committers": {
        "spark.sql.sources.outputCommitterClass": _COMMITTER,
        "spark.sql.sources.commitProtocolClass": _PROTOCOL,
        "mapreduce.fileoutputcommitter.algorithm.version": "1",
        "mapreduce.fileoutputcommitter.marksuccessfuljobs": "true",
    },
    "other rules of SQL": {
        "spark.sql.ansi.enabled": "false",
        "spark.sql.storeAssignmentPolicy": "STRICT",
        "spark.sql.caseSensitive": "true",
        "spark.sql.legacy.charVarcharAsString": "true",
        "spark.sql.readSideCharPadding": "false",
        "spark.sql.columnNameOfCorruptRecord": "b",
    },
    "small pieces": {
        "spark.sql.files.maxPartitionBytes": "1k",
        "parquet.block.size": "1024",
        "parquet.page.write-checksum.enabled": "false",
    },
    "no shredded variants": {
        "spark.sql.variant.writeShredding.enabled": "false",
        "spark.sql.variant.pushVariantIntoScan": "false",
        _PARQUET + "compression.codec": "gzip",
    },
    "another time zone": {"spark.sql.session.timeZone": "America/Los_Angeles"},
}

MIXED = """
    SELECT id, CAST(id AS STRING) AS s, X'C328' AS b, DATE'1500-01-01' AS d,
           TIMESTAMP'1500-01-01 10:11:12.123456' AS t, TIMESTAMP_NTZ'1500-01-01 10:11:12' AS n,
           CAST(id AS DECIMAL(9, 2)) AS m, array(id, NULL) AS a, map('k', struct(id AS x)) AS p,
           named_struct('x', id, 'b', X'00') AS st, parse_json('[{"a": 1}]') AS v, id AS `a b`
    FROM range(0, 6, 1, 2)"""


@pytest.mark.parametrize("values", SETTINGS.values(), ids=SETTINGS.keys())
@pytest.mark.sampled(2)
def test_no_setting_spoils_what_is_kept(
    spark: SparkSession, env: Environment, settings: Any, values: dict[str, str]
) -> None:
    with settings(values):
        df = spark.sql(MIXED)
        hot = assert_survives(env, df)
        assert [row.id for row in hot.where("id >= 4").orderBy("id").collect()] == [4, 5]
        assert outcomes(env) == READ


def test_files_are_the_same_kind_under_any_settings(
    spark: SparkSession, env: Environment, settings: Any
) -> None:
    legacy = {
        "spark.sql.parquet.outputTimestampType": "INT96",
        "spark.sql.parquet.writeLegacyFormat": "true",
        "spark.sql.parquet.datetimeRebaseModeInWrite": "LEGACY",
    }
    with settings(legacy):
        keep(env, spark.sql(MIXED))
    location = env.list_cached()[-1].location
    assert location is not None
    by_hand = spark.read.parquet(str(location))
    # Anyone who reads the files under default settings sees the values as they were.
    assert by_hand.select("t", "d").first() == spark.sql(MIXED).select("t", "d").first()
    manifest = json.loads((location / "_manifest.json").read_text())
    assert [each["name"] for each in manifest["dataset"]["columns"]] == spark.sql(MIXED).columns
    assert sum(each["rows"] for each in manifest["partitions"]) == 6


# -- what can't be kept ----------------------------------------------------------------------------

UNKEEPABLE = {
    "a calendar interval": ("SELECT make_interval(1, 2) AS odd", "INTERVAL"),
    "an empty struct": ("SELECT id, struct() AS odd FROM range(1)", "STRUCT<>"),
    "an empty struct in an array": ("SELECT array(struct()) AS odd", "ARRAY<STRUCT<>>"),
    "an empty struct in a map": ("SELECT map('k', struct()) AS odd", "MAP<STRING, STRUCT<>>"),
    "an empty struct in a struct": (
        "SELECT struct(1 AS a, struct() AS b) AS odd",
        "STRUCT<a: INT NOT NULL, b: STRUCT<> NOT NULL>",
    ),
    "an interval in an array": ("SELECT array(make_interval(1)) AS odd", "ARRAY<INTERVAL>"),
}


@pytest.mark.parametrize(("query", "name"), UNKEEPABLE.values(), ids=UNKEEPABLE.keys())
def test_what_parquet_cannot_hold_is_in_sparks_own_cache(
    spark: SparkSession, env: Environment, settings: Any, query: str, name: str
) -> None:
    sparks_own = spark._jsparkSession.sharedState().cacheManager()
    before = sparks_own.numCachedEntries()
    with settings({"spark.sql.legacy.interval.enabled": "false"}):
        table = env.sql(query)
        with pytest.raises(UnsupportedTypeError) as refused:
            table.cache("7 d")
        assert refused.value.column == "odd"
        assert refused.value.data_type.replace(":", ": ").replace("  ", " ") == name
        assert env.list_cached() == []
        with table.cache() as hot:
            assert hot.count() == 1
            (listed,) = env.list_cached()
            assert listed.not_kept_by_holdfast is not None
            assert "'odd'" in listed.not_kept_by_holdfast
            assert listed.dataset_id is None
            assert sparks_own.numCachedEntries() == before + 1
    assert env.list_cached() == []
    assert sparks_own.numCachedEntries() == before


def test_cache_fixes_what_is_different_each_time_whatever_its_type(
    spark: SparkSession, env: Environment
) -> None:
    hot = env.sql(
        "SELECT CAST(current_time() AS STRING) AS t, make_interval(1) AS odd, uuid() AS u"
    )
    hot.cache()
    first = hot.select("t", "u").collect()
    assert hot.select("t", "u").collect() == first
    # Spark writes no times where they are not enabled.
    hot = env.sql("SELECT current_time() AS t, uuid() AS u").cache()
    first = hot.selectExpr("CAST(t AS STRING)", "u").collect()
    assert hot.selectExpr("CAST(t AS STRING)", "u").collect() == first
    reasons = [each.not_kept_by_holdfast or "" for each in env.list_cached()]
    assert [each.startswith("held by Spark's own cache") for each in reasons] == [True, True]
    spark.catalog.clearCache()
    assert env.list_cached() == []


POINT = "ST_GeomFromWKB(X'0101000000000000000000F03F0000000000000040', 4326)"


def test_what_no_cache_can_hold_is_computed(env: Environment, settings: Any) -> None:
    # Spark's own cache takes no geometries.
    query = f"SELECT CAST({POINT} AS GEOMETRY(ANY)) AS v, id FROM range(3)"
    with settings({"spark.sql.geospatial.enabled": "true"}):
        hot = env.sql(query).cache()
        expected = plain(env.sql(query)).selectExpr("ST_Srid(v)").collect()
        for _ in range(2):
            assert hot.count() == 3
            assert hot.selectExpr("ST_Srid(v)").collect() == expected
            assert env.sql(query).selectExpr("ST_Srid(v)").collect() == expected
        (listed,) = env.list_cached()
        assert listed.reasons == (Why.UNKEEPABLE.of(),)


def test_few_values_are_kept_in_dictionaries(env: Environment) -> None:
    numbers = ("INT(k)", "k", "DOUBLE(k)", "FLOAT(k)", "DATE_FROM_UNIX_DATE(k)", "k::DECIMAL(9, 1)")
    others = ("STRING(k)", "BINARY(STRING(k))")
    columns = ", ".join(f"{each} AS `c {number}`" for number, each in enumerate(numbers + others))
    assert_survives(env, env.spark.sql(f"SELECT {columns} FROM (SELECT id % 5 k FROM range(999))"))
    root = Path(env.configuration.get(INTERMEDIATE_RESULT_DIRECTORY))
    (file, *_) = root.glob("application-*/datasets/*/part-*.parquet")
    written = pyarrow.parquet.ParquetFile(file).metadata.row_group(0)
    found = [written.column(number).has_dictionary_page for number in range(written.num_columns)]
    assert found == [True] * len(numbers + others)
