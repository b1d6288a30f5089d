"""What can't be computed costs a tenth of the time, not the same time again in each job."""

from __future__ import annotations

from holdfast.ids import IntermediateDataSetID
from holdfast.runtime.failed_productions import FailedProductions


def test_a_production_that_failed_waits_ten_times_as_long_as_it_took() -> None:
    now = 100.0
    failures = FailedProductions(lambda: now)
    one, other = (
        IntermediateDataSetID.from_digest("1" * 64),
        IntermediateDataSetID.from_digest("2" * 64),
    )
    assert failures.may_be_tried(one)
    failures.add(one, 3.0)
    now = 129.0
    assert not failures.may_be_tried(one)
    assert failures.may_be_tried(other)
    now = 130.0
    assert failures.may_be_tried(one)
    # It fails again, and quicker.
    failures.add(one, 1.0)
    now = 139.0
    assert not failures.may_be_tried(one)
    now = 141.0
    assert failures.may_be_tried(one)
