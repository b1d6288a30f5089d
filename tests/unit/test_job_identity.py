"""What a job is known by, and how its storage directory is written."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from holdfast.highavailability.job_identity import JobIdentity
from holdfast.ids import JobID, application_of_start

DIGEST, OTHER = "1" * 64, "2" * 64

identities = st.builds(
    JobIdentity,
    digest=st.sampled_from([DIGEST, OTHER]),
    name=st.sampled_from([None, "", "a", 'a", "b', DIGEST]),
    occurrence=st.integers(min_value=0, max_value=2),
    action=st.sampled_from(["collect", "save", "a"]),
    sink=st.sampled_from([None, "", "file:/out", "null"]),
)


@pytest.mark.parametrize(
    "change",
    [{"digest": OTHER}, {"name": "n"}, {"occurrence": 1}, {"action": "count"}, {"sink": "/out"}],
)
def test_what_distinguishes_jobs_gives_another_id(change: dict[str, object]) -> None:
    plain = JobIdentity(digest=DIGEST, action="collect")
    assert plain.model_copy(update=change).job_id != plain.job_id


@given(identities, identities)
def test_two_ids_are_the_same_only_for_the_same_job(one: JobIdentity, other: JobIdentity) -> None:
    def known_by(each: JobIdentity) -> tuple[object, ...]:
        digest = each.digest if each.name is None else None
        return digest, each.name, each.action, each.sink, each.occurrence

    assert (one.job_id == other.job_id) is (known_by(one) == known_by(other))
    # What a job is cut into doesn't count.
    assert one.model_copy(update={"vertices": (OTHER,)}).job_id == one.job_id


@given(identities)
def test_an_identity_survives_being_recorded(identity: JobIdentity) -> None:
    assert JobIdentity.model_validate_json(identity.model_dump_json()) == identity


@pytest.mark.parametrize(
    "wrong",
    [
        {"digest": "1" * 63},
        {"digest": "G" * 64},
        {"digest": None},
        {"vertices": ("12",)},
        {"occurrence": -1},
        {"other": 1},
    ],
)
def test_what_is_no_identity_is_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValidationError):
        JobIdentity.model_validate({"digest": DIGEST, "action": "collect", **wrong})


def test_each_start_has_an_application_of_its_own() -> None:
    job, other = JobID("1" * 32), JobID("2" * 32)
    starts = {application_of_start(each, epoch) for each in (job, other) for epoch in (1, 2, 11)}
    assert len(starts) == 6
    assert application_of_start(job, 1) == application_of_start(JobID("1" * 32), 1)
