"""Where a column says that its rows are sealed."""

from __future__ import annotations

SEAL = "holdfast.seal"
"""In a column's metadata: the label under which rows are sealed, see `DataSetDescription.seal`."""
