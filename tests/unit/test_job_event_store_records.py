"""Events, and the bytes that they become."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from zlib import crc32

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.eventstore.event_file import (
    HEADER_SIZE,
    EventFileName,
    checked_epoch,
    header,
    read_header,
)
from holdfast.eventstore.events import (
    SNAPSHOT_LIMIT,
    ExecutionJobVertexInitialized,
    ExecutionVertexFinished,
    ExecutionVertexReset,
    JobEvent,
    JobFinished,
    JobStatus,
)
from holdfast.eventstore.record_codec import RecordDecoder, RecordEncoder
from holdfast.ids import IntermediateDataSetID, JobVertexID
from holdfast.taskexecutor.partitions.partition_info import OutputID, PartitionMetrics

HEX = st.text("0123456789abcdef", min_size=1, max_size=255)
VERTICES = HEX.map(JobVertexID)
COUNTS = st.integers(min_value=0, max_value=(1 << 31) - 1)
METRICS = st.integers(min_value=0, max_value=(1 << 63) - 1)
DIGESTS = st.binary(min_size=32, max_size=32).map(bytes.hex)
OUTPUTS = st.builds(
    OutputID,
    DIGESTS.map(IntermediateDataSetID),
    st.binary(min_size=4, max_size=4).map(bytes.hex),
)
SNAPSHOTS = st.none() | st.binary(max_size=300)
EVENTS: st.SearchStrategy[JobEvent] = st.one_of(
    st.builds(
        ExecutionJobVertexInitialized,
        VERTICES,
        st.integers(min_value=1, max_value=1 << 31),
        st.none() | HEX.map(IntermediateDataSetID),
        st.text(),
        coordinator_snapshot=SNAPSHOTS,
    ),
    st.builds(
        lambda vertex_id, parallelism, output, split, snapshot: ExecutionJobVertexInitialized(
            vertex_id, parallelism, output.dataset_id, split, output, snapshot
        ),
        VERTICES,
        st.integers(min_value=1, max_value=1 << 31),
        OUTPUTS,
        st.text(),
        SNAPSHOTS,
    ),
    st.builds(ExecutionVertexFinished, VERTICES, COUNTS, COUNTS, coordinator_snapshot=SNAPSHOTS),
    st.builds(
        ExecutionVertexFinished,
        VERTICES,
        COUNTS,
        COUNTS,
        OUTPUTS,
        st.builds(PartitionMetrics, METRICS, METRICS),
        SNAPSHOTS,
    ),
    st.builds(ExecutionVertexReset, VERTICES, st.lists(COUNTS, min_size=1, max_size=50).map(tuple)),
    st.builds(JobFinished, st.sampled_from(JobStatus)),
)
CHECKSUMS = st.integers(min_value=0, max_value=(1 << 32) - 1)

VERTEX = JobVertexID("00ff")
OUTPUT = OutputID(IntermediateDataSetID("00ff" * 16), "0badcafe")
NAME = EventFileName(epoch=3, number=1, first=40, previous=2)


@given(event=EVENTS, checksum=CHECKSUMS, before=st.binary(max_size=20))
def test_a_record_gives_its_event_again(event: JobEvent, checksum: int, before: bytes) -> None:
    record = RecordEncoder().encode(event, checksum)
    data = before + record + b"what follows"
    end = len(before) + len(record) - 4
    again = RecordDecoder().decode(data, len(before), end)
    assert again == event
    assert type(again) is type(event)
    assert int.from_bytes(record[-4:], "little") == crc32(record[:-4], checksum)
    assert int.from_bytes(record[:4], "little") == len(record) - 8


@given(st.lists(EVENTS, max_size=20))
def test_what_an_encoder_has_met_before_changes_nothing(events: list[JobEvent]) -> None:
    encoder, decoder = RecordEncoder(), RecordDecoder()
    for event in events:
        record = encoder.encode(event, 1)
        assert record == RecordEncoder().encode(event, 1)
        assert decoder.decode(record, 0, len(record) - 4) == event


def test_version_1_is_written_as_it_has_always_been() -> None:
    # Who changes this changes FORMAT_VERSION, and goes on reading version 1.
    metrics = PartitionMetrics(bytes=4096, rows=7)
    vertex = b"00ff".hex()
    written: list[tuple[JobEvent, str]] = [
        (
            ExecutionJobVertexInitialized(VERTEX, 8, split="32 ranges"),
            "14000000 01 08000000 04 00" + vertex + b"32 ranges".hex(),
        ),
        (
            ExecutionJobVertexInitialized(VERTEX, 8, OUTPUT.dataset_id, "s", OUTPUT),
            "50000000 05 08000000 04 40" + vertex + (b"00ff" * 16).hex() + "0badcafe" + b"s".hex(),
        ),
        (
            ExecutionVertexFinished(VERTEX, 3, 1, OUTPUT, metrics),
            "43000000 02 01 03000000 01000000 04" + vertex + "00ff" * 16 + "0badcafe"
            "0010000000000000 0700000000000000",
        ),
        (
            ExecutionVertexFinished(VERTEX, 3, 1, None, None, b"s"),
            "10000000 02 02 03000000 01000000 04" + vertex + b"s".hex(),
        ),
        (
            ExecutionVertexReset(VERTEX, (3, 258)),
            "12000000 03 02000000 04" + vertex + "03000000 02010000",
        ),
        (JobFinished(JobStatus.CANCELED), "02000000 04 02"),
        (
            ExecutionJobVertexInitialized(VERTEX, 8, coordinator_snapshot=b"\xca\xfe"),
            "16000000 06 0f000000" + "0b000000 01 08000000 04 00" + vertex + "cafe",
        ),
    ]
    for event, record in written:
        assert RecordEncoder().encode(event, 0)[:-4] == bytes.fromhex(record)
    start = b"HOLDFAST" + bytes.fromhex(
        "0100 0300000000000000 01000000 2800000000000000 0200000000000000 feca0000"
    )
    assert header(NAME, 0xCAFE)[:-4] == start


@pytest.mark.parametrize(
    "record",
    [
        *(b"\x01\0\0\0\x09", b"\x01\0\0\0\x02", b"\x02\0\0\0\x04\x09", b"\x03\0\0\0\x04\x00\x00"),
        # Longer and shorter than what it says itself.
        RecordEncoder().encode(ExecutionVertexFinished(VERTEX, 3, 0), 0)[:-4] + b"x",
        RecordEncoder().encode(ExecutionVertexReset(VERTEX, (1, 2)), 0)[:-5],
        RecordEncoder().encode(
            ExecutionJobVertexInitialized(VERTEX, 1, coordinator_snapshot=b"s"), 0
        )[:-6],
    ],
)
def test_a_record_of_another_form_is_no_event(record: bytes) -> None:
    with pytest.raises(ValueError):
        RecordDecoder().decode(record, 0, len(record))


def test_an_id_may_not_be_longer_than_a_record_can_say() -> None:
    too_long: list[JobEvent] = [
        ExecutionVertexFinished(JobVertexID("a" * 256), 0, 0),
        ExecutionJobVertexInitialized(VERTEX, 1, IntermediateDataSetID("a" * 256)),
    ]
    for event in too_long:
        with pytest.raises(ValueError, match="at most 255 digits"):
            RecordEncoder().encode(event, 0)


def test_what_is_no_event_is_not_recorded() -> None:
    nothing: Any = "finished"
    with pytest.raises(TypeError, match="'finished'"):
        RecordEncoder().encode(nothing, 0)


class _LongSnapshot(bytes):
    def __len__(self) -> int:
        return SNAPSHOT_LIMIT


@pytest.mark.parametrize(
    ("event", "changes"),
    [
        (ExecutionJobVertexInitialized(VERTEX, 1), {"parallelism": 0}),
        (ExecutionJobVertexInitialized(VERTEX, 1), {"parallelism": (1 << 31) + 1}),
        (ExecutionJobVertexInitialized(VERTEX, 1), {"output": OUTPUT}),
        (ExecutionJobVertexInitialized(VERTEX, 1), {"coordinator_snapshot": _LongSnapshot()}),
        (ExecutionVertexFinished(VERTEX, 0, 0), {"subtask": -1}),
        (ExecutionVertexFinished(VERTEX, 0, 0), {"subtask": 1 << 31}),
        (ExecutionVertexFinished(VERTEX, 0, 0), {"attempt": -1}),
        (ExecutionVertexFinished(VERTEX, 0, 0), {"output": OUTPUT}),
        (ExecutionVertexFinished(VERTEX, 0, 0), {"metrics": PartitionMetrics(1, 1)}),
        (ExecutionVertexFinished(VERTEX, 0, 0), {"coordinator_snapshot": _LongSnapshot()}),
        (ExecutionVertexReset(VERTEX, (0,)), {"subtasks": ()}),
        (ExecutionVertexReset(VERTEX, (0,)), {"subtasks": (0, -1)}),
        (ExecutionVertexReset(VERTEX, (0,)), {"subtasks": (1 << 31,)}),
    ],
)
def test_an_event_that_makes_no_sense_can_t_be_made(event: Any, changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        replace(event, **changes)


def test_a_finished_subtask_s_partition_has_its_index() -> None:
    event = ExecutionVertexFinished(VERTEX, 3, 0, OUTPUT, PartitionMetrics(1, 1))
    assert event.partition_id is not None
    assert (event.partition_id.output, event.partition_id.index) == (OUTPUT, 3)
    assert ExecutionVertexFinished(VERTEX, 3, 0).partition_id is None


@given(
    epoch=st.integers(min_value=1, max_value=(1 << 63) - 1),
    number=st.integers(min_value=0, max_value=10**10 - 1),
    first=st.integers(min_value=0, max_value=10**18 - 1),
    ago=st.integers(min_value=1),
)
def test_a_file_s_name_says_again_what_it_was_made_of(
    epoch: int, number: int, first: int, ago: int
) -> None:
    name = EventFileName(epoch, number, first, max(0, epoch - ago))
    assert EventFileName.parse(str(name)) == name
    assert checked_epoch(epoch) == epoch


@pytest.mark.parametrize(
    "name",
    [
        *("", "manifest", ".events", "2-0-17-1.events"),
        "0000000002-0000000000-000000000017-0000000001.event",
        "0000000002-0000000000-000000000017-0000000001.events~",
        "0000000002-0000000000-000000000017-0000000001",
        "0000000002-0000000000-000000000017.events",
        "00000000002-0000000000-000000000017-0000000001.events",
        "-000000002-0000000000-000000000017-0000000001.events",
        # An epoch goes on from one before it.
        "0000000000-0000000000-000000000000-0000000000.events",
        "0000000002-0000000000-000000000017-0000000002.events",
    ],
)
def test_other_files_are_not_taken_for_files_of_events(name: str) -> None:
    assert EventFileName.parse(name) is None


@pytest.mark.parametrize("epoch", [0, -1, 1 << 63])
def test_an_epoch_is_above_zero_and_fits(epoch: int) -> None:
    with pytest.raises(ValueError, match=str(epoch)):
        checked_epoch(epoch)


def test_a_header_says_what_its_file_goes_on_from() -> None:
    data = header(NAME, 0xCAFE)
    assert len(data) == HEADER_SIZE
    before, checksum = read_header(NAME, data + b"records")
    assert before == 0xCAFE
    assert checksum == int.from_bytes(data[-4:], "little")


@given(at=st.integers(min_value=0, max_value=HEADER_SIZE - 1), bit=st.integers(0, 7))
def test_a_damaged_header_is_none(at: int, bit: int) -> None:
    data = bytearray(header(NAME, 0xCAFE))
    with pytest.raises(ValueError, match="truncated"):
        read_header(NAME, bytes(data[:at]))
    data[at] ^= 1 << bit
    with pytest.raises(ValueError):
        read_header(NAME, bytes(data))


def test_a_header_is_that_of_its_own_file() -> None:
    with pytest.raises(ValueError, match="does not match its file name"):
        read_header(EventFileName(4, 1, 40, 2), header(NAME, 0))
