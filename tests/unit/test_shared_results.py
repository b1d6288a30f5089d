"""Programs that share results: real files, a real catalog, no Spark."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from sqlalchemy import URL, select, update

from holdfast.catalog.audience import Audience
from holdfast.catalog.cataloged_result import CatalogedResult
from holdfast.catalog.profit import REFERENCES
from holdfast.catalog.schema import HOLDERS, MANIFESTS, RESULTS, USES
from holdfast.errors import CatalogError
from holdfast.ids import IntermediateDataSetID
from holdfast.plan.reasons import Why
from holdfast.runtime.at_hand import AtHand
from holdfast.runtime.result_book import Claim, KeptResult
from holdfast.storage.column_statistics import ColumnStatistics
from tests.catalog.conftest import postgresql as postgresql
from tests.catalog.conftest import url as url
from tests.catalog.results import DATASET, OTHER, pass_time
from tests.catalog.sharing import (
    DIGEST,
    FACTS,
    FOR_LONG,
    ROWS,
    SOURCE,
    Program,
    Start,
    rows,
    shared_names,
)
from tests.catalog.sharing import start as start


def test_a_result_of_a_program_that_runs_is_read_by_another_and_goes_with_it(start: Start) -> None:
    ana, reader, late = start(), start(), start()
    produced = ana.produce()
    assert reader.read() == ROWS
    found = reader.book.find()[DATASET]
    assert found.origin is not None and found.origin.user == "ana"
    assert found.kept.directories != produced.kept.directories
    # It goes with its program, but not under what reads it.
    with reader.book.reading() as lease:
        result = lease.acquire(DATASET)
        ana.close()
        assert result is not None and rows(result.kept) == ROWS
    assert late.read() is None


def test_with_a_lifetime_it_outlives_its_program_until_that_is_over(start: Start) -> None:
    ana = start()
    ana.produce(facts=FOR_LONG)
    ana.close()
    late = start()
    assert late.read() == ROWS
    late.close()
    late = start()
    assert len(shared_names(late)) == 1
    pass_time(late.catalog, 700.0)
    assert late.read() is None
    late.look_after()
    assert shared_names(late) == []


def test_what_a_killed_program_has_kept_is_there_for_its_next_start(start: Start) -> None:
    killed = start(retention=10_000.0)
    killed.produce()
    for _ in range(2):
        # Its directory is garbage, its lease ends, and others clean up meanwhile.
        killed.storage.close()
        other = start()
        pass_time(other.catalog, 700.0)
        other.look_after()
        assert other.read() == ROWS
        other.close()
        killed = start(retention=10_000.0)
        assert killed.read() == ROWS
    last, late = killed, start()
    last.book.invalidate(DIGEST)
    last.book.job_ended()
    last.close()
    assert late.read() is None and shared_names(late) == []


def test_what_a_killed_program_has_kept_goes_after_a_while(start: Start) -> None:
    killed, long = start(retention=1_000.0), start(retention=1_000.0)
    killed.produce()
    assert long.read() is not None
    # As long as a start of it runs, it stays.
    for _ in range(3):
        pass_time(long.catalog, 500.0)
        long.look_after()
    late = start()
    assert late.read() is not None
    late.close()
    pass_time(long.catalog, 1_100.0)
    late = start()
    late.look_after()
    assert late.read() is None and shared_names(late) == []


def test_a_program_that_ends_leaves_what_others_keep_for_a_time(start: Start) -> None:
    ana = start()
    ana.produce(facts=FOR_LONG)
    ana.close()
    for user in ("ana", "bo"):
        recovered = start(user, retention=10_000.0)
        recovered.read()
        recovered.book.job_ended()
        recovered.close()
    assert start().read() == ROWS


def test_what_is_not_wanted_here_is_read_and_held_only_for_the_next_job(start: Start) -> None:
    ana, other = start(), start()
    other.wanted.clear()
    ana.produce(facts=FOR_LONG)
    places = []
    for _ in range(2):
        with other.book.reading() as lease:
            result = lease.acquire(DATASET)
            assert result is not None
            places.append(result.kept.directory)
    assert places[0] == places[1] and places[0].exists()
    # What is invalidated is not read any more, still there or not.
    ana.book.invalidate(DIGEST, everywhere=True)
    assert other.read() is None
    ana.produce(facts=FOR_LONG)
    ana.close()
    other.book._at_hand = AtHand(seconds=0.0)
    assert other.read() == ROWS
    assert other.book.find() == {} and other.book.find([DATASET]).keys() == {DATASET}
    other.look_after()
    # Only the catalog holds it, so it may be evicted.
    pass_time(other.catalog, 700.0)
    assert len(other.catalog.holders.sweep()) == 1


# -- who gets it


def test_a_result_that_means_nothing_elsewhere_is_recorded_and_not_offered(start: Start) -> None:
    ana, other = start(), start()
    ana.produce(facts=replace(FACTS, reasons=(Why.RDD.of(),)))
    assert other.read() is None
    (recorded,) = other.catalog.search.all()
    assert recorded.audience is Audience.NOBODY and recorded.bytes > 0
    assert recorded.reasons == (Why.RDD.of(),)


def test_who_may_not_read_a_source_does_not_get_the_result(start: Start) -> None:
    ana, bo = start(audience=Audience.ALL), start("bo", Audience.ALL)
    bo.unreadable.append(SOURCE.path)
    ana.produce()
    assert bo.read() is None and bo.book.find([DATASET]) == {}
    own = bo.book.commit(bo.claims(), bo.write(), wanted=True, facts=FACTS)
    assert own.reasons == (Why.KEPT_ALREADY.of(),)
    bo.book.release([own])
    bo.book.invalidate(DIGEST)
    bo.unreadable.clear()
    assert bo.read() == ROWS


def test_what_can_t_be_checked_or_opened_is_its_user_s_and_says_so(start: Start) -> None:
    ana = start(audience=Audience.ALL)
    result = ana.produce(facts=replace(FOR_LONG, is_checkable=False))
    assert result.reasons == (Why.UNCHECKABLE.of(),)
    (recorded,) = ana.catalog.search.all()
    assert (recorded.audience, recorded.reasons) == (Audience.USER, result.reasons)
    (kept,) = ana.book.find().values()
    assert kept.reasons == result.reasons
    assert start("bob", Audience.ALL).read() is None and start("ana", Audience.ALL).read()
    ana.book.invalidate(DIGEST, everywhere=True)
    claim, written = ana.claims(), ana.write()
    for location in written.locations:
        Path(location).with_name("a link").symlink_to("/nowhere")
    result = ana.book.commit(claim, written, wanted=True, facts=FACTS)
    assert [each.kind for each in result.reasons] == [Why.UNOPENED.name]
    ana.book.release([result])


# -- damage


def replaced(directory: Path, location: Path) -> None:
    """In the footer: statistics of the column. Size and times are the same."""
    status, content = location.stat(), bytearray(location.read_bytes())
    content[-12] ^= 1
    location.write_bytes(content)
    os.utime(location, ns=(status.st_atime_ns, status.st_mtime_ns))


def gone(directory: Path, location: Path) -> None:
    for path in directory.iterdir():
        path.unlink()
    directory.rmdir()


HARMS: dict[str, Callable[[Path, Path], None]] = {
    "replaced": replaced,
    "a file": lambda directory, location: location.unlink(),
    "all": gone,
    # What is read is what the catalog says: this is for others that find the directory.
    "the manifest": lambda directory, location: (directory / "_manifest.json").unlink(),
}


@pytest.mark.parametrize("harm", HARMS)
def test_what_is_damaged_or_lost_on_disk_is_computed_again(start: Start, harm: str) -> None:
    ana, other = start(), start()
    ana.produce(facts=FOR_LONG)
    ana.close()
    (found,) = other.book.find([DATASET]).values()
    HARMS[harm](found.kept.directory, Path(found.kept.locations[0]))
    if harm == "the manifest":
        assert other.read() == ROWS
        return
    assert other.read() is None
    other.produce((5,), FOR_LONG)
    assert start().read() == [5, 5, 5]


def test_what_is_damaged_in_the_catalog_is_computed_again(start: Start) -> None:
    ana, other = start(), start()
    ana.produce(facts=FOR_LONG)
    (result,) = ana.catalog.search.all()
    detail = ana.catalog.reading.detail(result.number)
    assert detail is not None and detail.statistics == {"a": ColumnStatistics("1", "2", 0)}
    with ana.catalog.database.writing() as connection:
        connection.execute(update(MANIFESTS).values(content=b"something else"))
    assert other.read() is None and other.book.find([DATASET]) == {}
    other.produce((5,), FOR_LONG)
    assert other.read() == [5, 5, 5]


def test_a_catalog_that_is_away_costs_the_sharing_and_no_answer(
    start: Start, url: URL, caplog: pytest.LogCaptureFixture
) -> None:
    ana, bo = start(), start()
    ana.produce()
    for program in (ana, bo):
        take_away(program, url)
    assert ana.read() == ROWS and bo.read() is None
    bo.produce((4,), FOR_LONG)
    assert bo.read() == [4, 4, 4]
    warned = [record for record in caplog.records if "not shared" in record.getMessage()]
    assert 1 <= len(warned) <= 2


def take_away(program: Program, url: URL) -> None:
    database = program.catalog.database
    database._url = url.set(database="/nowhere/at/all", host="127.0.0.1", port=9)
    database.close()


# -- one produces


def test_one_produces_and_the_others_wait(start: Start) -> None:
    programs = [start() for _ in range(4)]
    first, answers = programs[0].claims(), list[object]()
    threads = [
        threading.Thread(target=lambda each=each: answers.append(each.claim()))  # type: ignore[misc]
        for each in programs[1:]
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.3)
    assert answers == []
    kept = programs[0].book.commit(first, programs[0].write(), wanted=True, facts=FACTS)
    programs[0].book.release([kept])
    for thread in threads:
        thread.join()
    assert [type(each) for each in answers] == [KeptResult] * 3
    assert [each.read() for each in programs] == [[1, 1, 1]] * 4


@pytest.mark.parametrize("end", ["gives up", "dies", "can't say so"])
def test_a_producer_that_ends_lets_the_next_one_produce(start: Start, end: str) -> None:
    ana, bo = start(), start()
    claim = ana.claims()
    # Waiting has an end, and may be begun again.
    assert bo.claim(0.1) is None and bo.claim(0.1) is None
    if end == "dies":
        pass_time(bo.catalog, 700.0)
    elif end == "gives up":
        ana.book.abandon(claim)
    else:
        ask = ana.book._catalog.ask
        ana.book._catalog.ask = lambda what, otherwise: otherwise  # type: ignore[method-assign]
        ana.book.abandon(claim)
        ana.book._catalog.ask = ask  # type: ignore[method-assign]
        # It is not renewed for ever.
        ana.look_after()
    bo.produce((3,))
    assert bo.read() == [3, 3, 3]


def test_a_producer_that_comes_back_is_fenced_and_leaves_no_garbage(start: Start) -> None:
    paused, other = start(), start()
    claim = paused.claims()
    pass_time(other.catalog, 700.0)
    other.produce((3,), FOR_LONG)
    result = paused.book.commit(claim, paused.write((9,)), wanted=True, facts=FOR_LONG)
    # It has its own rows, which are right, and no other program gets them.
    assert rows(result.kept) == [9, 9, 9]
    assert [each.kind for each in result.reasons] == [Why.OVERTAKEN.name]
    paused.book.release([result])
    assert start().read() == [3, 3, 3] and len(shared_names(other)) == 1


# -- invalidation


def test_what_is_invalidated_is_gone_for_all_and_stays_under_what_reads_it(start: Start) -> None:
    ana, reader = start(), start()
    ana.produce(facts=FOR_LONG)
    with reader.book.reading() as lease:
        result = lease.acquire(DATASET)
        assert result is not None
        ana.book.invalidate(DIGEST, everywhere=True)
        assert rows(result.kept) == ROWS and start().read() is None
    assert shared_names(ana) == []
    # What has gone since it was found is not read; it is asked for again, not remembered for ever.
    ana.produce(facts=FOR_LONG)
    other = start()
    assert other.book.find([DATASET]).keys() == {DATASET}
    ana.book.invalidate(DIGEST, everywhere=True)
    ana.produce((7,), FOR_LONG)
    assert (other.read(), other.read()) == (None, [7, 7, 7])


def test_what_a_program_has_neither_kept_nor_read_it_invalidates_for_all(start: Start) -> None:
    ana = start()
    ana.produce(facts=FOR_LONG)
    ana.close()
    start().book.invalidate(DIGEST)
    assert start().read() == ROWS
    start().book.invalidate(DIGEST, everywhere=True)
    assert start().read() is None


def test_what_is_invalidated_while_it_is_produced_is_offered_to_no_program(start: Start) -> None:
    ana = start()
    claim = ana.claims()
    ana.book.invalidate(DIGEST, everywhere=True)
    result = ana.book.commit(claim, ana.write(), wanted=True, facts=FOR_LONG)
    assert rows(result.kept) == [1, 1, 1]
    ana.book.release([result])
    assert start().read() is None and ana.catalog.search.all() == []
    assert shared_names(ana) == [] and isinstance(start().claim(1.0), Claim)


def test_what_only_this_program_gives_up_stays_for_others(start: Start) -> None:
    ana, bo = start(), start()
    ana.produce(facts=FOR_LONG)
    assert bo.read() is not None
    bo.book.invalidate(DIGEST)
    ana.book.invalidate(DIGEST)
    assert bo.read() == ROWS == start().read()
    # Without a lifetime it goes with what has kept it.
    ana.produce((3,), dataset_id=OTHER)
    ana.book.invalidate(DIGEST)
    assert bo.read(OTHER) is None


# -- room


def test_a_result_there_is_no_room_for_is_read_once_and_goes(start: Start) -> None:
    ana = start()
    ana.limit = 10
    result = ana.book.commit(ana.claims(), ana.write(), wanted=True, facts=FOR_LONG)
    assert result.refusal is not None and "no room" in str(result.refusal)
    assert rows(result.kept) == [1, 1, 1]
    ana.book.release([result])
    assert not result.kept.directory.exists()
    assert ana.read() is None and shared_names(ana) == []


def test_what_no_program_asked_for_makes_room_for_what_is_worth_more(start: Start) -> None:
    ana = start()
    cheap, dear = ana.produce_unasked("a", 1.0), ana.produce_unasked("b", 9.0)
    ana.has_no_more_room()
    new = ana.produce_unasked("c", 5.0)
    assert ana.read(cheap) is None and ana.read(dear) == ana.read(new) == [0, 0, 0]
    assert len(shared_names(ana)) == 2
    assert set(start().book.find([cheap, dear, new])) == {dear, new}
    # Twice since it was first computed is more often than once in a longer time.
    assert ana.read(ana.produce_unasked("d", 3.0)) is None
    assert ana.read(ana.produce_unasked("d", 3.0)) == [0, 0, 0]
    # Three times as much, of which each byte is worth less.
    assert ana.read(ana.produce_unasked("e", 4.0, partitions=2)) is None


def test_what_was_asked_for_is_kept_whatever_it_is_worth(start: Start) -> None:
    ana = start()
    dear = ana.produce_unasked("a", 1e6, partitions=2)
    ana.has_no_more_room()
    ana.produce(facts=replace(FOR_LONG, seconds=0.001))
    assert ana.read() == ROWS and ana.read(dear) is None
    # Nor does it go for others while its program runs, as what is asked for later on.
    ana.has_no_more_room()
    assert ana.read(ana.produce_unasked("b", 1e9)) is None and ana.read() == ROWS
    other = start()
    first = other.produce_unasked("c", 1.0)
    other.has_no_more_room()
    other.unasked.clear()
    assert other.read(other.produce_unasked("d", 1e6)) is None
    assert other.read(first) == [0, 0, 0]


def test_what_makes_room_while_it_is_being_read_is_there_until_the_end(start: Start) -> None:
    ana = start()
    first = ana.produce_unasked("a", 1.0)
    ana.has_no_more_room()
    with ana.book.reading() as lease:
        result = lease.acquire(first)
        assert result is not None
        assert ana.read(ana.produce_unasked("b", 1e6)) == [0, 0, 0]
        assert ana.read(first) is None and rows(result.kept) == [0, 0, 0]
    assert not result.kept.directory.exists()


def test_what_a_result_was_made_of_makes_room_for_it(start: Start) -> None:
    ana = start()
    piece, dear = ana.produce_unasked("a", 9.0), ana.produce_unasked("b", 5.0)
    ana.has_no_more_room()
    # It was made of the piece in next to no time.
    whole = ana.produce_unasked("c", 0.1, inputs=(piece,))
    assert ana.read(whole) == ana.read(dear) == [0, 0, 0] and ana.read(piece) is None


def test_what_another_program_holds_does_not_make_room(start: Start) -> None:
    ana, bo = start(), start()
    first = ana.produce_unasked("a", 1.0)
    bo.limit = ana.has_no_more_room()
    assert bo.read(bo.produce_unasked("b", 1e6)) is None
    assert ana.read(first) == bo.read(first) == [0, 0, 0]
    # It has linked it.
    assert ana.read(ana.produce_unasked("c", 1e6)) is None


# -- uses of what a program has itself


def used(program: Program) -> CatalogedResult:
    (result,) = program.catalog.search.all()
    return result


def test_what_a_program_reads_of_its_own_is_recorded_with_the_next_renewal(start: Start) -> None:
    ana = start()
    ana.produce(facts=FOR_LONG)
    pass_time(ana.catalog, 400.0)
    began = used(ana).last_used
    for _ in range(6):
        with ana.book.reading() as lease:
            read = lease.acquire(DATASET)
            assert read is not None
            ana.book.saved(read, 0.5)
    assert used(ana).uses == 0
    ana.look_after()
    ana.look_after()
    result = used(ana)
    assert (result.uses, result.saved_seconds) == (6, 6 * 0.5)
    assert began < result.last_used < began + 60
    with ana.catalog.database.reading() as connection:
        (row,) = connection.execute(select(USES))
        moments = json.loads(connection.scalars(select(RESULTS.c.used)).one())
        left = connection.scalars(select(HOLDERS.c.until).where(HOLDERS.c.application == "")).one()
        left -= ana.catalog.database.now(connection)
    assert (row.user_name, row.saved_seconds) == ("ana", 6 * 0.5)
    assert row.application == ana.storage.application.hex
    assert len(moments) == REFERENCES and moments == sorted(moments) and row.used == moments[-1]
    # Its lifetime begins again.
    assert 590.0 < left <= 600.0


def test_it_is_recorded_before_room_is_made_and_when_the_program_ends(start: Start) -> None:
    ana, other = start(), start()
    ana.produce(facts=FOR_LONG)
    ana.read()
    ana.produce((7,), dataset_id=OTHER)
    by_dataset = {each.dataset_id: each for each in other.catalog.search.all()}
    assert (by_dataset[DATASET].uses, by_dataset[OTHER].uses) == (1, 0)
    ana.read()
    ana.close()
    assert used(other).uses == 2


def test_what_another_program_has_taken_in_or_waited_for_counts_each_time(start: Start) -> None:
    ana, reader, waiter = start(), start(), start()
    ana.produce()
    assert isinstance(waiter.claim(), KeptResult)
    for program, uses in ((waiter, 1), (waiter, 2), (reader, 3), (reader, 4)):
        assert program.read() is not None
        program.look_after()
        assert used(ana).uses == uses


def test_what_its_own_program_reads_often_is_not_what_goes(start: Start) -> None:
    ana = start()
    # Of two that are alike the older one is worth less.
    ana.produce((1, 2), FOR_LONG)
    ana.produce((3, 4), FOR_LONG, OTHER)
    for _ in range(4):
        ana.read()
    ana.close()
    later = start()
    later.limit = sum(each.bytes for each in later.catalog.search.all())
    later.produce((5,), FOR_LONG, IntermediateDataSetID("3" * 64))
    assert later.read() == ROWS and later.read(OTHER) is None


def test_uses_that_the_catalog_does_not_hear_of_are_not_lost(start: Start, url: URL) -> None:
    ana = start()
    ana.produce()
    ana.read()
    take_away(ana, url)
    with pytest.raises(CatalogError):
        ana.look_after()
    ana.read()
    ana.catalog.database._url = url
    ana.look_after()
    assert used(ana).uses == 2
