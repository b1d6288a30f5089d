"""Every type, name and shape that Spark can put in Parquet survives being kept."""

from __future__ import annotations

from collections.abc import Callable
from functools import reduce
from pathlib import Path
from typing import Any

import pyarrow.parquet
import pytest
from pyspark.ml.linalg import Vectors
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import LongType, StructField, StructType
from pyspark.testing.objects import ExamplePoint, ExamplePointUDT

import holdfast
from holdfast import Environment, VertexOutcome
from holdfast.errors import UnsupportedTypeError
from holdfast.testing import outcomes

PRODUCED = [VertexOutcome.PRODUCED, VertexOutcome.RUN]
READ = [VertexOutcome.READ, VertexOutcome.RUN]


def shown(df: DataFrame) -> list[str]:
    """Rows as texts that tell 0.0 from -0.0 and know NaN, sorted."""
    return sorted(map(repr, df.collect()))


def texts(df: DataFrame) -> list[str]:
    """The rows as Spark itself writes their values."""
    places = df.toDF(*[f"c{index}" for index in range(len(df.columns))])
    return shown(places.select(*[F.col(name).cast("string") for name in places.columns]))


def keep(env: Environment, df: DataFrame) -> Any:
    """Caches a query and has a job keep its rows."""
    hot = env.from_dataframe(df).cache()
    hot.count()
    assert outcomes(env) == PRODUCED, env.last_job_result
    return hot


def assert_survives(env: Environment, df: DataFrame, *, collectable: bool = True) -> Any:
    """What is read has the rows and the schema of what Spark computes."""
    hot = keep(env, df)
    read = hot.to_dataframe()
    assert read.schema.json() == df.schema.json()
    assert texts(read) == texts(df)
    if collectable:
        assert shown(hot) == shown(df)
        assert outcomes(env) == READ
    return hot


# -- types -----------------------------------------------------------------------------------------

# Values of a type, beside which there are nulls.
ATOMICS = {
    "BOOLEAN": "true, false",
    "TINYINT": "-128, 127",
    "SMALLINT": "-32768, 32767",
    "INT": "-2147483648, 2147483647",
    "BIGINT": "-9223372036854775808L, 9223372036854775807L",
    "FLOAT": "'NaN', '-0.0', '0.0', 'Infinity', '-Infinity', '1.4E-45', '3.4028235E38'",
    "DOUBLE": "'NaN', '-0.0', '0.0', 'Infinity', '-Infinity', '4.9E-324', '1.7976931348623157E308'",
    "STRING": "'', ' ', '\\u0000', 'é😀', 'a\\nb'",
    "STRING COLLATE UNICODE_CI": "'a', 'A'",
    "BINARY": "X'', X'00FF', X'C328'",
    "DECIMAL(9, 2)": "'-9999999.99', '0.01'",
    "DECIMAL(18, 0)": "'-999999999999999999', '1'",
    "DECIMAL(38, 18)": "'-99999999999999999999.999999999999999999', '0.000000000000000001'",
    "DECIMAL(38, 38)": "'0.00000000000000000000000000000000000001'",
    "DATE": "'0001-01-01', '1582-10-04', '1582-10-15', '1969-12-31', '9999-12-31'",
    "TIMESTAMP": "'0001-01-02 00:00:00.000001', '1582-10-10 12:00:00', '1900-01-01 00:00:00',"
    " '1969-12-31 23:59:59.999999', '9999-12-30 23:59:59.999999'",
    "TIMESTAMP_NTZ": "'0001-01-01 00:00:00.000001', '1582-10-10 12:00:00', '2021-03-28 02:30:00',"
    " '9999-12-31 23:59:59.999999'",
    "TIME(0)": "'00:00:00', '23:59:59'",
    "TIME(3)": "'00:00:00', '23:59:59.999'",
    "TIME(6)": "'00:00:00', '23:59:59.999999'",
    "VARIANT": "parse_json('{\"a\": [1, 2.5, null, \"x\"]}'), parse_json('null'), parse_json('[]'),"
    " parse_json('123456789012345678901234567890')",
    "VOID": "NULL",
}


def test_a_type_survives(spark: SparkSession, env: Environment, settings: Any) -> None:
    rows = max(values.count(",") for values in ATOMICS.values()) + 2
    columns = ", ".join(
        f"get(CAST(array({values}) AS ARRAY<{name}>), CAST(id AS INT)) AS v{number}"
        for number, (name, values) in enumerate(ATOMICS.items())
    )
    with settings({"spark.sql.timeType.enabled": "true"}):
        assert_survives(env, spark.sql(f"SELECT {columns}, id FROM range({rows})"))


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


def test_nested_types_survive(spark: SparkSession, env: Environment, settings: Any) -> None:
    tables = ", ".join(f"({query}) t{number}" for number, query in enumerate(NESTED.values()))
    with settings({"spark.sql.caseSensitive": "true", "spark.sql.crossJoin.enabled": "true"}):
        assert_survives(env, spark.sql(f"SELECT * FROM {tables}"))


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


# -- values under filters --------------------------------------------------------------------------

FILTERS = [
    *("x = 0.0D", "x = -0.0D", "x <=> DOUBLE('NaN')", "x = DOUBLE('NaN')", "x > 1E300D"),
    *("x >= DOUBLE('NaN')", "x < 0.0D", "x <= -0.0D", "x != 0.0D", "x IN (0.0D, DOUBLE('NaN'))"),
    *("x IS NULL", "f = FLOAT('-0.0')", "f <=> FLOAT('NaN')", "s = ''", "s IS NULL", "s <=> NULL"),
    *("s > ''", "length(s) = 0", "s LIKE 'a%'"),
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

    def found(table: DataFrame) -> list[str]:
        asked = [table.where(each).select(F.lit(each), "*") for each in FILTERS]
        return shown(reduce(DataFrame.unionAll, asked))

    for each in (hot, scattered):
        assert found(each) == found(df)
        assert outcomes(env) == READ


# -- names and shapes ------------------------------------------------------------------------------

NAMES = "with space|a.b|é|日本|`|``a`b| |,;{}()=|new\nline|tab\t|0|1a|_metadata|_tmp|.hidden|a/b"
NAMES += '|%20|col|*|"|a\\b|c0|c1|c1_1|ß|ss|ſ|İ|i̇|_corrupt_record|HOLDFAST_POSITION'
ALL_NAMES = [*NAMES.split("|"), "holdfast_position", "holdfast_filler", "x" * 300]
MONTHS = "YEAR, MONTH, YEAR TO MONTH"
DAYS = (
    "DAY, HOUR, MINUTE, SECOND, DAY TO HOUR, DAY TO MINUTE, DAY TO SECOND, HOUR TO MINUTE,"
    " HOUR TO SECOND, MINUTE TO SECOND"
)
POINTS = StructType([StructField("p", ExamplePointUDT()), StructField("id", LongType(), False)])
INNER = StructType([StructField("x", LongType(), False, {"unit": "m"})])
NOTED = StructType(
    [
        StructField("id", LongType(), False, {"comment": "the key", "n": [1, 2], "d": {"k": 1}}),
        StructField("s", INNER, True, {"é": "ü"}),
        StructField("t", INNER, False),
    ]
)
MANY_TYPES = "SELECT id, array(id) AS a, struct(id, 'x' AS s) AS t, NULL AS n FROM range(10)"


def intervals(spark: SparkSession, units: str, *values: str) -> DataFrame:
    columns = [f"CAST(v AS INTERVAL {each}) AS v{n}" for n, each in enumerate(units.split(", "))]
    rows = ", ".join(f"(INTERVAL {each})" for each in values)
    return spark.sql(f"SELECT {', '.join(columns)} FROM VALUES {rows}, (NULL) AS t(v)")


SHAPES: dict[str, Callable[[SparkSession], DataFrame]] = {
    "columns of one name": lambda s: s.sql("SELECT id AS a, id * 2 AS a FROM range(3)"),
    "the very same column twice": lambda s: s.range(3).select("id", "id"),
    "void alone": lambda s: s.sql("SELECT NULL AS v FROM range(3)"),
    "names of fields": lambda s: s.range(2).select(
        *[F.struct(F.col("id").alias(name)).alias(f"s{n}") for n, name in enumerate(ALL_NAMES)]
    ),
    "a name alone": lambda s: s.range(2).select(F.col("id").alias("holdfast_position")),
    "no name": lambda s: s.range(2).select(F.col("id").alias(""), F.lit("x").alias("")),
    "no rows of many types": lambda s: s.sql(f"{MANY_TYPES} WHERE id < 0"),
    "no rows in order": lambda s: s.range(10).where("id < 0").orderBy("id"),
    "no rows by a limit": lambda s: s.range(10).limit(0),
    "no rows by a condition": lambda s: s.range(10).where("false"),
    "no partitions": lambda s: s.createDataFrame(s.sparkContext.emptyRDD(), "a long, b string"),
    "five hundred columns": lambda s: s.range(2).select(
        *[(F.col("id") * n).alias(f"column {n}") for n in range(500)]
    ),
    "metadata": lambda s: s.createDataFrame([(1, (2,), (3,)), (2, None, (4,))], NOTED),
    "what is never null": lambda s: s.range(3).select((F.col("id") + 1).alias("n")),
    "vectors": lambda s: s.createDataFrame(
        [(Vectors.dense([1.0, -0.0]),), (Vectors.sparse(3, {1: 2.0}),), (None,)], ["v"]
    ),
    "days": lambda s: intervals(s, DAYS, "'5 4:3:2.000001' DAY TO SECOND", "'-1' DAY"),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.sampled(4)
def test_a_shape_survives(spark: SparkSession, env: Environment, name: str) -> None:
    df = SHAPES[name](spark)
    hot = assert_survives(env, df)
    assert hot.toPandas().dtypes.to_dict() == df.toPandas().dtypes.to_dict()


def test_what_python_has_no_equal_values_of_survives(spark: SparkSession, env: Environment) -> None:
    months = intervals(spark, MONTHS, "'11-0' YEAR TO MONTH", "'-3-0' YEAR TO MONTH")
    assert_survives(env, months, collectable=False)
    values = [(ExamplePoint(1.0, 2.0), 1), (None, 2)]
    hot = assert_survives(env, spark.createDataFrame(values, POINTS), collectable=False)
    assert sorted(hot.collect(), key=lambda row: row.id) == [Row(p=p, id=id) for p, id in values]


@pytest.mark.parametrize("sensitive", ["true", "false"])
@pytest.mark.sampled(2)
def test_names_that_differ_by_case_survive(
    spark: SparkSession, env: Environment, settings: Any, sensitive: str
) -> None:
    with settings({"spark.sql.caseSensitive": sensitive}):
        df = spark.sql("SELECT id AS a, id * 2 AS A, id * 3 AS c1, id * 4 AS C1 FROM range(3)")
        hot = assert_survives(env, df)
        if sensitive == "true":
            assert [row[0] for row in hot.select("A").orderBy("A").collect()] == [0, 2, 4]
            assert outcomes(env) == READ


def test_any_name_survives(spark: SparkSession, env: Environment) -> None:
    df = spark.range(3).select(*[(F.col("id") + i).alias(name) for i, name in enumerate(ALL_NAMES)])
    assert_survives(env, df.orderBy("c0"))
    env.invalidate_all()
    hot = assert_survives(env, df)
    alone = {
        index: f"`{name.replace('`', '``')}` = {index}"
        for index, name in enumerate(ALL_NAMES)
        if [other.lower() for other in ALL_NAMES].count(name.lower()) == 1
    }
    filtered = [hot.where(each).select(F.lit(index)) for index, each in alone.items()]
    found = reduce(DataFrame.unionAll, filtered[::3]).collect()
    assert sorted(index for (index,) in found) == [*alone][::3] and outcomes(env) == READ


@pytest.mark.parametrize("rows", [5, 0])
@pytest.mark.sampled(2)
def test_rows_without_columns_survive(spark: SparkSession, env: Environment, rows: int) -> None:
    for df in (spark.range(rows).repartition(3).select(), spark.range(rows).orderBy("id").select()):
        hot = keep(env, df)
        assert hot.count() == rows
        assert hot.collect() == df.collect() == [Row()] * rows
        assert outcomes(env) == READ
        assert hot.to_dataframe().schema == StructType()
        assert hot.select(F.lit(1).alias("one")).collect() == [Row(one=1)] * rows


# -- settings that could spoil it ------------------------------------------------------------------

# `@` stands for "spark.sql.parquet.", and `~` for "spark.sql.".
SETTINGS = """
legacy files: @outputTimestampType=INT96 @writeLegacyFormat=true @datetimeRebaseModeInWrite=LEGACY
  @datetimeRebaseModeInRead=LEGACY @int96RebaseModeInWrite=LEGACY @int96RebaseModeInRead=LEGACY
  @int96TimestampConversion=true @inferTimestampNTZ.enabled=false
old dates refused: @outputTimestampType=TIMESTAMP_MILLIS @datetimeRebaseModeInWrite=EXCEPTION
  @datetimeRebaseModeInRead=EXCEPTION
broken files ignored: ~files.ignoreCorruptFiles=true ~files.ignoreMissingFiles=true
  @mergeSchema=true @respectSummaryFiles=true
one row a file: ~files.maxRecordsPerFile=1 ~maxConcurrentOutputFileWriters=2
  ~sources.partitionOverwriteMode=dynamic
second version of sources: ~sources.useV1SourceList= ~sources.default=json
field ids: @fieldId.write.enabled=true @fieldId.read.enabled=true
rows read one by one: @enableVectorizedReader=false @recordLevelFilter.enabled=true
  ~optimizer.nestedSchemaPruning.enabled=false
other committers: mapreduce.fileoutputcommitter.algorithm.version=1
  ~sources.outputCommitterClass=org.apache.hadoop.mapreduce.lib.output.FileOutputCommitter
  ~sources.commitProtocolClass=org.apache.spark.internal.io.HadoopMapReduceCommitProtocol
  mapreduce.fileoutputcommitter.marksuccessfuljobs=true
other rules of SQL: ~ansi.enabled=false ~storeAssignmentPolicy=STRICT ~caseSensitive=true
  ~legacy.charVarcharAsString=true ~readSideCharPadding=false ~columnNameOfCorruptRecord=b
small pieces: ~files.maxPartitionBytes=1k parquet.block.size=1024
  parquet.page.write-checksum.enabled=false
no shredded variants: ~variant.writeShredding.enabled=false ~variant.pushVariantIntoScan=false
  @compression.codec=gzip
another time zone: ~session.timeZone=America/Los_Angeles
"""
LINES = SETTINGS.replace("\n  ", " ").strip().splitlines()

MIXED = """
    SELECT id, CAST(id AS STRING) AS s, X'C328' AS b, DATE'1500-01-01' AS d,
           TIMESTAMP'1500-01-01 10:11:12.123456' AS t, TIMESTAMP_NTZ'1500-01-01 10:11:12' AS n,
           CAST(id AS DECIMAL(9, 2)) AS m, array(id, NULL) AS a, map('k', struct(id AS x)) AS p,
           named_struct('x', id, 'b', X'00') AS st, parse_json('[{"a": 1}]') AS v, id AS `a b`
    FROM range(0, 6, 1, 2)"""


@pytest.mark.parametrize("line", LINES, ids=lambda line: line.partition(":")[0])
@pytest.mark.sampled(6)
def test_no_setting_spoils_what_is_kept(
    spark: SparkSession, env: Environment, settings: Any, line: str
) -> None:
    written = line.partition(": ")[2].replace("@", "~parquet.").replace("~", "spark.sql.")
    values = {key: value for key, _, value in (each.partition("=") for each in written.split())}
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


@pytest.mark.parametrize(("query", "name"), UNKEEPABLE.values(), ids=UNKEEPABLE)
@pytest.mark.sampled(3)
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


def test_closing_and_detaching_take_it_out_of_sparks_own_cache(
    spark: SparkSession, tmp_path: Path
) -> None:
    config = {"intermediate-result-storage.directory": str(tmp_path / "kept")}
    sparks_own = spark._jsparkSession.sharedState().cacheManager()
    before = sparks_own.numCachedEntries()
    env, session = Environment(spark, config=config), holdfast.attach(spark.newSession(), config)
    for number, each in enumerate((env, session)):
        each.sql(f"SELECT make_interval({number}) AS odd").cache().count()
    assert sparks_own.numCachedEntries() == before + 2
    env.close()
    holdfast.detach(session)
    assert sparks_own.numCachedEntries() == before


POINT = "ST_GeomFromWKB(X'0101000000000000000000F03F0000000000000040', 4326)"


def test_what_no_cache_can_hold_is_computed(
    spark: SparkSession, env: Environment, settings: Any
) -> None:
    # Spark's own cache takes no geometries.
    query = f"SELECT CAST({POINT} AS GEOMETRY(ANY)) AS v, id FROM range(3)"
    with settings({"spark.sql.geospatial.enabled": "true"}):
        hot = env.sql(query).cache()
        expected = spark.sql(query).selectExpr("ST_Srid(v)").collect()
        for _ in range(2):
            assert hot.count() == 3
            assert hot.selectExpr("ST_Srid(v)").collect() == expected
            assert env.sql(query).selectExpr("ST_Srid(v)").collect() == expected
        (listed,) = env.list_cached()
        assert len(listed.reasons) == 1


def test_few_values_are_kept_in_dictionaries(env: Environment, tmp_path: Path) -> None:
    numbers = ("INT(k)", "k", "DOUBLE(k)", "FLOAT(k)", "DATE_FROM_UNIX_DATE(k)", "k::DECIMAL(9, 1)")
    others = ("STRING(k)", "BINARY(STRING(k))")
    columns = ", ".join(f"{each} AS `c {number}`" for number, each in enumerate(numbers + others))
    assert_survives(env, env.spark.sql(f"SELECT {columns} FROM (SELECT id % 5 k FROM range(999))"))
    (file, *_) = (tmp_path / "kept").rglob("part-*.parquet")
    written = pyarrow.parquet.ParquetFile(file).metadata.row_group(0)
    found = [written.column(number).has_dictionary_page for number in range(written.num_columns)]
    assert found == [True] * len(numbers + others)
