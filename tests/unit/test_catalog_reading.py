"""What people see of a catalog: results page by page, what was saved, what happens."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from sqlalchemy import select

from holdfast.catalog.audience import Audience
from holdfast.catalog.catalog import Catalog
from holdfast.catalog.cataloged_result import MadeFrom, ResultState
from holdfast.catalog.days import Counts
from holdfast.catalog.noted_uses import NotedUses
from holdfast.catalog.reading.activity import HappeningKind
from holdfast.catalog.reading.result_list import ResultFilter, ResultSort
from holdfast.catalog.schema import DAYS, RESULTS
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


def test_results_come_sorted_and_page_by_page(programs: Programs) -> None:
    ana = programs()
    for number in range(1, 8):
        publish(ana, dataset(number), size=number * 100 % 450, seconds=float(number))
    reading = ana.reading
    page = reading.results(sort=ResultSort.COST, most=3)
    assert [each.seconds for each in page.results] == [7.0, 6.0, 5.0]
    assert (page.total, page.bytes) == (7, sum(number * 100 % 450 for number in range(1, 8)))
    page = reading.results(sort=ResultSort.COST, offset=3, most=3)
    assert [each.seconds for each in page.results] == [4.0, 3.0, 2.0]
    page = reading.results(sort=ResultSort.SIZE, descending=False)
    sizes = [each.bytes for each in page.results]
    assert sizes == sorted(sizes)
    for sort in ResultSort:
        assert reading.results(sort=sort).total == 7
    assert reading.results(offset=100).results == ()
    assert len(list(reading.all())) == 7


def test_results_are_found_by_what_they_are(programs: Programs) -> None:
    ana, bo = programs("ana"), programs("bo")
    publish(ana, DATASET)
    publish(bo, OTHER)
    every = ana.reading.results
    assert every(ResultFilter("JOIN")).total == 2
    assert every(ResultFilter("over A")).total == 2
    assert every(ResultFilter("over%")).total == every(ResultFilter("over_a")).total == 0
    assert every(ResultFilter("~")).total == 0
    assert every(ResultFilter("nothing'; DROP TABLE results")).total == 0
    assert [each.user for each in every(ResultFilter("b")).results] == ["bo", "ana"]
    assert [each.user for each in every(ResultFilter("bo")).results] == ["bo"]
    assert [each.user for each in every(ResultFilter(owner="ana")).results] == ["ana"]
    assert every(ResultFilter(OTHER.hex[:6])).results[0].dataset_id == OTHER
    assert every(ResultFilter(application=ana.scope.me)).results[0].user == "ana"
    assert ana.reading.owners() == ["ana", "bo"]
    bo.holders.withdraw("it was enough", digest="d" + OTHER.hex[1:])
    assert every().total == 1
    assert every(ResultFilter(state=None)).total == 2
    [gone] = every(ResultFilter(state=ResultState.GONE)).results
    assert gone.why_gone == "it was enough"
    assert [each.user for each in ana.reading.named(OTHER.hex[:4])] == ["bo"]
    assert ana.reading.named("7") == ()


def test_what_was_saved_is_counted_and_stays(programs: Programs) -> None:
    ana, bo = programs("ana"), programs("bo", shares_with=Audience.ALL)
    assert ana.reading.overview().ever == Counts()
    assert ana.reading.overview().ever.hit_rate is None
    number = publish(
        ana, size=300, seconds=4.0, is_shared=True, lifetime=60.0, audience=Audience.ALL
    ).number
    assert number is not None
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
    assert len(seen.days) == 30
    with ana.database.reading() as connection:
        assert sorted(connection.scalars(select(DAYS.c.user_name))) == ["ana", "bo"]
    ana.holders.withdraw("it was enough", numbers=[number])
    with ana.database.writing() as connection:
        connection.execute(RESULTS.delete())
    assert ana.reading.overview().ever == Counts(3, 900, 12.0, 1, 300, 4.0)


def test_what_happens_is_listed_the_latest_first(programs: Programs) -> None:
    ana, bo = programs("ana"), programs("bo", shares_with=Audience.ALL)
    first = publish(ana, size=300, is_shared=True, lifetime=60.0, audience=Audience.ALL).number
    assert first is not None
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
    below = publish(ana, DATASET).number
    number = publish(ana, OTHER, inputs=(DATASET,), made_from=made_from).number
    assert below is not None and number is not None
    ana.programs.renew()
    uses = NotedUses()
    uses.note(number)
    uses.saved(number, 10.0)
    ana.holders.use(number, noted=uses.take()[number])
    detail = ana.reading.detail(number)
    assert detail is not None
    assert detail.made_from == made_from
    assert detail.kept is not None and detail.kept.rows == 7
    assert list(detail.read.values()) == ["Join over a, b"]
    assert [each.seconds for each in detail.uses] == [10.0]
    assert (detail.programs, detail.until, detail.is_pinned) == (1, None, False)
    assert detail.may_change
    stranger = programs("bo").reading.detail(number)
    assert stranger is not None and not stranger.may_change
    assert ana.reading.detail(number + 1) is None


def test_what_is_pinned_stays(programs: Programs) -> None:
    ana, bo = programs("ana"), programs("bo", shares_with=Audience.ALL)
    kept = [
        publish(ana, each, size=300, is_shared=True, lifetime=60.0, audience=Audience.ALL).number
        for each in (DATASET, OTHER)
    ]
    assert kept[0] is not None and kept[1] is not None
    assert bo.holders.pin(kept[0])
    assert bo.holders.pin(kept[0])
    ana.holders.let_go(kept)
    detail = bo.reading.detail(kept[0])
    assert detail is not None and detail.is_pinned and detail.programs == 0
    pass_time(ana, 120.0)
    gone = ana.holders.sweep()
    assert [each.dataset_id for each in gone] == [OTHER]
    ana.holders.removed([each.number for each in gone])
    assert ana.reading.overview().programs == 0
    # Nor is there room for what comes later.
    assert publish(ana, OTHER, size=200, limit=400).number is None
    bo.holders.unpin(kept[0])
    detail = bo.reading.detail(kept[0])
    assert detail is not None and not detail.is_pinned
    assert ana.holders.sweep() == []
    pass_time(ana, 120.0)
    assert [each.dataset_id for each in ana.holders.sweep()] == [DATASET]


def test_what_ends_with_its_program_is_not_pinned(programs: Programs) -> None:
    ana = programs("ana")
    number = publish(ana).number
    assert number is not None
    assert not ana.holders.pin(number)
    assert not ana.holders.pin(number + 1)


@pytest.mark.parametrize("nulls", [None, 0, 3])
def test_statistics_of_columns_are_those_that_were_published(
    programs: Programs, nulls: int | None
) -> None:
    ana = programs("ana")
    statistics = {"a": ColumnStatistics("<b>", None, nulls)}
    number = ana.publications.publish(produced(), None, unlimited, statistics=statistics).number
    assert number is not None
    detail = ana.reading.detail(number)
    assert detail is not None and detail.statistics == statistics
