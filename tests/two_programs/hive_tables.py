"""What programs find over tables that Spark reads by a SerDe.

Hive's catalog is one of a process: these programs are environments in sessions of one.
"""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import holdfast
from holdfast import VertexOutcome
from tests.two_programs import moved_partitions
from tests.two_programs.moved_partitions import QUERIES, Programs, alter

_SETTINGS = {
    "hive.exec.dynamic.partition.mode": "nonstrict",
    "spark.sql.hive.convertMetastoreParquet": "false",
    "spark.sql.hive.convertMetastoreOrc": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "2",
}
CASES: dict[str, Callable[[Programs], None]] = {}
PARTS = {"all": {1, 2, 3}, "one": {1}, "other": {2, 3}}
TABLE = "CREATE TABLE t (k INT) PARTITIONED BY (p INT) STORED AS TEXTFILE"
ROWS = "INSERT INTO t VALUES (10, 1), (20, 2), (30, 3)"
FORMATS = {
    "text": "STORED AS TEXTFILE",
    "sequences": "STORED AS SEQUENCEFILE",
    "RCFile": "STORED AS RCFILE",
    "Avro": "STORED AS AVRO",
    "Parquet": "STORED AS PARQUET",
    "ORC": "STORED AS ORC",
    "CSV": "ROW FORMAT SERDE 'org.apache.hadoop.hive.serde2.OpenCSVSerde' STORED AS TEXTFILE",
}
CHANGES = moved_partitions.CHANGES | {
    "taken apart in another way": (
        {1},
        alter("PARTITION (p = 1) SET SERDEPROPERTIES ('field.delim' = '0')"),
    ),
    "under other properties": (
        {1, 2, 3},
        alter("SET TBLPROPERTIES ('skip.header.line.count' = '1')"),
    ),
}


def case(name: str) -> Callable[[Callable[[Programs], None]], Callable[[Programs], None]]:
    def named(play: Callable[[Programs], None]) -> Callable[[Programs], None]:
        CASES[name] = play
        return play

    return named


def _create(programs: Programs, *texts: str) -> None:
    programs.sql(TABLE, ROWS, "CREATE OR REPLACE VIEW v AS SELECT p, k FROM t WHERE k > 0", *texts)


def _moved(change: str) -> Callable[[Programs], None]:
    def play(programs: Programs) -> None:
        moved, texts = CHANGES[change]
        _create(programs, "INSERT OVERWRITE DIRECTORY '{path}/new' STORED AS TEXTFILE SELECT 7")
        programs.finds_what_stays(PARTS, moved, texts)

    return play


for _name in CHANGES:
    CASES[_name] = _moved(_name)


@case("each way to ask")
def _queries(programs: Programs) -> None:
    _create(programs)
    more = {
        "by a subquery": "SELECT k FROM t WHERE p = (SELECT max(p) - 1 FROM t)",
        "by a function": "SELECT k FROM t WHERE p + 1 = 2 AND k > 0",
        "in other letters": "SELECT K FROM t WHERE P = 1 AND K > 0",
        "by either": "SELECT k FROM t WHERE p = 1 OR k = 30",
        "twice": "WITH c AS (SELECT * FROM t) SELECT a.k FROM c a, c b WHERE a.p = 1 AND b.p > 1",
    }
    asked = ("one", "above", "viewed", "joined", "inside")
    for name, query in ({name: QUERIES[name] for name in asked} | more).items():
        programs.asks(query)
        assert programs.finds(query), name


@case("a part that is cached answers what has more conditions")
def _parts(programs: Programs) -> None:
    _create(programs)
    with programs.program() as env:
        env.sql("SELECT * FROM t").cache().collect()
        for query in ("SELECT * FROM t WHERE p = 1", QUERIES["above"], QUERIES["both"]):
            assert sorted(map(str, env.sql(query).collect())) == programs.plain(query)
            assert env.last_job_result is not None
            assert env.last_job_result.vertices[0].outcome is VertexOutcome.READ
    with programs.program() as env:
        # Nothing is kept of the one side, which is listed for what is asked of it.
        env.sql("SELECT p, max(k) AS m FROM t GROUP BY p").cache().collect()
        query = "SELECT k, m FROM t JOIN (SELECT p, max(k) AS m FROM t GROUP BY p) USING (p)"
        for condition in ("p = 1", "p > 1", "m > 10", "p = 1 OR m = 30"):
            asked = f"{query} WHERE {condition}"
            assert sorted(map(str, env.sql(asked).collect())) == programs.plain(asked), condition
            assert env.last_job_result is not None
            assert env.last_job_result.vertices[0].outcome is VertexOutcome.READ


@case("formats")
def _formats(programs: Programs) -> None:
    for name, how in FORMATS.items():
        programs.sql(f"CREATE TABLE t (k INT, s STRING) {how}", "INSERT INTO t VALUES (1, 'a')")
        query = "SELECT k, upper(s) AS s FROM t"
        programs.asks(query)
        assert programs.finds(query), name
        programs.sql("INSERT INTO t VALUES (2, 'b')")
        assert not programs.finds(query), name
        programs.sql("DROP TABLE t")


@case("files")
def _files(programs: Programs) -> None:
    programs.sql("CREATE TABLE t (k INT) STORED AS TEXTFILE", "INSERT INTO t VALUES (1)")
    query = "SELECT k + 1 AS k FROM t"
    programs.asks(query)
    directory = Path(programs.home, "warehouse", "t")
    file = next(each for each in directory.iterdir() if each.name.startswith("part"))
    (directory / "_hidden").write_text("5\n")
    (directory / ".hidden").write_text("5\n")
    assert programs.finds(query)
    (directory / "another").write_text("6\n")
    assert not programs.finds(query)
    (directory / "another").unlink()
    assert programs.finds(query)
    times = file.stat().st_atime_ns, file.stat().st_mtime_ns
    file.write_text("8\n")
    file.with_name(f".{file.name}.crc").unlink()
    os.utime(file, ns=times)
    assert not programs.finds(query)


@case("values of a partition under a property's name")
def _named(programs: Programs) -> None:
    query = "SELECT * FROM t"
    programs.sql(
        "CREATE TABLE t (k INT) PARTITIONED BY (comment STRING) STORED AS TEXTFILE",
        "INSERT INTO t VALUES (10, 'a'), (20, 'b')",
    )
    programs.asks(query)
    assert programs.finds(query)
    directory = f"{programs.home}/warehouse/t"
    programs.sql(
        f"ALTER TABLE t PARTITION (comment = 'a') SET LOCATION '{directory}/comment=b'",
        f"ALTER TABLE t PARTITION (comment = 'b') SET LOCATION '{directory}/comment=a'",
    )
    assert not programs.finds(query)


@case("a schema of Avro's in a file")
def _schema(programs: Programs) -> None:
    # A URL has no blanks.
    schema = programs.home.parent / "schema"
    text = (
        '{"type": "record", "name": "r", "fields": ['
        '{"name": "k", "type": "int"}, {"name": "d", "type": "int", "default": 5}]}'
    )
    schema.write_text(text)
    programs.sql(
        "CREATE TABLE u (k INT) STORED AS AVRO LOCATION '{path}/avro'",
        "INSERT INTO u VALUES (1)",
        "CREATE TABLE t (k INT, d INT) STORED AS AVRO LOCATION '{path}/avro' "
        f"TBLPROPERTIES ('avro.schema.url' = 'file:{schema}')",
    )
    query = "SELECT k, d FROM t"
    assert programs.asks(query) == ["Row(k=1, d=5)"]
    assert programs.finds(query)
    schema.write_text(text.replace("5", "6"))
    assert not programs.finds(query)
    assert programs.asks(query) == ["Row(k=1, d=6)"]
    assert programs.finds(query)


@case("settings of Hadoop's files")
def _settings(programs: Programs) -> None:
    programs.sql("CREATE TABLE t (k INT) STORED AS TEXTFILE", "INSERT INTO t VALUES (1)")
    jvm: Any = programs.session()._jsparkSession
    settings = jvm.sparkContext().hadoopConfiguration()
    key, query = "textinputformat.record.delimiter", "SELECT k FROM t"
    programs.asks(query)
    for source in ("core-site.xml", "Set by Spark from keys starting with 'spark.hive'"):
        assert programs.finds(query)
        settings.set(key, "1", source)
        try:
            assert not programs.finds(query), source
        finally:
            settings.unset(key)


@case("beside a stream, which runs in another session")
def _beside_a_stream(programs: Programs) -> None:
    _create(programs)
    source = programs.home / "source"
    source.mkdir()
    (source / "1").write_text("1\n4\n")
    session = holdfast.attach(programs.session(), config=programs.config)
    try:
        stream = session.readStream.schema("p INT").csv(str(source))
        joined = stream.join(session.sql("SELECT * FROM t"), "p")
        query = joined.writeStream.format("memory").queryName("joined").start()
        query.processAllAvailable()
        programs.sql("INSERT INTO t VALUES (40, 4)")
        (source / "2").write_text("4\n")
        query.processAllAvailable()
        query.stop()
        assert sorted(session.sql("SELECT k, p FROM joined").collect()) == [(10, 1), (40, 4)]
    finally:
        holdfast.detach(session)


@case("what can't be known")
def _unknown(programs: Programs) -> None:
    path = programs.home / "links"
    path.mkdir(parents=True)
    (programs.home / "far").mkdir()
    (programs.home / "far" / "file").write_text("1\n")
    (path / "link").write_text(f"{programs.home}/far/file\n")
    kinds = {
        "a SymlinkTextInputFormat, whose content has no version": (
            "CREATE TABLE t (k INT) STORED AS INPUTFORMAT "
            "'org.apache.hadoop.hive.ql.io.SymlinkTextInputFormat' OUTPUTFORMAT "
            f"'org.apache.hadoop.hive.ql.io.HiveIgnoreKeyTextOutputFormat' LOCATION '{path}'"
        ),
    }
    for why, text in kinds.items():
        programs.sql(text)
        programs.asks("SELECT k FROM t")
        assert not programs.finds("SELECT k FROM t"), why
        assert programs.why == [why], programs.why
        programs.sql("DROP TABLE t")


@case("calls of the metastore")
def _calls(programs: Programs) -> None:
    spark = programs.session()
    _create(
        programs,
        "CREATE TABLE u (k INT, p INT) USING parquet PARTITIONED BY (p)",
        "INSERT INTO u VALUES (10, 1), (20, 2), (30, 3)",
    )
    jvm: Any = spark._jvm
    metrics = jvm.org.apache.spark.metrics.source.HiveCatalogMetrics

    def counted(action: Callable[[], Any]) -> tuple[int, int, int]:
        metrics.reset()
        action()
        return (
            metrics.METRIC_HIVE_CLIENT_CALLS().getCount(),
            metrics.METRIC_PARTITIONS_FETCHED().getCount(),
            metrics.METRIC_FILES_DISCOVERED().getCount(),
        )

    for table in ("t", "u"):
        for query in ("one", "all", "joined"):
            text = re.sub(r"\b(FROM|JOIN) t\b", rf"\1 {table}", QUERIES[query])
            plain = counted(lambda text=text: spark.sql(text).collect())
            for found in (False, True):
                with programs.program() as env:
                    ours = counted(lambda env=env, text=text: env.sql(text).cache().collect())
                assert ours[:2] == plain[:2], f"{text}, {found=}: {ours}, {plain}"


class HiveTables(Programs):
    """Programs whose sessions leave tables to Hive's readers."""

    def session(self) -> SparkSession:
        session = super().session()
        for key, value in _SETTINGS.items():
            session.conf.set(key, value)
        return session


def played(spark: SparkSession, home: Path, name: str) -> dict[str, str]:
    """Plays a case in a database of its own: what was wrong; nothing where all is well."""
    directory = home / f"case {list(CASES).index(name)}, 100%25"
    spark.sql(f"CREATE DATABASE between_programs LOCATION '{directory}/warehouse'")
    try:
        CASES[name](HiveTables(spark, directory))
    except Exception:
        return {"wrong": traceback.format_exc()[-3_000:]}
    finally:
        spark.sql("DROP DATABASE between_programs CASCADE")
    return {"wrong": ""}
