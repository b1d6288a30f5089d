"""An environment's side of task executors that are processes: they die, hang and come back."""

from __future__ import annotations

import os
import signal
import time

import pytest

from holdfast.errors import LocationsIncompleteError, StorageError
from holdfast.ids import ApplicationID
from tests.taskexecutor.callers import write
from tests.taskexecutor.nodes import ROWS, SECONDS, Drivers, comes

TWO = ((0, 0), (1, 0))


def test_what_is_kept_is_whole_until_it_is_removed_whatever_other_programs_do(
    lone: Drivers,
) -> None:
    storage, other = lone.environment(), lone.environment()
    kept = lone.keep(storage, "1", *TWO)
    assert kept.rows == 2 * ROWS
    (directory,) = kept.directories
    assert directory.startswith(f"webhdfs://node-0:{lone.nodes[0].port}/")
    assert [location.split("/part-")[0] for location in kept.locations] == [directory] * 2
    # Another program runs the same job.
    staged = lone.stage(other, "2")
    storage.end_job(lone.job)
    lone.write(staged, (0, 0))
    other.discard(staged)
    other.end_job(lone.job)
    assert storage.damage(kept) is None
    storage.remove(kept)
    assert storage.damage(kept) == "it has been released" and lone.files() == [0]
    lone.keep(storage, "3", *TWO)
    storage.close()
    assert comes(lambda: lone.files() == [0])


def test_an_executor_that_comes_back_has_what_it_kept_but_for_what_was_removed_meanwhile(
    lone: Drivers,
) -> None:
    (node,), storage = lone.nodes, lone.environment()
    kept, removed = lone.keep(storage, "1", *TWO), lone.keep(storage, "2", *TWO)
    node.kill()
    storage.remove(removed)
    assert "is unreachable" in str(storage.damage(kept))
    with pytest.raises(StorageError, match="is unreachable"):
        lone.stage(storage)
    assert lone.files() == [4]
    node.start()
    assert lone.can_stage(storage)
    assert storage.damage(kept) is None
    assert comes(lambda: lone.files() == [2])


def test_an_executor_that_comes_back_empty_has_lost_it(lone: Drivers) -> None:
    (node,), storage = lone.nodes, lone.environment()
    lost = lone.keep(storage, "1", *TWO)
    node.kill()
    (own,) = node.directory.glob(f"kept/application-{storage.application.hex}")
    own.rename(node.directory / own.name)
    # A task that wrote meanwhile has made it again.
    write(own / "staging" / "unknown", 0)
    node.start()
    assert lone.can_stage(storage)
    assert storage.damage(lost) == "it has been released"
    # And it keeps what is kept from now on.
    assert storage.damage(lone.keep(storage, "2", *TWO)) is None


def test_a_call_to_an_executor_that_hangs_ends_with_the_heartbeat_that_gets_no_answer(
    lone: Drivers,
) -> None:
    (node,), storage = lone.nodes, lone.environment()
    kept = lone.keep(storage, "1", *TWO)
    os.kill(node.process.pid, signal.SIGSTOP)
    try:
        # The call alone would wait for two minutes.
        before = time.monotonic()
        assert "is unreachable" in str(storage.damage(kept))
        assert time.monotonic() - before < SECONDS
        # From then on it is not waited for.
        with pytest.raises(StorageError, match="is unreachable"):
            lone.stage(storage)
    finally:
        os.kill(node.process.pid, signal.SIGCONT)
    assert comes(lambda: storage.damage(kept) is None)


def test_a_registration_whose_answer_was_lost_is_made_again(lone: Drivers) -> None:
    application = ApplicationID.random()
    lone.environment(application)
    # As when it was registered with this executor, and hasn't heard of it.
    again = lone.environment(application)
    assert again.damage(lone.keep(again, "1", *TWO)) is None


def test_what_its_executor_does_not_have_as_tasks_say_is_not_kept(lone: Drivers) -> None:
    (node,), storage = lone.nodes, lone.environment()
    staged = lone.stage(storage)
    (written,) = lone.write(staged, (0, 0))
    with pytest.raises(LocationsIncompleteError, match="node-9"):
        lone.publish(storage, staged, [written, written.__class__(1, "node-9", ROWS)])
    more = written.__class__(0, node.host, ROWS + 1)
    with pytest.raises(StorageError, match=f"wrote {ROWS + 1} rows, but its file has {ROWS}"):
        lone.publish(storage, staged, [more])
    storage.discard(staged)
    assert lone.files() == [0]
    staged = lone.stage(storage)
    written_too = lone.write(staged, (0, 0))
    node.kill()
    with pytest.raises(LocationsIncompleteError):
        lone.publish(storage, staged, written_too)
    # An end waits for no executor that is gone.
    storage.close()
