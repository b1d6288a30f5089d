"""A job's partitions with task executors that are processes, over starts of the job."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from holdfast.errors import LocationsIncompleteError, StaleEpochError, StorageError
from holdfast.ids import JobID
from tests.harness.forked import CONTEXT
from tests.taskexecutor.callers import description, output_of
from tests.taskexecutor.lone_driver import main
from tests.taskexecutor.nodes import ROWS, SECONDS, Drivers, Node, comes, dataset

OTHER_JOB = JobID("cd" * 16)


def whole(staged: Any) -> Any:
    """The output that is staged."""
    dataset_id, _, attempt = staged.name.partition("-")
    return output_of(dataset_id[0], attempt)


def indices(kept: Any) -> list[int]:
    return [each.index for each in kept.manifest.partitions]


# -- over starts


def test_a_dataset_on_two_nodes_is_found_by_the_next_start(pair: Drivers) -> None:
    first = pair.begin(1)
    assert first.known_executors == tuple(node.address for node in pair.nodes)
    kept = pair.keep(first, "1", (0, 0), (1, 1), (2, 0))
    second = pair.begin(2)
    (found,) = second.recovered_outputs().values()
    assert found.kept is not None
    assert found.kept.manifest.partitions == kept.manifest.partitions
    assert found.kept.holders == kept.holders == (0, 1, 0)
    assert len(set(found.kept.directories)) == 2 and second.damage(found.kept) is None
    assert [
        (each.partition_id.index, each.executor) for each in second.get_all_partition_with_metrics()
    ] == [(index, pair.nodes[place].address) for index, place in ((0, 0), (1, 1), (2, 0))]
    with pytest.raises(StaleEpochError):
        first.damage(kept)
    second.remove(found.kept)
    assert pair.files() == [0, 0]


def test_partitions_are_served_to_the_newest_start_alone(lone: Drivers) -> None:
    (node,) = lone.nodes

    def status(kept: Any) -> int:
        path = kept.locations[0].removeprefix(f"webhdfs://{node.host}:{node.port}/")
        url = f"http://{node.address}/webhdfs/v1/{path}?op=OPEN&offset=0"
        return urllib3.request("GET", url, redirect=False).status

    kept = lone.keep(lone.begin(1), "1", (0, 0))
    assert status(kept) == 200
    (found,) = lone.begin(2).recovered_outputs().values()
    assert (status(kept), status(found.kept)) == (404, 200)


def test_the_same_job_recorded_elsewhere_keeps_and_finds_its_own(pair: Drivers) -> None:
    other = JobID.random()
    here, elsewhere = pair.begin(1), pair.begin(1, claimed=other)
    kept = [pair.keep(each, "1", (0, 0), (1, 1)) for each in (here, elsewhere)]
    pair.write(pair.stage(elsewhere, "2"), (0, 0))
    here.end_job(pair.job)
    for number, job, of_job in ((1, pair.job, kept[0]), (2, other, kept[1])):
        found = [each.kept for each in pair.begin(2, claimed=job).recovered_outputs().values()]
        assert len(found) == number
        whole_ones = [each.manifest.partitions for each in found if each is not None]
        assert whole_ones == [of_job.manifest.partitions]


def test_what_was_half_done_on_two_nodes_is_completed_over_them(pair: Drivers) -> None:
    staged = pair.stage(pair.begin(1))
    pair.write(staged, (0, 0), (3, 1))
    # An attempt that was given up for lost had written it on the other node, too.
    pair.write(staged, (3, 0))
    output = whole(staged)
    second = pair.begin(2)
    found = second.recovered_outputs()[output]
    assert (found.kept, found.present) == (None, {0, 3})
    missing = second.stage_missing(pair.job, output, [1, 2, 4], 5)
    written = [*pair.write(missing, (1, 0)), *pair.write_no_rows(missing, 1, 0, 2)]
    kept = pair.publish(second, missing, written)
    assert indices(kept) == [0, 2, 3] and kept.name == output.name
    assert second.damage(kept) is None
    third = pair.begin(3)
    found = third.recovered_outputs()[output]
    assert (found.present, found.number_of_partitions) == ({0, 1, 2, 3, 4}, 5)
    assert found.kept is not None and found.kept.rows == 3 * ROWS
    assert third.damage(found.kept) is None
    # What several starts have made is linked from all of its outputs.
    environment = pair.environment()
    linked = third.link_into(found.kept, environment, OTHER_JOB)
    assert indices(linked) == [0, 2, 3]
    third.release_all()
    assert environment.damage(linked) is None and sum(pair.files()) == 3


def test_a_node_that_is_gone_takes_only_its_partitions_along(pair: Drivers) -> None:
    kept = pair.keep(pair.begin(1), "1", (0, 0), (1, 1), (2, 0))
    output = output_of("1", str(kept.name).rpartition("-")[2])
    pair.nodes[1].kill()
    before = time.monotonic()
    second = pair.begin(2, timeout=1.5)
    assert 1.4 < time.monotonic() - before < SECONDS
    found = second.recovered_outputs()[output]
    assert (found.kept, found.present, found.number_of_partitions) == (None, {0, 2}, 3)
    missing = second.stage_missing(pair.job, output, [1], 3)
    kept = pair.publish(second, missing, pair.write(missing, (0, 0)))
    assert (kept.rows, kept.holders) == (3 * ROWS, (0, 1, 0))
    # The node comes back with what it had: it is taken over, and not mistaken for a part.
    pair.nodes[1].start()
    assert comes(lambda: len(second.known_executors) == 2)
    third = pair.begin(3)
    again = third.recovered_outputs()[output].kept
    assert again is not None and again.manifest.partitions == kept.manifest.partitions
    third.release_all()
    assert pair.files() == [0, 0]


def test_a_start_waits_for_the_executors_that_were_known_and_for_no_others(pair: Drivers) -> None:
    pair.keep(pair.begin(1), "1", (0, 0), (1, 1))
    for node in pair.nodes:
        node.kill()
    with pytest.raises(StorageError, match="no task executor is available"):
        pair.begin(2, timeout=0.3)
    threads = [
        threading.Timer(delay, node.start)
        for delay, node in zip((0.3, 0.6), pair.nodes, strict=True)
    ]
    for thread in threads:
        thread.start()
    second = pair.begin(3)
    for thread in threads:
        thread.join()
    (found,) = second.recovered_outputs().values()
    assert found.kept is not None and second.damage(found.kept) is None
    pair.nodes[1].kill()
    before = time.monotonic()
    storage = pair.begin(4, wait_for=[pair.nodes[0].address, "node-9:7117"])
    assert time.monotonic() - before < SECONDS / 2
    assert storage.known_executors == (pair.nodes[0].address,)


def test_an_executor_that_hangs_is_waited_for_no_longer_than_the_timeout(pair: Drivers) -> None:
    os.kill(pair.nodes[1].process.pid, signal.SIGSTOP)
    try:
        before = time.monotonic()
        storage = pair.begin(1, timeout=1)
        assert time.monotonic() - before < SECONDS / 2
        assert storage.known_executors == (pair.nodes[0].address,)
    finally:
        os.kill(pair.nodes[1].process.pid, signal.SIGCONT)
    assert comes(lambda: len(storage.known_executors) == 2)


def test_executors_that_are_killed_in_between_lose_nothing(lone: Drivers) -> None:
    (node,) = lone.nodes
    first = lone.begin(1)
    kept = lone.keep(first, "1", (0, 0), (1, 0))
    lone.write(lone.stage(first, "2"), (1, 0))
    node.kill()
    node.start()
    # The driver goes on, once its heartbeats have found it again.
    time.sleep(0.3)
    assert lone.can_stage(first) and first.damage(kept) is None
    assert first.damage(lone.keep(first, "3", (0, 0))) is None
    node.kill()
    node.start()
    found = {key.dataset_id: each for key, each in lone.begin(2).recovered_outputs().items()}
    assert {key: (each.kept is not None, each.present) for key, each in found.items()} == {
        dataset("1"): (True, {0, 1}),
        dataset("2"): (False, {1}),
        dataset("3"): (True, {0}),
    }


def test_a_part_on_an_executor_that_dies_is_not_published(pair: Drivers) -> None:
    staged = pair.stage(pair.begin(1))
    pair.write(staged, (0, 0), (1, 1))
    second = pair.begin(2)
    missing = second.stage_missing(pair.job, whole(staged), [2], 3)
    written = pair.write(missing, (0, 0))
    pair.nodes[1].kill()
    with pytest.raises(LocationsIncompleteError):
        pair.publish(second, missing, written)
    second.discard(missing)
    pair.nodes[1].start()
    found = pair.begin(3).recovered_outputs()[whole(staged)]
    assert (found.kept, found.present) == (None, {0, 1})


# -- what the environment keeps as well


def test_a_dataset_without_rows_is_linked(pair: Drivers) -> None:
    first, environment = pair.begin(1), pair.environment()
    staged = pair.stage(first)
    written = [*pair.write_no_rows(staged, 0, 0), *pair.write_no_rows(staged, 1, 1)]
    linked = first.link_into(pair.publish(first, staged, written), environment, OTHER_JOB)
    assert (linked.rows, indices(linked)) == (0, [0])
    assert environment.damage(linked) is None


def gone(node: Node) -> None:
    node.kill()


def damaged(node: Node) -> None:
    for file in node.directory.glob("kept/recoverable-*/datasets/1*/part-*.parquet"):
        file.unlink()


@pytest.mark.parametrize("harm", [gone, damaged])
def test_what_is_gone_or_damaged_on_one_node_is_linked_not_at_all(
    pair: Drivers, harm: Callable[[Node], None]
) -> None:
    first, environment = pair.begin(1), pair.environment()
    kept = pair.keep(first, "1", (0, 0), (1, 1))
    harm(pair.nodes[1])
    with pytest.raises(StorageError):
        first.link_into(kept, environment, OTHER_JOB)
    assert pair.nodes[0].gateway().report(environment.application) == ()
    assert pair.files()[0] == 1


# -- two live drivers


class Driver:
    """A start in its own process."""

    def __init__(self, *arguments: str) -> None:
        self._pipe, end = CONTEXT.Pipe()
        self.process = CONTEXT.Process(target=main, args=(end, *arguments), daemon=True)
        self.process.start()
        assert self._pipe.recv() == "ready"

    def does(self, step: str, digit: str) -> str:
        self._pipe.send((step, digit))
        return str(self._pipe.recv())

    def signal(self, number: signal.Signals) -> None:
        assert self.process.pid is not None
        os.kill(self.process.pid, number)


@pytest.fixture
def lone_driver() -> Iterator[Callable[..., Driver]]:
    """Starts drivers that end with the test."""
    drivers: list[Driver] = []

    def start(*arguments: str) -> Driver:
        drivers.append(Driver(*arguments))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.process.kill()
        driver.process.join()


@pytest.mark.parametrize("where", ["at an executor", "on its machine"])
def test_a_driver_that_wakes_up_when_another_one_has_taken_over_can_do_nothing(
    lone: Drivers, tmp_path: Path, lone_driver: Callable[..., Driver], where: str
) -> None:
    (node,) = lone.nodes
    token = (node.directory / "kept" / "token").read_text().strip()
    if where == "at an executor":
        begin = lone.begin
        driver = lone_driver(lone.job.hex, node.address, token, str(node.directory))
    else:
        directory = tmp_path / "kept"

        def begin(epoch: int) -> Any:  # type: ignore[misc]
            return lone.begin_on_this_machine(epoch, directory)

        driver = lone_driver(lone.job.hex, str(directory))
    for digit in "123":
        assert [driver.does(step, digit) for step in ("stage", "write")] == ["done"] * 2
    assert driver.does("publish", "1") == "done"
    driver.signal(signal.SIGSTOP)
    second = begin(2)
    found = {output.dataset_id: each for output, each in second.recovered_outputs().items()}
    assert {key: (each.kept is not None, each.present) for key, each in found.items()} == {
        dataset("1"): (True, {0, 1}),
        dataset("2"): (False, {0, 1}),
        dataset("3"): (False, {0, 1}),
    }
    driver.signal(signal.SIGCONT)
    # Its tasks still write; but it can publish nothing, look up nothing, and begin nothing.
    assert driver.does("write", "2") == "done"
    for step, digit in (("publish", "2"), ("damage", "1"), ("stage", "4"), ("publish", "3")):
        assert driver.does(step, digit) == "StaleEpochError"
    # What would release something doesn't.
    for step, digit in (("remove", "1"), ("discard", "2"), ("end", "0")):
        assert driver.does(step, digit) == "done"
    with pytest.raises(StaleEpochError):
        begin(1)
    for output, each in second.recovered_outputs().items():
        if each.kept is None:
            second.publish_salvaged(lone.job, output, description(output.dataset_id.hex[0]), 2)
        else:
            assert second.damage(each.kept) is None
    third = begin(3).recovered_outputs().values()
    assert [each.kept is not None and each.kept.rows for each in third] == [2 * ROWS] * 3
