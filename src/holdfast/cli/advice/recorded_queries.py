"""The queries that programs with the implicit cache have recorded."""

from __future__ import annotations

import argparse
from pathlib import Path

from holdfast.cli.catalog_access import catalog_at, catalog_in
from holdfast.cli.place_arguments import add_catalog_url, add_directory
from holdfast.config import INTERMEDIATE_RESULT_DIRECTORY

_MOST = 5_000


def add_catalog_arguments(command: argparse.ArgumentParser) -> None:
    """Adds arguments that say which catalog is read.

    Args:
        command: whose arguments they are.
    """
    where = command.add_mutually_exclusive_group()
    add_directory(where, "the programs")
    add_catalog_url(where, "the catalog")


def recorded_queries(arguments: argparse.Namespace) -> list[bytes]:
    """The records of the last queries, in order.

    Args:
        arguments: what argparse made of the command line.

    Raises:
        CatalogError: when the catalog can't be read.
    """
    root = arguments.directory or Path(INTERMEDIATE_RESULT_DIRECTORY.default())
    opened = catalog_at(arguments.catalog_url) if arguments.catalog_url else catalog_in(root)
    with opened as catalog:
        return [] if catalog is None else catalog.queries.last(_MOST, anywhere=True)
