"""Where commands look for what is kept, and for what is on record: the arguments that say so."""

from __future__ import annotations

from typing import Any

from holdfast.cli.catalog_url_argument import catalog_url_argument
from holdfast.cli.path_argument import path_argument
from holdfast.config import CATALOG_URL, INTERMEDIATE_RESULT_DIRECTORY


def add_directory(where: Any, whose: str = "environments on this machine") -> None:
    """Adds `--directory`.

    Args:
        where: a parser, or a group of arguments.
        whose: whose storage directory it is, for the help.
    """
    where.add_argument(
        "--directory",
        type=path_argument,
        metavar="DIR",
        help=f"the storage directory of {whose}, their "
        f"`{INTERMEDIATE_RESULT_DIRECTORY.key}` (default: "
        f"{INTERMEDIATE_RESULT_DIRECTORY.shown_default})",
    )


def add_catalog_url(where: Any, what: str, more: str = "") -> None:
    """Adds `--catalog-url`.

    Args:
        where: a parser, or a group of arguments.
        what: which catalog it is, for the help.
        more: what is to be said beside that.
    """
    where.add_argument(
        "--catalog-url",
        type=catalog_url_argument,
        metavar="URL",
        help=f"{what}, the programs' `{CATALOG_URL.key}`{more}",
    )
