"""WatermarkStrategy: accepted where PyFlink takes it; bounded streams have no need of one."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WatermarkStrategy"]


@dataclass(frozen=True, slots=True)
class WatermarkStrategy:
    """How a source tells how far time has gone. All streams are bounded here, so it doesn't.

    Source: PyFlink, `pyflink.common.WatermarkStrategy`.

    >>> WatermarkStrategy.no_watermarks()
    WatermarkStrategy()
    """

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """The strategy of not telling."""
        return WatermarkStrategy()
