"""A job's partitions with task executors that are processes, over starts that are processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import urllib3

from holdfast.errors import LocationsIncompleteError, StaleEpochError, StorageError
from holdfast.ids import ApplicationID, IntermediateDataSetID, JobID
from holdfast.runtime.recovery.embedded_recovery_storage import embedded_recovery_storage
from holdfast.runtime.recovery.recovery_storage import RecoveryStorage
from holdfast.runtime.task_executor_storage import TaskExecutorStorage
from holdfast.storage.intermediate_result_storage import WrittenPartition
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet
from holdfast.taskexecutor.calls.client import RemoteTaskExecutor, Timeouts
from holdfast.taskexecutor.partitions.partition_info import OutputID
from holdfast.taskexecutor.recovery.recovery_claim import RecoveryClaim
from holdfast.version import __version__
from tests.free_ports import free_ports

JOB = JobID("ab" * 16)
OTHER_JOB = JobID("cd" * 16)
ROWS = 3
SECONDS = 30.0
# Each process resolves it by itself: one path, and a directory of its own for each node.
SAME_PATH = "/proc/self/cwd/kept"


def dataset(digit: str) -> IntermediateDataSetID:
    return IntermediateDataSetID(digit * 64)


def description(digit: str) -> DataSetDescription:
    return DataSetDescription(
        dataset_id=digit * 64, computes="rows", columns=(), spark_version="4.3.0"
    )


def comes(condition: Callable[[], object]) -> bool:
    end = time.monotonic() + SECONDS
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return False


class Node:
    """A machine with a task executor, which can be killed and started again."""

    def __init__(self, directory: Path, port: int, host: str) -> None:
        self.directory = directory
        self.port = port
        self.host = host
        directory.mkdir()
        self.start()

    def start(self) -> None:
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "holdfast.cli.main", "taskexecutor", "start"),
                *("--dir", SAME_PATH, "--grace", "0.5"),
                *("--port", str(self.port), "--public-host", self.host),
            ],
            stdout=subprocess.PIPE,
            text=True,
            cwd=self.directory,
        )
        assert self.process.stdout is not None
        assert self.process.stdout.readline()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def token(self) -> str:
        return (self.directory / "kept" / "token").read_text().strip()

    def gateway(self) -> RemoteTaskExecutor:
        return RemoteTaskExecutor(
            self.address, self.token, Timeouts(connect_seconds=1, sign_of_life_seconds=1)
        )

    def seen_from_it(self, path: Path) -> Path:
        return self.directory / path.relative_to("/proc/self/cwd")

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()

    def files(self) -> list[str]:
        return sorted(path.name[:10] for path in self.directory.rglob("part-*.parquet"))


class Cluster:
    """Nodes, and the starts of one job on them."""

    def __init__(self, root: Path, leave: Callable[..., None]) -> None:
        self.root = root
        self.leave = leave
        self.nodes: list[Node] = []
        self.storages: list[RecoveryStorage] = []

    def add(self, port: int) -> Node:
        name = f"node-{len(self.nodes)}"
        self.nodes.append(Node(self.root / name, port, name))
        return self.nodes[-1]

    def begin(
        self,
        epoch: int,
        *,
        timeout: float = SECONDS,
        wait_for: list[str] | None = None,
        claimed: JobID = JOB,
    ) -> RecoveryStorage:
        addresses = [node.address for node in self.nodes]
        storage = RecoveryStorage(
            {node.address: node.gateway() for node in self.nodes},
            RecoveryClaim(claimed, epoch),
            retention_seconds=600,
            heartbeat_seconds=0.1,
            version=__version__,
            wait_for=addresses if wait_for is None else wait_for,
            timeout_seconds=timeout,
        )
        self.storages.append(storage)
        return storage

    def write(self, directory: Path, *places: tuple[int, int]) -> list[WrittenPartition]:
        """Each task writes on the node that is given for it."""
        written = []
        for task, place in places:
            node = self.nodes[place]
            self.leave(node.seen_from_it(directory), task, rows=ROWS)
            written.append(WrittenPartition(task, node.host, ROWS))
        return written

    def keep(self, storage: RecoveryStorage, digit: str, *places: tuple[int, int]) -> KeptDataSet:
        staged = storage.stage(JOB, dataset(digit))
        return storage.publish(staged, description(digit), self.write(staged.directory, *places))


@pytest.fixture
def cluster(tmp_path: Path, leave: Callable[..., None]) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, leave)
    yield cluster
    for storage in cluster.storages:
        storage.leave()
    for node in cluster.nodes:
        node.end()


@pytest.fixture
def ports() -> list[int]:
    """Ports that nobody listens on."""
    return free_ports(2)


@pytest.fixture
def pair(cluster: Cluster, ports: list[int]) -> Cluster:
    """A cluster of two nodes."""
    for port in ports:
        cluster.add(port)
    return cluster


def test_a_dataset_on_two_nodes_is_found_by_the_next_start(pair: Cluster) -> None:
    first = pair.begin(1)
    assert first.known_executors == tuple(node.address for node in pair.nodes)
    kept = pair.keep(first, "1", (0, 0), (1, 1), (2, 0))
    second = pair.begin(2)
    (found,) = second.recovered_outputs().values()
    assert found.kept is not None
    assert found.kept.manifest.partitions == kept.manifest.partitions
    assert found.kept.holders == kept.holders == (0, 1, 0)
    assert len(set(found.kept.directories)) == 2
    assert second.damage(found.kept) is None
    assert [
        (each.partition_id.index, each.executor) for each in second.get_all_partition_with_metrics()
    ] == [(index, pair.nodes[place].address) for index, place in ((0, 0), (1, 1), (2, 0))]
    with pytest.raises(StaleEpochError):
        first.damage(kept)
    second.remove(found.kept)
    assert [node.files() for node in pair.nodes] == [[], []]


def test_the_same_job_recorded_elsewhere_keeps_and_finds_its_own(pair: Cluster) -> None:
    here, elsewhere = pair.begin(1), pair.begin(1, claimed=OTHER_JOB)
    kept = [pair.keep(each, "1", (0, 0), (1, 1)) for each in (here, elsewhere)]
    half_done = elsewhere.stage(JOB, dataset("2"))
    pair.write(half_done.directory, (0, 0))
    here.end_job(JOB)
    found = [
        {each.kept for each in pair.begin(2, claimed=job).recovered_outputs().values()}
        for job in (JOB, OTHER_JOB)
    ]
    assert [len(each) for each in found] == [1, 2]
    assert all(
        each.manifest.partitions in [it.manifest.partitions for it in left if it is not None]
        for each, left in zip(kept, found, strict=True)
    )


def test_what_was_half_done_on_two_nodes_is_completed_over_them(pair: Cluster) -> None:
    staged = pair.begin(1).stage(JOB, dataset("1"))
    pair.write(staged.directory, (0, 0), (3, 1))
    # An attempt that was given up for lost had written it on the other node, too.
    pair.write(staged.directory, (3, 0))
    whole = OutputID.parse(staged.name)
    second = pair.begin(2)
    found = second.recovered_outputs()[whole]
    assert (found.kept, found.present) == (None, {0, 3})
    missing = second.stage_missing(JOB, whole, [1, 2], 4)
    written = pair.write(missing.directory, (0, 1), (1, 0))
    kept = second.publish(missing, description("1"), written)
    assert [each.index for each in kept.manifest.partitions] == [0, 1, 2, 3]
    assert kept.name == whole.name
    assert second.damage(kept) is None
    third = pair.begin(3)
    again = third.recovered_outputs()[whole].kept
    assert again is not None
    assert again.rows == 4 * ROWS
    assert third.damage(again) is None
    third.remove(again)
    assert [node.files() for node in pair.nodes] == [[], []]


def test_missing_partitions_without_rows_are_there_without_a_file(pair: Cluster) -> None:
    staged = pair.begin(1).stage(JOB, dataset("1"))
    pair.write(staged.directory, (0, 0))
    whole = OutputID.parse(staged.name)
    second = pair.begin(2)
    missing = second.stage_missing(JOB, whole, [1, 2], 3)
    # Spark's first task leaves a file, rows or not.
    node = pair.nodes[1]
    pair.leave(node.seen_from_it(missing.directory), 0, rows=0)
    written = [WrittenPartition(index, node.host, 0) for index in (0, 1)]
    kept = second.publish(missing, description("1"), written)
    assert [each.index for each in kept.manifest.partitions] == [0]
    found = pair.begin(3).recovered_outputs()[whole]
    assert found.kept is not None
    assert (found.present, found.number_of_partitions) == ({0, 1, 2}, 3)


def test_a_node_that_is_gone_takes_only_its_partitions_along(pair: Cluster) -> None:
    first = pair.begin(1)
    kept = pair.keep(first, "1", (0, 0), (1, 1), (2, 0))
    whole = OutputID.parse(str(kept.name))
    pair.nodes[1].kill()
    before = time.monotonic()
    second = pair.begin(2, timeout=1.5)
    assert 1.4 < time.monotonic() - before < SECONDS
    found = second.recovered_outputs()[whole]
    assert (found.kept, found.present, found.number_of_partitions) == (None, {0, 2}, 3)
    missing = second.stage_missing(JOB, whole, [1], 3)
    kept = second.publish(missing, description("1"), pair.write(missing.directory, (0, 0)))
    assert (kept.rows, kept.holders) == (3 * ROWS, (0, 1, 0))
    # The node comes back with what it had: it is taken over, and not mistaken for a part.
    pair.nodes[1].start()
    assert comes(lambda: len(second.known_executors) == 2)
    third = pair.begin(3)
    again = third.recovered_outputs()[whole].kept
    assert again is not None
    assert again.manifest.partitions == kept.manifest.partitions
    third.release_all()
    assert [node.files() for node in pair.nodes] == [[], []]


def test_a_start_waits_for_the_executors_that_were_known(pair: Cluster) -> None:
    pair.keep(pair.begin(1), "1", (0, 0), (1, 1))
    for node in pair.nodes:
        node.kill()
    threads = [
        threading.Timer(delay, node.start)
        for delay, node in zip((0.5, 1.0), pair.nodes, strict=True)
    ]
    for thread in threads:
        thread.start()
    second = pair.begin(2)
    for thread in threads:
        thread.join()
    (found,) = second.recovered_outputs().values()
    assert found.kept is not None
    assert second.damage(found.kept) is None


def test_nobody_is_waited_for_who_was_not_known(pair: Cluster) -> None:
    pair.nodes[1].kill()
    before = time.monotonic()
    storage = pair.begin(1, wait_for=[pair.nodes[0].address, "node-9:7117"])
    assert time.monotonic() - before < SECONDS / 2
    assert storage.known_executors == (pair.nodes[0].address,)


def test_an_executor_that_hangs_is_waited_for_no_longer_than_the_timeout(pair: Cluster) -> None:
    os.kill(pair.nodes[1].process.pid, signal.SIGSTOP)
    try:
        before = time.monotonic()
        storage = pair.begin(1, timeout=1)
        assert time.monotonic() - before < SECONDS / 2
        assert storage.known_executors == (pair.nodes[0].address,)
    finally:
        os.kill(pair.nodes[1].process.pid, signal.SIGCONT)
    assert comes(lambda: len(storage.known_executors) == 2)


def test_without_any_executor_nothing_can_be_recovered(cluster: Cluster, ports: list[int]) -> None:
    node = cluster.add(ports[0])
    node.kill()
    with pytest.raises(StorageError, match="no task executor is available"):
        cluster.begin(1, timeout=0.5)


def test_executors_that_are_killed_in_between_lose_nothing(
    cluster: Cluster, ports: list[int]
) -> None:
    node = cluster.add(ports[0])
    first = cluster.begin(1)
    kept = cluster.keep(first, "1", (0, 0), (1, 0))
    half_done = first.stage(JOB, dataset("2"))
    cluster.write(half_done.directory, (1, 0))
    node.kill()
    node.start()
    # The driver goes on.
    assert comes(lambda: first.damage(kept) is None)
    again = cluster.keep(first, "3", (0, 0))
    assert first.damage(again) is None
    node.kill()
    node.start()
    second = cluster.begin(2)
    found = {output.dataset_id: each for output, each in second.recovered_outputs().items()}
    assert {key: (each.kept is not None, each.present) for key, each in found.items()} == {
        dataset("1"): (True, {0, 1}),
        dataset("2"): (False, {1}),
        dataset("3"): (True, {0}),
    }


def test_a_part_on_an_executor_that_dies_is_not_published(pair: Cluster) -> None:
    staged = pair.begin(1).stage(JOB, dataset("1"))
    pair.write(staged.directory, (0, 0), (1, 1))
    whole = OutputID.parse(staged.name)
    second = pair.begin(2)
    missing = second.stage_missing(JOB, whole, [2], 3)
    written = pair.write(missing.directory, (0, 0))
    pair.nodes[1].kill()
    with pytest.raises(LocationsIncompleteError):
        second.publish(missing, description("1"), written)
    second.discard(missing)
    pair.nodes[1].start()
    found = pair.begin(3).recovered_outputs()[whole]
    assert (found.kept, found.present) == (None, {0, 1})


# -- what the environment keeps as well


@pytest.fixture
def environment(pair: Cluster) -> Iterator[TaskExecutorStorage]:
    """What an environment keeps with the executors of a pair."""
    storage = TaskExecutorStorage(
        {node.address: node.gateway() for node in pair.nodes},
        ApplicationID.random(),
        lease_seconds=60,
        heartbeat_seconds=0.1,
        version=__version__,
    )
    yield storage
    storage.close()


def places(kept: KeptDataSet) -> list[tuple[int, int]]:
    """Of each partition the index and the directory."""
    holders = kept.holders or (0,) * len(kept.manifest.partitions)
    indices = [partition.index for partition in kept.manifest.partitions]
    return list(zip(indices, holders, strict=True))


def test_what_a_job_has_kept_stays_with_the_environment_when_it_ends(
    pair: Cluster, environment: TaskExecutorStorage
) -> None:
    first = pair.begin(1)
    staged = first.stage(JOB, dataset("1"))
    written = pair.write(staged.directory, (0, 0), (1, 1), (3, 0))
    # Tasks without rows leave no file.
    rowless = [WrittenPartition(index, pair.nodes[1].host, 0) for index in (2, 4)]
    kept = first.publish(staged, description("1"), [*written, *rowless])
    linked = first.link_into(kept, environment, OTHER_JOB)
    assert linked.manifest.dataset == kept.manifest.dataset
    assert places(linked) == places(kept) == [(0, 0), (1, 1), (3, 0)]
    assert set(linked.directories).isdisjoint(kept.directories)
    environment.end_job(OTHER_JOB)
    first.release_all()
    assert environment.damage(linked) is None
    assert [len(node.files()) for node in pair.nodes] == [2, 1]
    for node in pair.nodes:
        (report,) = node.gateway().report(environment.application)
        assert report.number_of_partitions == 5
    environment.remove(linked)
    assert [node.files() for node in pair.nodes] == [[], []]


def test_what_the_environment_lets_go_of_stays_with_the_job(
    pair: Cluster, environment: TaskExecutorStorage
) -> None:
    first = pair.begin(1)
    kept = pair.keep(first, "1", (0, 0), (1, 1))
    environment.remove(first.link_into(kept, environment, OTHER_JOB))
    assert first.damage(kept) is None
    assert [len(node.files()) for node in pair.nodes] == [1, 1]


def test_what_several_starts_have_made_is_linked_from_all_of_its_outputs(
    pair: Cluster, environment: TaskExecutorStorage
) -> None:
    staged = pair.begin(1).stage(JOB, dataset("1"))
    pair.write(staged.directory, (1, 0), (3, 1))
    # An attempt that was given up for lost had written it on the other node, too.
    pair.write(staged.directory, (3, 0))
    whole = OutputID.parse(staged.name)
    second = pair.begin(2)
    missing = second.stage_missing(JOB, whole, [0, 2], 4)
    # Of the first partition there are no rows, and no file.
    node = pair.nodes[1]
    pair.leave(node.seen_from_it(missing.directory), 0, rows=0)
    pair.leave(node.seen_from_it(missing.directory), 1, rows=ROWS)
    written = [WrittenPartition(0, node.host, 0), WrittenPartition(1, node.host, ROWS)]
    kept = second.publish(missing, description("1"), written)
    assert [each.index for each in kept.manifest.partitions] == [1, 2, 3]
    third = pair.begin(3)
    found = third.recovered_outputs()[whole].kept
    assert found is not None
    linked = third.link_into(found, environment, OTHER_JOB)
    assert [each.index for each in linked.manifest.partitions] == [1, 2, 3]
    third.release_all()
    assert environment.damage(linked) is None
    assert linked.rows == 3 * ROWS
    assert sum(len(node.files()) for node in pair.nodes) == 3


def test_a_dataset_without_rows_is_linked(pair: Cluster, environment: TaskExecutorStorage) -> None:
    first = pair.begin(1)
    staged = first.stage(JOB, dataset("1"))
    pair.leave(pair.nodes[0].seen_from_it(staged.directory), 0, rows=0)
    written = [WrittenPartition(index, pair.nodes[index].host, 0) for index in (0, 1)]
    kept = first.publish(staged, description("1"), written)
    linked = first.link_into(kept, environment, OTHER_JOB)
    assert (linked.rows, places(linked)) == (0, [(0, 0)])
    assert environment.damage(linked) is None


def test_a_start_that_was_taken_over_leaves_nothing_with_the_environment(
    pair: Cluster, environment: TaskExecutorStorage
) -> None:
    first = pair.begin(1)
    kept = pair.keep(first, "1", (0, 0), (1, 1))
    second = pair.begin(2)
    with pytest.raises(StaleEpochError):
        first.link_into(kept, environment, OTHER_JOB)
    for node in pair.nodes:
        assert node.gateway().report(environment.application) == ()
    assert [len(node.files()) for node in pair.nodes] == [1, 1]
    (found,) = second.recovered_outputs().values()
    assert found.kept is not None
    # Nor has the environment taken it for a word about itself.
    linked = second.link_into(found.kept, environment, OTHER_JOB)
    assert environment.damage(linked) is None


def test_what_lies_on_an_executor_that_is_gone_is_linked_not_at_all(
    pair: Cluster, environment: TaskExecutorStorage
) -> None:
    first = pair.begin(1)
    kept = pair.keep(first, "1", (0, 0), (1, 1))
    pair.nodes[1].kill()
    with pytest.raises(LocationsIncompleteError):
        first.link_into(kept, environment, OTHER_JOB)
    gateway = pair.nodes[0].gateway()
    assert gateway.report(environment.application) == ()
    assert len(pair.nodes[0].files()) == 1


def test_what_was_damaged_is_linked_not_at_all(
    pair: Cluster, environment: TaskExecutorStorage
) -> None:
    first = pair.begin(1)
    kept = pair.keep(first, "1", (0, 0), (1, 1))
    (file,) = pair.nodes[1].directory.rglob("part-*.parquet")
    file.unlink()
    with pytest.raises(StorageError):
        first.link_into(kept, environment, OTHER_JOB)
    assert [len(node.files()) for node in pair.nodes] == [1, 0]


# -- two live drivers


class Driver:
    """A start in a process of its own."""

    def __init__(self, *arguments: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("lone_driver.py")), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.answer() == "ready"

    def answer(self) -> str:
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def does(self, step: str, digit: str) -> str:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{step} {digit}\n")
        self.process.stdin.flush()
        return self.answer()

    def send(self, number: int) -> None:
        os.kill(self.process.pid, number)

    def end(self) -> None:
        self.process.kill()
        self.process.communicate()


def outlived(driver: Driver, begin: Callable[[int], RecoveryStorage]) -> None:
    """A driver is stopped, another one takes over, and the first one wakes up."""
    for digit in "123":
        assert driver.does("stage", digit) == "done"
        assert driver.does("write", digit) == "done"
    assert driver.does("publish", "1") == "done"
    driver.send(signal.SIGSTOP)
    second = begin(2)
    found = {output.dataset_id: each for output, each in second.recovered_outputs().items()}
    assert {key: (each.kept is not None, each.present) for key, each in found.items()} == {
        dataset("1"): (True, {0, 1}),
        dataset("2"): (False, {0, 1}),
        dataset("3"): (False, {0, 1}),
    }
    driver.send(signal.SIGCONT)
    # Its tasks still write; but it can publish nothing, look up nothing, and begin nothing.
    assert driver.does("write", "2") == "done"
    for step, digit in (("publish", "2"), ("damage", "1"), ("stage", "4"), ("publish", "3")):
        assert driver.does(step, digit) == "StaleEpochError"
    # What would let go of something doesn't.
    for step, digit in (("remove", "1"), ("discard", "2"), ("end", "0")):
        assert driver.does(step, digit) == "done"
    with pytest.raises(StaleEpochError):
        begin(1)
    for output, each in second.recovered_outputs().items():
        if each.kept is None:
            second.publish_salvaged(JOB, output, description(output.dataset_id.hex[0]), 2)
        else:
            assert second.damage(each.kept) is None
    third = begin(3).recovered_outputs().values()
    assert [each.kept is not None and each.kept.rows for each in third] == [2 * ROWS] * 3


@pytest.fixture
def lone_driver() -> Iterator[Callable[..., Driver]]:
    """Starts drivers that end with the test."""
    drivers: list[Driver] = []

    def start(*arguments: str) -> Driver:
        drivers.append(Driver(*arguments))
        return drivers[-1]

    yield start
    for driver in drivers:
        driver.end()


def test_a_driver_that_wakes_up_can_do_nothing_at_an_executor(
    cluster: Cluster, start: Any, tmp_path: Path, lone_driver: Callable[..., Driver]
) -> None:
    executor = start(tmp_path / "kept").serving()

    def begin(epoch: int) -> RecoveryStorage:
        storage = RecoveryStorage(
            {executor.address: executor.gateway()},
            RecoveryClaim(JOB, epoch),
            retention_seconds=600,
            heartbeat_seconds=0.2,
            version=__version__,
        )
        cluster.storages.append(storage)
        return storage

    outlived(lone_driver("1", executor.address, executor.token), begin)


def test_partitions_are_served_to_the_newest_start_alone(
    cluster: Cluster, ports: list[int]
) -> None:
    node = cluster.add(ports[0])

    def status(kept: KeptDataSet) -> int:
        path = kept.locations[0].removeprefix(f"webhdfs://{node.host}:{node.port}/")
        url = f"http://{node.address}/webhdfs/v1/{path}?op=OPEN&offset=0"
        return urllib3.request("GET", url, redirect=False).status

    first = cluster.begin(1)
    kept = cluster.keep(first, "1", (0, 0))
    assert status(kept) == 200
    second = cluster.begin(2)
    (found,) = second.recovered_outputs().values()
    assert found.kept is not None
    assert (status(kept), status(found.kept)) == (404, 200)


def test_a_driver_that_wakes_up_can_do_nothing_on_its_machine(
    cluster: Cluster, tmp_path: Path, lone_driver: Callable[..., Driver]
) -> None:
    def begin(epoch: int) -> RecoveryStorage:
        claim = RecoveryClaim(JOB, epoch)
        storage = embedded_recovery_storage(tmp_path / "kept", claim, retention_seconds=600)
        cluster.storages.append(storage)
        return storage

    outlived(lone_driver("1", str(tmp_path / "kept")), begin)
