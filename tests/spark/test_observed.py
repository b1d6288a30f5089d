"""What programs may differ in without harm: it counts where rows may depend on it, and only so."""

from __future__ import annotations

import tempfile
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.ml.linalg import Vectors
from pyspark.sql import SparkSession

from holdfast import Environment
from holdfast.spark.task_classes import ship
from holdfast.testing import assert_computes, assert_reads


@pytest.fixture(scope="module")
def files(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("observed")
    rows = spark.range(200).selectExpr(
        "id AS k",
        "concat('Iİıäi', id) AS t",
        "timestamp_seconds(1700000000 + id * 3600) AS ts",
        "date_add(DATE'2024-03-29', cast(id AS int)) AS d",
        "id / 7 AS x",
        "id % 7 AS g",
        "array(id, id + 1) AS a",
    )
    rows.write.parquet(f"{home}/all")
    rows.select("k", "t", "x", "g", "a").write.parquet(f"{home}/timeless")
    rows.select("k", "g", "ts").write.csv(f"{home}/csv", header=True)
    rows.select("k", "g").write.orc(f"{home}/orc")
    rows.select("k", "t").write.json(f"{home}/json")
    vectors = [(1, Vectors.dense([1.0, 2.0])), (2, Vectors.dense([3.0, 4.0]))]
    spark.createDataFrame(vectors, ["k", "v"]).write.parquet(f"{home}/vectors")
    return home


TIMELESS = (
    "SELECT g, sum(x), count(*), max(t) FROM parquet.`{home}/timeless` GROUP BY g",
    "SELECT k + 1 AS k, cast(k AS string) AS s, cast(x AS decimal(9, 2)) AS n, size(a) "
    "FROM parquet.`{home}/timeless` WHERE t LIKE 'I%' AND k IN (1, 2, 3)",
    "SELECT l.g, count(*) FROM parquet.`{home}/timeless` l JOIN orc.`{home}/orc` r USING (k) "
    "GROUP BY l.g",
    "SELECT k, substring(t, 2) AS s FROM json.`{home}/json` WHERE k > 100",
    "SELECT explode(a) AS e FROM parquet.`{home}/timeless`",
)
WORDS = (
    "SELECT upper(t) AS u FROM parquet.`{home}/timeless`",
    "SELECT count(*) FROM parquet.`{home}/timeless` WHERE lower(t) > 'i'",
    "SELECT initcap(t) AS u FROM parquet.`{home}/timeless`",
    "SELECT format_number(x, 2) AS f FROM parquet.`{home}/timeless`",
    "SELECT date_format(ts, 'MMMM') AS f FROM parquet.`{home}/all`",
    "SELECT cast(cast(k AS interval day) AS string) AS i FROM parquet.`{home}/timeless`",
    "SELECT t FROM parquet.`{home}/timeless` WHERE g IN "
    "(SELECT max(g) FROM parquet.`{home}/timeless` WHERE upper(t) > 'I')",
)
TIMES = (
    "SELECT cast(ts AS string) AS s FROM parquet.`{home}/all`",
    "SELECT hour(ts) AS h, count(*) AS n FROM parquet.`{home}/all` GROUP BY hour(ts)",
    "SELECT to_date(ts) AS d FROM parquet.`{home}/all`",
    "SELECT cast(d AS timestamp) AS ts FROM parquet.`{home}/all`",
    "SELECT cast(struct(timestamp_seconds(k)) AS string) AS s FROM parquet.`{home}/timeless`",
    "SELECT cast(concat('2024-03-31 0', g, ':30') AS timestamp) AS ts "
    "FROM parquet.`{home}/timeless`",
    "SELECT from_utc_timestamp(timestamp_seconds(k), 'Europe/Berlin') AS ts "
    "FROM parquet.`{home}/timeless`",
    "SELECT date_trunc('DAY', timestamp_seconds(k * 3600)) AS ts FROM parquet.`{home}/timeless`",
)


VECTORS = "SELECT * FROM parquet.`{home}/vectors`"
LOCAL_TEXT = (
    "SELECT to_csv(struct(d), map('locale', 'de', 'dateFormat', 'MMM')) AS f "
    "FROM parquet.`{home}/all`"
)


@contextmanager
def another_locale(jvm: Any, spark: SparkSession) -> Iterator[None]:
    before = jvm.java.util.Locale.getDefault()
    jvm.java.util.Locale.setDefault(jvm.java.util.Locale.forLanguageTag("tr-TR"))
    try:
        yield
    finally:
        jvm.java.util.Locale.setDefault(before)


@contextmanager
def another_locale_of_executors(jvm: Any, spark: SparkSession) -> Iterator[None]:
    settings: Any = spark.sparkContext._jsc.sc().conf()  # type: ignore[union-attr]
    options = "spark.executor.extraJavaOptions"
    before = {key: str(settings.get(key, "")) for key in ("spark.master", options)}
    # There is no executor, and its options are not asked for.
    settings.set("spark.master", "spark://elsewhere:7077")
    settings.set(options, f"{before[options]} -Duser.language=tr")
    try:
        yield
    finally:
        for key, value in before.items():
            settings.set(key, value)


@contextmanager
def other_texts_of_java(jvm: Any, spark: SparkSession) -> Iterator[None]:
    jvm.java.lang.System.setProperty("java.locale.providers", "COMPAT")
    try:
        yield
    finally:
        jvm.java.lang.System.clearProperty("java.locale.providers")


@contextmanager
def another_zone_of_java(jvm: Any, spark: SparkSession) -> Iterator[None]:
    before = jvm.java.util.TimeZone.getDefault()
    jvm.java.util.TimeZone.setDefault(jvm.java.util.TimeZone.getTimeZone("Asia/Kathmandu"))
    try:
        yield
    finally:
        jvm.java.util.TimeZone.setDefault(before)


@contextmanager
def another_zone(jvm: Any, spark: SparkSession) -> Iterator[None]:
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    yield


@contextmanager
def another_jar(jvm: Any, spark: SparkSession) -> Iterator[None]:
    jar = Path(tempfile.mkdtemp()) / "unused.jar"
    with zipfile.ZipFile(jar, "w") as written:
        written.writestr("unused.txt", "nothing")
    context: Any = spark.sparkContext
    # It stays with the context, and so stands last.
    context._jsc.sc().addJar(str(jar))
    yield


@contextmanager
def classes_of_ours(jvm: Any, spark: SparkSession) -> Iterator[None]:
    # One that no other test has sent to tasks.
    ship(spark, "NodeMeasure")
    yield


# What a later program differs in, what it finds nevertheless, and what it doesn't.
OTHERS: dict[Callable[..., Any], tuple[tuple[str, ...], tuple[str, ...]]] = {
    another_locale: ((*TIMELESS, *TIMES[:2]), WORDS),
    another_locale_of_executors: (TIMELESS, WORDS),
    other_texts_of_java: ((), (LOCAL_TEXT,)),
    another_zone: ((*TIMELESS, WORDS[0]), TIMES),
    another_zone_of_java: ((*TIMELESS, WORDS[0]), TIMES),
    classes_of_ours: ((VECTORS,), ()),
    another_jar: ((*TIMELESS, WORDS[0], TIMES[0]), (VECTORS,)),
}


@pytest.fixture(scope="module")
def kept(spark: SparkSession, files: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What a program has kept of all queries."""
    directory = tmp_path_factory.mktemp("kept")
    queries = [each.format(home=files) for each in (*TIMELESS, *WORDS, *TIMES, VECTORS, LOCAL_TEXT)]
    with program(spark, directory) as first:
        for query in queries:
            first.sql(query).cache(lifetime="1 h").count()
    with program(spark, directory) as alike:
        for query in queries:
            assert_reads(alike.sql(query).cache())
    return directory


def program(spark: SparkSession, directory: Path) -> Environment:
    config = {"intermediate-result-storage.directory": str(directory)}
    return Environment(spark.newSession(), config=config)


@pytest.mark.parametrize("other", OTHERS, ids=lambda other: other.__name__)
def test_a_program_finds_what_does_not_depend_on_what_it_differs_in(
    spark: SparkSession, files: Path, kept: Path, other: Callable[..., Any]
) -> None:
    found, not_found = OTHERS[other]
    later = program(spark, kept)
    with later, other(spark.sparkContext._jvm, later.spark):
        for query in found:
            assert_reads(later.sql(query.format(home=files)).cache())
        for query in not_found:
            assert_computes(later.sql(query.format(home=files)).cache())
        # Of each kind the rows of one.
        for query in (*found[:1], *not_found[:1]):
            table = later.sql(query.format(home=files))
            expected = later.plain(later.wrap(table)).collect()
            assert sorted(map(repr, table.collect())) == sorted(map(repr, expected))
