"""What programs may differ in without harm: it counts where rows may depend on it, and only so."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest
from pyspark.ml.linalg import Vectors
from pyspark.sql import SparkSession

from holdfast import Environment
from holdfast.runtime.vertex_outcome import VertexOutcome

Start = Callable[[], Environment]


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


@pytest.fixture
def start(spark: SparkSession, tmp_path: Path) -> Iterator[Start]:
    started: list[Environment] = []

    def make() -> Environment:
        config = {"intermediate-result-storage.directory": str(tmp_path / "kept")}
        started.append(Environment(spark, config=config))
        return started[-1]

    yield make
    for each in started:
        each.close()


@contextmanager
def another_locale(spark: SparkSession) -> Iterator[None]:
    jvm: Any = spark.sparkContext._jvm
    before = jvm.java.util.Locale.getDefault()
    jvm.java.util.Locale.setDefault(jvm.java.util.Locale.forLanguageTag("tr-TR"))
    try:
        yield
    finally:
        jvm.java.util.Locale.setDefault(before)


@contextmanager
def another_locale_of_executors(spark: SparkSession) -> Iterator[None]:
    context: Any = spark.sparkContext
    settings = context._jsc.sc().conf()
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
def other_texts_of_java(spark: SparkSession) -> Iterator[None]:
    jvm: Any = spark.sparkContext._jvm
    jvm.java.lang.System.setProperty("java.locale.providers", "COMPAT")
    try:
        yield
    finally:
        jvm.java.lang.System.clearProperty("java.locale.providers")


@contextmanager
def another_zone_of_java(spark: SparkSession) -> Iterator[None]:
    jvm: Any = spark.sparkContext._jvm
    before = jvm.java.util.TimeZone.getDefault()
    jvm.java.util.TimeZone.setDefault(jvm.java.util.TimeZone.getTimeZone("Asia/Kathmandu"))
    try:
        yield
    finally:
        jvm.java.util.TimeZone.setDefault(before)


@contextmanager
def another_zone(spark: SparkSession) -> Iterator[None]:
    before = spark.conf.get("spark.sql.session.timeZone")
    explicit = spark.conf._jconf.contains("spark.sql.session.timeZone")
    spark.conf.set("spark.sql.session.timeZone", "Asia/Kathmandu")
    try:
        yield
    finally:
        if explicit:
            spark.conf.set("spark.sql.session.timeZone", str(before))
        else:
            spark.conf.unset("spark.sql.session.timeZone")


@contextmanager
def another_jar(spark: SparkSession, tmp_path: Path) -> Iterator[None]:
    jar = tmp_path / f"{tmp_path.name}.jar"
    with zipfile.ZipFile(jar, "w") as written:
        written.writestr("unused.txt", "nothing")
    context: Any = spark.sparkContext
    context._jsc.sc().addJar(str(jar))
    # It stays with the context.
    yield


def keeps_and_finds(
    start: Start, query: str, files: Path, other: AbstractContextManager[None]
) -> list[VertexOutcome]:
    """What the second of two programs, which differs from the first in one way, does."""
    said = query.format(home=files)
    first = start()
    first.sql(said).cache(lifetime="1 h").count()
    first.close()
    with other:
        second = start()
        rows = sorted(map(repr, second.sql(said).cache().collect()))
        plain = second.spark.sql(said)
        assert rows == sorted(map(repr, plain.collect()))
        assert second.last_job_result is not None
        (vertex, _) = second.last_job_result.vertices
        found = [vertex.outcome]
        if vertex.missed is not None:
            assert re.search("under other settings: .*(Java's|time zone|timeZone)", vertex.missed)
        second.close()
    return found


READ, PRODUCED = [VertexOutcome.READ], [VertexOutcome.PRODUCED]

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


@pytest.mark.parametrize("query", [*TIMELESS, *TIMES[:2]])
def test_another_locale_is_found_where_nothing_depends_on_it(
    start: Start, spark: SparkSession, files: Path, query: str
) -> None:
    assert keeps_and_finds(start, query, files, another_locale(spark)) == READ


@pytest.mark.parametrize("query", WORDS)
def test_another_locale_is_another_result_where_words_depend_on_it(
    start: Start, spark: SparkSession, files: Path, query: str
) -> None:
    assert keeps_and_finds(start, query, files, another_locale(spark)) == PRODUCED


@pytest.mark.parametrize("query", [TIMELESS[0], WORDS[0]])
def test_another_locale_of_executors_counts_as_well(
    start: Start, spark: SparkSession, files: Path, query: str
) -> None:
    expected = READ if query in TIMELESS else PRODUCED
    assert keeps_and_finds(start, query, files, another_locale_of_executors(spark)) == expected


def test_programs_whose_java_writes_dates_in_another_way_share_nothing(
    start: Start, spark: SparkSession, files: Path
) -> None:
    query = "SELECT to_csv(struct(d), map('locale', 'de', 'dateFormat', 'MMM')) AS f FROM "
    found = keeps_and_finds(
        start, query + "parquet.`{home}/all`", files, other_texts_of_java(spark)
    )
    assert found == PRODUCED


@pytest.mark.parametrize("query", [*TIMELESS, WORDS[0]])
@pytest.mark.parametrize("other", [another_zone, another_zone_of_java])
def test_another_time_zone_is_found_where_nothing_depends_on_it(
    start: Start, spark: SparkSession, files: Path, query: str, other: Callable[..., Any]
) -> None:
    assert keeps_and_finds(start, query, files, other(spark)) == READ


@pytest.mark.parametrize("query", TIMES)
@pytest.mark.parametrize("other", [another_zone, another_zone_of_java])
def test_another_time_zone_is_another_result_where_times_depend_on_it(
    start: Start, spark: SparkSession, files: Path, query: str, other: Callable[..., Any]
) -> None:
    assert keeps_and_finds(start, query, files, other(spark)) == PRODUCED


def test_another_jar_is_no_matter_to_what_runs_none_of_its_classes(
    start: Start, spark: SparkSession, files: Path, tmp_path: Path
) -> None:
    for number, query in enumerate((*TIMELESS, WORDS[0], TIMES[0])):
        place = tmp_path / str(number)
        place.mkdir()
        assert keeps_and_finds(start, query, files, another_jar(spark, place)) == READ


def test_another_jar_counts_where_a_type_is_of_a_class(
    start: Start, spark: SparkSession, files: Path, tmp_path: Path
) -> None:
    query = "SELECT * FROM parquet.`{home}/vectors`"
    assert keeps_and_finds(start, query, files, another_jar(spark, tmp_path)) == PRODUCED


PROGRAM = """
import sys
{imports}
from pyspark.sql import SparkSession, functions as F
import holdfast

kept, source = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[1]")
    .config("spark.ui.enabled", "false")
    .config("spark.driver.memory", "512m")
    .getOrCreate()
)
spark = holdfast.attach(spark, {{"intermediate-result-storage.directory": kept}})

def scaled(value):
    return decimal.Decimal(value) * fractions.Fraction(3, 2).numerator + len(textwrap.dedent(" x"))

queries = {{
    "sums": lambda: spark.read.parquet(source).groupBy("g").agg(F.sum("x")),
    "function": lambda: spark.read.parquet(source).select(F.udf(scaled, "decimal(20, 2)")("k")),
    "upper": lambda: spark.read.parquet(source).select(F.upper("t")),
    "moment": lambda: spark.read.parquet(source).select(
        F.timestamp_seconds("k").cast("string").alias("s")
    ),
}}
for name, make in queries.items():
    make().cache(lifetime="1 h").count()
    vertex, _ = spark.holdfast.last_job_result.vertices
    print(name, vertex.outcome.name)
spark.stop()
"""
IMPORTS = ["import decimal", "import fractions", "import textwrap", "import pandas"]


def run_elsewhere(home: Path, kept: Path, files: Path, imports: list[str], **around: str) -> str:
    home.mkdir()
    (home / "program.py").write_text(PROGRAM.format(imports="\n".join(imports)))
    ended = subprocess.run(
        [sys.executable, "program.py", str(kept), f"{files}/timeless"],
        cwd=home,
        env=os.environ | around,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


@pytest.mark.parametrize(
    ("around", "others"),
    [
        ({"JDK_JAVA_OPTIONS": "-Duser.language=tr -Duser.country=TR"}, ["upper"]),
        # What a library looks at when a function calls it is not known.
        ({"TZ": "Asia/Kathmandu"}, ["function", "moment"]),
    ],
    ids=["locale", "zone"],
)
def test_a_program_elsewhere_finds_what_does_not_depend_on_where_it_runs(
    tmp_path: Path, files: Path, around: dict[str, str], others: list[str]
) -> None:
    kept = tmp_path / "kept"
    first = run_elsewhere(tmp_path / "one", kept, files, IMPORTS, TZ="UTC")
    assert set(first.split()[1::2]) == {"PRODUCED"}
    second = run_elsewhere(
        tmp_path / "two", kept, files, IMPORTS[::-1], **{"TZ": "UTC", "HOME": "/nowhere", **around}
    )
    told = dict(zip(second.split()[::2], second.split()[1::2], strict=True))
    assert [name for name, outcome in told.items() if outcome != "READ"] == others
