"""Streams that programs read of each other; here each is an Environment on one directory."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkContext
from pyspark.sql import SparkSession

from holdfast import DataStream, Environment, FileSink, VertexOutcome
from holdfast.cli.main import main
from holdfast.errors import ConfigurationError, StreamNotShareableError
from holdfast.testing import outcomes
from tests.spark.streams import ODD, PRODUCED, READ, RUN, Split, lines
from tests.spark.streams import collected as in_order

WORDS = "to be or not to be that is the question whether tis nobler in the mind".split()
COUNTS = sorted((word, WORDS.count(word)) for word in set(WORDS))
SQUARES = [n * n for n in range(20)]
LIFETIME = "intermediate-result-storage.lifetime"
SHARING = "intermediate-result-storage.sharing"
Start = Callable[..., Environment]


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    return tmp_path / "kept"


@pytest.fixture
def key(kept: Path) -> Path:
    """The file of the key that streams are sealed with."""
    return kept / "seal-key"


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
    return sorted(in_order(stream))


def keeps(env: Environment, make: Callable[[Environment], DataStream] = numbers) -> list[Any]:
    """Has a program keep a stream for an hour, and ends it."""
    with env:
        return collected(make(env).cache(lifetime="1 h"))


def becomes(
    env: Environment, make: Callable[[Environment], DataStream] = numbers
) -> set[VertexOutcome]:
    """What another program's job makes of the stream."""
    collected(make(env).cache())
    return set(outcomes(env))


def shared(kept: Path) -> list[Path]:
    return list(kept.glob("shared/datasets/*"))


def test_a_stream_with_a_lifetime_is_read_by_a_later_program(start: Start, words: Path) -> None:
    assert keeps(start(), lambda env: counted(env, words)) == COUNTS
    later = start()
    hot = counted(later, words).cache()
    assert collected(hot) == COUNTS and set(outcomes(later)) == {READ, RUN}
    assert "kept by " in repr(later.last_job_result)
    assert collected(hot.filter(lambda pair: pair[1] > 1)) == [p for p in COUNTS if p[1] > 1]
    # Its functions count, and so does what its source has become.
    constant = later.read_text_file(str(words)).map(lambda word: (word, 2))
    collected(constant.key_by(lambda pair: pair[0]).sum(1).cache())
    assert PRODUCED in outcomes(later)
    words.write_text("to be")
    assert collected(counted(later, words).cache()) == [("to be", 1)]
    assert PRODUCED in outcomes(later)
    stale = r"not read: kept by .*, stale: .*words.txt changed since"
    assert re.search(stale, repr(later.last_job_result))


def test_without_one_it_is_read_by_programs_beside_it(start: Start) -> None:
    one = start()
    assert collected(numbers(one).cache()) == SQUARES
    with start() as other:
        assert becomes(other) == {READ, RUN}
    one.close()
    assert PRODUCED in becomes(start())


def odd(env: Environment) -> DataStream:
    squares = numbers(env).cache(lifetime="1 h")
    return squares.process(Split()).get_side_output(ODD)


def thirds(env: Environment) -> DataStream:
    return env.from_collection(range(5)).map(lambda n: Fraction(n, 3))


def nothing(env: Environment) -> DataStream:
    return numbers(env).filter(lambda n: n < 0)


def rows(env: Environment) -> DataStream:
    table = env.range(100).selectExpr("id % 7 AS k", "id AS v")
    pairs = env.from_dataframe(table).to_data_stream().map(lambda row: (row.k, row.v))
    return pairs.key_by(lambda pair: pair[0]).sum(1)


SHARED: dict[str, tuple[Callable[[Environment], DataStream], list[Any]]] = {
    "a side output of a cached stream": (odd, [n for n in SQUARES if n % 2]),
    "records of a class that is imported": (thirds, [Fraction(n, 3) for n in range(5)]),
    "no records": (nothing, []),
    "a table's rows": (rows, [(k, sum(range(k, 100, 7))) for k in range(7)]),
}


@pytest.mark.parametrize("what", SHARED)
@pytest.mark.sampled(4)
def test_what_is_shared(start: Start, what: str) -> None:
    make, expected = SHARED[what]
    assert keeps(start(), make) == expected
    later = start()
    assert collected(make(later).cache()) == expected
    assert set(outcomes(later)) == {READ, RUN}


def test_lifetimes(start: Start, kept: Path) -> None:
    with start(**{LIFETIME: "2 h"}) as first:
        collected(numbers(first).cache())
        collected(first.from_collection([1]).cache(lifetime="application"))
        assert len(shared(kept)) == 1
        for wrong in ("soon", "0 s"):
            with pytest.raises(ConfigurationError, match=r"storage\.lifetime.*such as 7 d"):
                numbers(first).cache(lifetime=wrong)
    assert becomes(start()) == {READ, RUN}


@pytest.mark.soak
def test_the_longer_of_two_lifetimes_counts(start: Start) -> None:
    def briefly(env: Environment) -> DataStream:
        return env.from_collection(range(3))

    with start() as first:
        hot = numbers(first).cache(lifetime="1 s")
        assert hot.cache(lifetime="1 h") is hot and hot.cache("2 s") is hot
        collected(hot)
        collected(briefly(first).cache(lifetime="1 s"))
    time.sleep(1.5)
    assert becomes(start()) == {READ, RUN}
    assert PRODUCED in becomes(start(), briefly)


def test_invalidation_counts_for_all_programs(start: Start, kept: Path) -> None:
    keeps(start())
    with numbers(start()).cache() as hot:
        collected(hot)
    # One program that needs it no longer leaves it to others.
    assert len(shared(kept)) == 1
    numbers(start()).cache().invalidate()
    assert not shared(kept)
    assert PRODUCED in becomes(start())


def test_a_table_of_a_stream_says_who_has_kept_it(
    start: Start, capsys: pytest.CaptureFixture[str]
) -> None:
    keeps(start())
    later = start()
    table = later.from_data_stream(numbers(later).cache(), "n long")
    table.explain()
    read = r"read: stream: Source: Collection -> Map\n.*\n  kept by "
    assert re.search(read, capsys.readouterr().out)
    assert sorted(row.n for row in table.collect()) == SQUARES
    assert set(outcomes(later)) == {READ, RUN}


def test_the_commands_look_after_streams_as_after_tables(
    start: Start, kept: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def run(*arguments: str, status: int = 0) -> str:
        assert main([*arguments, "--directory", str(kept)]) == status
        return capsys.readouterr().out

    keeps(start())
    (directory,) = shared(kept)
    name = directory.name[:8]
    assert name in run("ls") and "stream: Source: Collection -> Map" in run("show", name)
    run("verify")
    assert "There is no garbage" in run("gc", "--yes")
    for file in kept.rglob("catalog.db*"):
        file.unlink()
    run("catalog", "rebuild")
    with start() as later:
        assert becomes(later) == {READ, RUN}
    part = max(directory.glob("part-*.parquet"))
    part.write_bytes(part.read_bytes()[:-9] + b"x" * 9)
    assert name in run("verify", status=1)
    run("rm", name)
    assert not shared(kept)
    assert PRODUCED in becomes(start())


# -- the key ---------------------------------------------------------------------------------------


def test_the_key_is_its_user_s_alone(start: Start, key: Path) -> None:
    old = os.umask(0)
    try:
        keeps(start())
    finally:
        os.umask(old)
    assert key.stat().st_mode & 0o777 == 0o600 and len(key.read_bytes()) == 32


KEYS: dict[str, Callable[[Path], object]] = {
    "replaced": lambda key: key.write_bytes(b"k" * 32),
    "removed": Path.unlink,
    "truncated": lambda key: key.write_bytes(b"short"),
}


@pytest.mark.parametrize("into", ["collect", "sinks"])
@pytest.mark.parametrize("how", KEYS)
@pytest.mark.sampled(6)
def test_what_was_sealed_with_another_key_is_computed_again(
    start: Start, kept: Path, key: Path, words: Path, tmp_path: Path, how: str, into: str
) -> None:
    keeps(start(), lambda env: counted(env, words))
    (old,) = shared(kept)
    KEYS[how](key)
    with start() as later:
        hot = counted(later, words).cache(lifetime="1 h")
        if into == "collect":
            assert collected(hot) == COUNTS
        else:
            hot.sink_to(FileSink(str(tmp_path / "out")))
            hot.map(lambda pair: pair[0]).sink_to(FileSink(str(tmp_path / "words")))
            later.execute()
            assert lines(tmp_path / "out") == sorted(map(str, COUNTS))
        assert PRODUCED in outcomes(later)
        (loss,) = later.last_job_result.losses  # type: ignore[union-attr]
        assert "a batch fails the check of its seal" in str(loss)
    (new,) = shared(kept)
    assert new != old
    assert becomes(start(), lambda env: counted(env, words)) == {READ, RUN}


@pytest.mark.soak
def test_what_is_not_cached_here_is_not_read_one_by_one(
    start: Start, kept: Path, key: Path
) -> None:
    keeps(start())
    KEYS["replaced"](key)
    later = start()
    with numbers(later).cache() as hot:
        pass
    # Records that are taken one by one can't be taken again.
    assert collected(hot.map(lambda n: n)) == SQUARES and outcomes(later) == [RUN]
    assert len(shared(kept)) == 1


KNOWN: dict[str, Callable[[Path], object]] = {
    "other users": lambda key: key.chmod(0o640),
    "a link": lambda key: key.symlink_to(key.rename(key.with_name("elsewhere"))),
    "another user": lambda key: os.chown(key, 12345, -1),
    "no regular file": lambda key: (key.unlink(), os.mkfifo(key)),
}


@pytest.mark.parametrize("how", KNOWN)
@pytest.mark.sampled(4)
def test_a_key_that_others_may_know_is_none(
    start: Start, kept: Path, key: Path, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    if how == "another user" and os.getuid() != 0:
        pytest.skip("root alone can give a file away")
    keeps(start())
    KNOWN[how](key)
    later = start()
    hot = numbers(later).cache(lifetime="1 h")
    assert collected(hot) == SQUARES and PRODUCED in outcomes(later)
    assert collected(hot) == SQUARES and set(outcomes(later)) == {READ, RUN}
    (warned,) = [each for each in caplog.messages if "not shared with other programs" in each]
    assert how in warned
    # What it can't open is there still, for those who can.
    assert len(shared(kept)) == 1


def test_a_directory_in_which_others_can_put_a_key_has_none(
    start: Start, kept: Path, key: Path, caplog: pytest.LogCaptureFixture
) -> None:
    env = start()
    kept.chmod(0o770)
    try:
        assert collected(numbers(env).cache(lifetime="1 h")) == SQUARES
    finally:
        kept.chmod(0o700)
    assert not shared(kept) and not key.exists()
    assert "run `chmod go-w` or `chmod +t`" in caplog.text


# -- whose records mean something elsewhere --------------------------------------------------------


def drawn(env: Environment) -> DataStream:
    import random

    return env.from_collection(range(3)).map(lambda n: n * 0 + int(random.random() < 2) + n)


def cut_off(env: Environment) -> DataStream:
    return env.sql("SELECT id FROM range(20) LIMIT 3").to_data_stream().map(lambda row: row.id)


@pytest.mark.parametrize("doubtful", [drawn, cut_off])
@pytest.mark.sampled(2)
def test_what_means_nothing_elsewhere_is_not_offered(
    start: Start, doubtful: Callable[[Environment], DataStream], kept: Path
) -> None:
    one, other = start(), start()
    collected(doubtful(one).cache(lifetime="1 h"))
    assert PRODUCED in becomes(other, doubtful) and not shared(kept)


def test_programs_with_other_cores_share_no_stream(
    start: Start, words: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lines(env: Environment) -> DataStream:
        return env.read_text_file(str(words)).map(str.upper).set_parallelism(2)

    keeps(start(), lines)
    with monkeypatch.context() as changed:
        changed.setattr(SparkContext, "defaultParallelism", 7)
        other = start()
        assert other.get_parallelism() == 7
    assert PRODUCED in becomes(other, lines)
    assert becomes(start(), lines) == {READ, RUN}


@pytest.mark.parametrize("why", ["it has no catalog", "its jobs are recovered"])
@pytest.mark.sampled(2)
def test_without_a_key_in_common_streams_go_with_their_program(
    start: Start, tmp_path: Path, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    config = {"catalog.url": "none"}
    if "recovered" in why:
        config = {
            "execution.batch.job-recovery.enabled": "true",
            "high-availability.storageDir": str(tmp_path / "records"),
        }
    one, other = start(**config), start()
    assert collected(numbers(one).cache(lifetime="1 h")) == SQUARES
    assert f"will go with this program: {why}" in caplog.text
    collected(numbers(other).cache(lifetime="1 h"))
    assert PRODUCED in outcomes(other)
    # Nor does it read what another one has kept.
    collected(other.from_collection([1]).cache(lifetime="1 h"))
    assert PRODUCED in becomes(one, lambda env: env.from_collection([1]))


@pytest.mark.soak
@pytest.mark.parametrize("sharing", ["group", "all"])
def test_where_other_users_read_streams_stay_their_user_s(start: Start, sharing: str) -> None:
    env, other = start(**{SHARING: sharing}), start(**{SHARING: sharing})
    with pytest.raises(StreamNotShareableError, match="pickles, which run code"):
        numbers(env).cache(lifetime="1 h")
    with pytest.raises(StreamNotShareableError, match="pickles, which run code"):
        numbers(start(**{SHARING: sharing, LIFETIME: "2 h"})).cache()
    assert collected(numbers(env).cache()) == SQUARES
    assert becomes(other) == {READ, RUN}
