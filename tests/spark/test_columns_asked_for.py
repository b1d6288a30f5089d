"""Readers whose rows depend on which columns and conditions reach them."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, Row, SparkSession

from holdfast import Environment, VertexOutcome
from holdfast.testing import assert_computes, assert_reads
from tests.spark.conftest import Probe, assert_same

SCHEMA = "k INT, a INT, b INT"
CSV = "0,1,x\n1,1,5\n1,y,6\n2,3,4\n"
JSON = '{"k": 0, "a": 1, "b": "x"}\n{"k": 1, "a": 1, "b": 5}\n{"k": 1, "a": y, "b": 6}\n'
XML = "<all><r><k>0</k><a>1</a><b>x</b></r><r><k>1</k><a>1</a><b>5</b></r></all>"
DROPS = {"mode": "DROPMALFORMED"}
CORRUPT = "columnNameOfCorruptRecord"


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


@dataclass(frozen=True)
class Source:
    kind: str
    content: str | Callable[[Path], None]
    options: dict[str, str] = field(default_factory=dict)
    more: str = ""
    settings: dict[str, str] = field(default_factory=dict)

    def read(self, probe: Probe, folder: Path) -> None:
        folder.mkdir(exist_ok=True)
        if isinstance(self.content, str):
            (folder / "f.txt").write_text(self.content)
        else:
            self.content(folder)
        reader = probe.spark.read.options(**self.options).schema(SCHEMA + self.more)
        reader.format(self.kind).load(str(folder)).createOrReplaceTempView("t")


SOURCES = {
    "csv that drops": Source("csv", CSV, DROPS),
    "csv that drops, in other letters": Source("csv", CSV, {"MODE": "dropMalformed"}),
    "csv that names": Source("csv", CSV, more=", _corrupt_record STRING"),
    "csv that names by an option": Source("csv", CSV, {CORRUPT: "why"}, ", why STRING"),
    "csv that names by a setting": Source(
        "csv", CSV, more=", why STRING", settings={f"spark.sql.{CORRUPT}": "why"}
    ),
    "csv by the second version": Source(
        "csv", CSV, DROPS, settings={"spark.sql.sources.useV1SourceList": ""}
    ),
    "csv that is cut off": Source("csv", cut_off, {"ignorecorruptfiles": "TRUE"}),
    "json that drops": Source("json", JSON, DROPS),
    "json that fills in": Source("json", JSON),
    "json with a name twice": Source("json", '{"k": 1, "a": 1, "k": 2}\n'),
    "xml that drops": Source("xml", XML, {**DROPS, "rowTag": "r"}),
    "damaged parquet": Source("parquet", damaged, {"ignoreCorruptFiles": "true"}),
    "damaged parquet, by a setting": Source(
        "parquet", damaged, settings={"spark.sql.files.ignoreCorruptFiles": "true"}
    ),
}
NARROWER = (
    "SELECT k FROM t",
    "SELECT a, k FROM t",
    "SELECT count(*) FROM t",
    "SELECT k, a, b FROM t WHERE k = 2",
    "SELECT k, count(*) AS n FROM t GROUP BY k",
    "SELECT d.id FROM t JOIN range(9) d ON t.k = d.id",
)
JOINED = "FROM t JOIN range(9) d ON t.k = d.id"


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
@pytest.mark.sampled(2)
def test_what_is_kept_is_of_the_columns_that_were_asked_for(
    probe: Probe, tmp_path: Path, source: Source
) -> None:
    with probe.settings(source.settings):
        source.read(probe, tmp_path / "files")
        probe.keep("SELECT k, a, b FROM t")
        for query in NARROWER:
            assert_computes(probe.table(query))
        assert_reads(probe.table("SELECT k, a, b FROM t"))


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
@pytest.mark.sampled(6)
def test_other_columns_have_their_own_rows(probe: Probe, tmp_path: Path, source: Source) -> None:
    with probe.settings(source.settings):
        source.read(probe, tmp_path / "files")
        probe.keep("SELECT k, a, b FROM t")
        probe.keep(f"SELECT d.id, t.a, t.b {JOINED}")
        for query in NARROWER[::3]:
            probe.assert_computes(query)


def test_csv_that_is_read_alike_is_read_from_what_is_kept(probe: Probe, tmp_path: Path) -> None:
    Source("csv", CSV).read(probe, tmp_path / "files")
    probe.keep("SELECT k, a, b FROM t")
    for query in NARROWER:
        assert_reads(probe.table(query))
    probe.assert_reads(NARROWER[4])
    assert Row(k=1) in probe.table("SELECT k FROM t WHERE a IS NULL").collect()


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
    def read() -> DataFrame:
        return probe.env.table("t").select("k", "b", "a")

    Source("csv", CSV, DROPS).read(probe, tmp_path / "files")
    spark_s = probe.plain(lambda _: read()).cache()
    expected = probe.rows(spark_s.select("k"))
    spark_s.unpersist()
    hot = read().cache()
    assert_same(probe.rows(hot.select("k")), expected)
    assert probe.outcomes() == [VertexOutcome.PRODUCED, VertexOutcome.RUN]
    # As in Spark's own cache, it is the same plan that is found.
    assert_same(probe.rows(read().select("k")), expected)
    assert probe.outcomes() == [VertexOutcome.READ, VertexOutcome.RUN]
    assert probe.env.table("t").select("k").count() == 4
    # And no other program gets rows that it did not ask for.
    hot.unpersist()
    assert probe.env.list_cached() == []
    probe.assert_computes("SELECT k, b, a FROM t")


def test_nothing_of_it_is_kept_implicitly(
    probe: Probe, spark: SparkSession, tmp_path: Path
) -> None:
    Source("csv", CSV, DROPS).read(probe, tmp_path / "files")
    config = {
        "intermediate-result-storage.directory": str(tmp_path / "kept"),
        "implicit-cache.enabled": True,
        "implicit-cache.results.min-saved-time": "0 s",
    }
    sums, counts = (
        f"SELECT d.id, {each} {JOINED} GROUP BY d.id" for each in ("sum(a)", "count(*)")
    )
    with Environment(spark, config) as env:
        for query in (sums, sums, sums, counts):
            assert_same(probe.rows(env.sql(query)), probe.plain_rows(query))
