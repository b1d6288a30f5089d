"""What reading a kept result saves a query: the one definition of all that is shown as saved."""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.advice.proposal import AS_IN_FILES, StorageRates

# At least so much of a production is computing: rates of writing are assumed.
_LEAST_COMPUTING = 0.5


@dataclass(frozen=True, slots=True)
class NeededPart:
    """How much of a result a query needs, that has it in its plan.

    Attributes:
        work: which part of the work that its production was, by the columns and filters that the
            query has; from 0 to 1.
        bytes: which part of its bytes, by the columns.
    """

    work: float = 1.0
    bytes: float = 1.0


def saved_seconds(
    produced: float,
    size: int,
    needed: NeededPart,
    cores: int,
    rates: StorageRates = AS_IN_FILES,
) -> float:
    """About how much longer a query would have taken that has read a result, had it computed it.

    That is what computing as much of the result as the query needs would have taken, at the rate
    that its production was measured with, less what reading it takes. What the query does else
    takes the same with and without; so it is never more than what the query would have taken.

    Args:
        produced: how long the production has taken, writing included, in seconds.
        size: of the result, in bytes.
        needed: how much of it the query needs.
        cores: how many tasks run at once.
        rates: how fast one of these writes and reads.

    >>> one = NeededPart(work=0.25, bytes=0.5)
    >>> saved_seconds(10.0, 40, one, cores=2, rates=StorageRates(written=10.0, read=20.0))
    1.5
    """
    writing = size / (rates.written * cores)
    computing = max(produced - writing, produced * _LEAST_COMPUTING)
    reading = size * needed.bytes / (rates.read * cores)
    return max(0.0, computing * needed.work - reading)
