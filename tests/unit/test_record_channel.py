"""Records travel from tasks to the driver as they are asked for, and from no others."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing, suppress
from typing import Any

import pytest

from holdfast.errors import RecordsRepeatedError
from holdfast.spark.streams.frames import Hello
from holdfast.spark.streams.record_receiver import RecordReceiver
from holdfast.spark.streams.record_sender import ReceiverGoneError, RecordSender
from holdfast.streaming.sealing import SealKey


class Tasks:
    """Threads that send records as tasks do."""

    def __init__(self, receiver: RecordReceiver) -> None:
        self._receiver = receiver
        self._threads: list[threading.Thread] = []
        self.errors: list[BaseException] = []

    def start(
        self, subtask: int, records: Iterable[Any], attempt: int = 0, key: SealKey | None = None
    ) -> None:
        receiver = self._receiver

        def run() -> None:
            try:
                sender = RecordSender(
                    receiver.address, key or receiver.key, Hello(subtask, attempt), "Source"
                )
                with closing(sender):
                    sender.send(iter(records))
            except BaseException as error:
                self.errors.append(error)

        self._threads.append(threading.Thread(target=run, daemon=True))
        self._threads[-1].start()

    def are_over(self) -> bool:
        return not any(thread.is_alive() for thread in self._threads)

    def running(self) -> int:
        return sum(thread.is_alive() for thread in self._threads)

    def join(self) -> None:
        for thread in self._threads:
            thread.join(10)
            assert not thread.is_alive()


# Longer than a subtask is waited for that has not come.
LATE_S = 0.5


@pytest.fixture
def open_channel(
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Callable[..., tuple[RecordReceiver, Tasks]]]:
    monkeypatch.setattr("holdfast.spark.streams.record_receiver._PATIENCE_S", 0.3)
    opened: list[tuple[RecordReceiver, Tasks]] = []

    def channel(*, eager: bool = False) -> tuple[RecordReceiver, Tasks]:
        receiver = RecordReceiver("127.0.0.1", eager=eager)
        opened.append((receiver, Tasks(receiver)))
        return opened[-1]

    yield channel
    for receiver, tasks in opened:
        with suppress(Exception):
            receiver.close()
        tasks.join()


@pytest.mark.parametrize("eager", [False, True])
def test_records_come_in_the_order_of_the_subtasks(open_channel: Any, eager: bool) -> None:
    receiver, tasks = open_channel(eager=eager)
    for subtask in (2, 0, 1):
        tasks.start(subtask, range(subtask * 30_000, (subtask + 1) * 30_000))
    assert list(receiver.records(tasks.are_over, tasks.running)) == list(range(90_000))


def test_a_subtask_that_runs_and_has_not_come_yet_is_waited_for(open_channel: Any) -> None:
    receiver, tasks = open_channel()
    late = threading.Timer(LATE_S, tasks.start, [0, ["first"]])
    late.start()
    tasks.start(1, ["second", "third"])
    records = receiver.records(lambda: late.finished.is_set() and tasks.are_over(), lambda: 2)
    assert list(records) == ["first", "second", "third"]


def test_nothing_is_made_that_is_not_wanted(open_channel: Any) -> None:
    receiver, tasks = open_channel()
    made = [0, 0]

    def endless(subtask: int) -> Iterator[int]:
        for number in itertools.count():
            made[subtask] += 1
            yield number

    tasks.start(0, endless(0))
    tasks.start(1, endless(1))
    records = receiver.records(tasks.are_over, tasks.running)
    for taken in (1, 9, 190):
        assert len(list(itertools.islice(records, taken))) == taken
        total = {1: 1, 9: 10, 190: 200}[taken]
        assert made[0] <= 2 * total and made[1] <= total
    receiver.close()
    tasks.join()
    assert not [error for error in tasks.errors if not isinstance(error, ReceiverGoneError)]


def test_records_without_the_key_are_not_taken(open_channel: Any) -> None:
    receiver, tasks = open_channel()
    tasks.start(0, ["forged"], key=SealKey.new())
    tasks.start(0, ["true"])
    assert list(receiver.records(tasks.are_over, tasks.running)) == ["true"]
    assert len(tasks.errors) == 1


def test_a_task_may_start_again_only_as_long_as_nothing_of_it_was_taken(open_channel: Any) -> None:
    receiver, tasks = open_channel()
    more = threading.Event()

    def slowly() -> Iterator[int]:
        yield 1
        more.wait(10)
        yield 2

    tasks.start(0, slowly())
    tasks.start(1, [3])
    records = receiver.records(tasks.are_over, tasks.running)
    assert next(records) == 1
    tasks.start(1, [3], attempt=1)
    tasks.start(0, [1, 2], attempt=1)
    with pytest.raises(RecordsRepeatedError, match="1 of its records"):
        list(records)
    more.set()
