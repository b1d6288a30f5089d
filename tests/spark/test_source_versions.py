"""Which version of a file a plan reads, and when nothing kept is what Spark would give."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, VertexOutcome
from holdfast.testing import outcomes

READ = [VertexOutcome.READ, VertexOutcome.RUN]
PRODUCED = [VertexOutcome.PRODUCED, VertexOutcome.RUN]
COMPUTED = [VertexOutcome.RUN]
NOT_KEPT = [VertexOutcome.NOT_KEPT, VertexOutcome.RUN]

Change = Callable[[Path, str], None]


def times(path: Path) -> tuple[int, int]:
    status = path.stat()
    return status.st_atime_ns, status.st_mtime_ns


def put_in_place(path: Path, text: str) -> None:
    """Another file of the same name, length and modification time."""
    beside = path.with_name(f".{path.name}.new")
    beside.write_text(text)
    os.utime(beside, ns=times(path))
    os.replace(beside, path)


def overwrite(path: Path, text: str) -> None:
    """The same file with other bytes, and with its modification time set back."""
    before = times(path)
    path.write_text(text)
    os.utime(path, ns=before)


def append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)


def later(path: Path, text: str) -> None:
    path.write_text(text)
    os.utime(path, (1, 1))


REPLACED = pytest.mark.parametrize("replaced", [put_in_place, overwrite])


@pytest.fixture
def source(tmp_path: Path) -> Path:
    path = tmp_path / "source.csv"
    path.write_text("1\n2\n3\n")
    return path


def numbers(table: DataFrame) -> str:
    return "".join(str(row[0]) for row in table.collect())


# -- equal length and modification time ------------------------------------------------------------


@REPLACED
def test_a_file_of_the_same_length_and_time_is_another_version(
    env: Environment, source: Path, replaced: Change
) -> None:
    assert numbers(env.read.csv(str(source)).cache()) == "123"
    replaced(source, "4\n5\n6\n")
    again = env.read.csv(str(source))
    assert (numbers(again), outcomes(env)) == ("456", COMPUTED)
    assert (numbers(again.cache()), outcomes(env)) == ("456", PRODUCED)
    assert (numbers(env.read.csv(str(source))), outcomes(env)) == ("456", READ)


@REPLACED
@pytest.mark.sampled(2)
def test_a_dataframe_goes_on_to_mean_the_version_that_it_listed(
    env: Environment, source: Path, replaced: Change
) -> None:
    hot = env.read.csv(str(source)).cache()
    hot.collect()
    replaced(source, "4\n5\n6\n")
    assert (numbers(hot), outcomes(env)) == ("123", READ)
    hot.invalidate_cache()
    # What is kept of it is gone, and with it the only place where that version was.
    assert (numbers(hot), outcomes(env)) == ("456", NOT_KEPT)


@pytest.mark.parametrize("scheme", ["", "viewfs://versions"])
def test_a_file_that_is_replaced_while_it_is_read_is_not_kept(
    env: Environment, source: Path, settings: Any, scheme: str
) -> None:
    """Files of other file systems are looked up by directory."""

    @F.udf("long")  # type: ignore[untyped-decorator]
    def replacing(value: str) -> int:
        (later if scheme else put_in_place)(source, "7\n8\n9\n")
        return int(value)

    link = f"fs.viewfs.mounttable.versions.link.{source.parent}"
    with settings({link: f"file://{source.parent}"}):
        hot = env.read.csv(f"{scheme}{source}").select(replacing("_c0")).cache()
        hot.count()
    assert outcomes(env) == NOT_KEPT
    assert "changed after it was listed" in repr(env.last_job_result)


def test_a_file_that_is_replaced_before_a_plan_is_first_read_is_what_is_kept(
    env: Environment, source: Path
) -> None:
    """Nothing has looked at the earlier version, so nothing tells them apart: nor has to."""
    listed = env.read.csv(str(source))
    put_in_place(source, "4\n5\n6\n")
    assert (numbers(listed.cache()), outcomes(env)) == ("456", PRODUCED)
    assert (numbers(env.read.csv(str(source))), outcomes(env)) == ("456", READ)


def test_a_version_that_was_gone_when_a_plan_was_first_read_is_never_kept(
    env: Environment, source: Path
) -> None:
    first, second = env.read.csv(str(source)), env.read.csv(str(source))
    listed = times(source)
    later(source, "4\n5\n6\n")
    query = first.cache()
    # It looks as it was listed once more, which nothing tells from what it was.
    source.write_text("7\n8\n9\n")
    os.utime(source, ns=listed)
    assert (numbers(query), outcomes(env)) == ("789", NOT_KEPT)
    assert (numbers(second.cache()), outcomes(env)) == ("789", PRODUCED)


def test_another_link_to_a_file_costs_a_hit_at_most(env: Environment, source: Path) -> None:
    env.read.csv(str(source)).cache().collect()
    assert (numbers(env.read.csv(str(source))), outcomes(env)) == ("123", READ)
    os.link(source, source.with_name("link"))
    assert (numbers(env.read.csv(str(source))), outcomes(env)) == ("123", COMPUTED)


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
        assert numbers(env.read.csv(str(source))) == "123"
        assert VertexOutcome.READ in outcomes(env)
        later(source, "4\n5\n6\n")
        assert numbers(env.read.csv(str(source))) == "456"
        assert VertexOutcome.READ not in outcomes(env)


# -- tables of the catalog -------------------------------------------------------------------------


@pytest.fixture
def table(env: Environment, source: Path) -> Iterator[Callable[[], DataFrame]]:
    env.spark.sql(f"CREATE TABLE versions (n INT) USING csv LOCATION '{source}'")
    yield lambda: env.table("versions")
    env.spark.sql("DROP TABLE versions")


Table = Callable[[], DataFrame]


@pytest.mark.parametrize("changed", [put_in_place, overwrite, append, later])
@pytest.mark.sampled(2)
def test_a_catalog_s_table_over_a_file_that_changed_without_a_refresh(
    env: Environment,
    table: Table,
    source: Path,
    caplog: pytest.LogCaptureFixture,
    changed: Change,
) -> None:
    hot = table().cache()
    assert numbers(hot) == "123"
    assert (numbers(table()), outcomes(env)) == ("123", READ)
    changed(source, "4\n5\n6\n")
    now = numbers(env.spark.sql("SELECT n FROM versions"))
    with caplog.at_level(logging.WARNING):
        for asked in (table(), env.sql("SELECT n FROM versions"), hot):
            caplog.clear()
            assert (numbers(asked), outcomes(env)) == (now, COMPUTED)
            [message] = caplog.messages
            assert str(source) in message and "REFRESH TABLE" in message
    (listed,) = env.list_cached()
    assert "REFRESH TABLE" in (listed.not_kept_by_holdfast or "")
    assert "REFRESH TABLE" in listed.reasons[0].sentence
    env.spark.sql("REFRESH TABLE versions")
    caplog.clear()
    now = numbers(env.spark.sql("SELECT n FROM versions"))
    assert (numbers(table().cache()), outcomes(env)) == (now, PRODUCED)
    assert (numbers(table()), outcomes(env)) == (now, READ)
    assert caplog.records == []


def test_a_path_goes_on_to_mean_what_was_listed_where_a_catalog_does_not(
    env: Environment, table: Table, source: Path
) -> None:
    """Both have one digest; either may be the first that a job names."""
    by_path = env.read.schema("n int").csv(str(source)).cache()
    by_path.collect()
    by_name = table()
    assert (numbers(by_name), outcomes(env)) == ("123", READ)
    later(source, "4\n5\n6\n")
    assert (numbers(by_path), outcomes(env)) == ("123", READ)
    assert (numbers(by_name), outcomes(env)) == ("456", COMPUTED)
    for both in (by_path.unionAll(by_name), by_name.unionAll(by_path)):
        assert (sorted(numbers(both)), outcomes(env)) == ([*"123456"], READ)


def test_what_does_not_read_the_table_is_read_from_cache_all_the_same(
    env: Environment, table: Table, source: Path
) -> None:
    hot = env.range(3).selectExpr("id + 1 AS n").cache()
    hot.collect()
    joined = table().join(hot, "n").cache()
    assert joined.count() == 3
    later(source, "3\n4\n5\n")
    assert (numbers(joined), outcomes(env)) == ("3", READ)


def test_what_is_handed_out_reads_nothing_of_a_table_that_changed(
    table: Table, source: Path
) -> None:
    table().cache().collect()
    later(source, "4\n5\n6\n")
    assert numbers(table().to_dataframe()) == "456"


# -- what file systems say -------------------------------------------------------------------------


def test_hdfs_tells_files_apart_by_their_ids_and_object_stores_by_their_etags(
    spark: SparkSession,
) -> None:
    # Neither is here, and no public name asks for a tag.
    from holdfast.spark.java_classes import object_of
    from holdfast.spark.source_versions import file_versions

    jvm: Any = spark.sparkContext._jvm
    hadoop, tags = jvm.org.apache.hadoop, file_versions(spark)
    status = hadoop.hdfs.protocol.HdfsFileStatus.Builder().fileId(16_385).length(3).path(b"a")
    status = status.build()
    status.setPath(hadoop.fs.Path("hdfs://nn/a"))
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
    path = hadoop.fs.Path("s3a://bucket/a")
    assert tags.apply(object_of(spark, "Tagged", source, path, "f00d")) == "etag f00d"
    assert tags.apply(object_of(spark, "Tagged", source, path, None)) == ""
    assert tags.apply(hadoop.fs.FileStatus(3, False, 1, 1, 2, path)) == ""
