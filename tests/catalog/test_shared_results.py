"""Programs that share results: real files, a real catalog, no Spark."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow
import pyarrow.parquet
import pytest
from sqlalchemy import URL, event, select, update

from holdfast.catalog.audience import Audience
from holdfast.catalog.catalog import Catalog
from holdfast.catalog.catalog_database import CatalogDatabase
from holdfast.catalog.cataloged_result import (
    CatalogedResult,
    MadeFrom,
    ProgramIdentity,
    ResultState,
)
from holdfast.catalog.guarded_catalog import GuardedCatalog
from holdfast.catalog.profit import REFERENCES
from holdfast.catalog.schema import HOLDERS, MANIFESTS, RESULTS, USES
from holdfast.errors import CatalogError
from holdfast.ids import IntermediateDataSetID, JobID
from holdfast.plan.file_version import FileVersion
from holdfast.plan.reasons import Why
from holdfast.runtime.at_hand import AtHand
from holdfast.runtime.embedded_sharing_place import EmbeddedSharingPlace
from holdfast.runtime.embedded_storage import EmbeddedStorage
from holdfast.runtime.result_book import Claim, KeptResult, ProductionFacts
from holdfast.runtime.shared_results import SharedResults, SharingPolicy
from holdfast.storage.column_statistics import ColumnStatistics
from holdfast.storage.kept_dataset import KeptDataSet
from holdfast.storage.shared_directory import SharedDirectory
from tests.catalog.programs import keep, written
from tests.catalog.results import DATASET, OTHER, STORAGE, pass_time

DIGEST = "d" * 64
SOURCE = FileVersion("file:/orders.parquet", 1, 2)
FACTS = ProductionFacts(is_checkable=True, seconds=12.0, made_from=MadeFrom((SOURCE,)))
FOR_LONG = replace(FACTS, lifetime=600.0)


@dataclass
class Program:
    """One program: its book, its files and its view of the catalog."""

    book: SharedResults
    storage: EmbeddedStorage
    catalog: Catalog
    wanted: set[str] = field(default_factory=lambda: {DIGEST})
    unasked: set[str] = field(default_factory=set)
    unreadable: list[str] = field(default_factory=list)
    limit: int | None = None

    def write(self, values: Collection[int], dataset_id: IntermediateDataSetID) -> KeptDataSet:
        """What the tasks of a production leave."""
        return written(self.storage, dataset_id, [[value] * 3 for value in values])

    def produce(
        self,
        values: Collection[int] = (1, 2),
        facts: ProductionFacts = FACTS,
        dataset_id: IntermediateDataSetID = DATASET,
    ) -> KeptResult:
        """A job that keeps a result."""
        return keep(self.book, dataset_id, DIGEST, lambda: self.write(values, dataset_id), facts)

    def read(self, dataset_id: IntermediateDataSetID = DATASET) -> list[int] | None:
        """A job that reads a result: its values, or None where it isn't kept."""
        with self.book.reading() as lease:
            result = lease.acquire(dataset_id)
            return None if result is None else rows(result.kept)

    def close(self) -> None:
        self.book.close()
        self.storage.close()


def rows(kept: KeptDataSet) -> list[int]:
    tables = [pyarrow.parquet.read_table(location) for location in kept.locations]
    return sorted(value for table in tables for value in table.column("a").to_pylist())


Start = Callable[..., Program]


@pytest.fixture
def start(url: URL, tmp_path: Path) -> Iterator[Start]:
    """Starts programs on one storage directory."""
    started: list[Program] = []

    def make(
        user: str = "ana", audience: Audience = Audience.USER, retention: float | None = None
    ) -> Program:
        storage = EmbeddedStorage(tmp_path / "kept")
        identity = ProgramIdentity(
            storage.application, user, ("staff",), "node-1", os.getpid(), audience
        )
        catalog = Catalog(CatalogDatabase(url), lambda: STORAGE, lambda: "e" * 64, identity, 600.0)
        place = EmbeddedSharingPlace(storage, SharedDirectory(tmp_path / "kept" / "shared"))

        def unreadable(paths: Collection[str]) -> str | None:
            return next((path for path in paths if path in program.unreadable), None)

        policy = SharingPolicy(
            audience,
            lambda kept: program.limit,
            unreadable,
            lambda digest: digest in program.wanted,
            is_unasked=lambda digest: digest in program.unasked,
            retention_seconds=retention,
            user=user,
        )
        guarded = GuardedCatalog(lambda: catalog, catalog.database.is_there, 600.0)
        program = Program(SharedResults(guarded, place, policy), storage, catalog)
        started.append(program)
        return program

    yield make
    for program in started:
        program.close()


def shared_names(program: Program) -> list[str]:
    root = program.storage.stage(JobID.random(), OTHER).directory.parents[2]
    directory = root / "shared" / "datasets"
    # Another thread may be removing something, which it renames first.
    found = directory.iterdir() if directory.exists() else ()
    return sorted(path.name for path in found if not path.name.startswith("."))


def test_a_result_of_a_program_that_runs_is_read_by_another(start: Start) -> None:
    ana, again = start(), start()
    produced = ana.produce()
    assert again.read() == [1, 1, 1, 2, 2, 2]
    found = again.book.find()[DATASET]
    assert found.origin is not None and found.origin.user == "ana"
    assert found.kept.directories != produced.kept.directories


def test_it_goes_with_its_program_but_not_under_who_reads_it(start: Start) -> None:
    ana, reader, late = start(), start(), start()
    ana.produce()
    with reader.book.reading() as lease:
        result = lease.acquire(DATASET)
        ana.close()
        assert result is not None and rows(result.kept) == [1, 1, 1, 2, 2, 2]
    assert late.read() is None


def test_with_a_lifetime_it_outlives_its_program(start: Start) -> None:
    ana = start()
    ana.produce(facts=FOR_LONG)
    ana.close()
    assert start().read() == [1, 1, 1, 2, 2, 2]


def test_what_a_killed_program_has_kept_is_there_for_its_next_start(start: Start) -> None:
    killed = start(retention=10_000.0)
    killed.produce()
    for _ in range(2):
        # Its directory is garbage, its lease ends, and others clean up meanwhile.
        killed.storage.close()
        other = start()
        pass_time(other.catalog, 700.0)
        other.book._look_after(other.catalog)
        assert other.read() == [1, 1, 1, 2, 2, 2]
        other.close()
        killed = start(retention=10_000.0)
        assert killed.read() == [1, 1, 1, 2, 2, 2]
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
        long.book._look_after(long.catalog)
    late = start()
    assert late.read() is not None
    late.close()
    pass_time(long.catalog, 1_100.0)
    late = start()
    late.book._look_after(late.catalog)
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
    assert start().read() == [1, 1, 1, 2, 2, 2]


def test_it_goes_when_its_lifetime_is_over(start: Start) -> None:
    ana = start()
    ana.produce(facts=FOR_LONG)
    ana.close()
    late = start()
    assert len(shared_names(late)) == 1
    pass_time(late.catalog, 700.0)
    assert late.read() is None
    late.book._look_after(late.catalog)
    assert shared_names(late) == []


def test_what_nobody_wants_here_is_read_and_not_held(start: Start) -> None:
    ana, other = start(), start()
    other.wanted.clear()
    ana.produce(facts=FOR_LONG)
    ana.close()
    other.book._at_hand = AtHand(seconds=0.0)
    assert other.read() == [1, 1, 1, 2, 2, 2]
    assert other.book.find() == {}
    assert other.book.find([DATASET]).keys() == {DATASET}
    other.book._look_after(other.catalog)
    # Nobody holds it but the catalog, so it may be evicted.
    pass_time(other.catalog, 700.0)
    assert len(other.catalog.holders.sweep()) == 1


def test_what_has_just_been_read_is_at_hand_for_the_next_job(start: Start) -> None:
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
    # What is invalidated is not read any more, at hand or not.
    ana.book.invalidate(DIGEST, everywhere=True)
    assert other.read() is None
    other.book._at_hand._seconds = 0.0
    other.book.close()
    assert not places[0].exists()


def test_a_result_that_means_nothing_elsewhere_is_recorded_and_not_offered(start: Start) -> None:
    ana, other = start(), start()
    ana.produce(facts=replace(FACTS, reasons=(Why.RDD.of(),)))
    assert other.read() is None
    (recorded,) = other.catalog.search.all()
    assert recorded.audience is Audience.NOBODY and recorded.bytes > 0
    assert recorded.reasons == (Why.RDD.of(),)


def test_who_may_not_read_a_source_does_not_get_the_result(start: Start) -> None:
    ana, bo = start(audience=Audience.ALL), start("bo", audience=Audience.ALL)
    bo.unreadable.append(SOURCE.path)
    ana.produce()
    assert bo.read() is None and bo.book.find([DATASET]) == {}
    claim = bo.book.claim(DATASET, DIGEST, alone=False)
    assert isinstance(claim, Claim)
    own = bo.book.commit(claim, bo.write((1,), DATASET), wanted=True, facts=FACTS)
    assert own.reasons == (Why.KEPT_ALREADY.of(),)
    bo.book.release([own])
    bo.book.invalidate(DIGEST)
    bo.unreadable.clear()
    assert bo.read() == [1, 1, 1, 2, 2, 2]


def test_what_can_t_be_checked_is_its_user_s_alone(start: Start) -> None:
    ana = start(audience=Audience.ALL)
    ana.produce(facts=replace(FACTS, is_checkable=False))
    assert start("bo", Audience.ALL).read() is None
    assert start("ana").read() is not None


def test_a_file_that_was_replaced_with_size_and_times_is_not_read(start: Start) -> None:
    ana, other = start(), start()
    produced = ana.produce((1, 2), FOR_LONG)
    ana.close()
    (found,) = start().book.find([DATASET]).values()
    for location in found.kept.locations:
        file = Path(location)
        status = file.stat()
        content = bytearray(file.read_bytes())
        # In the footer: statistics of the column.
        content[-12] ^= 1
        file.write_bytes(content)
        os.utime(file, ns=(status.st_atime_ns, status.st_mtime_ns))
        assert (file.stat().st_size, file.stat().st_mtime_ns) == (
            status.st_size,
            status.st_mtime_ns,
        )
    assert produced.kept.bytes == found.kept.bytes
    assert other.read() is None


def test_what_is_damaged_in_the_catalog_is_computed_again(start: Start) -> None:
    ana, other = start(), start()
    ana.produce(facts=FOR_LONG)
    with ana.catalog.database.writing() as connection:
        connection.execute(update(MANIFESTS).values(content=b"something else"))
    assert other.read() is None and other.book.find([DATASET]) == {}
    other.produce((5,), FOR_LONG)
    assert other.read() == [5, 5, 5]


def test_what_is_found_is_asked_for_once(start: Start) -> None:
    ana, other = start(), start()
    ana.produce()
    ana.produce((3,), dataset_id=OTHER)
    assert other.book.may_find(lambda digest: False)
    begun: list[int] = []
    event.listen(
        other.catalog.database._ready(), "begin", lambda _: begun.append(threading.get_ident())
    )
    # Another thread renews the lease.
    mine = threading.get_ident()
    assert other.book.find([DATASET, OTHER]).keys() == {DATASET, OTHER}
    assert begun.count(mine) == 1
    assert other.read() == [1, 1, 1, 2, 2, 2]
    # It says that it reads it, and asks no more.
    assert begun.count(mine) == 2


def test_what_has_gone_since_it_was_found_is_not_read(start: Start) -> None:
    ana, other = start(), start()
    ana.produce(facts=FOR_LONG)
    assert other.book.find([DATASET]).keys() == {DATASET}
    ana.book.invalidate(DIGEST, everywhere=True)
    ana.produce((7,), FOR_LONG)
    assert other.read() is None
    # It is asked for again, and not remembered for ever.
    assert other.read() == [7, 7, 7]


@pytest.mark.parametrize("lost", ["a file", "all", "the manifest"])
def test_what_is_lost_on_disk_is_computed_again(start: Start, lost: str) -> None:
    ana, other = start(), start()
    ana.produce(facts=FOR_LONG)
    ana.close()
    (found,) = other.book.find([DATASET]).values()
    directory = found.kept.directory
    if lost == "a file":
        Path(found.kept.locations[0]).unlink()
    elif lost == "all":
        for path in directory.iterdir():
            path.unlink()
        directory.rmdir()
    else:
        # What is read is what the catalog says: the manifest is for whoever finds the directory.
        (directory / "_manifest.json").unlink()
    assert other.read() == (None if lost != "the manifest" else [1, 1, 1, 2, 2, 2])
    if lost != "the manifest":
        other.produce((5,), FOR_LONG)
        assert start().read() == [5, 5, 5]


def test_one_produces_and_the_others_wait(start: Start) -> None:
    programs = [start() for _ in range(4)]
    first = programs[0].book.claim(DATASET, DIGEST, alone=False)
    assert isinstance(first, Claim)
    answers: list[object] = []
    threads = [
        threading.Thread(
            target=lambda each=each: answers.append(  # type: ignore[misc]
                each.book.claim(DATASET, DIGEST, alone=False)
            )
        )
        for each in programs[1:]
    ]
    for thread in threads:
        thread.start()
    time.sleep(0.5)
    assert answers == []
    kept = programs[0].write((1,), DATASET)
    programs[0].book.release([programs[0].book.commit(first, kept, wanted=True, facts=FACTS)])
    for thread in threads:
        thread.join()
    assert [type(each) for each in answers] == [KeptResult] * 3
    assert [each.read() for each in programs] == [[1, 1, 1]] * 4


def test_who_gives_up_lets_the_next_one_produce(start: Start) -> None:
    ana, bo = start(), start()
    claim = ana.book.claim(DATASET, DIGEST, alone=False)
    assert isinstance(claim, Claim)
    ana.book.abandon(claim)
    bo.produce((3,))
    assert ana.read() == [3, 3, 3]


def test_a_producer_that_dies_frees_its_claim(start: Start) -> None:
    dead, bo = start(), start()
    assert isinstance(dead.book.claim(DATASET, DIGEST, alone=False), Claim)
    pass_time(bo.catalog, 700.0)
    bo.produce((3,))
    assert bo.read() == [3, 3, 3]


def test_a_producer_that_comes_back_is_fenced_and_leaves_no_garbage(start: Start) -> None:
    paused, other = start(), start()
    claim = paused.book.claim(DATASET, DIGEST, alone=False)
    assert isinstance(claim, Claim)
    pass_time(other.catalog, 700.0)
    other.produce((3,), FOR_LONG)
    late = paused.write((9,), DATASET)
    result = paused.book.commit(claim, late, wanted=True, facts=FOR_LONG)
    # It has its own rows, which are right, and no other program gets them.
    assert rows(result.kept) == [9, 9, 9]
    assert [each.kind for each in result.reasons] == [Why.OVERTAKEN.name]
    paused.book.release([result])
    assert start().read() == [3, 3, 3]
    assert len(shared_names(other)) == 1


def test_waiting_has_an_end(start: Start) -> None:
    ana, bo = start(), start()
    assert isinstance(ana.book.claim(DATASET, DIGEST, alone=False), Claim)
    assert bo.book.claim(DATASET, DIGEST, 0.2, alone=False) is None
    # It may be asked for again.
    assert bo.book.claim(DATASET, DIGEST, 0.1, alone=False) is None


def test_what_is_invalidated_is_gone_for_all_and_stays_under_who_reads_it(start: Start) -> None:
    ana, reader = start(), start()
    ana.produce(facts=FOR_LONG)
    with reader.book.reading() as lease:
        result = lease.acquire(DATASET)
        assert result is not None
        ana.book.invalidate(DIGEST, everywhere=True)
        assert rows(result.kept) == [1, 1, 1, 2, 2, 2]
        assert start().read() is None
    assert shared_names(ana) == []


def test_what_is_invalidated_while_it_is_produced_is_told_to_nobody(start: Start) -> None:
    ana = start()
    claim = ana.book.claim(DATASET, DIGEST, alone=False)
    assert isinstance(claim, Claim)
    ana.book.invalidate(DIGEST, everywhere=True)
    result = ana.book.commit(claim, ana.write((1,), DATASET), wanted=True, facts=FOR_LONG)
    assert rows(result.kept) == [1, 1, 1]
    ana.book.release([result])
    assert start().read() is None and ana.catalog.search.all() == []
    assert shared_names(ana) == []
    assert isinstance(start().book.claim(DATASET, DIGEST, 1.0, alone=False), Claim)


def test_what_only_this_program_gives_up_stays_for_others(start: Start) -> None:
    ana, bo = start(), start()
    ana.produce(facts=FOR_LONG)
    assert bo.read() is not None
    bo.book.invalidate(DIGEST)
    ana.book.invalidate(DIGEST)
    assert bo.read() == [1, 1, 1, 2, 2, 2] == start().read()
    # Without a lifetime it goes with who has kept it.
    ana.produce((3,), dataset_id=OTHER)
    ana.book.invalidate(DIGEST)
    assert bo.read(OTHER) is None


def test_what_is_made_of_a_catalog_s_table_is_its_user_s_and_says_so(start: Start) -> None:
    ana = start("ana", Audience.ALL)
    result = ana.produce(facts=replace(FOR_LONG, is_checkable=False))
    assert result.reasons == (Why.UNCHECKABLE.of(),)
    (recorded,) = ana.catalog.search.all()
    assert (recorded.audience, recorded.reasons) == (Audience.USER, result.reasons)
    (kept,) = ana.book.find().values()
    assert kept.reasons == result.reasons
    assert start("bob", Audience.ALL).read() is None and start("ana", Audience.ALL).read()


def test_what_cannot_be_opened_to_others_is_its_user_s_and_says_so(start: Start) -> None:
    ana = start("ana", Audience.ALL)
    claim = ana.book.claim(DATASET, DIGEST, alone=False)
    assert isinstance(claim, Claim)
    kept = ana.write((1,), DATASET)
    for location in kept.locations:
        Path(location).with_name("a link").symlink_to("/nowhere")
    result = ana.book.commit(claim, kept, wanted=True, facts=FACTS)
    assert [each.kind for each in result.reasons] == [Why.UNOPENED.name]
    ana.book.release([result])


def test_a_result_there_is_no_room_for_is_read_once_and_goes(start: Start) -> None:
    ana = start()
    ana.limit = 10
    claim = ana.book.claim(DATASET, DIGEST, alone=False)
    assert isinstance(claim, Claim)
    result = ana.book.commit(claim, ana.write((1,), DATASET), wanted=True, facts=FOR_LONG)
    assert result.refusal is not None and "no room" in str(result.refusal)
    assert rows(result.kept) == [1, 1, 1]
    ana.book.release([result])
    assert not result.kept.directory.exists()
    assert ana.read() is None and shared_names(ana) == []


def unasked(
    program: Program, letter: str, seconds: float = 12.0, *, partitions: int = 1
) -> IntermediateDataSetID:
    """Keeps something that nobody has asked for."""
    digest, dataset_id = letter * 64, IntermediateDataSetID(letter * 64)
    program.wanted.add(digest)
    program.unasked.add(digest)
    facts = replace(FOR_LONG, seconds=seconds)
    values = range(partitions)
    keep(program.book, dataset_id, digest, lambda: program.write(values, dataset_id), facts)
    return dataset_id


def test_what_nobody_asked_for_makes_room_for_what_is_worth_more(start: Start) -> None:
    ana = start()
    cheap, dear = unasked(ana, "a", seconds=1.0), unasked(ana, "b", seconds=9.0)
    ana.limit = sum(each.kept.bytes for each in ana.book.find().values())
    new = unasked(ana, "c", seconds=5.0)
    assert ana.read(cheap) is None
    assert ana.read(dear) == ana.read(new) == [0, 0, 0]
    assert len(shared_names(ana)) == 2
    assert set(start().book.find([cheap, dear, new])) == {dear, new}


def test_what_nobody_asked_for_is_not_kept_where_others_are_worth_more(start: Start) -> None:
    ana = start()
    asked_for = ana.produce(facts=FOR_LONG)
    small = unasked(ana, "a", seconds=1.0)
    ana.limit = sum(each.kept.bytes for each in ana.book.find().values())
    # Three times as much, of which each byte is worth less.
    large = unasked(ana, "b", seconds=2.0, partitions=3)
    assert ana.read(large) is None
    assert ana.read(small) == [0, 0, 0] and ana.read() == [1, 1, 1, 2, 2, 2]
    assert asked_for.kept.name in shared_names(ana)


def test_what_nobody_asked_for_is_worth_more_each_time_that_it_is_computed(start: Start) -> None:
    ana = start()
    first = unasked(ana, "a", seconds=1.0)
    ana.limit = sum(each.kept.bytes for each in ana.book.find().values())
    # Twice since it was first computed is more often than once in a longer time.
    assert ana.read(unasked(ana, "b", seconds=0.6)) is None
    assert ana.read(unasked(ana, "b", seconds=0.6)) == [0, 0, 0]
    assert ana.read(first) is None


def test_what_was_asked_for_is_kept_whatever_it_is_worth(start: Start) -> None:
    ana = start()
    dear = unasked(ana, "a", seconds=1e6, partitions=2)
    ana.limit = sum(each.kept.bytes for each in ana.book.find().values())
    ana.produce(facts=replace(FOR_LONG, seconds=0.001))
    assert ana.read() == [1, 1, 1, 2, 2, 2]
    assert ana.read(dear) is None
    # Nor does it go for others while its program runs, as what is asked for later on.
    ana.limit = ana.book.find()[DATASET].kept.bytes
    assert ana.read(unasked(ana, "b", seconds=1e9)) is None
    assert ana.read() == [1, 1, 1, 2, 2, 2]


def test_what_is_asked_for_later_on_does_not_make_room(start: Start) -> None:
    ana = start()
    first = unasked(ana, "a", seconds=1.0)
    ana.limit = sum(each.kept.bytes for each in ana.book.find().values())
    ana.unasked.clear()
    assert ana.read(unasked(ana, "b", seconds=1e6)) is None
    assert ana.read(first) == [0, 0, 0]


def test_what_makes_room_while_it_is_being_read_is_there_until_the_end(start: Start) -> None:
    ana = start()
    first = unasked(ana, "a", seconds=1.0)
    ana.limit = sum(each.kept.bytes for each in ana.book.find().values())
    with ana.book.reading() as lease:
        result = lease.acquire(first)
        assert result is not None
        assert ana.read(unasked(ana, "b", seconds=1e6)) == [0, 0, 0]
        assert ana.read(first) is None
        assert rows(result.kept) == [0, 0, 0]
    assert not result.kept.directory.exists()


def test_what_a_result_was_made_of_makes_room_for_it(start: Start) -> None:
    ana = start()
    piece, dear = unasked(ana, "a", seconds=9.0), unasked(ana, "b", seconds=5.0)
    ana.limit = sum(each.kept.bytes for each in ana.book.find().values())
    digest, whole = "c" * 64, IntermediateDataSetID("c" * 64)
    ana.wanted.add(digest)
    ana.unasked.add(digest)
    # It was made of the piece in next to no time.
    facts = replace(FOR_LONG, seconds=0.1, inputs=(piece,))
    keep(ana.book, whole, digest, lambda: ana.write([1], whole), facts)
    assert ana.read(whole) == [1, 1, 1] and ana.read(dear) == [0, 0, 0]
    assert ana.read(piece) is None


def test_what_another_program_holds_does_not_make_room(start: Start) -> None:
    ana, bo = start(), start()
    first = unasked(ana, "a", seconds=1.0)
    bo.limit = sum(each.kept.bytes for each in ana.book.find().values())
    assert bo.read(unasked(bo, "b", seconds=1e6)) is None
    assert ana.read(first) == [0, 0, 0]
    assert bo.read(first) == [0, 0, 0]
    # It has linked it.
    ana.limit = bo.limit
    assert ana.read(unasked(ana, "c", seconds=1e6)) is None


def test_a_catalog_that_is_away_costs_the_sharing_and_no_answer(
    start: Start, url: URL, caplog: pytest.LogCaptureFixture
) -> None:
    ana, bo = start(), start()
    ana.produce()
    for program in (ana, bo):
        program.catalog.database._url = url.set(
            database="/nowhere/at/all", host="127.0.0.1", port=9
        )
        program.catalog.database.close()
    assert ana.read() == [1, 1, 1, 2, 2, 2]
    assert bo.read() is None
    bo.produce((4,), FOR_LONG)
    assert bo.read() == [4, 4, 4]
    warned = [record for record in caplog.records if "not shared" in record.getMessage()]
    assert 1 <= len(warned) <= 2


def test_what_the_footers_say_of_columns_is_recorded(start: Start) -> None:
    ana = start()
    ana.produce((3, 1, 2), FOR_LONG)
    (result,) = ana.catalog.search.all()
    detail = ana.catalog.reading.detail(result.number)
    assert detail is not None
    assert detail.statistics == {"a": ColumnStatistics("1", "3", 0)}


def test_a_claim_that_the_catalog_was_not_told_of_is_not_renewed_for_ever(
    start: Start, url: URL
) -> None:
    ana, bo = start(), start()
    claim = ana.book.claim(DATASET, DIGEST, alone=False)
    assert isinstance(claim, Claim)
    ask = ana.book._catalog.ask
    ana.book._catalog.ask = lambda what, otherwise: otherwise  # type: ignore[method-assign]
    ana.book.abandon(claim)
    ana.book._catalog.ask = ask  # type: ignore[method-assign]
    ana.book._look_after(ana.catalog)
    assert bo.catalog.claims.producer(DATASET) is None


def test_states_are_told_apart(start: Start) -> None:
    ana = start()
    ana.produce(facts=FOR_LONG)
    assert [each.state for each in ana.catalog.search.all()] == [ResultState.KEPT]
    ana.book.invalidate(DIGEST, everywhere=True)
    assert [each.state for each in ana.catalog.search.all(list(ResultState))] == [ResultState.GONE]


# -- uses of what a program has itself


def used(program: Program) -> CatalogedResult:
    (result,) = program.catalog.search.all()
    return result


def test_what_a_program_reads_of_its_own_is_recorded_with_the_next_renewal(start: Start) -> None:
    ana = start()
    ana.produce(facts=FOR_LONG)
    began = used(ana).last_used
    for _ in range(6):
        with ana.book.reading() as lease:
            read = lease.acquire(DATASET)
            assert read is not None
            ana.book.saved(read, 0.5)
    assert used(ana).uses == 0
    ana.book._look_after(ana.catalog)
    ana.book._look_after(ana.catalog)
    result = used(ana)
    assert (result.uses, result.saved_seconds) == (6, 6 * 0.5)
    assert began < result.last_used < began + 60
    with ana.catalog.database.reading() as connection:
        (row,) = connection.execute(select(USES))
        moments = json.loads(connection.scalars(select(RESULTS.c.used)).one())
    assert (row.user_name, row.saved_seconds) == ("ana", 6 * 0.5)
    assert row.application == ana.storage.application.hex
    assert len(moments) == REFERENCES and moments == sorted(moments)
    assert row.used == moments[-1]


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


def test_what_another_program_has_taken_in_counts_each_time(start: Start) -> None:
    ana, other = start(), start()
    ana.produce()
    for _ in range(3):
        assert other.read() is not None
    other.book._look_after(other.catalog)
    assert used(ana).uses == 3


def test_who_has_waited_for_a_result_counts_once(start: Start) -> None:
    ana, other = start(), start()
    ana.produce()
    assert isinstance(other.book.claim(DATASET, DIGEST, alone=False), KeptResult)
    assert other.read() is not None
    other.book._look_after(other.catalog)
    assert used(ana).uses == 1
    other.read()
    other.book._look_after(other.catalog)
    assert used(ana).uses == 2


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
    assert later.read() == [1, 1, 1, 2, 2, 2] and later.read(OTHER) is None


def test_a_lifetime_begins_anew_when_its_own_program_reads_it(start: Start) -> None:
    ana = start()
    ana.produce(facts=FOR_LONG)
    pass_time(ana.catalog, 400.0)
    ana.read()
    ana.book._look_after(ana.catalog)
    with ana.catalog.database.reading() as connection:
        left = connection.scalars(select(HOLDERS.c.until).where(HOLDERS.c.application == "")).one()
        left -= ana.catalog.database.now(connection)
    assert 590.0 < left <= 600.0


def test_uses_that_the_catalog_could_not_be_told_of_are_not_lost(start: Start, url: URL) -> None:
    ana = start()
    ana.produce()
    ana.read()
    database = ana.catalog.database
    database._url = url.set(database="/nowhere/at/all", host="127.0.0.1", port=9)
    database.close()
    with pytest.raises(CatalogError):
        ana.book._look_after(ana.catalog)
    ana.read()
    database._url = url
    ana.book._look_after(ana.catalog)
    assert used(ana).uses == 2
