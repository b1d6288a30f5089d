"""How long it is worth waiting for a result that another program produces."""

from __future__ import annotations

from holdfast.catalog.cataloged_result import InProduction

# Who has begun may be slower than the last time: it shares the machine with those who wait.
_SLOWER = 3.0
_LEAST_SECONDS = 10.0


def is_worth_waiting(production: InProduction, waited: float, most: float) -> bool:
    """Whether a result is expected sooner from another program than from computing it here.

    A production that takes several times as long as the last one is not waited for any longer; one
    that nobody has seen before is, up to the bound.

    Args:
        production: the other program's.
        waited: how long that has been waited for, in seconds.
        most: how long to wait at most, in seconds.

    >>> from holdfast.ids import ApplicationID
    >>> other = ApplicationID.random()
    >>> is_worth_waiting(InProduction(other, since=5.0, expected=60.0), 5.0, 600.0)
    True
    >>> is_worth_waiting(InProduction(other, since=500.0, expected=60.0), 5.0, 600.0)
    False
    """
    if waited >= most:
        return False
    if production.expected is None:
        return True
    return production.since < max(production.expected * _SLOWER, _LEAST_SECONDS)
