"""A catalog's URL on the command line."""

from __future__ import annotations

import argparse

from holdfast.catalog.catalog_url import CATALOG_URLS, checked_url


def catalog_url_argument(text: str) -> str:
    """What argparse calls for an argument that is a catalog's URL.

    Raises:
        argparse.ArgumentTypeError: when it is none.
    """
    try:
        return checked_url(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"expected {CATALOG_URLS}; found {text!r}") from None
