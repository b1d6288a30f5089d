"""Ids are hexadecimal digits of one kind; a job is found by what it is known by."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from holdfast.highavailability.job_identity import JobIdentity
from holdfast.ids import (
    ApplicationID,
    IntermediateDataSetID,
    JobID,
    JobVertexID,
    application_of_start,
)

DIGEST, OTHER = "1" * 64, "2" * 64


def test_an_id_of_one_kind_is_none_of_another_and_can_not_be_changed() -> None:
    digits = "ab" * 16
    kinds = (JobID, JobVertexID, IntermediateDataSetID, ApplicationID)
    assert len({kind(digits) for kind in kinds}) == 4
    assert JobID(digits) == pickle.loads(pickle.dumps(JobID(digits)))
    assert len({ApplicationID.random() for _ in range(100)}) == 100
    with pytest.raises(AttributeError):
        JobID(digits).hex = "00"  # type: ignore[misc]


@pytest.mark.parametrize("digits", ["", "xy", "AB" * 16, "ab\n", "../" + "a" * 29])
def test_what_is_not_hexadecimal_is_refused(digits: str) -> None:
    with pytest.raises(ValueError, match="IntermediateDataSetID expects hexadecimal"):
        IntermediateDataSetID.from_digest(digits)
    for bad in (digits, "ab" * 15, "ab" * 17):
        with pytest.raises(ValueError, match="ApplicationID expects"):
            ApplicationID(bad)


def test_each_start_has_an_application_of_its_own() -> None:
    starts = {application_of_start(JobID(job * 32), epoch) for job in "12" for epoch in (1, 2, 11)}
    assert len(starts) == 6
    assert application_of_start(JobID("1" * 32), 1) in starts


identities = st.builds(
    JobIdentity,
    digest=st.sampled_from([DIGEST, OTHER]),
    name=st.sampled_from([None, "", "a", 'a", "b', DIGEST]),
    occurrence=st.integers(min_value=0, max_value=2),
    action=st.sampled_from(["collect", "save", "a"]),
    sink=st.sampled_from([None, "", "file:/out", "null"]),
)


@given(identities, identities)
def test_two_job_ids_are_the_same_only_for_the_same_job(
    one: JobIdentity, other: JobIdentity
) -> None:
    def known_by(each: JobIdentity) -> tuple[object, ...]:
        digest = each.digest if each.name is None else None
        return digest, each.name, each.action, each.sink, each.occurrence

    for another in (other, *(one.model_copy(update=change) for change in CHANGES)):
        assert (one.job_id == another.job_id) is (known_by(one) == known_by(another))
    assert JobIdentity.model_validate_json(one.model_dump_json()) == one


# What a job is cut into doesn't count.
CHANGES: list[dict[str, object]] = [
    {"digest": OTHER},
    {"name": "n"},
    {"occurrence": 1},
    {"action": "count"},
    {"sink": "/out"},
    {"vertices": (OTHER,)},
]


@pytest.mark.parametrize("key", ["digest", "vertices", "occurrence", "other"])
def test_what_is_no_identity_is_refused(key: str) -> None:
    for wrong in {"digest": ("1" * 63, "G" * 64, None), "vertices": (("12",),)}.get(key, (-1,)):
        with pytest.raises(ValidationError):
            JobIdentity.model_validate({"digest": DIGEST, "action": "collect", key: wrong})
