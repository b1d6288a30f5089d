"""Records become batches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.functions.output_tag import OutputTag
from holdfast.streaming.batch_size import BatchSize, take
from holdfast.streaming.batches import MAIN_CHANNEL, Batch
from holdfast.streaming.record_pickling import RecordPickler

__all__ = ["dealt", "encoded", "is_tagged", "split_by_tag"]

_DEALT_BYTES = 1 << 20


def encoded(
    records: Iterator[Any], operator: str, origin: int, channel: int = MAIN_CHANNEL
) -> Iterator[Batch]:
    """Batches of records, in their order.

    Args:
        records: taken as batches are asked for.
        operator: the name of the operator that they come out of.
        origin: the index of this subtask.
        channel: the output that they are of.
    """
    size = BatchSize()
    pickler = RecordPickler(operator)
    while taken := take(records, size.records):
        for part, payload in pickler.payloads(taken):
            size.learn(len(part), len(payload))
            yield Batch(channel, origin, len(part), payload)


def dealt(records: Iterator[Any], operator: str, origin: int, targets: int) -> Iterator[Batch]:
    """Batches of records that go to all targets in turn.

    Args:
        records: taken as batches are asked for.
        operator: the name of the operator that they come out of.
        origin: the index of this subtask, at which the turn begins.
        targets: how many targets there are.
    """
    size = BatchSize(_DEALT_BYTES)
    pickler = RecordPickler(operator)
    turn = origin % targets
    while taken := take(records, size.records):
        total = 0
        for start in range(min(targets, len(taken))):
            target = (turn + start) % targets
            for part, payload in pickler.payloads(taken[start::targets]):
                total += len(payload)
                yield Batch(MAIN_CHANNEL, target, len(part), payload)
        turn = (turn + len(taken)) % targets
        size.learn(len(taken), total)


def is_tagged(record: Any) -> bool:
    """Whether a process function has meant a record for a side output.

    Args:
        record: as the function gave it.

    >>> is_tagged((OutputTag("late"), 1)), is_tagged(("late", 1))
    (True, False)
    """
    return type(record) is tuple and len(record) == 2 and isinstance(record[0], OutputTag)


def split_by_tag(
    records: Iterator[Any], operator: str, origin: int, channels: dict[OutputTag | None, int]
) -> Iterator[Batch]:
    """Batches of the main output and of side outputs.

    Args:
        records: as a process function gave them.
        operator: the function's operator's name.
        origin: the index of this subtask.
        channels: the channels of the tags that count, and under None the main output's if it does.
    """
    size = BatchSize()
    pickler = RecordPickler(operator)
    while taken := take(records, size.records):
        held: dict[int, list[Any]] = {channel: [] for channel in channels.values()}
        for record in taken:
            tag, value = record if is_tagged(record) else (None, record)
            if tag in channels:
                held[channels[tag]].append(value)
        taken_bytes = 0
        for channel, own in held.items():
            if own:
                for part, payload in pickler.payloads(own):
                    taken_bytes += len(payload)
                    yield Batch(channel, origin, len(part), payload)
        size.learn(len(taken), taken_bytes)
