"""`holdfast ls`, `show` and `rm` of what several task executors keep, here in this process."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.cli.datasets import executor_source
from holdfast.errors import TaskExecutorUnreachableError, UnknownDataSetError
from holdfast.ids import ApplicationID, JobID
from holdfast.taskexecutor.partitions.partition_info import OutputID
from holdfast.taskexecutor.task_executor import TaskExecutor
from tests.taskexecutor.callers import Caller, output_of
from tests.unit.listed_results import Command

ONE, TWO = "left:1", "right:2"


class Cluster:
    """Two task executors, and an application that has outputs on both."""

    def __init__(self, home: Path) -> None:
        self.executors = {}
        self.application, job_id = ApplicationID.random(), JobID.random()
        self.callers = []
        for address in (ONE, TWO):
            executor = TaskExecutor(home / address, executor_id=address, host=address)
            self.callers.append(Caller(executor, self.application, job_id).connect())
            # Asked over a network otherwise.
            executor.address = address  # type: ignore[attr-defined]
            self.executors[address] = executor

    def keep(self, digit: str, *indices: tuple[int, ...], number: int) -> OutputID:
        """Has each executor keep the partitions that are given for it."""
        output = output_of(digit)
        for caller, own in zip(self.callers, indices, strict=True):
            if own:
                caller.keep(output, *own, number=number)
        return output


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path)
    yield cluster
    for executor in cluster.executors.values():
        executor.close()


@pytest.fixture
def asked(
    cluster: Cluster, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> Callable[..., Command]:
    """The command over some of the executors."""
    monkeypatch.setenv("HOLDFAST_TOKEN", "0123456789abcdef" * 2)
    monkeypatch.setattr(executor_source.footer, "contents_of", lambda *_: None)
    monkeypatch.setattr(
        executor_source,
        "remote_executors",
        lambda addresses, *_: {each: cluster.executors[each] for each in addresses},
    )
    return lambda *addresses: Command(capsys, "--executors", ",".join(addresses or (ONE, TWO)))


def test_executors_are_put_together(cluster: Cluster, asked: Callable[..., Command]) -> None:
    output = cluster.keep("1", (0, 2), (1,), number=3)
    for executor in cluster.executors.values():
        executor.heartbeat(cluster.application, {output: 7})
    (found,) = asked().json("ls")
    expected = {
        "id": output.name,
        "application": cluster.application.hex,
        "computes": "rows",
        "state": "complete",
        "partitions_found": 3,
        "number_of_partitions": 3,
        "rows": 9,
        "hits": 7,
        "created": "2026-11-21T00:00:00+00:00",
    }
    assert found == {**found, **expected}
    places = [(place["executor"], place["partitions"]) for place in found["places"]]
    assert places == [(ONE, 2), (TWO, 1)]
    assert found["bytes"] == sum(place["bytes"] for place in found["places"])
    text = asked().shows("show", "1111")
    assert f"task executor {ONE}" in text and f"task executor {TWO}" in text
    # Of every partition but the first there may be no file, so the second may just have no rows.
    cluster.keep("3", (0,), (1,), number=2)
    for address, state, mark in ((ONE, "unclear", "?"), (TWO, "incomplete", "!")):
        (shown,) = asked(address).json("show", "3333")
        assert (shown["state"], shown["partitions_found"]) == (state, 1)
        assert f" 1/2{mark}" in asked(address).shows("ls")
    # Two addresses of one executor count once.
    cluster.executors["localhost:1"] = cluster.executors[ONE]
    (found,) = asked(ONE, "localhost:1").json("show", "1111")
    assert (found["rows"], len(found["places"])) == (6, 1)


def test_a_damaged_dataset_is_marked_and_removed_from_every_executor(
    cluster: Cluster, asked: Callable[..., Command]
) -> None:
    output, other = cluster.keep("5", (0, 2), (1,), number=3), cluster.keep("6", (0,), (), number=1)
    (shown,) = asked().json("show", "5555")
    locations = [Path(each["location"]) for each in shown["partitions"]]
    assert [each["index"] for each in shown["partitions"]] == [0, 1, 2]
    assert all(each.is_file() for each in locations)
    locations[1].unlink()
    (shown,) = asked().json("show", "5555")
    assert (shown["state"], shown["damage"]) == ("damaged", "partition 1 is missing")
    assert [place["damage"] for place in shown["places"]] == [None, "partition 1 is missing"]
    (released,) = asked().json("rm", "5555")
    assert [place["executor"] for place in released["released"]] == [ONE, TWO]
    assert not any(each.exists() for each in locations)
    assert [each["id"] for each in asked().json("ls")] == [other.name]
    # This is what a job master asks before it has a job read something.
    for executor in cluster.executors.values():
        with pytest.raises(UnknownDataSetError):
            executor.damage(cluster.application, output)
    asked().refuses("show", "5555")


def test_one_that_does_not_answer_is_named_and_the_others_are_shown(
    cluster: Cluster, asked: Callable[..., Command], monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise TaskExecutorUnreachableError(ONE, "timed out")

    output = cluster.keep("1", (1,), (0, 2), number=3)
    for name in ("describe", "report", "release_outputs"):
        monkeypatch.setattr(cluster.executors[ONE], name, fail)
    code, out, err = asked()("ls")
    assert (code, len(err.splitlines())) == (1, 1)
    assert "is unreachable" in err and ONE in err and " 2/3? " in out
    code, out, err = asked()("show", "2222")
    assert (code, out) == (2, "") and "that responded" in err and output.name in err
    (released,) = asked().json("rm", output.name, code=1)
    assert [place["executor"] for place in released["released"]] == [TWO]
    assert asked().json("ls", code=1) == []


def test_without_a_token_executors_are_not_asked(
    asked: Callable[..., Command], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("HOLDFAST_TOKEN")
    assert "set it by --token-file or $HOLDFAST_TOKEN" in asked().refuses("ls")
    (tmp_path / "token").write_text("0123456789abcdef" * 2)
    asked().shows("ls", "--token-file", str(tmp_path / "token"))
