"""What goes wrong in a stream's job says what and where, and leaves nothing behind."""

from __future__ import annotations

import itertools
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import (
    DataStream,
    Environment,
    FileSink,
    KeyedProcessFunction,
    ProcessFunction,
    Source,
)
from holdfast.errors import (
    InvalidKeyError,
    NoSinksError,
    OperatorFailedError,
    RecordNotSerializableError,
    WorkerModuleMissingError,
)
from tests.spark.conftest import Tally
from tests.spark.streams import collected


def kept_files(home: Path) -> list[Path]:
    patterns = ("datasets/*", "staging/*", "pinned/*")
    return [path for each in patterns for path in home.glob(f"kept/application-*/{each}")]


def wait_until_idle(env: Environment) -> None:
    tracker = env.spark.sparkContext.statusTracker()
    end = time.monotonic() + 20
    while tracker.getActiveJobsIds() and time.monotonic() < end:
        time.sleep(0.05)
    assert not tracker.getActiveJobsIds()


def test_an_error_comes_with_its_traceback_and_is_not_tried_again(
    env: Environment, tmp_path: Path, tally: Tally
) -> None:
    def explode(n: int) -> int:
        raise ValueError("three is one too many")

    stream = env.from_collection([3]).map(tally.counting(explode)).name("explosive").cache()
    collected(env.from_collection([1]))
    threads = threading.active_count()
    for attempt in (1, 2):
        with pytest.raises(OperatorFailedError) as caught:
            collected(stream.map(str))
        message = "".join(traceback.format_exception(caught.value))
        for part in ("ValueError", "three is one too many", "in explode", "explosive"):
            assert part in message
        assert "test_data_stream_failures.py" in message
        assert tally.count() == attempt
    assert not any(kept.dataset_id for kept in env.list_cached())
    assert kept_files(tmp_path) == []
    wait_until_idle(env)
    assert threading.active_count() <= threads + 1


def test_a_failed_job_takes_its_sinks_along(env: Environment, tmp_path: Path) -> None:
    env.from_collection([1, 0]).map(lambda n: 1 // n).sink_to(FileSink(str(tmp_path / "out")))
    with pytest.raises(OperatorFailedError, match="ZeroDivisionError"):
        env.execute()
    with pytest.raises(NoSinksError):
        env.execute()
    assert not list((tmp_path / "out").glob("part-*"))


class Timed(KeyedProcessFunction):
    def process_element(self, value: Any, ctx: KeyedProcessFunction.Context) -> Iterator[Any]:
        ctx.timer_service()
        yield value


def locks(env: Environment) -> DataStream:
    return env.from_collection([1]).map(lambda n: threading.Lock()).name("locks")


FAILS: dict[str, tuple[Callable[[Environment], DataStream], type[Exception], str]] = {
    "a record without a pickle": (
        locks,
        RecordNotSerializableError,
        "'locks' emitted a record of type .*lock",
    ),
    "one that is to be kept": (
        lambda env: locks(env).cache(),
        RecordNotSerializableError,
        "'locks' emitted a record of type .*lock",
    ),
    "a key that can't be one": (
        lambda env: env.from_collection([[1]]).key_by(list).reduce(max).name("by list"),
        InvalidKeyError,
        "'by list' got the key",
    ),
    "timers": (
        lambda env: env.from_collection([1]).key_by(str).process(Timed()),
        OperatorFailedError,
        "not supported",
    ),
}


@pytest.mark.parametrize("what", FAILS)
@pytest.mark.sampled(2)
def test_what_can_not_be_names_its_operator(env: Environment, tmp_path: Path, what: str) -> None:
    make, error, message = FAILS[what]
    with pytest.raises(error, match=message):
        collected(make(env))
    assert kept_files(tmp_path) == []


def test_only_records_that_leave_a_chain_are_pickled(env: Environment) -> None:
    assert collected(locks(env).map(lambda lock: lock.locked())) == [False]
    with pytest.raises(Exception, match="lock"):
        env.from_collection([threading.Lock()])


def test_a_module_that_the_workers_lack_is_named(
    env: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "only_here.py").write_text("def shout(word): return word.upper()")
    monkeypatch.syspath_prepend(tmp_path)
    import only_here

    with pytest.raises(WorkerModuleMissingError, match="'only_here'"):
        collected(env.from_collection(["to"]).map(only_here.shout))


def test_nothing_is_asked_of_a_generator_that_is_not_wanted(env: Environment, tally: Tally) -> None:
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

    stream = env.from_source(Endless()).process(Repeated()).flat_map(lambda n: [n, -n])
    with stream.execute_and_collect() as records:
        assert len(list(itertools.islice(records, 10))) == 10
        time.sleep(0.3)
        assert tally.count() <= 40
    wait_until_idle(env)
    assert tally.count() <= 40
    assert stream.execute_and_collect(limit=5) == [0, 0, 0, 0, 1]
    # One that is dropped ends its job as well.
    dropped = stream.execute_and_collect()
    assert next(dropped) == 0
    del dropped
    wait_until_idle(env)
