"""Encoder: converts a record to the line that a file sink writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Encoder"]


@dataclass(frozen=True, slots=True)
class Encoder:
    """Converts a record to a line by `str`.

    Source: PyFlink, `pyflink.common.serialization.Encoder`.

    >>> Encoder.simple_string_encoder()(("a", 1))
    "('a', 1)"
    """

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """The encoder that converts records by `str`.

        Args:
            charset_name: only UTF-8.

        Raises:
            ValueError: when it is not UTF-8.
        """
        if charset_name.upper() not in ("UTF-8", "UTF8"):
            raise ValueError(f"charset_name is {charset_name!r}: expected UTF-8")
        return Encoder()

    def __call__(self, value: Any) -> str:
        """The line of a record.

        Args:
            value: a record.
        """
        return str(value)
