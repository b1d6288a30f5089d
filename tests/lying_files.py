"""What lies below a directory in which others make and remove directories meanwhile."""

from __future__ import annotations

import os
from pathlib import Path


def parquet_below(root: Path) -> list[Path]:
    """The Parquet files; `Path.rglob` fails over a directory that is removed under it."""
    return sorted(
        Path(directory, name)
        for directory, _, names in os.walk(root)
        for name in names
        if name.endswith(".parquet")
    )
