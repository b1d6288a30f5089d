"""What people see of a catalog: results page by page, what was saved, what happens."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from holdfast.catalog.audience import Audience
from holdfast.catalog.catalog import Catalog
from holdfast.catalog.cataloged_result import MadeFrom, ResultState
from holdfast.catalog.days import Counts
from holdfast.catalog.noted_uses import NotedUses
from holdfast.catalog.reading.activity import HappeningKind
from holdfast.catalog.reading.result_list import ResultFilter, ResultSort
from holdfast.catalog.schema import RESULTS
from holdfast.ids import IntermediateDataSetID
from holdfast.plan.file_version import FileVersion
from holdfast.plan.outline import PlanStep
from holdfast.storage.column_statistics import ColumnStatistics
from tests.catalog.conftest import postgresql as postgresql
from tests.catalog.conftest import programs as programs
from tests.catalog.conftest import url as url
from tests.catalog.results import DATASET, OTHER, pass_time, produced, publish, unlimited

Programs = Callable[..., Catalog]


def dataset(number: int) -> IntermediateDataSetID:
    return IntermediateDataSetID(f"{number:064x}")


def kept(catalog: Catalog, dataset_id: IntermediateDataSetID = DATASET, **facts: Any) -> int:
    """Publishes what outlives its program and is for all; its number."""
    how = {"is_shared": True, "lifetime": 60.0, "audience": Audience.ALL}
    number = publish(catalog, dataset_id, **{**how, **facts}).number
    assert number is not None
    return number


def test_results_come_sorted_and_page_by_page(programs: Programs) -> None:
    ana, sizes = programs(), [number * 100 % 450 for number in range(1, 8)]
    for number, size in enumerate(sizes, 1):
        publish(ana, dataset(number), size=size, seconds=float(number))
    for offset, expected in ((0, [7.0, 6.0, 5.0]), (3, [4.0, 3.0, 2.0]), (100, [])):
        page = ana.reading.results(sort=ResultSort.COST, offset=offset, most=3)
        assert [each.seconds for each in page.results] == expected
        assert (page.total, page.bytes) == (7, sum(sizes))
    page = ana.reading.results(sort=ResultSort.SIZE, descending=False)
    assert [each.bytes for each in page.results] == sorted(sizes)
    for sort in ResultSort:
        assert ana.reading.results(sort=sort).total == len(list(ana.reading.all())) == 7


def test_results_are_found_by_what_they_are(programs: Programs) -> None:
    ana, bo = programs("ana"), programs("bo")
    publish(ana, DATASET)
    publish(bo, OTHER)
    bos = [OTHER.hex[:6], "bo"]
    nothing = ["over%", "over_a", "~", "nothing'; DROP TABLE results"]
    for words, users in (
        *((each, ["bo", "ana"]) for each in ("JOIN", "over A", "b")),
        *((each, ["bo"]) for each in bos),
        *((each, []) for each in nothing),
    ):
        page = ana.reading.results(ResultFilter(words))
        assert [each.user for each in page.results] == users, words
    for only in (ResultFilter(owner="ana"), ResultFilter(application=ana.scope.me)):
        assert [each.user for each in ana.reading.results(only).results] == ["ana"]
    assert ana.reading.owners() == ["ana", "bo"]
    bo.holders.withdraw("it was enough", digest="d" + OTHER.hex[1:])
    assert ana.reading.results().total == 1
    assert ana.reading.results(ResultFilter(state=None)).total == 2
    [gone] = ana.reading.results(ResultFilter(state=ResultState.GONE)).results
    assert gone.why_gone == "it was enough"
    assert [each.user for each in ana.reading.named(OTHER.hex[:4])] == ["bo"]
    assert ana.reading.named("7") == ()


def test_what_was_saved_is_counted_and_stays(programs: Programs) -> None:
    ana, bo = programs("ana"), programs("bo", shares_with=Audience.ALL)
    assert ana.reading.overview().ever == Counts()
    assert ana.reading.overview().ever.hit_rate is None
    number = kept(ana, size=300, seconds=4.0)
    assert bo.holders.use(number, hold=True)
    uses = NotedUses()
    uses.saved(number, 3.0)
    assert bo.holders.use(number, noted=uses.take()[number])
    for _ in range(2):
        uses.note(number)
        uses.saved(number, 4.5)
    assert bo.holders.use(number, noted=uses.take()[number])
    seen = ana.reading.overview()
    assert seen.today == seen.week == seen.ever == Counts(3, 900, 12.0, 1, 300, 4.0)
    detail = ana.reading.detail(number)
    assert detail is not None and [each.seconds for each in detail.uses] == [9.0, 3.0]
    assert seen.ever.hit_rate == 0.75
    assert (seen.results, seen.bytes, seen.programs) == (1, 300, 2)
    assert list(seen.days.values())[-1] == seen.today
    with ana.database.writing() as connection:
        connection.execute(RESULTS.delete())
    assert ana.reading.overview().ever == Counts(3, 900, 12.0, 1, 300, 4.0)


def test_what_happens_is_listed_the_latest_first(programs: Programs) -> None:
    ana, bo = programs("ana"), programs("bo", shares_with=Audience.ALL)
    first = kept(ana, size=300)
    bo.holders.use(first)
    ana.holders.let_go([first])
    publish(ana, OTHER, size=300, limit=400)
    happened = [(each.kind, each.user) for each in ana.reading.lately(10)]
    assert happened[-2:] == [(HappeningKind.READ, "bo"), (HappeningKind.KEPT, "ana")]
    assert sorted(each.value for each, _ in happened) == ["evicted", "kept", "kept", "read"]
    assert len({each.id for each in ana.reading.lately(10)}) == 4
    assert len(ana.reading.lately(2)) == 2


def test_all_that_is_known_of_a_result(programs: Programs) -> None:
    ana = programs("ana")
    made_from = MadeFrom(
        (FileVersion("file:/a", 10, 1_000, "t"),),
        {"spark.sql.ansi.enabled": "true"},
        (PlanStep("Relation", (), ("a",)), PlanStep("Filter", (0,))),
    )
    statistics = {"a": ColumnStatistics("<b>", None, 3), "b": ColumnStatistics(None, None, None)}
    publish(ana, DATASET)
    result = produced(OTHER, inputs=(DATASET,), made_from=made_from)
    number = ana.publications.publish(result, None, unlimited, statistics=statistics).number
    assert number is not None
    detail = ana.reading.detail(number)
    assert detail is not None
    assert (detail.made_from, detail.statistics) == (made_from, statistics)
    assert detail.kept is not None and detail.kept.rows == 7
    assert list(detail.read.values()) == ["Join over a, b"]
    assert (detail.programs, detail.until, detail.is_pinned) == (1, None, False)
    stranger = programs("bo").reading.detail(number)
    assert stranger is not None and detail.may_change and not stranger.may_change
    assert ana.reading.detail(number + 1) is None
    # What ends with its program is not pinned.
    assert not ana.holders.pin(number) and not ana.holders.pin(number + 1)


def test_what_is_pinned_stays(programs: Programs) -> None:
    ana, bo = programs("ana"), programs("bo", shares_with=Audience.ALL)
    pinned, other = kept(ana, DATASET, size=300), kept(ana, OTHER, size=300)
    for _ in range(2):
        assert bo.holders.pin(pinned)
    ana.holders.let_go([pinned, other])
    detail = bo.reading.detail(pinned)
    assert detail is not None and detail.is_pinned and detail.programs == 0
    pass_time(ana, 120.0)
    gone = [each.number for each in ana.holders.sweep()]
    assert gone == [other]
    ana.holders.removed(gone)
    # Nor is there room for what comes later.
    assert publish(ana, OTHER, size=200, limit=400).number is None
    bo.holders.unpin(pinned)
    detail = bo.reading.detail(pinned)
    assert detail is not None and not detail.is_pinned
    assert ana.holders.sweep() == []
    pass_time(ana, 120.0)
    assert [each.number for each in ana.holders.sweep()] == [pinned]
