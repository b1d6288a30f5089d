"""The driver's end of a channel from tasks: takes records in the order of the subtasks."""

from __future__ import annotations

import hmac
import secrets
import selectors
import socket
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from holdfast.errors import RecordsRepeatedError
from holdfast.spark.streams.frames import (
    DEMAND,
    FRAME,
    HELLO,
    NONCE_BYTES,
    STOP,
    Frame,
    Hello,
    frame_mac,
    hello_mac,
)
from holdfast.streaming.record_pickling import unpickled
from holdfast.streaming.sealing import SealKey

__all__ = ["RecordReceiver"]

_READ = 1 << 20
_MOST_AHEAD_BYTES = 8 << 20
_MOST_AHEAD = 1 << 20
_POLL_S = 0.05
# Spark starts tasks in their order, as a rule; after this long it is asked whether all that run
# have come.
_PATIENCE_S = 2.0


@dataclass(slots=True, eq=False)
class _Sender:
    """A task at the other end.

    Attributes:
        connection: its socket.
        nonce: what its seals begin with.
        hello: who it is, once it has proved that it may.
        unread: what has come that is no whole frame yet.
        frames: what waits to be taken.
        number: how many frames have come.
        granted: how many records it has been asked for in all.
        taken: how many records of it have been handed out.
        ahead_bytes: the size of what waits.
        ended: it has no more records.
    """

    connection: socket.socket
    nonce: bytes
    hello: Hello | None = None
    unread: bytearray = field(default_factory=bytearray)
    frames: deque[Frame] = field(default_factory=deque)
    number: int = 0
    granted: int = 0
    taken: int = 0
    ahead_bytes: int = 0
    ended: bool = False


class RecordReceiver:
    """Takes the records of a job's last stage from its tasks.

    Nothing is asked for that is not wanted: a task is never ahead of its taker by more records than
    have been taken so far, and at least one. Not safe for use by several threads.

    Args:
        host: the address to listen on.
        eager: records are wanted as fast as they come.
        known_as: how tasks call that address; the same by default.

    Attributes:
        address: where tasks connect to.
        key: what they prove to be the job's with.
    """

    def __init__(self, host: str, *, eager: bool = False, known_as: str | None = None) -> None:
        self.key = SealKey.new()
        self._eager = eager
        self._listener = socket.create_server((host, 0), backlog=512)
        self._listener.setblocking(False)
        self.address: tuple[str, int] = (known_as or host, self._listener.getsockname()[1])
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._woken, self._waker = socket.socketpair()
        self._woken.setblocking(False)
        self._waker.setblocking(False)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._senders: dict[int, _Sender] = {}
        self._strangers: set[_Sender] = set()
        self._taken = 0
        self._next = 0
        self._waiting_since: float | None = None
        self._early: int | None = None

    def records(
        self, is_over: Callable[[], bool], running_tasks: Callable[[], int]
    ) -> Iterator[Any]:
        """The records of all subtasks, one after the other, in the order of the subtasks.

        Only where subtasks that have come leave no core to one whose turn is before theirs, they
        are taken first.

        Args:
            is_over: whether the job has ended, in which case no more will come; raises what it has
                failed with.
            running_tasks: how many tasks of the job run, be it that they have not come yet.

        Raises:
            RecordsRepeatedError: when Spark runs a task again of which records have been taken.
        """
        while True:
            current = self._current() or self._out_of_turn(is_over, running_tasks)
            if current is not None and current.frames:
                yield from self._take(current)
                continue
            over = is_over()
            done = over and self._is_drained()
            if not self._pump(current, wait=not done) and done:
                return

    def is_called(self) -> bool:
        """Whether anybody has connected, or waits to be let in: no task before the last stage."""
        if self._senders or self._strangers:
            return True
        return any(key.fileobj is self._listener for key, _ in self._selector.select(0))

    def wake(self) -> None:
        """Has whoever waits for records ask at once whether the job has ended."""
        with suppress(OSError):
            self._waker.send(b"!")

    def dismiss(self) -> None:
        """Tells all tasks that nothing more is wanted; those of another job may come then."""
        for sender in (*self._senders.values(), *self._strangers):
            with suppress(OSError):
                sender.connection.sendall(DEMAND.pack(STOP))
            self._unregister(sender)
        self._senders.clear()
        self._strangers.clear()
        self._taken = 0
        self._next = 0
        self._waiting_since = None
        self._early = None

    def close(self) -> None:
        """Tells all tasks that nothing more is wanted. Does nothing the second time."""
        self.dismiss()
        self._selector.close()
        for end in (self._listener, self._woken, self._waker):
            end.close()

    def _current(self) -> _Sender | None:
        """The subtask whose turn it is, or that was begun; None while there is none."""
        early = None if self._early is None else self._senders.get(self._early)
        if early is not None and (early.frames or not early.ended):
            return early
        while True:
            sender = self._senders.get(self._next)
            if sender is None:
                return None
            self._waiting_since = None
            if not sender.ended or sender.frames:
                return sender
            self._next += 1

    def _out_of_turn(
        self, is_over: Callable[[], bool], running_tasks: Callable[[], int]
    ) -> _Sender | None:
        """A subtask that has come, where the one whose turn it is can't come before it is taken."""
        waiting = {
            subtask: sender
            for subtask, sender in self._senders.items()
            if sender.frames or not sender.ended
        }
        if not waiting:
            self._waiting_since = None
            return None
        now = time.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        if now - self._waiting_since < _PATIENCE_S:
            return None
        holding_cores = sum(not sender.ended for sender in waiting.values())
        if not is_over() and (not holding_cores or running_tasks() > holding_cores):
            self._waiting_since = now
            return None
        self._early = min(waiting)
        return waiting[self._early]

    def _take(self, sender: _Sender) -> Iterator[Any]:
        frame = sender.frames.popleft()
        sender.ahead_bytes -= len(frame.payload)
        for record in unpickled(frame.payload):
            sender.taken += 1
            self._taken += 1
            yield record

    def _is_drained(self) -> bool:
        return all(sender.ended and not sender.frames for sender in self._senders.values())

    # -- the wire ---------------------------------------------------------------------------------

    def _pump(self, current: _Sender | None, *, wait: bool) -> bool:
        """Asks for records and takes in what has come. Tells whether anything has."""
        for sender in self._senders.values():
            self._demand(sender, sender is current)
        came = False
        for key, _ in self._selector.select(_POLL_S if wait else 0):
            if key.fileobj is self._woken:
                self._wakened()
            elif key.data is None:
                self._accept()
            elif self._has_room(key.data, key.data is current):
                self._read(key.data)
            else:
                continue
            came = True
        if wait and not came and self._senders:
            # Only those may be readable for which there is no room.
            time.sleep(0.001)
        return came

    def _has_room(self, sender: _Sender, is_current: bool) -> bool:
        return is_current or sender.ahead_bytes < _MOST_AHEAD_BYTES

    def _demand(self, sender: _Sender, is_current: bool) -> None:
        if sender.ended or (sender.frames and is_current):
            return
        ahead = _MOST_AHEAD if self._eager else min(max(1, self._taken), _MOST_AHEAD)
        more = sender.taken + ahead - sender.granted
        # Asked for in few words, unless somebody is waiting.
        if more <= 0 or (not is_current and 2 * more < ahead):
            return
        sender.granted += more
        with suppress(OSError):
            sender.connection.sendall(DEMAND.pack(more))

    def _wakened(self) -> None:
        with suppress(OSError):
            self._woken.recv(_READ)

    def _accept(self) -> None:
        with suppress(OSError):
            connection, _ = self._listener.accept()
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            sender = _Sender(connection, secrets.token_bytes(NONCE_BYTES))
            connection.sendall(sender.nonce)
            self._strangers.add(sender)
            self._selector.register(connection, selectors.EVENT_READ, sender)

    def _read(self, sender: _Sender) -> None:
        try:
            data = sender.connection.recv(_READ)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self._gone(sender)
            return
        sender.unread += data
        if sender.hello is None and not self._welcome(sender):
            return
        self._unpack(sender)

    def _welcome(self, sender: _Sender) -> bool:
        if len(sender.unread) < HELLO.size:
            return False
        subtask, attempt, mac = HELLO.unpack_from(sender.unread)
        hello = Hello(subtask, attempt)
        if not hmac.compare_digest(mac, hello_mac(self.key, sender.nonce, hello)):
            self._gone(sender)
            return False
        del sender.unread[: HELLO.size]
        known = self._senders.get(subtask)
        if known is not None:
            if known.taken:
                raise RecordsRepeatedError(subtask, known.taken)
            self._gone(known)
        sender.hello = hello
        self._strangers.discard(sender)
        self._senders[subtask] = sender
        return True

    def _unpack(self, sender: _Sender) -> None:
        start = 0
        while len(sender.unread) - start >= FRAME.size:
            records, size, mac = FRAME.unpack_from(sender.unread, start)
            if len(sender.unread) - start < FRAME.size + size:
                break
            start += FRAME.size
            payload = bytes(memoryview(sender.unread)[start : start + size])
            start += size
            wanted = frame_mac(self.key, sender.nonce, sender.number, records, payload)
            if not hmac.compare_digest(mac, wanted):
                self._gone(sender)
                return
            sender.number += 1
            if records:
                sender.frames.append(Frame(records, payload))
                sender.ahead_bytes += size
            else:
                sender.ended = True
                with suppress(OSError):
                    sender.connection.sendall(DEMAND.pack(STOP))
        del sender.unread[:start]

    def _gone(self, sender: _Sender) -> None:
        """A connection has ended; whether the task has, the job will tell."""
        self._unregister(sender)
        self._strangers.discard(sender)
        if sender.hello is not None and not sender.ended and not sender.taken:
            self._senders.pop(sender.hello.subtask, None)

    def _unregister(self, sender: _Sender) -> None:
        with suppress(KeyError, ValueError):
            self._selector.unregister(sender.connection)
        sender.connection.close()
