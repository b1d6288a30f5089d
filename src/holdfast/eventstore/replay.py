"""Reads a log back: its longest valid prefix, whatever became of its files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from zlib import crc32

from holdfast.eventstore.event_file import HEADER_SIZE, EventFileName, read_header
from holdfast.eventstore.events import JobEvent
from holdfast.eventstore.log_position import START, LogPosition
from holdfast.eventstore.record_codec import CHECKSUM, LENGTH, RecordDecoder


@dataclass(frozen=True, slots=True)
class ReplayedLog:
    """What a log says.

    Attributes:
        events: its longest valid prefix, in the order in which the events were written.
        position: where it ends; a new store goes on from there.
        epochs: for each event the epoch that wrote it, as ranges: the epoch, and how many events
            it wrote, in their order.
        newest_epoch: the highest epoch that has begun to write here; 0 when none has.
        damage: what was found unreadable, one sentence each, for people. The log may well be whole
            in spite of it: the last record of a killed driver is cut off.
    """

    events: tuple[JobEvent, ...]
    position: LogPosition
    epochs: tuple[tuple[int, int], ...]
    newest_epoch: int
    damage: tuple[str, ...]


def replay(directory: Path) -> ReplayedLog:
    """The events that were recorded in a directory.

    Reads only; a log that somebody is still writing gives what is there by now. What a stale epoch
    wrote after a newer one had taken over doesn't count.

    Args:
        directory: of one job; it need not exist.

    Returns:
        the longest valid prefix. Whatever is wrong ends it, and nothing raises.

    Source: FLIP-383, "We can obtain the initialization information from the replayed events".

    >>> replay(Path("/nowhere")).events
    ()
    """
    try:
        names = event_files(directory)
    except FileNotFoundError:
        return replay_files(directory, {})
    except OSError as error:
        return ReplayedLog((), START, (), 0, (f"{directory} can't be read: {error}",))
    return replay_files(directory, names)


def event_files(directory: Path) -> dict[EventFileName, Path]:
    """The files of events in a directory, in the order in which they were begun.

    Raises:
        OSError: when the directory can't be read.
    """
    named = {EventFileName.parse(path.name): path for path in directory.iterdir()}
    return {name: named[name] for name in sorted(name for name in named if name is not None)}


def replay_files(directory: Path, names: Mapping[EventFileName, Path]) -> ReplayedLog:
    """Like `replay`, of files that have been listed."""
    events: list[JobEvent] = []
    epochs: list[tuple[int, int]] = []
    damage: list[str] = []
    decoder, position = RecordDecoder(), START
    for name, limit in _with_limits(_of_newest_line(list(names))):
        # Cut off by a later file, or not attached to what was read so far.
        if name.first >= limit or name.first != len(events):
            continue
        try:
            data = names[name].read_bytes()
            before, checksum = read_header(name, data)
        except (OSError, ValueError) as error:
            damage.append(f"ignoring {name}: {error}")
            continue
        if before != position.checksum:
            damage.append(f"ignoring {name}: it continues another log")
            continue
        found, checksum, flaw = _records(data, checksum, limit - len(events), decoder)
        if found:
            events += found
            epochs.append((name.epoch, len(found)))
            position = LogPosition(len(events), checksum, name.epoch)
        if flaw:
            damage.append(f"{name} is valid up to event {len(found)}: {flaw}")
    newest = max((name.epoch for name in names), default=0)
    return ReplayedLog(tuple(events), position, _joined(epochs), newest, tuple(damage))


def _of_newest_line(names: list[EventFileName]) -> list[EventFileName]:
    """The files of the newest epoch, of the one that it goes on from, and so on."""
    previous: dict[int, int] = {}
    for name in names:
        previous.setdefault(name.epoch, name.previous)
    line, epoch = set(), max(previous, default=0)
    while epoch in previous:
        line.add(epoch)
        epoch = previous[epoch]
    return [name for name in names if name.epoch in line]


def _with_limits(names: list[EventFileName]) -> list[tuple[EventFileName, float]]:
    """Each file with how many events of the log may come of it and of those before it."""
    limits: list[tuple[EventFileName, float]] = []
    lowest = float("inf")
    for name in reversed(names):
        limits.append((name, lowest))
        lowest = min(lowest, name.first)
    return limits[::-1]


def _records(
    data: bytes, checksum: int, wanted: float, decoder: RecordDecoder
) -> tuple[list[JobEvent], int, str | None]:
    """The valid records after a header, the last checksum, and what is wrong with what follows."""
    events: list[JobEvent] = []
    at, flaw = HEADER_SIZE, None
    # One name each: the loop runs once for every event there has been.
    decode, length_at, checksum_at = decoder.decode, LENGTH.unpack_from, CHECKSUM.unpack_from
    last_length_at = len(data) - LENGTH.size
    last_checksum_at = len(data) - CHECKSUM.size
    while at < len(data) and len(events) < wanted:
        if at > last_length_at:
            flaw = "truncated record"
            break
        end = at + LENGTH.size + length_at(data, at)[0]
        if end > last_checksum_at:
            flaw = "truncated record, or corrupt length"
            break
        found = crc32(data[at:end], checksum)
        if found != checksum_at(data, end)[0]:
            flaw = "corrupt record"
            break
        try:
            events.append(decode(data, at, end))
        except (ValueError, IndexError) as error:
            flaw = str(error)
            break
        checksum, at = found, end + CHECKSUM.size
    return events, checksum, flaw


def _joined(epochs: list[tuple[int, int]]) -> tuple[tuple[int, int], ...]:
    joined: list[tuple[int, int]] = []
    for epoch, count in epochs:
        if joined and joined[-1][0] == epoch:
            count += joined.pop()[1]
        joined.append((epoch, count))
    return tuple(joined)
