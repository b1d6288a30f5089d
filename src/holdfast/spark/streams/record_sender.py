"""The task's end of a channel to the driver: sends records as they are asked for."""

from __future__ import annotations

import select
import socket
from collections.abc import Iterator
from typing import Any

from holdfast.spark.streams.frames import (
    DEMAND,
    FRAME,
    HELLO,
    NONCE_BYTES,
    STOP,
    Hello,
    frame_mac,
    hello_mac,
)
from holdfast.streaming.batch_size import BatchSize, take
from holdfast.streaming.record_pickling import RecordPickler
from holdfast.streaming.sealing import SealKey

__all__ = ["ReceiverGoneError", "RecordSender"]

_CONNECT_S = 30


class ReceiverGoneError(ConnectionError):
    """The driver has closed the channel: it wants no more records, or has ended."""


class RecordSender:
    """Sends one subtask's records to the driver, none before it is asked for.

    Args:
        address: host and port where the driver listens.
        key: of the channel.
        hello: which subtask it is.
        operator: the name of the operator that the records come out of.

    Raises:
        ReceiverGoneError: when nobody listens there, or no more.
    """

    def __init__(self, address: tuple[str, int], key: SealKey, hello: Hello, operator: str) -> None:
        self._key = key
        self._pickler = RecordPickler(operator)
        self._size = BatchSize()
        self._number = 0
        self._wanted = 0
        try:
            self._socket = socket.create_connection(address, _CONNECT_S)
        except ConnectionRefusedError as error:
            raise ReceiverGoneError(
                f"nobody listens for the records of {operator!r} at {address[0]}:{address[1]}: the "
                f"driver wants no more of them, or has ended"
            ) from error
        self._socket.settimeout(None)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._nonce = self._received(NONCE_BYTES)
        self._put(HELLO.pack(*hello, hello_mac(key, self._nonce, hello)))

    def send(self, records: Iterator[Any]) -> int:
        """Sends records until there are no more, or no more are wanted.

        Args:
            records: taken as they are asked for.

        Returns:
            how many were sent.

        Raises:
            ReceiverGoneError: when the driver has closed the channel.
            RecordNotSerializableError: when a record can't be pickled.
        """
        sent = 0
        while self._is_wanted():
            taken = take(records, min(self._wanted, self._size.records))
            if not taken:
                self._send(0, b"")
                # Closed before a demand that is under way arrives, TCP would drop what was sent.
                while self._is_wanted():
                    self._wanted = 0
                break
            for part, payload in self._pickler.payloads(taken):
                self._size.learn(len(part), len(payload))
                self._send(len(part), payload)
            self._wanted -= len(taken)
            sent += len(taken)
        return sent

    def close(self) -> None:
        """Closes the connection."""
        self._socket.close()

    def _is_wanted(self) -> bool:
        """Whether records are asked for; waits until that is known."""
        while not self._wanted or select.select([self._socket], [], [], 0)[0]:
            (more,) = DEMAND.unpack(self._received(DEMAND.size))
            if more == STOP:
                return False
            self._wanted += more
        return True

    def _send(self, records: int, payload: bytes) -> None:
        mac = frame_mac(self._key, self._nonce, self._number, records, payload)
        self._number += 1
        self._put(FRAME.pack(records, len(payload), mac))
        self._put(payload)

    def _put(self, data: bytes) -> None:
        try:
            self._socket.sendall(data)
        except OSError as error:
            raise ReceiverGoneError("the driver has closed the channel") from error

    def _received(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            try:
                more = self._socket.recv(size - len(data))
            except OSError as error:
                raise ReceiverGoneError("the driver has closed the channel") from error
            if not more:
                raise ReceiverGoneError("the driver has closed the channel")
            data += more
        return data
