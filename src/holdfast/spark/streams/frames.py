"""How records travel from a task to the driver: frames on a socket, and the demand for them."""

from __future__ import annotations

import hashlib
import struct
from typing import Any, NamedTuple

from holdfast.streaming.sealing import SealKey

__all__ = ["DEMAND", "FRAME", "HELLO", "NONCE_BYTES", "STOP", "Frame", "Hello", "frame_mac"]

NONCE_BYTES = 16
"""The driver begins with this many bytes that it has never used before."""

MAC_BYTES = 32

HELLO = struct.Struct(f">II{MAC_BYTES}s")
"""The task answers: its subtask, its attempt, and a proof that it knows the key."""

FRAME = struct.Struct(f">IQ{MAC_BYTES}s")
"""Before each frame: how many records (0: none will follow), how many bytes, and their seal."""

DEMAND = struct.Struct(">I")
"""The driver asks for this many records more."""

STOP = 0
"""A demand that says that nothing more is wanted."""


class Hello(NamedTuple):
    """What a task says of itself.

    Attributes:
        subtask: its index.
        attempt: how often Spark has tried it before.
    """

    subtask: int
    attempt: int


class Frame(NamedTuple):
    """Records on their way.

    Attributes:
        records: how many; 0: the task has no more.
        payload: their pickle.
    """

    records: int
    payload: Any


def frame_mac(key: SealKey, nonce: bytes, number: int, records: int, payload: Any) -> bytes:
    """What shows that a frame comes from a task, in its place, on this very connection.

    Args:
        key: of the channel.
        nonce: of the connection.
        number: how many frames came before it.
        records: how many records it holds.
        payload: their pickle.
    """
    content = hashlib.sha256(payload).digest()
    return key.sign(nonce + struct.pack(">QQ", number, records) + content)


def hello_mac(key: SealKey, nonce: bytes, hello: Hello) -> bytes:
    """What shows that a connection is a task's.

    Args:
        key: of the channel.
        nonce: of the connection.
        hello: what the task says of itself.
    """
    return key.sign(b"hello" + nonce + struct.pack(">II", *hello))
