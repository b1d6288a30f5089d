"""Ids that are as short as they can be, and finding a dataset by one."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from holdfast.cli.datasets.errors import BadInputError
from holdfast.cli.datasets.listed_dataset import ListedDataSet
from holdfast.cli.datasets.printable import printable
from holdfast.taskexecutor.partitions.partition_info import OutputID

_SHORTEST = 4
_SHOWN = 8
_PREFIX = re.compile(r"([0-9a-f]{4,64})(?:-([0-9a-f]{0,8}))?")
_CANDIDATES = 10


def short_ids(outputs: Sequence[OutputID]) -> dict[OutputID, str]:
    """For each output the first digits of its dataset that no other one begins with.

    Where there are several outputs of one dataset, some digits of the attempt follow.
    """
    datasets = {output.dataset_id.hex for output in outputs}
    length = _unique(datasets, _SHOWN)
    productions = Counter(output.dataset_id for output in outputs)
    attempts = _unique({output.name for output in outputs}, 64 + 1 + _SHORTEST) - 65
    return {
        output: output.dataset_id.hex[:length]
        + (f"-{output.attempt[:attempts]}" if productions[output.dataset_id] > 1 else "")
        for output in outputs
    }


def chosen(given: str, datasets: Sequence[ListedDataSet], where: str) -> ListedDataSet:
    """The dataset that an id means.

    Args:
        given: the first digits of a dataset's id, or of an output's, of which either part may be
            cut short.
        datasets: all there are.
        where: where they have been looked for.

    Raises:
        BadInputError: when it is no id, or means none of them, or several.
    """
    match = _PREFIX.fullmatch(given.lower())
    if match is None:
        raise BadInputError(
            f"{given!r} is not a dataset id: expected at least {_SHORTEST} hexadecimal digits, "
            "as `holdfast ls` shows them"
        )
    dataset, attempt = match[1], match[2] or ""
    meant = [
        each
        for each in datasets
        if each.output.dataset_id.hex.startswith(dataset)
        and each.output.attempt.startswith(attempt)
    ]
    if len(meant) == 1:
        return meant[0]
    if meant:
        raise BadInputError(
            f"{given} is ambiguous, it matches {len(meant)} datasets:{_lines(meant)}"
        )
    there_are = f", but:{_lines(datasets)}" if datasets else "; nothing is"
    raise BadInputError(f"no dataset {given} is kept in {where}{there_are}")


def _unique(names: set[str], shortest: int) -> int:
    """The least length from `shortest` on at which all names differ."""
    longest = max((len(name) for name in names), default=shortest)
    return next(
        (
            length
            for length in range(shortest, longest)
            if len({name[:length] for name in names}) == len(names)
        ),
        longest,
    )


def _lines(datasets: Sequence[ListedDataSet]) -> str:
    shown = [
        f"\n  {each.output.name}  {printable(each.computes or '')}".rstrip()
        for each in datasets[:_CANDIDATES]
    ]
    more = len(datasets) - len(shown)
    return "".join(shown) + (f"\n  and {more} more" if more else "")
