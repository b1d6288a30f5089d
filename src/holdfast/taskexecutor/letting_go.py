"""Which outputs that a task executor holds for the catalog are not to be held any more."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from holdfast.taskexecutor.partitions.partition_info import OutputID


@dataclass(frozen=True, slots=True)
class LettingGo:
    """What is to become of held outputs.

    Attributes:
        gone: those that the catalog has let go of.
        forgotten: those that it has been found not to know twice.
        unknown: those that it doesn't know, and is to be asked for again.
    """

    gone: frozenset[OutputID]
    forgotten: frozenset[OutputID]
    unknown: frozenset[OutputID]


def letting_go(
    asked: Collection[OutputID], recorded: Mapping[str, bool], unknown_before: Collection[OutputID]
) -> LettingGo:
    """Decides it. Pure.

    An output is announced in the catalog before it is held, so that what isn't known there is
    garbage; asked twice, no answer of the moment removes anything.

    Args:
        asked: the outputs that are held for this very catalog.
        recorded: whether it holds them still, by their names; without those that it doesn't know.
        unknown_before: those that it didn't know when it was asked before.

    >>> from holdfast.ids import IntermediateDataSetID
    >>> one, other = (OutputID(IntermediateDataSetID(digit * 64), "0badcafe") for digit in "12")
    >>> letting_go([one, other], {one.name: True}, []).forgotten
    frozenset()
    >>> letting_go([one, other], {one.name: True}, [other]).forgotten == {other}
    True
    """
    gone = {each for each in asked if recorded.get(each.name) is False}
    unknown = {each for each in asked if each.name not in recorded}
    forgotten = unknown & set(unknown_before)
    return LettingGo(frozenset(gone), frozenset(forgotten), frozenset(unknown - forgotten))
