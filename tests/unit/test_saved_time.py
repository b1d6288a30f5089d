"""How much time reading a kept result saves, given what its production has taken."""

from __future__ import annotations

import pytest

from holdfast.advice.proposal import StorageRates
from holdfast.runtime.saved_time import NeededPart, saved_seconds

RATES = StorageRates(written=10.0, read=50.0)


@pytest.mark.parametrize(
    ("produced", "size", "needed", "cores", "rates", "saved"),
    [
        # 10 s on two cores, of which 2 s are writing 40 bytes; reading them takes 0.4 s.
        (10.0, 40, NeededPart(), 2, RATES, 7.6),
        (10.0, 40, NeededPart(work=0.125, bytes=0.25), 2, RATES, 1 - 0.1),
        # What is dearer to read than to compute saves nothing, and costs nothing here.
        (0.1, 4_000, NeededPart(), 2, RATES, 0.0),
        # Rates are assumed: not all of a production is writing.
        (10.0, 1_000, NeededPart(), 100, StorageRates(1.0, 1_000.0), 4.99),
        (0.0, 0, NeededPart(), 1, RATES, 0.0),
    ],
)
def test_what_is_saved_is_what_is_needed_less_reading_it(
    produced: float, size: int, needed: NeededPart, cores: int, rates: StorageRates, saved: float
) -> None:
    assert saved_seconds(produced, size, needed, cores, rates) == pytest.approx(saved)
