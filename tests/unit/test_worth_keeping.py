"""What of a query is kept unasked, as past queries say."""

from __future__ import annotations

from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from holdfast.advice.kept_forms import KeptForm
from holdfast.advice.past_query import PastQuery, PlanPart
from holdfast.advice.proposal import AS_IN_FILES
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


def test_what_is_asked_for_once_is_not_kept() -> None:
    assert forms([], query(0, join())) == []


def test_what_is_asked_for_again_is_kept_with_all_columns_that_were_needed() -> None:
    found = forms([query(0, join("a", "b"))], query(1, join("c")))
    assert found == [KeptForm("join", frozenset("abc"))]


def test_it_is_kept_once_as_much_was_lost_as_keeping_it_costs() -> None:
    slow = join(seconds=10.0, size=100 * MIB)
    assert AS_IN_FILES.written == 10 * MIB
    assert forms([query(0, slow)], query(1, slow)) == []
    assert forms([query(0, slow), query(1, slow)], query(2, slow)) != []


def test_what_was_asked_for_long_ago_tells_less() -> None:
    def kept(*days_ago: int) -> bool:
        asked = [
            replace(query(n, slow), started=-days * 86_400.0) for n, days in enumerate(days_ago)
        ]
        return forms(asked, query(9, slow)) != []

    slow = join(seconds=10.0, size=90 * MIB)
    assert kept(2, 1) and kept(21, 1) and not kept(2)
    # What they'd have saved was less each week.
    assert not kept(28, 21) and kept(28, 21, 7, 1)


def test_a_clock_that_is_ahead_is_no_matter() -> None:
    slow = join(seconds=10.0, size=90 * MIB)
    ahead = replace(query(0, slow), started=1e12)
    assert forms([ahead, query(1, slow)], query(2, slow)) != []


def test_what_is_dearer_to_read_than_to_compute_is_never_kept() -> None:
    large = join(seconds=4.0, size=600 * MIB)
    assert forms([query(n, large) for n in range(30)], query(30, large)) == []


def test_columns_that_others_use_cost_what_they_take_to_write() -> None:
    def costs(*others: PlanPart) -> float:
        [verdict] = worth_keeping(query(9, narrow), [query(0, each) for each in others], {})
        return verdict.costs

    narrow = join("a", seconds=10.0, size=40 * MIB)
    assert costs(narrow) == 4.0
    # Both are about as wide.
    assert costs(join("b", "c", seconds=10.0, size=80 * MIB)) == 12.0
    wide = join(*"bcdefgh", seconds=10.0, size=280 * MIB)
    assert forms([query(0, narrow)], query(1, narrow)) != []
    assert forms([query(0, wide)], query(1, narrow)) == []


def test_rows_that_no_query_computes_cost_what_they_take() -> None:
    selective = join(extra=50.0)
    assert forms([query(0, selective)], query(1, selective)) == []


def test_what_was_slow_once_is_not_what_all_rows_cost() -> None:
    assert forms([query(0, join(extra=50.0))], query(1, join(extra=1.0))) != []
    assert forms([query(0, join(extra=1.0))], query(1, join(extra=50.0))) != []


def test_what_serves_all_columns_is_no_reason_to_keep_more() -> None:
    kept = KeptForm("join", frozenset("ab"))
    history = [query(n, join("a")) for n in range(5)]
    assert forms(history, query(5, join("b")), join=kept) == []


def test_columns_that_are_not_kept_are_kept_once_they_have_cost_enough() -> None:
    kept = KeptForm("join", frozenset("a"))
    history = [query(0, join("a")), query(1, join("a"))]
    assert forms(history, query(2, join("b")), join=kept) == []
    history.append(query(2, join("b")))
    assert forms(history, query(3, join("b")), join=kept) == [KeptForm("join", frozenset("ab"))]


def test_of_parts_inside_each_other_the_one_is_kept_that_recurs() -> None:
    def above(name: str) -> PlanPart:
        return PlanPart(name, "Aggregate", 0.5, 100, (join(),), ("x",))

    found = forms([query(0, above("one"))], query(1, above("two")))
    assert [each.key for each in found] == ["join"]
    found = forms([query(0, above("one"))], query(1, above("one")))
    assert [each.key for each in found] == ["one"]


def test_each_part_that_is_not_kept_has_a_reason() -> None:
    large = PlanPart("large", "Join", 1.0, 10_000 * MIB, (), ("a",))
    rare = PlanPart("rare", "Aggregate", 5.0, 10, (), ("a",))
    now = query(1, large, rare)
    verdicts = {each.key: each.why for each in worth_keeping(now, [query(0, large)], {})}
    assert verdicts == {
        "large": "takes 1.0 s to compute, and 312.5 s to read",
        "rare": "asked for once",
    }


def day(number: int) -> PlanPart:
    """A part as it is on one day, over that day's files."""
    return replace(join(), key=f"day {number}", template="each day")


def test_what_is_asked_for_several_times_each_day_is_kept_the_first_time() -> None:
    days = [query(10 * number + time, day(number)) for number in range(3) for time in range(3)]
    [verdict] = worth_keeping(query(40, day(4)), days, {})
    assert verdict.form == KeptForm("day 4", frozenset("a"))
    assert verdict.why == "computed 10 times with 4 sets of literals and files"


def test_what_is_asked_for_once_each_day_is_not_kept() -> None:
    days = [query(number, day(number)) for number in range(9)]
    assert forms(days, query(9, day(9))) == []


def test_what_recurs_today_is_kept_although_it_did_not_before() -> None:
    days = [query(number, day(number)) for number in range(90)]
    assert forms([*days, query(90, day(90))], query(91, day(90))) != []


parts = st.builds(
    lambda key, own, size, columns: PlanPart(key, "part", own, size, (), tuple(columns)),
    st.sampled_from("abc"),
    st.floats(0, 100),
    st.integers(0, 4000 * MIB),
    st.sets(st.sampled_from("xyz"), min_size=1),
)


@given(st.lists(st.lists(parts, max_size=2), max_size=6), st.lists(parts, max_size=2))
def test_what_is_kept_serves_the_query_and_was_asked_for_before(
    past: list[list[PlanPart]], now: list[PlanPart]
) -> None:
    history = [query(number, *each) for number, each in enumerate(past)]
    asked = query(len(past), *now)
    before = {part.key for each in history for part in each.root.walk()}
    for form in forms(history, asked):
        mine = [part for part in now if part.key == form.key]
        assert mine
        assert all(form.columns.issuperset(part.columns) for part in mine)
        assert form.key in before or len(mine) > 1
