"""How an event is written: a record of a kind, numbers of fixed width, and texts.

Numbers are little-endian. A record is

    length of the body (4 bytes) · body · checksum (4 bytes)

where the body starts with the event's kind (1 byte), and the checksum is the CRC32 of length and
body that goes on from the checksum before it: the last record's, or that of the file's header. A
record thus fits one place of one log only.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import replace
from zlib import crc32

from holdfast.eventstore.events import (
    ExecutionJobVertexInitialized,
    ExecutionVertexFinished,
    ExecutionVertexReset,
    JobEvent,
    JobFinished,
    JobStatus,
)
from holdfast.ids import IntermediateDataSetID, JobVertexID
from holdfast.taskexecutor.partitions.partition_info import OutputID, PartitionMetrics

CHECKSUM = struct.Struct("<I")
LENGTH = struct.Struct("<I")

INITIALIZED, FINISHED, RESET, JOB_FINISHED, INITIALIZED_WITH_OUTPUT = 1, 2, 3, 4, 5
INITIALIZED_WITH_SNAPSHOT = 6

# Each starts with the record's length and kind.
_INITIALIZED = struct.Struct("<IBIBB")  # parallelism, digits of vertex and dataset (none: 0)
_FINISHED = struct.Struct("<IBBIIB")  # flags, subtask, attempt, digits of the vertex
_RESET = struct.Struct("<IBIB")  # how many subtasks, digits of the vertex
_JOB_FINISHED = struct.Struct("<IBB")  # status

# What follows an initialized vertex's dataset where the record names its output.
_ATTEMPT_BYTES = 4
# A record with a snapshot is one of the other two kinds, whose length comes first; the snapshot
# follows it.
_WITH_SNAPSHOT = struct.Struct("<IBI")

# What may follow a finished subtask's vertex: the output's dataset and attempt; bytes, rows.
_PARTITION = struct.Struct("<36sqq")
_DATASET_BYTES = 32
_HAS_PARTITION, _HAS_SNAPSHOT = 1, 2

_STATUS_CODES = {JobStatus.FINISHED: 0, JobStatus.FAILED: 1, JobStatus.CANCELED: 2}
_STATUSES = {code: status for status, code in _STATUS_CODES.items()}
_LONGEST_ID = 255


class RecordEncoder:
    """Makes records of events, and remembers the ids that it has met.

    >>> event = JobFinished(JobStatus.FINISHED)
    >>> record = RecordEncoder().encode(event, checksum=0)
    >>> RecordDecoder().decode(record, 0, len(record) - 4) == event
    True
    """

    def __init__(self) -> None:
        self._digits: dict[str, bytes] = {}

    def encode(self, event: JobEvent, checksum: int) -> bytes:
        """The record of an event.

        Args:
            event: the event.
            checksum: the one before it in the log.

        Returns:
            the record; its last four bytes are its checksum.

        Raises:
            ValueError: when an id has more than 255 digits.
        """
        # The most frequent one first.
        if type(event) is ExecutionVertexFinished:
            record = self._finished(event)
        elif type(event) is ExecutionJobVertexInitialized:
            record = self._initialized(event)
        elif type(event) is ExecutionVertexReset:
            record = self._reset(event)
        elif type(event) is JobFinished:
            code = _STATUS_CODES[event.status]
            record = _JOB_FINISHED.pack(_JOB_FINISHED.size - LENGTH.size, JOB_FINISHED, code)
        else:
            raise TypeError(f"expected a job event, got {event!r:.100}")
        return record + CHECKSUM.pack(crc32(record, checksum))

    def _finished(self, event: ExecutionVertexFinished) -> bytes:
        vertex = self._digits.get(event.vertex_id.hex) or self._learned(event.vertex_id.hex)
        flags, tail = 0, vertex
        if event.output is not None and event.metrics is not None:
            flags = _HAS_PARTITION
            output, metrics = event.output, event.metrics
            name = bytes.fromhex(output.dataset_id.hex + output.attempt)
            tail += _PARTITION.pack(name, metrics.bytes, metrics.rows)
        if event.coordinator_snapshot is not None:
            flags |= _HAS_SNAPSHOT
            tail += event.coordinator_snapshot
        length = _FINISHED.size - LENGTH.size + len(tail)
        start = _FINISHED.pack(length, FINISHED, flags, event.subtask, event.attempt, len(vertex))
        return start + tail

    def _initialized(self, event: ExecutionJobVertexInitialized) -> bytes:
        record = self._initialized_alone(event)
        snapshot = event.coordinator_snapshot
        if snapshot is None:
            return record
        length = _WITH_SNAPSHOT.size - LENGTH.size + len(record) + len(snapshot)
        start = _WITH_SNAPSHOT.pack(length, INITIALIZED_WITH_SNAPSHOT, len(record))
        return start + record + snapshot

    def _initialized_alone(self, event: ExecutionJobVertexInitialized) -> bytes:
        vertex = self._learned(event.vertex_id.hex)
        dataset = b"" if event.dataset_id is None else self._learned(event.dataset_id.hex)
        kind, attempt = INITIALIZED, b""
        if event.output is not None:
            kind, attempt = INITIALIZED_WITH_OUTPUT, bytes.fromhex(event.output.attempt)
        tail = vertex + dataset + attempt + event.split.encode()
        length = _INITIALIZED.size - LENGTH.size + len(tail)
        return _INITIALIZED.pack(length, kind, event.parallelism, len(vertex), len(dataset)) + tail

    def _reset(self, event: ExecutionVertexReset) -> bytes:
        vertex, count = self._learned(event.vertex_id.hex), len(event.subtasks)
        tail = vertex + struct.pack(f"<{count}I", *event.subtasks)
        length = _RESET.size - LENGTH.size + len(tail)
        return _RESET.pack(length, RESET, count, len(vertex)) + tail

    def _learned(self, digits: str) -> bytes:
        if len(digits) > _LONGEST_ID:
            raise ValueError(f"expected an id of at most {_LONGEST_ID} digits, got {digits!r:.100}")
        return self._digits.setdefault(digits, digits.encode())


class RecordDecoder:
    """Makes events of records, and gives equal ids only one object."""

    def __init__(self) -> None:
        self._vertices: dict[bytes, JobVertexID] = {}
        self._outputs: dict[bytes, OutputID] = {}
        self._kinds: dict[int, Callable[[bytes, int, int], JobEvent]] = {
            INITIALIZED: self._initialized,
            INITIALIZED_WITH_OUTPUT: self._initialized,
            INITIALIZED_WITH_SNAPSHOT: self._initialized_with_snapshot,
            FINISHED: self._finished,
            RESET: self._reset,
            JOB_FINISHED: self._job_finished,
        }

    def decode(self, data: bytes, start: int, end: int) -> JobEvent:
        """The event of a record whose checksum is right.

        Args:
            data: what the record is in.
            start: where it starts in there.
            end: where its checksum starts.

        Raises:
            ValueError: when it is no record of this form.
        """
        decode = self._kinds.get(data[start + LENGTH.size])
        if decode is None:
            raise ValueError(f"a record has unknown kind {data[start + LENGTH.size]}")
        try:
            return decode(data, start, end)
        except struct.error as error:
            raise ValueError(f"a record is too short: {error}") from error

    def _finished(self, data: bytes, start: int, end: int) -> ExecutionVertexFinished:
        _, _, flags, subtask, attempt, digits = _FINISHED.unpack_from(data, start)
        at = start + _FINISHED.size
        vertex = data[at : at + digits]
        vertex_id = self._vertices.get(vertex) or self._vertex(vertex)
        at += digits
        output, metrics, snapshot = None, None, None
        if flags & _HAS_PARTITION:
            name, size, rows = _PARTITION.unpack_from(data, at)
            output = self._outputs.get(name) or self._output(name)
            metrics = PartitionMetrics(size, rows)
            at += _PARTITION.size
        if flags & _HAS_SNAPSHOT:
            snapshot = data[at:end]
        elif at != end:
            raise ValueError("the length of a finished-subtask record is inconsistent")
        return ExecutionVertexFinished(vertex_id, subtask, attempt, output, metrics, snapshot)

    def _initialized(self, data: bytes, start: int, end: int) -> ExecutionJobVertexInitialized:
        _, kind, parallelism, digits, dataset_digits = _INITIALIZED.unpack_from(data, start)
        at = start + _INITIALIZED.size
        vertex_id = self._vertex(data[at : at + digits])
        at += digits
        dataset = data[at : at + dataset_digits].decode("ascii")
        at += dataset_digits
        dataset_id = IntermediateDataSetID(dataset) if dataset else None
        output = None
        if kind == INITIALIZED_WITH_OUTPUT:
            output = self._output(bytes.fromhex(dataset) + data[at : at + _ATTEMPT_BYTES])
            at += _ATTEMPT_BYTES
        split = data[at:end].decode()
        return ExecutionJobVertexInitialized(vertex_id, parallelism, dataset_id, split, output)

    def _initialized_with_snapshot(
        self, data: bytes, start: int, end: int
    ) -> ExecutionJobVertexInitialized:
        _, _, length = _WITH_SNAPSHOT.unpack_from(data, start)
        inner = start + _WITH_SNAPSHOT.size
        snapshot = inner + length
        if snapshot > end or length < _INITIALIZED.size:
            raise ValueError("the length of an initialized-vertex record is inconsistent")
        event = self._initialized(data, inner, snapshot)
        return replace(event, coordinator_snapshot=data[snapshot:end])

    def _reset(self, data: bytes, start: int, end: int) -> ExecutionVertexReset:
        _, _, count, digits = _RESET.unpack_from(data, start)
        at = start + _RESET.size
        vertex_id = self._vertex(data[at : at + digits])
        subtasks = data[at + digits : end]
        if len(subtasks) != count * LENGTH.size:
            raise ValueError("the length of a reset record is inconsistent")
        return ExecutionVertexReset(vertex_id, struct.unpack(f"<{count}I", subtasks))

    def _job_finished(self, data: bytes, start: int, end: int) -> JobFinished:
        _, _, code = _JOB_FINISHED.unpack_from(data, start)
        if code not in _STATUSES or end != start + _JOB_FINISHED.size:
            raise ValueError(f"unknown job end status {code}")
        return JobFinished(_STATUSES[code])

    def _vertex(self, digits: bytes) -> JobVertexID:
        return self._vertices.setdefault(digits, JobVertexID(digits.decode("ascii")))

    def _output(self, name: bytes) -> OutputID:
        dataset_id = IntermediateDataSetID(name[:_DATASET_BYTES].hex())
        return self._outputs.setdefault(name, OutputID(dataset_id, name[_DATASET_BYTES:].hex()))
