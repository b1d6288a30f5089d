"""What is worth keeping, what is evicted, and what is learned of the storage."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.advice.kept_forms import KeptForm
from holdfast.advice.learned_rates import LearnedRates
from holdfast.advice.past_query import PastQuery, PlanPart
from holdfast.advice.proposal import StorageRates
from holdfast.advice.storage_use import StorageUse
from holdfast.advice.worth_keeping import worth_keeping
from holdfast.catalog.profit import Room, Valued, make_room
from tests.catalog.conftest import postgresql as postgresql
from tests.catalog.conftest import programs as programs
from tests.catalog.conftest import url as url

# -- what of a query the implicit cache keeps, as past queries say


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


# -- what is evicted: worked examples, and what holds for all


def valued(key: str, **changed: object) -> Valued[str]:
    facts: dict[str, object] = {"bytes": 10, "seconds": 10.0, "references": (0.0,)}
    return Valued(key, **{**facts, **changed})  # type: ignore[arg-type]


def room(newcomer: Valued[str], *kept: Valued[str], free: int = 0, **more: object) -> Room[str]:
    return make_room(newcomer, kept, free, 100.0, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "worse",
    [{"seconds": 1.0}, {"bytes": 100}, {"references": (-900.0,)}],
    ids=["cheap to compute", "large", "not used for long"],
)
def test_what_is_worth_least_goes(worse: dict[str, object]) -> None:
    found = room(valued("new", seconds=1e6), valued("a"), valued("b", **worse), valued("c"))
    assert found == Room(True, ("b",))


def test_what_is_worth_more_stays_and_the_new_one_is_not_kept() -> None:
    assert room(valued("new"), valued("a"), free=10) == Room(True)
    assert room(valued("new", bytes=100, seconds=1e9), valued("a")) == Room(False)
    assert room(valued("new", seconds=1.0), valued("a")) == Room(False)
    assert room(valued("new", seconds=1.0), valued("a"), must_be_kept=True) == Room(True, ("a",))


def test_what_others_were_made_of_and_is_gone_costs_as_well() -> None:
    gone = valued("input", seconds=1000.0)
    of_it = valued("of it", inputs=("input",))
    assert room(valued("new", seconds=1e6), of_it, valued("b")).evicted == ("of it",)
    found = room(valued("new", seconds=1e6), of_it, valued("b"), gone=(gone,))
    assert found.evicted == ("b",)
    # What the new one was made of goes first.
    whole = valued("whole", seconds=1.0, inputs=("b",))
    assert room(whole, valued("a", seconds=5.0), valued("b", seconds=50.0)).evicted == ("b",)


KEPT = st.lists(
    st.builds(
        Valued,
        st.integers(0, 20),
        st.integers(0, 100),
        st.floats(0, 1e6),
        st.lists(st.floats(0, 100), max_size=4).map(sorted).map(tuple),
        st.lists(st.integers(0, 20), max_size=3).map(tuple),
    ),
    max_size=8,
    unique_by=lambda each: each.key,
)


@given(KEPT, st.integers(0, 200), st.integers(-50, 200), st.booleans())
def test_there_is_room_afterwards(
    kept: list[Valued[int]], size: int, free: int, must_be_kept: bool
) -> None:
    newcomer = Valued(99, size, 5.0, (0.0, 50.0))
    found = make_room(newcomer, kept, free, 100.0, must_be_kept=must_be_kept)
    sizes = {each.key: each.bytes for each in kept}
    assert len(set(found.evicted)) == len(found.evicted) and sizes.keys() >= set(found.evicted)
    freed = free + sum(sizes[key] for key in found.evicted)
    if found.is_admitted:
        assert freed >= size or size - free <= 0
        assert all(freed - sizes[key] < size for key in found.evicted)
    elif must_be_kept:
        assert free + sum(sizes.values()) < size


# -- how fast kept rows are read and written is learned, and by no less than a few queries


ASSUMED = StorageRates(written=10.0, read=100.0)


def read(key: str, seconds: float, size: int = 100, is_write: bool = False) -> StorageUse:
    return StorageUse(key, is_write, size, seconds, 1.0)


@pytest.mark.parametrize(
    ("uses", "written_rate", "read_rate"),
    [
        # Two times are chance; of three the median counts, and of many the last ones.
        ([read("a", 2.0)] * 2, 10.0, 100.0),
        ([read("a", 2.0), read("b", 0.5), read("c", 0.5)], 10.0, 200.0),
        ([read(key, 5.0, is_write=True) for key in "abc"], 20.0, 100.0),
        ([read("a", 4.0)] * 20 + [read("a", 0.5)] * 9, 10.0, 200.0),
        # None is far from the assumed one.
        ([read("a", 0.0)] * 3 + [read("a", 1.0, size=0)] * 9, 10.0, 400.0),
        ([read("a", 1e9)] * 3, 10.0, 25.0),
    ],
)
def test_rates_are_those_that_were_measured(
    uses: list[StorageUse], written_rate: float, read_rate: float
) -> None:
    rates = LearnedRates(ASSUMED)
    for use in uses:
        rates.noted(use)
    assert rates.rates == StorageRates(written=written_rate, read=read_rate)
