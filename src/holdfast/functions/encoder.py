"""Encoder: makes the line of a record that a file sink writes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Encoder"]


@dataclass(frozen=True, slots=True)
class Encoder:
    """Makes the line of a record, as `str` does.

    Source: PyFlink, `pyflink.common.serialization.Encoder`.

    >>> Encoder.simple_string_encoder()(("a", 1))
    "('a', 1)"
    """

    @staticmethod
    def simple_string_encoder(charset_name: str = "UTF-8") -> Encoder:
        """The encoder that writes what `str` makes of a record.

        Args:
            charset_name: only UTF-8.

        Raises:
            ValueError: when it is another charset.
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
