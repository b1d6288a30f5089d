from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.ids import ApplicationID, IntermediateDataSetID, JobID, JobVertexID

DIGESTS = st.binary(min_size=32, max_size=32).map(bytes.hex)


@given(DIGESTS)
def test_a_dataset_s_id_is_its_digest(digest: str) -> None:
    dataset_id = IntermediateDataSetID.from_digest(digest)
    assert dataset_id.hex == digest
    assert str(dataset_id) == digest[:12]
    assert dataset_id == IntermediateDataSetID(digest)
    assert hash(dataset_id) == hash(IntermediateDataSetID(digest))
    assert pickle.loads(pickle.dumps(dataset_id)) == dataset_id


@given(DIGESTS, DIGESTS)
def test_two_digests_are_two_ids_in_the_digests_order(one: str, other: str) -> None:
    first, second = (IntermediateDataSetID.from_digest(digest) for digest in (one, other))
    assert (first == second) == (one == other)
    assert (first < second) == (one < other)


def test_an_id_of_one_kind_is_none_of_another() -> None:
    digits = "ab" * 16
    assert JobID(digits) != JobVertexID(digits)
    assert len({JobID(digits), JobVertexID(digits), IntermediateDataSetID(digits)}) == 3
    with pytest.raises(TypeError):
        assert JobID(digits) < JobVertexID(digits)  # type: ignore[operator]


def test_random_ids_are_of_their_kind_and_differ() -> None:
    ids = {JobID.random() for _ in range(100)}
    assert len(ids) == 100
    assert all(type(job_id) is JobID for job_id in ids)


def test_an_id_cannot_be_changed() -> None:
    with pytest.raises(AttributeError):
        JobID.random().hex = "00"  # type: ignore[misc]


@pytest.mark.parametrize("digits", ["", "xy", "AB", "ab cd", "ab\n", "../ab"])
def test_what_is_not_hexadecimal_is_refused(digits: str) -> None:
    with pytest.raises(ValueError, match="IntermediateDataSetID expects hexadecimal"):
        IntermediateDataSetID.from_digest(digits)


def test_an_application_s_id_has_32_digits() -> None:
    application = ApplicationID.random()
    assert type(application) is ApplicationID
    assert ApplicationID(application.hex) == application != JobID(application.hex)
    assert pickle.loads(pickle.dumps(application)) == application


@pytest.mark.parametrize("digits", ["", "ab" * 15, "ab" * 17, "AB" * 16, "../" + "a" * 29])
def test_what_is_no_application_s_id_is_refused(digits: str) -> None:
    with pytest.raises(ValueError, match="ApplicationID expects"):
        ApplicationID(digits)
