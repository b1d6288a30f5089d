"""Readers whose rows depend on which columns and conditions reach them."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from holdfast import Environment
from holdfast.api.table import Table
from holdfast.runtime.vertex_outcome import VertexOutcome
from tests.spark.conftest import Probe, assert_same

pytestmark = pytest.mark.usefixtures("interpreted")

SCHEMA = "k INT, a INT, b INT"
CSV = "0,1,x\n1,1,5\n1,y,6\n2,3,4\n"
JSON = '{"k": 0, "a": 1, "b": "x"}\n{"k": 1, "a": 1, "b": 5}\n{"k": 1, "a": y, "b": 6}\n'
XML = "<all><r><k>0</k><a>1</a><b>x</b></r><r><k>1</k><a>1</a><b>5</b></r></all>"
DROPS = {"mode": "DROPMALFORMED"}
IGNORES = {"ignoreCorruptFiles": "true"}
IGNORED = {"spark.sql.files.ignoreCorruptFiles": "true"}
SECOND_VERSION = {"spark.sql.sources.useV1SourceList": ""}


def text(content: str) -> Callable[[Path], object]:
    return lambda folder: (folder / "f.txt").write_text(content)


def damaged(folder: Path) -> None:
    """Two files, of which one can't be read to its end where its second column is read."""
    for name, keys in ("good", [0, 1, 1]), ("bad", [0, 0, 1]):
        table = pa.table({"k": keys, "a": [1, 2, 3], "b": [4, 5, 6]})
        pq.write_table(table, folder / name, compression="none", use_dictionary=False)
    pages = pq.ParquetFile(folder / "bad").metadata.row_group(0).column(1)
    raw = bytearray((folder / "bad").read_bytes())
    raw[pages.data_page_offset : pages.data_page_offset + 12] = b"\xff" * 12
    (folder / "bad").write_bytes(raw)


def cut_off(folder: Path) -> None:
    (folder / "good.csv").write_text(CSV)
    (folder / "bad.csv.gz").write_bytes(gzip.compress(CSV.encode() * 99)[:-20])


SOURCES = {
    "csv that drops": ("csv", SCHEMA, DROPS, {}, text(CSV)),
    "csv that drops, in other letters": ("csv", SCHEMA, {"MODE": "dropMalformed"}, {}, text(CSV)),
    "csv that names": ("csv", f"{SCHEMA}, _corrupt_record STRING", {}, {}, text(CSV)),
    "csv that names as an option says": (
        *("csv", f"{SCHEMA}, why STRING", {"columnNameOfCorruptRecord": "why"}, {}, text(CSV)),
    ),
    "csv that names as the session says": (
        *("csv", f"{SCHEMA}, why STRING", {}),
        *({"spark.sql.columnNameOfCorruptRecord": "why"}, text(CSV)),
    ),
    "csv by the second version": ("csv", SCHEMA, DROPS, SECOND_VERSION, text(CSV)),
    "json that drops": ("json", SCHEMA, DROPS, {}, text(JSON)),
    "json that fills in": ("json", SCHEMA, {}, {}, text(JSON)),
    "json with a name twice": ("json", SCHEMA, {}, {}, text('{"k": 1, "a": 1, "k": 2}\n')),
    "xml that drops": ("xml", SCHEMA, {**DROPS, "rowTag": "r"}, {}, text(XML)),
    "parquet that is damaged": ("parquet", SCHEMA, IGNORES, {}, damaged),
    "parquet that is damaged, in a session": ("parquet", SCHEMA, {}, IGNORED, damaged),
    "csv that is cut off": ("csv", SCHEMA, {"ignorecorruptfiles": "TRUE"}, {}, cut_off),
}
NARROWER = (
    "SELECT k FROM t",
    "SELECT a, k FROM t",
    "SELECT count(*) FROM t",
    "SELECT k, a, b FROM t WHERE k = 2",
    "SELECT k, count(*) AS n FROM t GROUP BY k",
    "SELECT d.id FROM t JOIN range(9) d ON t.k = d.id",
)


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES.keys())
@pytest.mark.sampled(4)
def test_what_is_kept_is_of_the_columns_that_were_asked_for(
    probe: Probe, tmp_path: Path, source: tuple[str, str, dict[str, str], dict[str, str], object]
) -> None:
    kind, schema, options, settings, write = source
    folder = tmp_path / "files"
    folder.mkdir()
    assert callable(write)
    write(folder)
    with probe.settings(settings):
        reader = probe.spark.read.options(**options).schema(schema)
        reader.format(kind).load(str(folder)).createOrReplaceTempView("t")
        probe.keep("SELECT k, a, b FROM t")
        for query in NARROWER:
            probe.assert_computes(query)
        probe.keep("SELECT d.id, t.a, t.b FROM t JOIN range(9) d ON t.k = d.id")
        probe.assert_computes("SELECT d.id FROM t JOIN range(9) d ON t.k = d.id")
        probe.assert_reads("SELECT k, a, b FROM t")


@pytest.mark.parametrize("is_null", ["true", "false"])
def test_structs_of_which_a_file_has_no_field(probe: Probe, tmp_path: Path, is_null: str) -> None:
    files = str(tmp_path / "files")
    probe.spark.sql("SELECT id AS k, struct(id AS x) AS s FROM range(3)").write.parquet(files)
    with probe.settings({"spark.sql.legacy.parquet.returnNullStructIfAllFieldsMissing": is_null}):
        reader = probe.spark.read.schema("k BIGINT, s STRUCT<x: BIGINT, y: BIGINT>")
        reader.parquet(files).createOrReplaceTempView("t")
        probe.keep("SELECT k, s FROM t")
        for query in ("SELECT k, s.y FROM t WHERE s IS NOT NULL", "SELECT s.y, s IS NULL FROM t"):
            assert_same(probe.rows(probe.table(query)), probe.plain_rows(query))
            assert (VertexOutcome.READ in probe.outcomes()) is (is_null == "false")


def test_what_is_asked_of_a_cached_table_is_of_its_rows(probe: Probe, tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text(CSV)

    def read() -> Table:
        reader = probe.env.read.option("mode", "DROPMALFORMED").schema(SCHEMA)
        table = reader.csv(str(tmp_path / "f.csv"))
        assert isinstance(table, Table)
        return table

    spark_s = ClassicDataFrame(read()._jdf, probe.spark).select("k", "b", "a").cache()
    expected = probe.rows(spark_s.select("k"))
    spark_s.unpersist()
    hot = read().select("k", "b", "a").cache()
    assert_same(probe.rows(hot.select("k")), expected)
    assert probe.outcomes() == [VertexOutcome.PRODUCED, VertexOutcome.RUN]
    # As in Spark's own cache, it is the same plan that is found.
    assert_same(probe.rows(read().select("k", "b", "a").select("k")), expected)
    assert probe.outcomes() == [VertexOutcome.READ, VertexOutcome.RUN]
    assert len(read().select("k").collect()) == 4


def test_no_other_program_gets_rows_that_it_did_not_ask_for(probe: Probe, tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text(CSV)
    reader = probe.spark.read.option("mode", "DROPMALFORMED").schema(SCHEMA)
    reader.csv(str(tmp_path / "f.csv")).createOrReplaceTempView("t")
    hot = probe.keep("SELECT k, a FROM t")
    hot.unpersist()
    assert probe.env.list_cached() == []
    probe.assert_computes("SELECT k, a FROM t")


def test_nothing_of_it_is_kept_implicitly(
    probe: Probe, spark: SparkSession, tmp_path: Path
) -> None:
    (tmp_path / "f.csv").write_text(CSV)
    reader = spark.read.option("mode", "DROPMALFORMED").schema(SCHEMA)
    reader.csv(str(tmp_path / "f.csv")).createOrReplaceTempView("t")
    join = "FROM t JOIN range(9) d ON t.k = d.id GROUP BY d.id"
    config = {
        "intermediate-result-storage.directory": str(tmp_path / "kept"),
        "implicit-cache.enabled": True,
        "implicit-cache.results.min-saved-time": "0 s",
    }
    with probe.settings({"spark.sql.adaptive.enabled": "true"}), Environment(spark, config) as env:
        for query in 3 * [f"SELECT d.id, sum(a), sum(b) {join}"] + [
            f"SELECT d.id, count(*) {join}"
        ]:
            expected = probe.plain_rows(query)
            assert_same(probe.rows(env.sql(query)), expected)


def test_csv_that_is_read_alike_is_read_from_what_is_kept(probe: Probe, tmp_path: Path) -> None:
    (tmp_path / "f.csv").write_text(CSV)
    reader = probe.spark.read.schema(SCHEMA)
    reader.csv(str(tmp_path / "f.csv")).createOrReplaceTempView("t")
    probe.keep("SELECT k, a, b FROM t")
    for query in NARROWER:
        probe.assert_reads(query)
    assert Row(k=1) in probe.table("SELECT k FROM t WHERE a IS NULL").collect()
