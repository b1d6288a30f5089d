"""A number of bytes on the command line."""

from __future__ import annotations

import argparse

from holdfast.config_values import parse_positive_memory_size


def size_argument(text: str) -> int:
    """The bytes that a text names.

    Args:
        text: as it was given.

    Raises:
        argparse.ArgumentTypeError: when it names none.

    >>> size_argument("2kb")
    2048
    """
    try:
        return parse_positive_memory_size(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected a size such as 512mb or 10gb; found {text!r}"
        ) from None
