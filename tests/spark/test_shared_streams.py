"""Streams that programs read of each other; here each is an Environment on one directory."""

from __future__ import annotations

import os
import pickle
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession
from sqlalchemy import select, update

from holdfast import DataStream, Environment, FileSink, OutputTag, ProcessFunction
from holdfast.api.stream_keys import stream_sealing
from holdfast.api.stream_program import check_may_outlive
from holdfast.catalog.audience import Audience
from holdfast.catalog.catalog import Catalog
from holdfast.catalog.cataloged_result import ResultState
from holdfast.catalog.records import checksum, packed, unpacked
from holdfast.catalog.schema import MANIFESTS
from holdfast.cli import main as cli
from holdfast.errors import ConfigurationError, StreamNotShareableError
from holdfast.files.secret_key import SEAL_KEY
from holdfast.runtime.vertex_outcome import VertexOutcome
from holdfast.storage.kept_dataset import KeptPartition
from holdfast.storage.partition_checksums import content_checksum, footer_checksum
from holdfast.storage.partition_directory import version_of
from holdfast.storage.sealed_batches import OWN_CLASSES
from holdfast.streaming.sealing import Seal, SealKey
from tests.catalog.results import pass_time

PRODUCED, READ, RUN = VertexOutcome.PRODUCED, VertexOutcome.READ, VertexOutcome.RUN
WORDS = "to be or not to be that is the question whether tis nobler in the mind".split()
Start = Callable[..., Environment]


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "kept"


@pytest.fixture
def start(spark: SparkSession, kept: Path) -> Iterator[Start]:
    started: list[Environment] = []

    def make(**config: Any) -> Environment:
        directory = {"intermediate-result-storage.directory": str(kept)}
        started.append(Environment(spark, config={**directory, **config}))
        return started[-1]

    yield make
    for each in started:
        each.close()


@pytest.fixture
def words(tmp_path: Path) -> Path:
    file = tmp_path / "words.txt"
    file.write_text("\n".join(WORDS))
    return file


def numbers(env: Environment) -> DataStream:
    return env.from_collection(range(20)).map(lambda n: n * n)


def counted(env: Environment, words: Path) -> DataStream:
    stream = env.read_text_file(str(words)).map(lambda word: (word, 1))
    return stream.key_by(lambda pair: pair[0]).sum(1)


def collected(stream: DataStream) -> list[Any]:
    with stream.execute_and_collect() as records:
        return sorted(records)


def outcomes(env: Environment) -> set[VertexOutcome]:
    assert env.last_job_result is not None
    return {vertex.outcome for vertex in env.last_job_result.vertices}


def catalog_of(env: Environment) -> Catalog:
    catalog: Catalog = env._manager.results._catalog._catalog()  # type: ignore[attr-defined]
    return catalog


def why_gone(env: Environment) -> list[str | None]:
    states = (ResultState.GOING, ResultState.GONE)
    return [each.why_gone for each in catalog_of(env).search.all(states)]


def shared(kept: Path) -> list[Path]:
    return list(kept.glob("shared/datasets/*"))


COUNTS = sorted((word, WORDS.count(word)) for word in set(WORDS))


def test_a_stream_with_a_lifetime_is_read_by_a_later_program(start: Start, words: Path) -> None:
    first = start()
    assert collected(counted(first, words).cache(lifetime="1 h")) == COUNTS
    assert PRODUCED in outcomes(first)
    first.close()
    later = start()
    hot = counted(later, words).cache()
    assert collected(hot) == COUNTS
    assert outcomes(later) == {READ, RUN}
    read = later.last_job_result.vertices[0]  # type: ignore[union-attr]
    assert read.kept_by is not None and f"kept by {read.kept_by}" in repr(later.last_job_result)
    assert collected(hot.filter(lambda pair: pair[1] > 1)) == [p for p in COUNTS if p[1] > 1]
    assert outcomes(later) == {READ, RUN}


def test_a_stream_of_a_program_that_runs_is_read_beside_it(start: Start) -> None:
    one, other = start(), start()
    squares = collected(numbers(one).cache())
    assert squares == [n * n for n in range(20)]
    assert collected(numbers(other).cache()) == squares and outcomes(other) == {READ, RUN}
    one.close()
    other.close()
    third = start()
    assert collected(numbers(third).cache()) == squares and PRODUCED in outcomes(third)


def test_it_is_found_by_its_source_and_its_functions(start: Start, words: Path) -> None:
    first = start()
    collected(counted(first, words).cache(lifetime="1 h"))
    first.close()
    words.write_text("to be")
    later = start()
    assert collected(counted(later, words).cache()) == [("to be", 1)]
    assert PRODUCED in outcomes(later)
    stream = later.read_text_file(str(words)).map(lambda word: (word, 2))
    assert collected(stream.key_by(lambda pair: pair[0]).sum(1).cache()) == [("to be", 2)]
    assert PRODUCED in outcomes(later)


def test_side_outputs_and_chains_of_cached_streams_are_read(start: Start, kept: Path) -> None:
    class Sided(ProcessFunction):
        def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[Any]:
            yield (OutputTag("odd"), value) if value % 2 else value

    def odd(env: Environment) -> DataStream:
        squares = numbers(env).cache(lifetime="1 h")
        return squares.process(Sided()).get_side_output(OutputTag("odd")).cache(lifetime="1 h")

    plain = [n * n for n in range(20) if n % 2]
    first = start()
    assert collected(odd(first)) == plain
    first.close()
    assert len(shared(kept)) == 2
    later = start()
    assert collected(odd(later)) == plain and outcomes(later) == {READ, RUN}
    assert collected(numbers(later).cache()) == [n * n for n in range(20)]
    assert outcomes(later) == {READ, RUN}


def test_the_lifetime_can_be_configured(start: Start, kept: Path) -> None:
    key = "intermediate-result-storage.lifetime"
    with start(**{key: "2 h"}) as first:
        collected(numbers(first).cache())
        collected(first.from_collection([1]).cache(lifetime="application"))
        assert len(shared(kept)) == 1
    later = start()
    collected(numbers(later).cache())
    assert outcomes(later) == {READ, RUN}


@pytest.mark.parametrize("lifetime", ["soon", "0 s"])
def test_what_is_no_lifetime_is_refused(start: Start, lifetime: str) -> None:
    env = start()
    with pytest.raises(ConfigurationError, match=r"storage\.lifetime.*such as 7 d"):
        numbers(env).cache(lifetime=lifetime)


def test_the_longer_of_two_lifetimes_counts_from_the_last_use_on(start: Start) -> None:
    first, later, last = start(), start(), start()
    hot = numbers(first).cache(lifetime="1 h")
    assert hot.cache(lifetime="3 h") is hot and hot.cache("2 h") is hot
    collected(hot)
    first.close()
    pass_time(catalog_of(later), 2.5 * 3600)
    collected(numbers(later).cache())
    assert outcomes(later) == {READ, RUN}
    later.close()
    pass_time(catalog_of(last), 2.5 * 3600)
    collected(numbers(last).cache())
    assert outcomes(last) == {READ, RUN}
    # That of a stream that has been compiled can be made longer as well.
    squares = last.from_collection(range(3)).cache()
    collected(squares)
    squares.cache(lifetime="1 h")
    (wanted,) = [each for each in last._manager.wanted.all() if each.lifetime is not None]
    assert wanted.name == "stream: Source: Collection"


def test_it_is_found_no_more_when_its_lifetime_is_over(start: Start) -> None:
    first, later = start(), start()
    collected(numbers(first).cache(lifetime="1 h"))
    first.close()
    pass_time(catalog_of(later), 4000.0)
    collected(numbers(later).cache())
    assert PRODUCED in outcomes(later)


def test_invalidation_counts_for_all_programs(start: Start, kept: Path) -> None:
    first = start()
    collected(numbers(first).cache(lifetime="1 h"))
    first.close()
    with numbers(start()).cache() as hot:
        collected(hot)
    # That one program needs it no longer is nobody else's concern.
    assert len(shared(kept)) == 1
    # What this one has not needed yet, another one has kept.
    numbers(start()).cache().invalidate()
    assert not shared(kept)
    later = start()
    collected(numbers(later).cache())
    assert PRODUCED in outcomes(later)


def test_why_what_is_similar_is_not_read_is_said(start: Start, words: Path) -> None:
    first = start()
    collected(counted(first, words).cache(lifetime="1 h"))
    first.close()
    words.write_text("to be or")
    later = start()
    collected(counted(later, words).cache())
    stale = r"not read: kept by .*, stale: .*words.txt changed since"
    assert re.search(stale, repr(later.last_job_result))


def test_a_table_of_a_stream_says_who_has_kept_it(
    start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    first = start()
    collected(numbers(first).cache(lifetime="1 h"))
    first.close()
    later = start()
    table = later.from_data_stream(numbers(later).cache(), "n long")
    table.explain()
    assert re.search(
        r"read: stream: Source: Collection -> Map\n.*\n  kept by ", capsys.readouterr().out
    )
    assert sorted(row.n for row in table.collect()) == [n * n for n in range(20)]
    assert outcomes(later) == {READ, RUN}


def test_the_commands_look_after_streams_as_after_tables(
    start: Start, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str) -> str:
        assert cli.main([*arguments, "--directory", str(kept)]) == 0
        return capsys.readouterr().out

    with start() as first:
        collected(numbers(first).cache(lifetime="1 h"))
        # Nothing of what the records hold, which anybody may see who may see the catalog.
        (result,) = catalog_of(first).search.all()
        detail = catalog_of(first).reading.detail(result.number)
        assert detail is not None
        assert detail.statistics == {}
    (directory,) = shared(kept)
    name = directory.name[:8]
    assert name in run("ls") and "stream: Source: Collection -> Map" in run("show", name)
    run("verify")
    assert "There is no garbage" in run("gc", "--yes")
    for file in kept.rglob("catalog.db*"):
        file.unlink()
    run("catalog", "rebuild")
    with start() as later:
        collected(numbers(later).cache())
        assert outcomes(later) == {READ, RUN}
    part = max(directory.glob("part-*.parquet"))
    part.write_bytes(part.read_bytes()[:-9] + b"x" * 9)
    assert cli.main(["verify", "--directory", str(kept)]) == 1
    assert name in capsys.readouterr().out
    run("rm", name)
    assert not shared(kept)
    last = start()
    assert collected(numbers(last).cache()) == [n * n for n in range(20)]
    assert PRODUCED in outcomes(last)


# -- the key


def test_the_key_is_its_user_s_alone(start: Start, kept: Path) -> None:
    old = os.umask(0)
    try:
        collected(numbers(start()).cache())
    finally:
        os.umask(old)
    key = kept / SEAL_KEY
    assert key.stat().st_mode & 0o777 == 0o600 and len(key.read_bytes()) == 32


@pytest.mark.parametrize("how", ["removed", "replaced", "truncated"])
@pytest.mark.parametrize("into", ["collect", "sinks"])
def test_what_was_sealed_with_another_key_is_computed_again(
    start: Start, kept: Path, words: Path, tmp_path: Path, how: str, into: str
) -> None:
    first = start()
    assert collected(counted(first, words).cache(lifetime="1 h")) == COUNTS
    first.close()
    (old,) = shared(kept)
    key = kept / SEAL_KEY
    match how:
        case "removed":
            key.unlink()
        case "replaced":
            key.write_bytes(b"k" * 32)
        case _:
            key.write_bytes(b"short")
    later = start()
    hot = counted(later, words).cache(lifetime="1 h")
    if into == "collect":
        assert collected(hot) == COUNTS
    else:
        hot.sink_to(FileSink(str(tmp_path / "out")))
        hot.map(lambda pair: pair[0]).sink_to(FileSink(str(tmp_path / "words")))
        later.execute()
        parts = (tmp_path / "out").glob("part-*")
        lines = [line for part in parts for line in part.read_text().splitlines()]
        assert sorted(lines) == sorted(map(str, COUNTS))
    assert PRODUCED in outcomes(later)
    assert later.last_job_result is not None
    ((_, why),) = [(each, str(each)) for each in later.last_job_result.losses]
    assert "a batch fails the check of its seal" in why
    # What nobody can read any more is gone, and what has been kept in its place is read.
    assert why_gone(later) == ["it was damaged"]
    later.close()
    (new,) = shared(kept)
    assert new != old
    last = start()
    assert collected(counted(last, words).cache()) == COUNTS and outcomes(last) == {READ, RUN}


def test_what_nobody_here_has_cached_is_computed(start: Start, kept: Path) -> None:
    first = start()
    collected(numbers(first).cache(lifetime="1 h"))
    first.close()
    (kept / SEAL_KEY).write_bytes(b"k" * 32)
    later = start()
    with numbers(later).cache() as hot:
        pass
    assert collected(hot.map(lambda n: n)) == [n * n for n in range(20)]
    # Records that are taken one by one can't be taken again: only what is cached here is read.
    assert outcomes(later) == {RUN}
    assert len(shared(kept)) == 1


@pytest.mark.parametrize("how", ["a link", "other users", "another user", "no regular file"])
def test_a_key_that_others_may_know_is_none(
    start: Start, kept: Path, tmp_path: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    first = start()
    squares = collected(numbers(first).cache(lifetime="1 h"))
    first.close()
    key = kept / SEAL_KEY
    match how:
        case "a link":
            key.rename(tmp_path / "key")
            key.symlink_to(tmp_path / "key")
        case "other users":
            key.chmod(0o640)
        case "another user":
            if os.getuid() != 0:
                pytest.skip("root alone can give a file away")
            os.chown(key, 12345, -1)
        case _:
            key.unlink()
            os.mkfifo(key)
    later = start()
    hot = numbers(later).cache(lifetime="1 h")
    assert collected(hot) == squares and PRODUCED in outcomes(later)
    assert collected(hot) == squares and outcomes(later) == {READ, RUN}
    (warned,) = [each for each in caplog.messages if "not shared with other programs" in each]
    assert how in warned
    assert any("will go with this program" in each for each in caplog.messages)
    # What it can't open is there still, for those who can.
    assert why_gone(later) == [] and len(shared(kept)) == 1


def test_a_directory_in_which_others_can_put_a_key_has_none(
    start: Start, kept: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env = start()
    kept.chmod(0o770)
    try:
        collected(numbers(env).cache(lifetime="1 h"))
    finally:
        kept.chmod(0o700)
    assert not shared(kept) and not (kept / SEAL_KEY).exists()
    assert "run `chmod go-w` or `chmod +t`" in caplog.text


@pytest.mark.skipif(os.getuid() != 0, reason="root alone can give a directory away")
def test_a_directory_of_another_user_has_none_either(
    start: Start, kept: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first = start()
    squares = collected(numbers(first).cache())
    later = start()
    # As where a group shares the directory: at the moment in which this program looks whose it is.
    os.chown(kept, 12345, -1)
    try:
        found = stream_sealing(later.spark, later.configuration, later._storage, None)
    finally:
        os.chown(kept, os.getuid(), -1)
    assert found.why_not_common == f"{kept} belongs to another user"
    assert "not shared with other programs" not in caplog.text
    assert collected(numbers(later).cache()) == squares


# -- what is unpickled


class Harm:
    """Whoever unpickles it makes a directory."""

    def __init__(self, marker: Path) -> None:
        self.marker = marker

    def __reduce__(self) -> Any:
        return os.makedirs, (str(self.marker), 0o777, True)


def forge(kept: Path, catalog: Catalog, marker: Path, key: SealKey, made_from: str) -> None:
    """Puts a harmful pickle in the place of each batch, and makes all that is known of it fit."""
    (directory,) = shared(kept)
    with catalog.database.writing() as connection:
        row = connection.execute(select(MANIFESTS)).one()
        known = unpacked(row.content)
        label = known.manifest.dataset.seal
        assert label is not None
        forged = [
            forged_partition(directory / each.file, each, marker, Seal(label, key, made_from))
            for each in known.manifest.partitions
        ]
        manifest = known.manifest.model_copy(update={"partitions": tuple(forged)})
        (directory / "_manifest.json").write_text(manifest.model_dump_json())
        content = packed(known.model_copy(update={"manifest": manifest}))
        connection.execute(update(MANIFESTS).values(content=content, checksum=checksum(content)))


def forged_partition(file: Path, known: KeptPartition, marker: Path, seal: Seal) -> KeptPartition:
    harm = pickle.dumps([Harm(marker)], protocol=5)
    table = pq.read_table(file)
    counts = table.column("records").to_pylist()
    macs = pa.array([seal.mac(count, harm) for count in counts], pa.binary())
    columns = [table.column("records"), pa.array([harm] * len(counts), pa.binary()), macs]
    pq.write_table(pa.table(columns, names=["records", "batch", "mac"]), file)
    # Hadoop's checksums of what Spark has written.
    file.with_name(f".{file.name}.crc").unlink(missing_ok=True)
    with file.open("rb") as opened:
        checksums = {"footer": footer_checksum(opened), "content": content_checksum(opened)}
    status = file.stat()
    return known.model_copy(
        update={"bytes": status.st_size, "version": version_of(status), **checksums}
    )


@pytest.mark.parametrize("knows_the_key", [False, True])
def test_what_has_been_forged_is_not_unpickled(
    start: Start, kept: Path, tmp_path: Path, knows_the_key: bool
) -> None:
    """That it is, where the forger has the key, shows that the seal alone stands in the way."""
    marker = tmp_path / "unpickled"
    with start() as first:
        hot = numbers(first).cache(lifetime="1 h")
        squares = collected(hot)
        seal = first._stream_program._executor._caches.compile(hot._transformation, 2).seal
        key = SealKey((kept / SEAL_KEY).read_bytes())
        assert key == seal.key
    later = start()
    if not knows_the_key:
        key = SealKey.new()
    forge(kept, catalog_of(later), marker, key, seal.made_from)
    with numbers(later).cache().execute_and_collect() as records:
        found = list(records)
    assert marker.exists() == knows_the_key
    if not knows_the_key:
        assert sorted(found) == squares
        assert why_gone(later) == ["it was damaged"] and not shared(kept)


# -- whose records mean something elsewhere


def test_records_of_classes_that_are_imported_are_shared(start: Start) -> None:
    def thirds(env: Environment) -> DataStream:
        return env.from_collection(range(5)).map(lambda n: Fraction(n, 3)).cache(lifetime="1 h")

    one, other = start(), start()
    assert collected(thirds(one)) == [Fraction(n, 3) for n in range(5)]
    assert collected(thirds(other)) == [Fraction(n, 3) for n in range(5)]
    assert outcomes(other) == {READ, RUN}


def test_records_with_classes_of_their_own_stay_with_their_program(
    start: Start, kept: Path, caplog: pytest.LogCaptureFixture
) -> None:
    @dataclass(frozen=True, order=True)
    class Own:
        page: str

    def clicks(env: Environment) -> DataStream:
        return env.from_collection(["a", "b"]).map(Own)

    one, other = start(), start()
    assert collected(clicks(one).cache(lifetime="1 h")) == [Own("a"), Own("b")]
    assert not shared(kept)
    assert "Define them in a module that the program imports" in caplog.text
    assert collected(clicks(other).cache()) == [Own("a"), Own("b")] and PRODUCED in outcomes(other)
    # That they are of such a class is on each batch, and under its seal.
    location = other.list_cached()[-1].location
    assert location is not None
    counts = [
        count
        for part in location.glob("part-*.parquet")
        for count in pq.read_table(part).column("records").to_pylist()
    ]
    assert counts and all(count > OWN_CLASSES for count in counts)
    # Its functions may be of any class, as long as its records aren't.
    pages = collected(clicks(one).map(lambda click: click.page).cache(lifetime="1 h"))
    assert pages == ["a", "b"] and len(shared(kept)) == 1


def test_an_empty_stream_is_read_like_any_other(start: Start) -> None:
    one, other = start(), start()
    assert collected(numbers(one).filter(lambda n: n < 0).cache()) == []
    assert collected(numbers(other).filter(lambda n: n < 0).cache()) == []
    assert outcomes(other) == {READ, RUN}


def test_programs_with_other_cores_share_no_stream(
    start: Start, words: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read(env: Environment) -> set[VertexOutcome]:
        lines = env.read_text_file(str(words)).map(str.upper).set_parallelism(2)
        assert collected(lines.cache(lifetime="1 h")) == sorted(map(str.upper, WORDS))
        return outcomes(env)

    assert PRODUCED in read(start())
    with monkeypatch.context() as changed:
        changed.setattr(SparkContext, "defaultParallelism", 7)
        other = start()
        assert other.get_parallelism() == 7
    assert PRODUCED in read(other)
    assert read(start()) == {READ, RUN}


def drawn(env: Environment) -> DataStream:
    import random

    return env.from_collection(range(3)).map(lambda n: n * 0 + int(random.random() < 2) + n)


def cut_off(env: Environment) -> DataStream:
    return env.sql("SELECT id FROM range(20) LIMIT 3").to_data_stream().map(lambda row: row.id)


@pytest.mark.parametrize("doubtful", [drawn, cut_off])
def test_what_means_nothing_elsewhere_is_not_offered(
    start: Start, doubtful: Callable[[Environment], DataStream], kept: Path
) -> None:
    one, other = start(), start()
    records = collected(doubtful(one).cache(lifetime="1 h"))
    assert collected(doubtful(other).cache(lifetime="1 h")) == records
    assert PRODUCED in outcomes(other) and not shared(kept)


def test_a_table_s_rows_are_shared_as_a_stream(start: Start, spark: SparkSession) -> None:
    def by_remainder(env: Environment) -> DataStream:
        rows = env.from_dataframe(spark.range(100).selectExpr("id % 7 AS k", "id AS v"))
        return rows.to_data_stream().map(lambda row: (row.k, row.v)).key_by(lambda p: p[0]).sum(1)

    first = start()
    sums = collected(by_remainder(first).cache(lifetime="1 h"))
    assert sums == [(k, sum(range(k, 100, 7))) for k in range(7)]
    first.close()
    later = start()
    assert collected(by_remainder(later).cache()) == sums and outcomes(later) == {READ, RUN}


@pytest.mark.parametrize("why", ["it has no catalog", "its jobs are recovered"])
def test_without_a_key_in_common_streams_go_with_their_program(
    start: Start, kept: Path, tmp_path: Path, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = {"catalog.url": "none"}
    if "recovered" in why:
        config = {
            "execution.batch.job-recovery.enabled": "true",
            "high-availability.storageDir": str(tmp_path / "records"),
        }
    one, other = start(**config), start()
    assert collected(numbers(one).cache(lifetime="1 h")) == [n * n for n in range(20)]
    assert f"will go with this program: {why}" in caplog.text
    assert collected(numbers(other).cache()) == [n * n for n in range(20)]
    assert PRODUCED in outcomes(other)
    # Nor does it read what another one has kept.
    collected(other.from_collection([1]).cache(lifetime="1 h"))
    collected(one.from_collection([1]).cache())
    assert PRODUCED in outcomes(one) and why_gone(other) == []


def test_streams_are_nobody_s_but_their_user_s() -> None:
    for audience in (Audience.GROUP, Audience.ALL):
        check_may_outlive(None, audience)
        with pytest.raises(StreamNotShareableError, match="pickles, which run code"):
            check_may_outlive(60.0, audience)
    for audience in (Audience.USER, Audience.NOBODY):
        check_may_outlive(60.0, audience)


@pytest.mark.parametrize("sharing", ["group", "all"])
def test_where_other_users_read_streams_stay_their_user_s(start: Start, sharing: str) -> None:
    config = {"intermediate-result-storage.sharing": sharing}
    env, other = start(**config), start(**config)
    with pytest.raises(StreamNotShareableError, match="pickle"):
        numbers(env).cache(lifetime="1 h")
    with pytest.raises(StreamNotShareableError, match="pickle"):
        numbers(start(**config, **{"intermediate-result-storage.lifetime": "2 h"})).cache()
    squares = [number * number for number in range(20)]
    assert collected(numbers(env).cache()) == squares
    (result,) = catalog_of(env).search.all()
    assert result.audience is Audience.USER
    assert collected(numbers(other).cache()) == squares
    assert outcomes(other) == {READ, RUN}
