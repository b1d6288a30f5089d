"""What this application has kept counts in digests by what it is, not by where it lies."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.document import OperatorDocument
from holdfast.plan.file_sources import FileListing, all_operators, file_listing, with_listings
from holdfast.spark.partition_reader import hadoop_path
from holdfast.storage.kept_dataset import KeptDataSet

_ROW_BY_ROW = frozenset({"Project", "Filter", "LogicalRelation"})


@dataclass(frozen=True, slots=True)
class _Open:
    """What a node reads of a dataset, of which it can't be told by the dataset alone.

    Attributes:
        dataset: whose partitions these are; None where they are of several.
        places: how often each of them is read.
        row_by_row: each row depends on one row of the partitions.
    """

    dataset: int | None
    places: Counter[str]
    row_by_row: bool


class KeptSources:
    """Tells leaves that read kept datasets from those that read a person's files.

    A dataset of few partitions is read by a union of its files, and the optimizer takes what is
    done row by row into the branches. Together they stand for the dataset; a branch alone doesn't,
    as the next production may deal rows to partitions in another way.

    Args:
        kept: datasets that plans may read.
    """

    def __init__(self, kept: Iterable[KeptDataSet]) -> None:
        self._ids: list[str] = []
        self._wholes: list[frozenset[str]] = []
        self._dataset_of: dict[str, int] = {}
        for number, each in enumerate(kept):
            places = frozenset(hadoop_path(place) for place in each.locations)
            self._ids.append(each.manifest.dataset.dataset_id)
            self._wholes.append(places)
            self._dataset_of.update(dict.fromkeys(places, number))

    def named(self, operators: list[OperatorDocument]) -> list[OperatorDocument]:
        """A plan's operators with datasets in the place of listings."""
        if not self._ids:
            return operators
        return with_listings(operators, lambda _, listing: self._named(listing))

    def guarded(self, root: CanonicalNode, operators: list[OperatorDocument]) -> CanonicalNode:
        """The plan with each node irreplaceable that reads some partitions of a dataset only.

        Args:
            root: the canonical form of what `named` gave.
            operators: what `named` was given.
        """
        leaves = self._parts(operators)
        if not leaves:
            return root
        done: dict[int, tuple[CanonicalNode, _Open | None]] = {}
        for node in _post_order(root):
            if id(node) in done:
                continue
            children = [done[id(each)] for each in node.children]
            subqueries = [done[id(each)] for each in node.subqueries]
            found = leaves.get(node.handle) if not node.children else None
            if found is None:
                found = self._gathered(node, [each for _, each in children + subqueries])
            guarded = replace(
                node,
                children=tuple(each for each, _ in children),
                subqueries=tuple(each for each, _ in subqueries),
                replaceable=node.replaceable and found is None,
            )
            done[id(node)] = (guarded, found)
        return done[id(root)][0]

    def _named(self, listing: FileListing) -> FileListing | None:
        found = self._read_by(listing)
        if found is None:
            return None
        whole = frozenset(file[0] for file in listing["files"]) == self._wholes[found]
        what = "dataset" if whole else "part of dataset"
        return {**listing, "files": [], "partitions": f"{what} {self._ids[found]}"}

    def _read_by(self, listing: FileListing) -> int | None:
        """The one dataset whose files are listed."""
        found = {self._dataset_of.get(file[0]) for file in listing["files"]}
        return found.pop() if len(found) == 1 else None

    def _parts(self, operators: list[OperatorDocument]) -> dict[int, _Open]:
        """By handle the leaves that read a dataset in part."""
        parts = {}
        for operator in all_operators(operators):
            listing = file_listing(operator)
            found = None if listing is None else self._read_by(listing)
            if listing is None or found is None:
                continue
            places = Counter(file[0] for file in listing["files"])
            if places.keys() != self._wholes[found]:
                parts[operator["i"]] = _Open(found, places, row_by_row=True)
        return parts

    def _gathered(self, node: CanonicalNode, below: list[_Open | None]) -> _Open | None:
        """What is still open at a node, given what is open at its inputs."""
        still = [each for each in below if each is not None]
        if node.operator == "Union" and still and self._are_whole(node, below):
            return None
        if not still:
            return None
        first = still[0]
        alone = len(still) == 1 and node.operator in _ROW_BY_ROW and not node.subqueries
        return first if alone else _Open(None, Counter(), row_by_row=False)

    def _are_whole(self, union: CanonicalNode, below: list[_Open | None]) -> bool:
        """Whether each dataset that is open in some branches is whole in them together."""
        places: dict[int, Counter[str]] = {}
        digests: dict[int, set[str]] = {}
        for branch, each in zip(union.children, below, strict=False):
            if each is None:
                continue
            if each.dataset is None or not each.row_by_row:
                return False
            places.setdefault(each.dataset, Counter()).update(each.places)
            digests.setdefault(each.dataset, set()).add(branch.digest)
        return all(
            counted.keys() == self._wholes[dataset]
            and len(set(counted.values())) == 1
            and len(digests[dataset]) == 1
            for dataset, counted in places.items()
        )


def _post_order(root: CanonicalNode) -> list[CanonicalNode]:
    turned, waiting = [], [root]
    while waiting:
        node = waiting.pop()
        turned.append(node)
        waiting.extend(node.children)
        waiting.extend(node.subqueries)
    return turned[::-1]
