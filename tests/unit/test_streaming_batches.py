"""Records become batches and come back, sealed or not."""

from __future__ import annotations

import math
import pickle
import threading
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import BatchSealBrokenError, RecordNotSerializableError
from holdfast.plan.function_digest import digest_value
from holdfast.streaming.batch_encoding import encoded
from holdfast.streaming.batches import batches_in, to_arrow
from holdfast.streaming.inputs import SealedInput, decoded
from holdfast.streaming.memory_gauge import MemoryGauge
from holdfast.streaming.outputs import SealedOutput
from holdfast.streaming.pickled_collection import pickled_collection
from holdfast.streaming.record_pickling import RecordPickler
from holdfast.streaming.sealing import SEALED_SCHEMA, Seal, SealKey
from holdfast.streaming.subtask import Subtask


@dataclass(frozen=True)
class Point:
    x: int
    y: object = None


RECORDS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=True)
    | st.text()
    | st.binary()
    | st.builds(Point, st.integers()),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.tuples(inner, inner)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.builds(Point, st.integers(), inner)
    ),
    max_leaves=8,
)
SEAL = Seal("clicks", SealKey(b"k" * 32))
EXPLOSIONS: list[str] = []


class Explosive:
    """Its pickle does something when it is opened."""

    def __reduce__(self) -> tuple[Any, ...]:
        return EXPLOSIONS.append, ("bang",)


def sealed(records: list[Any], seal: Seal = SEAL) -> list[pa.RecordBatch]:
    output = SealedOutput(seal)
    return list(output.write(iter(records), "Map", Subtask(0, 1), MemoryGauge()))


def same(left: object, right: object) -> bool:
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left):
        return math.isnan(right)
    return pickle.dumps([left], 5) == pickle.dumps([right], 5) or left == right


def assert_same(again: list[object], records: list[object]) -> None:
    assert len(again) == len(records)
    assert all(same(*pair) for pair in zip(again, records, strict=True))


@given(st.lists(RECORDS), st.booleans(), st.integers(1, 5), st.integers(1, 5))
def test_records_come_back_as_they_were(
    records: list[object], lazily: bool, frame_rows: int, splits: int
) -> None:
    frames = list(to_arrow(encoded(iter(records), "Map", 3), lazily))
    assert {row["target"] for frame in frames for row in frame.to_pylist()} <= {3}
    # Spark cuts frames as it likes.
    cut = [
        frame.slice(start, frame_rows)
        for frame in frames
        for start in range(0, frame.num_rows, frame_rows)
    ]
    assert_same(list(decoded(batches_in(cut, 0))), records)
    assert_same(list(SealedInput(SEAL).read(iter(sealed(records)))), records)
    reader, splitted = pickled_collection(records, splits, "Collection")
    assert len(splitted) == splits
    assert_same([record for split in splitted for record in reader.read(split)], records)
    assert pickled_collection(records, splits, "Collection") == (reader, splitted)


@given(st.data())
def test_a_batch_that_was_tampered_with_is_never_unpickled(data: st.DataObject) -> None:
    EXPLOSIONS.clear()
    (row,) = sealed([Explosive()])[0].to_pylist()
    what = data.draw(st.sampled_from(["records", "batch", "mac", "label", "key", "null"]))
    seal = SEAL
    if what == "records":
        row["records"] += data.draw(st.integers(1, 1000))
    elif what == "label":
        seal = Seal("visits", SEAL.key)
    elif what == "key":
        seal = Seal(SEAL.label, SealKey.new())
    elif what == "null":
        row[data.draw(st.sampled_from(["records", "batch", "mac"]))] = None
    else:
        content = bytearray(row[what])
        position = data.draw(st.integers(0, len(content) - 1))
        content[position] ^= data.draw(st.integers(1, 255))
        cut = data.draw(st.sampled_from([bytes(content), row[what][:position], row[what] + b"."]))
        row[what] = cut
    frame = pa.RecordBatch.from_pylist([row], schema=SEALED_SCHEMA)
    with pytest.raises(BatchSealBrokenError, match=r"holdfast-seal-broken.*\[(clicks|visits)\]"):
        list(SealedInput(seal).read(iter([frame])))
    with pytest.raises(BatchSealBrokenError):
        list(SealedInput(seal).read(iter([pa.RecordBatch.from_pydict({"batch": [b"x"]})])))
    assert EXPLOSIONS == []


def test_a_seal_shows_its_key_nowhere_and_says_what_records_were_made_from() -> None:
    assert "secret" not in repr(Seal("clicks", SealKey(b"very secret")))
    old, new = (replace(SEAL, made_from=version) for version in ("v1", "v2"))
    # Neither counts for a plan.
    assert digest_value(old) == digest_value(new) == digest_value(Seal("clicks", SealKey.new()))
    assert digest_value(old) != digest_value(Seal("visits", SEAL.key))
    assert list(SealedInput(old).read(iter(sealed([1], old)))) == [1]
    with pytest.raises(BatchSealBrokenError):
        list(SealedInput(new).read(iter(sealed([1], old))))


def test_a_fragment_of_a_sealed_batch_is_not_taken_for_another() -> None:
    seal = Seal("clicks", SealKey.new())
    records = [bytes([number]) * (8 << 20) for number in range(2)]
    rows = [
        row
        for frame in seal.to_arrow(encoded(iter(records), "Map", 0))
        for row in frame.to_pylist()
    ]
    assert len(rows) == 6

    def opened(*order: int) -> list[Any]:
        frame = pa.RecordBatch.from_pylist([rows[index] for index in order], SEALED_SCHEMA)
        return list(decoded(seal.opened([frame])))

    assert opened(0, 1, 2, 3, 4, 5) == records
    assert opened(3, 4, 5) == records[1:]
    for order in ((0, 1, 5), (0, 4, 2), (1, 0, 2), (0, 2), (0, 1), (1, 2), (2,), (0, 1, 0, 1, 2)):
        with pytest.raises(BatchSealBrokenError):
            opened(*order)


def test_a_record_that_can_not_be_pickled_is_named_with_its_operator() -> None:
    records = [*range(100), (1, threading.Lock()), *range(100)]
    with pytest.raises(RecordNotSerializableError, match=r"'Locks'.*builtins\.tuple.*lock"):
        list(encoded(iter(records), "Locks", 0))
    pickler = RecordPickler("Large", largest=1000)
    parts = list(pickler.payloads([b"a" * 400, b"b" * 400, b"c" * 400]))
    assert [len(part) for part, _ in parts] == [1, 2]
    with pytest.raises(RecordNotSerializableError, match=r"'Large'.*builtins\.bytes.*2021 bytes"):
        list(pickler.payloads([b"a", b"b" * 2000]))


def test_a_collection_counts_the_classes_that_its_pickles_only_name() -> None:
    reader, _ = pickled_collection([Point(1)], 1, "Collection")
    assert Point in reader.reached
    assert digest_value(reader) != digest_value(pickled_collection([1], 1, "Collection")[0])
    with pytest.raises(RecordNotSerializableError, match="'Collection'"):
        pickled_collection([1, threading.Lock()], 1, "Collection")
