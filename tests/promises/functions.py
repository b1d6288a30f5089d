"""Functions of the programs, in a module that does nothing when it is imported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from holdfast import OutputTag, ProcessFunction


def halves(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Half of each id."""
    for batch in batches:
        yield batch.assign(id=batch["id"] // 2)


class Odd(ProcessFunction):
    def process_element(self, value: int, ctx: ProcessFunction.Context) -> Iterator[Any]:
        yield (OutputTag("odd"), value) if value % 2 else value
