"""WatermarkStrategy: accepted for compatibility with PyFlink; bounded streams need none."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["WatermarkStrategy"]


@dataclass(frozen=True, slots=True)
class WatermarkStrategy:
    """The watermark strategy of a source. All streams are bounded here, so there are none.

    Source: PyFlink, `pyflink.common.WatermarkStrategy`.

    >>> WatermarkStrategy.no_watermarks()
    WatermarkStrategy()
    """

    @staticmethod
    def no_watermarks() -> WatermarkStrategy:
        """The strategy without watermarks."""
        return WatermarkStrategy()
