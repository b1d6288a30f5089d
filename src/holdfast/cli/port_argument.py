"""A port on the command line."""

from __future__ import annotations

import argparse


def port_argument(text: str) -> int:
    """The port that a text names.

    Args:
        text: as it was given.

    Raises:
        argparse.ArgumentTypeError: when it is none.

    >>> port_argument("8080")
    8080
    """
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"expected a number from 0 to 65535; found {text!r}")
    return int(text)
