"""What lies in a storage directory and nobody holds."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from holdfast.catalog.catalog import Catalog
from holdfast.catalog.cataloged_result import CatalogedResult, ResultState
from holdfast.cli.datasets.errors import DataSetsError
from holdfast.files.removal import remove_at_once
from holdfast.storage.partition_directory import DATASETS, STAGING
from holdfast.storage.shared_directory import SHARED, SharedDirectory
from holdfast.taskexecutor.applications.application_directory import garbage_in

_ALIVE = (ResultState.KEPT, ResultState.COMING)


@dataclass(frozen=True, slots=True)
class FoundGarbage:
    """Something that may be removed.

    Attributes:
        paths: where it lies.
        why: why nobody misses it.
        bytes: its size.
        result: its record in the catalog, if it has one.
    """

    paths: tuple[Path, ...]
    why: str
    bytes: int
    result: CatalogedResult | None = None

    def remove(self) -> bool:
        """Removes it; returns whether nothing of it is left."""
        left = [
            path
            for path in self.paths
            if not remove_at_once(path, path.with_name(f".removed-{path.name}"))
        ]
        return not left


def find_garbage(root: Path, catalog: Catalog | None) -> Iterator[FoundGarbage]:
    """What may be removed.

    Args:
        root: the storage directory.
        catalog: its catalog; None where there is none.

    Raises:
        OSError: when the directory can't be listed.
        CatalogError: when the catalog can't be used.
        DataSetsError: when there are shared results and no catalog says who holds them.
    """
    for path in garbage_in(root):
        yield FoundGarbage((path,), "its program has ended", _bytes_in(path))
    # First what lies there, then what is recorded: a record is made before a directory.
    names = SharedDirectory(root / SHARED).names()
    if catalog is None:
        if names:
            raise DataSetsError(
                f"{root} has {len(names)} shared results and no catalog that says who holds them: "
                "run `holdfast catalog rebuild` first"
            )
        return
    recorded = {result.name: result for result in catalog.search.all(_ALIVE)}
    unheld = {result.name for result in catalog.holders.unheld()}
    going = {result.name: result for result in catalog.search.all([ResultState.GOING])}
    for name in sorted(names):
        paths = tuple(
            path for kind in (STAGING, DATASETS) if (path := root / SHARED / kind / name).exists()
        )
        size = sum(map(_bytes_in, paths))
        if name in unheld:
            yield FoundGarbage(paths, "its lifetime is over", size, recorded.get(name))
        elif name not in recorded:
            result = going.get(name)
            why = "no catalog records it" if result is None else str(result.why_gone)
            yield FoundGarbage(paths, why, size, result)


def _bytes_in(path: Path) -> int:
    try:
        if not path.is_dir() or path.is_symlink():
            return path.lstat().st_size
        return sum(_bytes_in(each) for each in path.iterdir())
    except OSError:
        # It is being removed.
        return 0
