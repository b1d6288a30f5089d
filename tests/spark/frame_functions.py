"""Functions over frames, in a module that does nothing when it is imported."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd


def batch_sizes(values: pd.Series) -> pd.Series:
    return values * 0 + len(values)


def total(values: pd.Series) -> int:
    return int(values.sum())


def doubled(frame: Any) -> Any:
    return frame * 2


def tripled(frame: Any) -> Any:
    return frame * 3


def each_doubled(frames: Any) -> Iterator[Any]:
    return map(doubled, frames)


def each_tripled(frames: Any) -> Iterator[Any]:
    return map(tripled, frames)


def first_column(frames: Any) -> Iterator[Any]:
    for frame in frames:
        yield frame.iloc[:, [0]].set_axis(["v"], axis=1).astype(float)


def names_of_columns(frames: Any) -> Iterator[pd.DataFrame]:
    for frame in frames:
        yield pd.DataFrame({"names": [",".join(frame.columns)] * len(frame)})


def names_of_group(frame: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"names": [",".join(frame.columns)]})
