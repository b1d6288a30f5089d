"""Which version of a file a plan reads, and when nothing kept is what Spark would give."""

from __future__ import annotations

import logging
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from holdfast import Environment
from holdfast.api.table_session import plain_session
from holdfast.plan.file_version import FileVersion
from holdfast.plan.reasons import Why
from holdfast.runtime.vertex_outcome import VertexOutcome
from holdfast.spark.java_classes import object_of
from holdfast.spark.source_versions import SourceVersions, file_versions

pytestmark = pytest.mark.usefixtures("interpreted")

READ = [VertexOutcome.READ, VertexOutcome.RUN]
PRODUCED = [VertexOutcome.PRODUCED, VertexOutcome.RUN]
COMPUTED = [VertexOutcome.RUN]


def outcomes(env: Environment) -> list[VertexOutcome]:
    result = env.last_job_result
    assert result is not None
    return [vertex.outcome for vertex in result.vertices]


def plain(table: DataFrame) -> list[Row]:
    return ClassicDataFrame(table._jdf, plain_session(table.sparkSession)).collect()


def times(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_atime_ns, status.st_mtime_ns


def put_in_place(path: Path, text: str) -> None:
    """Another file of the same name, length and modification time."""
    assert len(text) == path.stat().st_size
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text)
    os.utime(beside, ns=times(path))
    os.replace(beside, path)


def overwrite(path: Path, text: str) -> None:
    """The same file with other bytes, and with its modification time set back."""
    assert len(text) == path.stat().st_size
    before = times(path)
    path.write_text(text)
    os.utime(path, ns=before)


REPLACED = pytest.mark.parametrize("replaced", [put_in_place, overwrite])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.csv"
    path.write_text("1\n2\n3\n")
    return path


# -- equal length and modification time ------------------------------------------------------------


@REPLACED
def test_a_file_of_the_same_length_and_time_is_another_version(
    env: Environment, source: Path, replaced: Callable[[Path, str], None]
) -> None:
    env.read.csv(str(source)).cache().collect()
    replaced(source, "4\n5\n6\n")
    again = env.read.csv(str(source))
    assert again.collect() == plain(again) == [Row(_c0=each) for each in "456"]
    assert outcomes(env) == COMPUTED
    again.cache().collect()
    assert outcomes(env) == PRODUCED
    assert env.read.csv(str(source)).collect() == [Row(_c0=each) for each in "456"]
    assert outcomes(env) == READ


@REPLACED
def test_a_dataframe_goes_on_to_mean_the_version_that_it_listed(
    env: Environment, source: Path, replaced: Callable[[Path, str], None]
) -> None:
    hot = env.read.csv(str(source)).cache()
    hot.collect()
    replaced(source, "4\n5\n6\n")
    assert hot.collect() == [Row(_c0=each) for each in "123"]
    assert outcomes(env) == READ
    hot.invalidate_cache()
    # What is kept of it is gone, and with it the only place where that version was.
    assert hot.collect() == [Row(_c0=each) for each in "456"]
    assert outcomes(env) == [VertexOutcome.NOT_KEPT, VertexOutcome.RUN]


@REPLACED
def test_a_file_that_is_replaced_while_it_is_read_is_not_kept(
    env: Environment, source: Path, replaced: Callable[[Path, str], None]
) -> None:
    @F.udf("long")  # type: ignore[untyped-decorator]
    def replacing(value: str) -> int:
        replaced(source, "7\n8\n9\n")
        return int(value)

    hot = env.read.csv(str(source)).select(replacing("_c0")).cache()
    hot.count()
    assert outcomes(env) == [VertexOutcome.NOT_KEPT, VertexOutcome.RUN]
    assert env.last_job_result is not None
    assert "changed after it was listed" in (env.last_job_result.vertices[0].reason or "")


@REPLACED
def test_a_file_that_is_replaced_before_a_plan_is_first_read_is_what_is_kept(
    env: Environment, source: Path, replaced: Callable[[Path, str], None]
) -> None:
    """Nothing has looked at the earlier version, so nothing tells them apart: nor has to."""
    listed = env.read.csv(str(source))
    replaced(source, "4\n5\n6\n")
    assert listed.cache().collect() == [Row(_c0=each) for each in "456"]
    assert outcomes(env) == PRODUCED
    assert env.read.csv(str(source)).collect() == [Row(_c0=each) for each in "456"]
    assert outcomes(env) == READ


def test_a_version_that_was_gone_when_a_plan_was_first_read_is_never_kept(
    env: Environment, source: Path
) -> None:
    first, second = env.read.csv(str(source)), env.read.csv(str(source))
    listed = times(source)
    source.write_text("4\n5\n6\n")
    os.utime(source, (1, 1))
    query = first.cache()
    # It looks as it was listed once more, which nobody can tell from what it was.
    source.write_text("7\n8\n9\n")
    os.utime(source, ns=listed)
    assert query.collect() == [Row(_c0=each) for each in "789"]
    assert outcomes(env) == [VertexOutcome.NOT_KEPT, VertexOutcome.RUN]
    assert second.cache().collect() == [Row(_c0=each) for each in "789"]
    assert outcomes(env) == PRODUCED


def test_another_link_to_a_file_costs_a_hit_at_most(env: Environment, source: Path) -> None:
    env.read.csv(str(source)).cache().collect()
    assert env.read.csv(str(source)).collect() == [Row(_c0=each) for each in "123"]
    assert outcomes(env) == READ
    os.link(source, source.with_name("link"))
    assert env.read.csv(str(source)).collect() == [Row(_c0=each) for each in "123"]
    assert outcomes(env) == COMPUTED


# -- tables of the catalog -------------------------------------------------------------------------


@pytest.fixture
def csv_table(spark: SparkSession, source: Path) -> Iterator[str]:
    spark.sql(f"CREATE TABLE versions (n INT) USING csv LOCATION '{source}'")
    yield "versions"
    spark.sql("DROP TABLE versions")


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write("7\n8\n9\n")


def later(path: Path, text: str) -> None:
    path.write_text(text)
    os.utime(path, (1, 1))


@pytest.mark.parametrize("changed", [put_in_place, overwrite, append, later])
def test_a_catalog_s_table_over_a_file_that_changed_without_a_refresh(
    env: Environment,
    csv_table: str,
    source: Path,
    caplog: pytest.LogCaptureFixture,
    changed: Callable[[Path, str], None],
) -> None:
    hot = env.table(csv_table).cache()
    assert len(hot.collect()) == 3
    assert env.table(csv_table).count() == 3
    assert outcomes(env) == READ
    changed(source, "4\n5\n6\n")
    with caplog.at_level(logging.WARNING):
        for table in (env.table(csv_table), env.sql(f"SELECT n FROM {csv_table}"), hot):
            caplog.clear()
            assert table.collect() == plain(table)
            assert outcomes(env) == COMPUTED
            [record] = caplog.records
            assert str(source) in record.getMessage()
            assert "REFRESH TABLE" in record.getMessage()
    (listed,) = env.list_cached()
    assert [each.kind for each in listed.reasons] == [Why.OUTDATED.name]
    assert "REFRESH TABLE" in (listed.not_kept_by_holdfast or "")
    env.spark.sql(f"REFRESH TABLE {csv_table}")
    caplog.clear()
    refreshed = env.table(csv_table).cache()
    assert refreshed.collect() == plain(refreshed)
    assert outcomes(env) == PRODUCED
    assert env.table(csv_table).collect() == plain(refreshed)
    assert outcomes(env) == READ
    assert caplog.records == []


def test_a_path_goes_on_to_mean_what_was_listed_where_a_catalog_does_not(
    env: Environment, csv_table: str, source: Path
) -> None:
    """Both have one digest; whichever of the two a job names first."""
    by_path = env.read.schema("n int").csv(str(source)).cache()
    by_path.collect()
    table = env.table(csv_table)
    assert table.collect() == by_path.collect()
    assert outcomes(env) == READ
    later(source, "4\n5\n6\n")
    assert by_path.collect() == [Row(n=each) for each in (1, 2, 3)]
    assert outcomes(env) == READ
    assert table.collect() == [Row(n=each) for each in (4, 5, 6)]
    assert outcomes(env) == COMPUTED
    for both in (by_path.unionAll(table), table.unionAll(by_path)):
        assert sorted(row.n for row in both.collect()) == [1, 2, 3, 4, 5, 6]
        assert outcomes(env) == READ


def test_what_does_not_read_the_table_is_read_from_cache_all_the_same(
    env: Environment, csv_table: str, source: Path
) -> None:
    hot = env.from_dataframe(env.spark.range(3)).select((F.col("id") + 1).alias("n")).cache()
    hot.collect()
    joined = env.table(csv_table).join(hot, "n").cache()
    assert joined.count() == 3
    later(source, "3\n4\n5\n")
    assert joined.collect() == [Row(n=3)]
    assert outcomes(env) == READ


def test_what_is_handed_out_reads_nothing_of_a_table_that_changed(
    env: Environment, csv_table: str, source: Path
) -> None:
    env.table(csv_table).cache().collect()
    later(source, "4\n5\n6\n")
    assert sorted(row.n for row in env.table(csv_table).to_dataframe().collect()) == [4, 5, 6]


# -- what file systems say -------------------------------------------------------------------------


def test_hdfs_tells_files_apart_by_their_ids_and_object_stores_by_their_etags(
    spark: SparkSession,
) -> None:
    jvm: Any = spark.sparkContext._jvm
    tags = file_versions(spark)
    path = jvm.org.apache.hadoop.fs.Path
    hdfs = jvm.org.apache.hadoop.hdfs.protocol.HdfsFileStatus.Builder()
    status = hdfs.fileId(16_385).length(3).path(b"a").build()
    status.setPath(path("hdfs://nn/a"))
    assert tags.apply(status) == "file id 16385"
    source = """
        package holdfast;
        public final class Tagged extends org.apache.hadoop.fs.FileStatus
                implements org.apache.hadoop.fs.EtagSource {
            final String etag;
            public Tagged(org.apache.hadoop.fs.Path path, String etag) {
                super(3L, false, 1, 1L, 2L, path);
                this.etag = etag;
            }
            public String getEtag() { return etag; }
        }"""
    object_path = path("s3a://bucket/a")
    assert tags.apply(object_of(spark, "Tagged", source, object_path, "f00d")) == "etag f00d"
    assert tags.apply(object_of(spark, "Tagged", source, object_path, None)) == ""
    listed = jvm.org.apache.hadoop.fs.FileStatus(3, False, 1, 1, 2, object_path)
    assert tags.apply(listed) == ""


def test_files_of_remote_directories_are_looked_up_by_directory(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A file system that isn't `file:`, over this machine's directories."""
    for name in ("a", "b", "other/c"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("1\n")
    spark.conf.set("fs.viewfs.mounttable.versions.link./at", f"file://{tmp_path}")
    try:
        listed = [
            FileVersion(f"viewfs://versions/at/{name}", 2, times(tmp_path / name)[1] // 10**6)
            for name in ("a", "b", "other/c")
        ]
        versions = SourceVersions(spark)
        assert versions.changed(listed) is None
        assert versions.changed([]) is None
        for index, name in enumerate(("a", "b", "other/c")):
            later(tmp_path / name, "2\n")
            assert versions.changed(listed[index:]) == listed[index].path
        assert versions.changed([listed[0]._replace(modified=1000)]) is None
        shutil.rmtree(tmp_path / "other")
        assert versions.changed([listed[2]]) == listed[2].path
        assert versions.changed([FileVersion("nosuch://x/a", 1, 1)]) == "nosuch://x/a"
    finally:
        spark.conf.unset("fs.viewfs.mounttable.versions.link./at")


# -- with recovery on ------------------------------------------------------------------------------


def test_with_recovery_on_files_count_as_they_look_on_every_machine(
    spark: SparkSession, tmp_path: Path, source: Path
) -> None:
    config = {
        "execution.batch.job-recovery.enabled": True,
        "high-availability.storageDir": (tmp_path / "ha").as_uri(),
        "intermediate-result-storage.directory": str(tmp_path / "kept"),
    }
    with Environment(spark, config) as env:
        env.read.csv(str(source)).cache().collect()
        os.link(source, source.with_name("link"))
        assert env.read.csv(str(source)).collect() == [Row(_c0=each) for each in "123"]
        assert VertexOutcome.READ in outcomes(env)
        later(source, "4\n5\n6\n")
        assert env.read.csv(str(source)).collect() == [Row(_c0=each) for each in "456"]
        assert VertexOutcome.READ not in outcomes(env)
