"""What programs have recorded of their queries, and of results that are not read everywhere."""

from __future__ import annotations

import argparse
from contextlib import AbstractContextManager
from pathlib import Path

from holdfast.catalog.catalog import Catalog
from holdfast.catalog.cataloged_result import CatalogedResult
from holdfast.catalog.reading.result_list import ResultFilter, ResultSort
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
    with _opened(arguments) as catalog:
        return [] if catalog is None else catalog.queries.last(_MOST, anywhere=True)


def explained_results(arguments: argparse.Namespace, most: int) -> tuple[CatalogedResult, ...]:
    """The last results that are not read everywhere, or not kept.

    Args:
        arguments: what argparse made of the command line.
        most: how many.

    Raises:
        CatalogError: when the catalog can't be read.
    """
    which = ResultFilter(state=None, has_reasons=True)
    with _opened(arguments) as catalog:
        if catalog is None:
            return ()
        return catalog.reading.results(which, ResultSort.CREATED, most=most).results


def results_so_named(arguments: argparse.Namespace, prefix: str) -> tuple[CatalogedResult, ...]:
    """The results whose names begin so.

    Args:
        arguments: what argparse made of the command line.
        prefix: of `<dataset>-<attempt>`.

    Raises:
        CatalogError: when the catalog can't be read.
    """
    with _opened(arguments) as catalog:
        return () if catalog is None else catalog.reading.named(prefix)


def _opened(arguments: argparse.Namespace) -> AbstractContextManager[Catalog | None]:
    root = arguments.directory or Path(INTERMEDIATE_RESULT_DIRECTORY.default())
    return catalog_at(arguments.catalog_url) if arguments.catalog_url else catalog_in(root)
