"""A number of things on the command line."""

from __future__ import annotations

import argparse


def number_argument(text: str) -> int:
    """What argparse calls for an argument that says how many.

    Raises:
        argparse.ArgumentTypeError: when it is no number, or less than 1.

    >>> number_argument("20")
    20
    """
    if text.isascii() and text.isdigit() and int(text) > 0:
        return int(text)
    raise argparse.ArgumentTypeError(f"expected a number, 1 or more; found {text!r}")
