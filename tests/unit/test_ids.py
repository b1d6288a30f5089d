"""Ids are hexadecimal digits of one kind."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.ids import ApplicationID, IntermediateDataSetID, JobID, JobVertexID

DIGESTS = st.binary(min_size=32, max_size=32).map(bytes.hex)


@given(DIGESTS, DIGESTS)
def test_a_dataset_s_id_is_its_digest(one: str, other: str) -> None:
    first, second = (IntermediateDataSetID.from_digest(digest) for digest in (one, other))
    assert (first.hex, str(first)) == (one, one[:12])
    assert first == IntermediateDataSetID(one) == pickle.loads(pickle.dumps(first))
    assert (first == second) == (one == other)
    assert (first < second) == (one < other)


def test_an_id_of_one_kind_is_none_of_another_and_can_not_be_changed() -> None:
    digits = "ab" * 16
    kinds = (JobID, JobVertexID, IntermediateDataSetID, ApplicationID)
    assert len({kind(digits) for kind in kinds}) == 4
    with pytest.raises(TypeError):
        assert JobID(digits) < JobVertexID(digits)  # type: ignore[operator]
    with pytest.raises(AttributeError):
        JobID(digits).hex = "00"  # type: ignore[misc]


@pytest.mark.parametrize("kind", [JobID, ApplicationID])
def test_random_ids_are_of_their_kind_and_differ(kind: type[JobID]) -> None:
    ids = {kind.random() for _ in range(100)}
    assert len(ids) == 100 and {type(each) for each in ids} == {kind}


@pytest.mark.parametrize("digits", ["", "xy", "AB", "ab cd", "ab\n", "../ab"])
def test_what_is_not_hexadecimal_is_refused(digits: str) -> None:
    with pytest.raises(ValueError, match="IntermediateDataSetID expects hexadecimal"):
        IntermediateDataSetID.from_digest(digits)
    for bad in (digits, "ab" * 15, "ab" * 17, "AB" * 16, "../" + "a" * 29):
        with pytest.raises(ValueError, match="ApplicationID expects"):
            ApplicationID(bad)
