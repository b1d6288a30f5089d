"""What of a query the implicit cache keeps, as past queries say."""

from __future__ import annotations

from dataclasses import replace

import pytest

from holdfast.advice.kept_forms import KeptForm
from holdfast.advice.past_query import PastQuery, PlanPart
from holdfast.advice.worth_keeping import worth_keeping

MIB = 2**20


def query(number: int, *parts: PlanPart) -> PastQuery:
    root = PlanPart(None, "Aggregate", 0.1, 0, parts)
    return PastQuery("app", "p", number, "collect", float(number), 1.0, root)


def join(*columns: str, seconds: float = 10.0, size: int = MIB, extra: float = 0.0) -> PlanPart:
    return PlanPart("join", "Join", seconds, size, (), columns or ("a",), extra)


def forms(history: list[PastQuery], now: PastQuery, **kept: KeptForm) -> list[KeptForm]:
    known = {key: [form] for key, form in kept.items()}
    return [each.form for each in worth_keeping(now, history, known) if each.form is not None]


AB = KeptForm("join", frozenset("ab"))
SLOW = join(size=100 * MIB)


@pytest.mark.parametrize(
    ("before", "now", "known", "columns"),
    [
        ([], join(), None, ""),
        # What is asked for again is kept with all columns that were needed.
        ([join("a", "b")], join("c"), None, "abc"),
        # It is kept once as much was lost as keeping it costs, here 10 s.
        ([SLOW], SLOW, None, ""),
        ([SLOW] * 2, SLOW, None, "a"),
        # What is dearer to read than to compute is never kept.
        ([join(seconds=4.0, size=600 * MIB)] * 30, join(seconds=4.0, size=600 * MIB), None, ""),
        # Columns that others use cost what they take to write.
        ([join("a", size=40 * MIB)], join("a", size=40 * MIB), None, "a"),
        ([join(*"bcdefgh", size=280 * MIB)], join("a", size=40 * MIB), None, ""),
        # Rows that no query computes cost what they take; what was slow once is not what all cost.
        ([join(extra=50.0)], join(extra=50.0), None, ""),
        ([join(extra=50.0)], join(extra=1.0), None, "a"),
        # Of what is kept already more columns are kept once they have cost enough.
        ([join("a")] * 5, join("b"), AB, ""),
        ([join("a")] * 2, join("b"), KeptForm("join", frozenset("a")), ""),
        ([*[join("a")] * 2, join("b")], join("b"), KeptForm("join", frozenset("a")), "ab"),
    ],
)
def test_what_is_kept(
    before: list[PlanPart], now: PlanPart, known: KeptForm | None, columns: str
) -> None:
    history = [query(number, each) for number, each in enumerate(before)]
    found = forms(history, query(len(before), now), **({} if known is None else {"join": known}))
    assert found == [KeptForm("join", frozenset(columns))] * bool(columns)


def test_what_was_asked_for_long_ago_counts_less() -> None:
    def kept(*days_ago: int) -> bool:
        asked = [
            replace(query(n, slow), started=-days * 86_400.0) for n, days in enumerate(days_ago)
        ]
        return forms(asked, query(9, slow)) != []

    slow = join(seconds=10.0, size=90 * MIB)
    assert kept(2, 1) and kept(21, 1) and not kept(2)
    # What they'd have saved was less each week.
    assert not kept(28, 21) and kept(28, 21, 7, 1)
    # The clocks of two machines differ.
    assert forms([replace(query(0, slow), started=1e12), query(1, slow)], query(2, slow)) != []


def test_of_parts_inside_each_other_the_one_is_kept_that_recurs() -> None:
    def above(name: str) -> PlanPart:
        return PlanPart(name, "Aggregate", 0.5, 100, (join(),), ("x",))

    found = forms([query(0, above("one"))], query(1, above("two")))
    assert [each.key for each in found] == ["join"]
    found = forms([query(0, above("one"))], query(1, above("one")))
    assert [each.key for each in found] == ["one"]


def day(number: int) -> PlanPart:
    """A part as it is on one day, over that day's files."""
    return replace(join(), key=f"day {number}", template="each day")


def test_what_is_asked_for_several_times_each_day_is_kept_the_first_time() -> None:
    days = [query(10 * number + time, day(number)) for number in range(3) for time in range(3)]
    [verdict] = worth_keeping(query(40, day(4)), days, {})
    assert verdict.form == KeptForm("day 4", frozenset("a"))
    assert verdict.why == "computed 10 times with 4 sets of literals and files"
