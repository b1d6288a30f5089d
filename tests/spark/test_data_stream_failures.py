"""Whatever goes wrong in a stream's job says what and where, and leaves nothing behind."""

from __future__ import annotations

import itertools
import threading
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import (
    DataStream,
    Environment,
    FileSink,
    KeyedProcessFunction,
    MapFunction,
    ProcessFunction,
    Source,
)
from holdfast.config import INTERMEDIATE_RESULT_DIRECTORY
from holdfast.errors import (
    InvalidKeyError,
    NoSinksError,
    OperatorFailedError,
    RecordNotSerializableError,
    WorkerModuleMissingError,
)


def collected(stream: DataStream) -> list[Any]:
    with stream.execute_and_collect() as records:
        return list(records)


def kept_files(env: Environment) -> list[Path]:
    root = Path(env.configuration.get(INTERMEDIATE_RESULT_DIRECTORY))
    return [
        path
        for pattern in ("datasets/*", "staging/*", "pinned/*")
        for path in root.glob(f"application-*/{pattern}")
    ]


def active_jobs(env: Environment) -> int:
    tracker = env.spark.sparkContext.statusTracker()
    return len(tracker.getActiveJobsIds())


def wait_until_idle(env: Environment) -> None:
    end = time.monotonic() + 20
    while active_jobs(env) and time.monotonic() < end:
        time.sleep(0.05)
    assert active_jobs(env) == 0


def test_an_error_of_one_s_own_is_told_with_its_traceback_and_not_retried(
    env: Environment, tally: Any
) -> None:
    def explode(n: int) -> int:
        if n == 3:
            raise ValueError("three is one too many")
        return n

    counting = tally.counting(explode)
    stream = env.from_collection([3]).map(counting).name("explosive").cache()
    collected(env.from_collection([1]))
    threads = threading.active_count()
    for attempt in (1, 2):
        with pytest.raises(OperatorFailedError) as caught:
            collected(stream.map(str))
        message = "".join(traceback.format_exception(caught.value))
        assert "ValueError" in message
        assert "three is one too many" in message
        assert "in explode" in message
        assert "test_data_stream_failures.py" in message
        assert "explosive" in message
        assert tally.count() == attempt
    assert not any(kept.dataset_id for kept in env.list_cached())
    assert kept_files(env) == []
    wait_until_idle(env)
    assert threading.active_count() <= threads + 1


def test_a_failed_job_takes_its_sinks_along(env: Environment, tmp_path: Path) -> None:
    env.from_collection([1, 0]).map(lambda n: 1 // n).sink_to(FileSink(str(tmp_path / "out")))
    with pytest.raises(OperatorFailedError, match="ZeroDivisionError"):
        env.execute()
    with pytest.raises(NoSinksError):
        env.execute()
    assert not list((tmp_path / "out").glob("part-*"))


@pytest.mark.parametrize("where", ["open", "map", "close"])
def test_close_is_called_whatever_happens(env: Environment, tmp_path: Path, where: str) -> None:
    log = str(tmp_path / "log")

    class Fragile(MapFunction):
        def open(self, runtime_context: Any) -> None:
            self.say("open")

        def map(self, value: int) -> int:
            self.say("map")
            return value

        def close(self) -> None:
            self.say("close")

        def say(self, what: str) -> None:
            with open(log, "a") as file:
                file.write(f"{what}\n")
            if what == where:
                raise RuntimeError(f"broken in {what}")

    stream = env.from_collection([1]).set_parallelism(1).map(Fragile()).set_parallelism(1)
    with pytest.raises(OperatorFailedError, match=f"broken in {where}"):
        collected(stream)
    said = Path(log).read_text().split()
    assert said == (["open", "close"] if where == "open" else ["open", "map", "close"])


@pytest.mark.parametrize("kept", [False, True])
def test_a_record_that_can_not_be_pickled_is_told_by_its_operator(
    env: Environment, kept: bool
) -> None:
    stream = env.from_collection([1]).map(lambda n: threading.Lock()).name("locks")
    with pytest.raises(RecordNotSerializableError, match="'locks' emitted a record of type .*lock"):
        collected(stream.cache() if kept else stream)
    assert kept_files(env) == []


def test_a_record_that_can_not_be_pickled_may_pass_within_a_chain(env: Environment) -> None:
    locks = env.from_collection([1]).map(lambda n: threading.Lock())
    assert collected(locks.map(lambda lock: lock.locked())) == [False]


def test_an_item_that_can_not_be_pickled_is_told_at_once(env: Environment) -> None:
    with pytest.raises(Exception, match="lock"):
        env.from_collection([threading.Lock()])


def test_a_key_that_can_not_be_one_is_told_by_its_operator(env: Environment) -> None:
    stream = env.from_collection([[1]]).key_by(lambda record: record).reduce(lambda a, b: a)
    with pytest.raises(InvalidKeyError, match="'by list' got the key"):
        collected(stream.name("by list"))


def test_nothing_is_asked_of_a_generator_that_nobody_wants(env: Environment, tally: Any) -> None:
    counting = tally.counting(lambda n: n)

    def endless(start: int) -> Iterator[int]:
        for n in itertools.count(start):
            yield counting(n)

    stream = env.from_collection([0]).flat_map(endless).map(lambda n: n * 2)
    with stream.execute_and_collect() as records:
        assert list(itertools.islice(records, 10)) == list(range(0, 20, 2))
        time.sleep(0.3)
        asked = tally.count()
        assert 10 <= asked <= 40
    wait_until_idle(env)
    time.sleep(0.3)
    assert tally.count() <= 40
    assert stream.execute_and_collect(limit=5) == [0, 2, 4, 6, 8]
    assert tally.count() <= asked + 20
    wait_until_idle(env)


def test_an_endless_source_and_an_endless_process_function(env: Environment, tally: Any) -> None:
    counting = tally.counting(lambda n: n)

    class Endless(Source):
        def enumerate_splits(self, parallelism: int) -> list[int]:
            return [0]

        def read(self, split: int) -> Iterator[int]:
            yield from map(counting, itertools.count())

    class Repeated(ProcessFunction):
        def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[int]:
            yield value
            yield value

    stream = env.from_source(Endless()).process(Repeated()).filter(lambda n: n % 2 == 0)
    assert stream.execute_and_collect(limit=6) == [0, 0, 2, 2, 4, 4]
    assert tally.count() <= 60
    wait_until_idle(env)


def test_an_iterator_that_is_dropped_ends_its_job(env: Environment) -> None:
    records = env.from_collection([0]).flat_map(itertools.count).execute_and_collect()
    assert next(records) == 0
    del records
    wait_until_idle(env)


@pytest.mark.slow
def test_huge_records_pass_and_are_kept(env: Environment) -> None:
    size = 64 << 20
    huge = env.from_collection([0, 1]).map(lambda n: bytes([n]) * size).cache()
    for _ in range(2):
        lengths = collected(huge.map(lambda record: (record[:1], record[-1:], len(record))))
        assert lengths == [(b"\x00", b"\x00", size), (b"\x01", b"\x01", size)]
    (first, second) = collected(huge)
    assert len(first) == len(second) == size


def test_none_is_a_record_like_any_other(env: Environment) -> None:
    nones = env.from_collection([None, 1, None]).map(lambda record: record).cache()
    assert collected(nones) == [None, 1, None]
    assert collected(nones.key_by(lambda record: record).reduce(lambda a, b: a)).count(None) == 1
    assert collected(nones.filter(lambda record: record is None)) == [None, None]


def test_a_module_that_the_workers_lack_is_named(
    env: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here.py").write_text("def shout(word): return word.upper()")
    monkeypatch.syspath_prepend(tmp_path)
    import only_here

    with pytest.raises(WorkerModuleMissingError, match="'only_here'"):
        collected(env.from_collection(["to"]).map(only_here.shout))


def test_timers_are_refused_by_name(env: Environment) -> None:
    class Timed(KeyedProcessFunction):
        def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
            ctx.timer_service()
            yield value

    with pytest.raises(OperatorFailedError, match="not supported"):
        collected(env.from_collection([1]).key_by(str).process(Timed()))
