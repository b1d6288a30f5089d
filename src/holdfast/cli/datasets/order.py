"""In which order datasets are listed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime, timezone

from holdfast.cli.datasets.listed_dataset import ListedDataSet

_NEVER = datetime.min.replace(tzinfo=timezone.utc)

ORDERS: Mapping[str, Callable[[ListedDataSet], float | datetime]] = {
    "saved": lambda each: 0.0 if each.sharing is None else each.sharing.saved_seconds,
    "size": lambda each: each.bytes,
    "used": lambda each: each.created or _NEVER if each.sharing is None else each.sharing.last_used,
}
"""By what they may be listed, the largest value first."""


def in_order(datasets: Sequence[ListedDataSet], by: str | None) -> Sequence[ListedDataSet]:
    """The datasets in an order; equals stay as they are.

    Args:
        datasets: which ones.
        by: one of `ORDERS`; None: as they were found.
    """
    return datasets if by is None else sorted(datasets, key=ORDERS[by], reverse=True)
