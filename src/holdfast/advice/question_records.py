"""How questions about joins are written down, for later programs: without literals."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from holdfast.advice.rollups import Groups, Rollup, condition_name

_QUOTED_NAME = re.compile(r"`(?:[^`]|``)*`")
_DIGITS_OF_TYPE = re.compile(r"\b(?:DECIMAL|CHAR|VARCHAR)\([\d, ]+\)")
_LITERAL = re.compile(r"'|(?<![\w.])(?![01](?:\.0)?[A-Z]*(?![\w.]))\.?\d")


def without_literals(rollup: Rollup) -> Rollup | None:
    """A question as it may be told to others: with what its conditions compare, not with what.

    Args:
        rollup: what has been asked, and what was made of that.

    Returns:
        None where literals decide what is grouped by.
    """
    asked = _plain(rollup.asked)
    conditions = rollup.asked.compares.keys()
    if {*asked.by} != {*rollup.asked.by} - conditions or len(asked.compares) < len(conditions):
        return None
    fine = None if rollup.fine is None else _plain(rollup.fine.by_text())
    return replace(rollup, asked=asked, fine=fine)


def has_literals(text: str) -> bool:
    """Whether SQL has literals other than 0 and 1, which are no data of anybody's.

    >>> [has_literals(each) for each in ("sum(a * (1 - b2))", "CAST(a AS DECIMAL(12,2))", "`7 'x`")]
    [False, False, False]
    >>> [has_literals(each) for each in ("a > 10", "name = 'Bob'", "1.5BD * a", "a + .5D")]
    [True, True, True, True]
    """
    return bool(_LITERAL.search(_DIGITS_OF_TYPE.sub("", _QUOTED_NAME.sub("", text))))


def written(rollup: Rollup) -> list[Any]:
    """A question that has no literals, as JSON has it.

    >>> asked = Groups({"city": "city"}, {"count(1)": "count(1)"}, {"city": 10.0})
    >>> read(written(Rollup("join", asked, "digest"))) == Rollup("join", asked, "digest")
    True
    """
    fine = None if rollup.fine is None else _groups(rollup.fine)
    leaves_rows_out = int(rollup.leaves_rows_out)
    return [
        rollup.rows,
        rollup.digest,
        leaves_rows_out,
        rollup.dataset,
        _groups(rollup.asked),
        fine,
    ]


def read(document: list[Any]) -> Rollup:
    """The question that has been written down.

    Raises:
        ValueError, TypeError: when it is something else.
    """
    rows, digest, leaves_rows_out, dataset, asked, fine = document
    return Rollup(
        str(rows),
        _read_groups(*asked),
        str(digest),
        bool(leaves_rows_out),
        None if fine is None else _read_groups(*fine),
        "" if fine is None else str(dataset),
    )


def _plain(groups: Groups) -> Groups:
    by = [text for text in groups.by if not has_literals(text)]
    compares = {
        condition_name(condition): what
        for condition, what in groups.compares.items()
        if not any(map(has_literals, what))
    }
    told = {*by}.union(*compares.values())
    return Groups(
        _named(by),
        _named(text for text in groups.measures if not has_literals(text)),
        {text: values for text, values in groups.counts.items() if text in told},
        compares,
    )


def _groups(groups: Groups) -> list[Any]:
    compared = [[name, _counted(groups, what)] for name, what in groups.compares.items()]
    return [_counted(groups, groups.by), [*groups.measures], compared]


def _counted(groups: Groups, texts: Iterable[str]) -> list[Any]:
    return [[text, groups.counts.get(text)] for text in texts]


def _read_groups(by: list[Any], measures: list[Any], compared: list[Any]) -> Groups:
    compares = {str(name): _read_counted(what) for name, what in compared}
    keys = _read_counted(by)
    counts = dict(keys)
    for what in compares.values():
        counts |= what
    return Groups(
        _named(keys),
        _named(map(str, measures)),
        counts,
        {name: _named(what) for name, what in compares.items()},
    )


def _read_counted(document: list[Any]) -> dict[str, float | None]:
    return {str(text): None if values is None else float(values) for text, values in document}


def _named(texts: Iterable[str]) -> dict[str, str]:
    return {text: text for text in texts}
