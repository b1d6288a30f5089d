"""Programs that share results: real files, a real catalog, no Spark."""

from __future__ import annotations

import os
import shutil
from dataclasses import replace
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from sqlalchemy import URL

from holdfast.catalog.audience import Audience
from holdfast.catalog.cataloged_result import CatalogedResult
from holdfast.errors import CatalogError
from holdfast.ids import JobID
from holdfast.plan.reasons import Why
from holdfast.runtime.result_book import Claim
from holdfast.storage.kept_dataset import DataSetDescription
from holdfast.storage.sealed_batches import OWN_CLASSES
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
    reader, late = start(), start()
    assert reader.read() == ROWS and len(shared_names(late)) == 1
    reader.close()
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


# -- who gets it


def test_who_may_not_read_a_source_does_not_get_the_result(start: Start) -> None:
    ana, bo = start(audience=Audience.ALL), start("bo", Audience.ALL)
    bo.unreadable.append(SOURCE.path)
    ana.produce()
    assert bo.read() is None and bo.book.find([DATASET]) == {}
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


# -- sealed ones, which a key opens


def seal(program: Program, counts: list[int]) -> None:
    """A job that keeps sealed batches of so many records each."""
    claim, job = program.claims(), JobID.random()
    staged = program.storage.stage(job, DATASET)
    table = pyarrow.table({"records": pyarrow.array(counts, pyarrow.int32())})
    pyarrow.parquet.write_table(table, staged.directory / "part-00000-x-c000.parquet")
    described = DataSetDescription(
        dataset_id=DATASET.hex, computes="batches", columns=(), spark_version="", seal="label"
    )
    kept = program.storage.publish(staged, described)
    program.storage.end_job(job)
    program.book.release([program.book.commit(claim, kept, wanted=True, facts=FOR_LONG)])


def finds(program: Program) -> bool:
    """Whether a job finds it, and reads it."""
    found = DATASET in program.book.find([DATASET])
    with program.book.reading() as lease:
        assert (lease.acquire(DATASET) is not None) == found
    return found


def test_programs_of_one_user_read_them_with_the_key_they_have_in_common(start: Start) -> None:
    seal(start(), [1, 400])
    other = start(has_key=False)
    assert finds(start()) and not finds(other)
    seal(other, [1, 400])
    (offered, own) = other.catalog.search.all()
    assert (offered.audience, own.audience) == (Audience.USER, Audience.NOBODY)
    assert (offered.reasons, own.reasons) == ((), (Why.OWN_SEAL.of("no key"),))
    # What it can't read is not damaged, and stays for those who can.
    assert finds(start())


def test_they_are_for_no_other_user_though_all_else_is_shared(start: Start) -> None:
    seal(start("ana", Audience.ALL), [1, 400])
    assert not finds(start("bob", Audience.ALL)) and finds(start("ana", Audience.ALL))


def test_those_whose_records_bring_classes_along_are_for_their_program(
    start: Start, caplog: pytest.LogCaptureFixture
) -> None:
    program = start()
    seal(program, [1, OWN_CLASSES + 2])
    assert finds(program) and not finds(start())
    (result,) = program.catalog.search.all()
    assert result.audience is Audience.NOBODY and result.lifetime is None
    assert result.reasons == (Why.OWN_CLASSES.of(),)
    assert "Define them in a module" in caplog.text


# -- damage


def test_what_is_damaged_or_lost_on_disk_is_computed_again(start: Start) -> None:
    ana = start()
    ana.produce(facts=FOR_LONG)
    ana.close()
    other = start()
    (found,) = other.book.find([DATASET]).values()
    location = Path(found.kept.locations[0])
    # In the footer: statistics of the column. Size and times are the same.
    status, content = location.stat(), bytearray(location.read_bytes())
    content[-12] ^= 1
    location.write_bytes(content)
    os.utime(location, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert other.read() is None
    other.produce((5,), FOR_LONG)
    (found,) = (third := start()).book.find([DATASET]).values()
    shutil.rmtree(found.kept.directory)
    assert third.read() is None
    third.produce((6,), FOR_LONG)
    assert start().read() == [6, 6, 6]


def test_a_file_that_another_one_has_replaced_is_not_read(start: Start) -> None:
    ana, bo = start(), start()
    (first, *_) = ana.produce().kept.locations
    Path(first).unlink()
    pyarrow.parquet.write_table(pyarrow.table({"a": [8, 8, 9]}), first)
    assert bo.read() is None


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


@pytest.mark.parametrize("dies", [True, False])
def test_a_producer_that_ends_lets_the_next_one_produce(start: Start, dies: bool) -> None:
    ana, bo = start(), start()
    claim = ana.claims()
    # Waiting has an end, and may be begun again.
    assert bo.claim(0.1) is None and bo.claim(0.1) is None
    if dies:
        pass_time(bo.catalog, 700.0)
    else:
        ana.book.abandon(claim)
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
    assert len(shared_names(other)) == 1
    paused.book.release([result])
    assert start().read() == [3, 3, 3]


# -- invalidation


def test_what_is_invalidated_is_gone_for_all_and_stays_under_what_reads_it(start: Start) -> None:
    ana, reader = start(), start()
    ana.produce(facts=FOR_LONG)
    with reader.book.reading() as lease:
        result = lease.acquire(DATASET)
        assert result is not None
        # By a program that has neither kept nor read it, if that asks for it.
        start().book.invalidate(DIGEST)
        assert start().read() == ROWS
        start().book.invalidate(DIGEST, everywhere=True)
        assert rows(result.kept) == ROWS and start().read() is None
    assert shared_names(ana) == []


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
    with ana.book.reading() as lease:
        result = lease.acquire(cheap)
        assert result is not None
        new = ana.produce_unasked("c", 5.0)
        assert ana.read(cheap) is None and ana.read(dear) == ana.read(new) == [0, 0, 0]
        # Under what reads it, it stays until the end.
        assert rows(result.kept) == [0, 0, 0]
    assert not result.kept.directory.exists() and len(shared_names(ana)) == 2
    assert set(start().book.find([cheap, dear, new])) == {dear, new}


def test_what_was_asked_for_is_kept_though_it_is_worth_little(start: Start) -> None:
    ana = start()
    dear = ana.produce_unasked("a", 1e6, partitions=2)
    ana.has_no_more_room()
    ana.produce(facts=replace(FOR_LONG, seconds=0.001))
    assert ana.read() == ROWS and ana.read(dear) is None
    # Nor does it go for others while its program runs.
    ana.has_no_more_room()
    assert ana.read(ana.produce_unasked("b", 1e9)) is None and ana.read() == ROWS


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


def test_what_a_program_reads_of_its_own_is_recorded_sooner_or_later(
    start: Start, url: URL
) -> None:
    ana, other = start(), start()
    ana.produce(facts=FOR_LONG)
    pass_time(ana.catalog, 400.0)
    began = used(ana).last_used
    for _ in range(6):
        with ana.book.reading() as lease:
            read = lease.acquire(DATASET)
            assert read is not None
            ana.book.saved(read, 0.5)
    assert used(other).uses == 0
    take_away(ana, url)
    with pytest.raises(CatalogError):
        ana.look_after()
    ana.catalog.database._url = url
    for _ in range(2):
        ana.look_after()
        result = used(other)
        assert (result.uses, result.saved_seconds) == (6, 6 * 0.5)
        assert began < result.last_used < began + 60
    # Its lifetime begins again.
    pass_time(ana.catalog, 300.0)
    ana.read()
    ana.close()
    assert used(other).uses == 7 and other.read() == ROWS
