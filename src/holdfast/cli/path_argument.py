"""A directory that is named on the command line."""

from __future__ import annotations

import argparse
from pathlib import Path

from holdfast.files.local_path import local_path


def path_argument(text: str) -> Path:
    """The path of this machine that an argument names.

    Args:
        text: a path, or a `file:` URL.

    Raises:
        argparse.ArgumentTypeError: when it is neither.

    >>> path_argument("file:///tmp/a%20b")
    PosixPath('/tmp/a b')
    """
    try:
        return local_path(text)
    except ValueError:
        raise argparse.ArgumentTypeError(
            f"expected a path on this machine, or file:///path; found {text!r}"
        ) from None
