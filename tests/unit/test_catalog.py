"""What the catalog records, over each database that it can be in: what both have to do."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from threading import Timer
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import URL, text

from holdfast.catalog.audience import Audience
from holdfast.catalog.catalog import Catalog
from holdfast.catalog.catalog_database import CatalogDatabase
from holdfast.catalog.cataloged_result import (
    CatalogClaim,
    CatalogedResult,
    InProduction,
    MadeFrom,
    ResultState,
)
from holdfast.catalog.schema import METADATA
from holdfast.errors import CatalogVersionError, ClaimFencedError
from holdfast.ids import IntermediateDataSetID
from holdfast.plan.file_version import FileVersion
from tests.catalog.conftest import empty_catalog
from tests.catalog.conftest import postgresql as postgresql
from tests.catalog.conftest import programs as programs
from tests.catalog.results import DATASET, OTHER, pass_time, produced, publish, unlimited

Programs = Callable[..., Catalog]
KEPT: dict[str, Any] = {"is_shared": True, "lifetime": 60.0}


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> URL:
    return empty_catalog(request, tmp_path)


def dataset(number: int) -> IntermediateDataSetID:
    return IntermediateDataSetID(f"{number:064x}")


def claimed(catalog: Catalog, dataset_id: IntermediateDataSetID = DATASET) -> CatalogClaim:
    claim = catalog.claims.claim(dataset_id)
    assert isinstance(claim, CatalogClaim)
    return claim


def kept(catalog: Catalog, dataset_id: IntermediateDataSetID = DATASET, **facts: object) -> int:
    """Publishes what outlives its program; its number."""
    number = publish(catalog, dataset_id, **{**KEPT, **facts}).number
    assert number is not None
    return number


def numbers(results: object) -> list[int]:
    return [each.number for each in results]  # type: ignore[attr-defined]


# -- the database


def test_programs_make_the_tables_of_the_schema_at_once_and_refuse_later_ones(
    url: URL, tmp_path: Path
) -> None:
    databases = [CatalogDatabase(url) for _ in range(8)]
    with ThreadPoolExecutor(8) as threads:
        (identity,) = set(threads.map(CatalogDatabase.identity, databases))
    with databases[0].reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
    databases += [CatalogDatabase(f"sqlite:///{tmp_path}/other"), CatalogDatabase(url)]
    *_, other, late = databases
    assert other.identity() != identity
    with databases[0].writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    with pytest.raises(CatalogVersionError, match="9999.*Upgrade Holdfast"), late.reading():
        pass
    for database in databases:
        database.close()


def test_a_new_file_that_another_program_writes_to_is_waited_for(tmp_path: Path) -> None:
    other = sqlite3.connect(tmp_path / "new.db", isolation_level=None, check_same_thread=False)
    other.execute("BEGIN IMMEDIATE")
    Timer(0.3, other.rollback).start()
    database = CatalogDatabase(f"sqlite:///{tmp_path}/new.db")
    assert database.identity()
    database.close()


# -- who finds what


def test_what_one_program_has_kept_another_finds(programs: Programs) -> None:
    ana, again = programs(), programs()
    files = (FileVersion("file:/a", 1, 2, "inode 3"),)
    made_from = MadeFrom(files, {"spark.sql.ansi.enabled": "true"})
    published = publish(ana, made_from=made_from, seconds=12.5)
    found = again.search.find([DATASET, OTHER])
    assert list(found) == [DATASET]
    offered = found[DATASET]
    assert offered.result.number == published.number
    assert (offered.result.seconds, offered.result.user) == (12.5, "ana")
    assert offered.made_from == made_from and offered.kept.rows == 7
    assert not again.search.is_empty()
    # Its own it has in memory; what is elsewhere is not found.
    assert ana.search.find([DATASET]) == {} and ana.search.is_empty()
    elsewhere = programs(storage="6" * 32)
    assert elsewhere.search.find([DATASET]) == {} and claimed(elsewhere)


def test_who_may_read_a_result(programs: Programs) -> None:
    program, publishes = cache(programs), programs()
    for number, (audience, user, groups, shares_with, finds) in enumerate(
        [
            (Audience.NOBODY, "ana", ("staff",), Audience.ALL, False),
            (Audience.USER, "ana", ("other",), Audience.USER, True),
            (Audience.USER, "bo", ("staff",), Audience.ALL, False),
            (Audience.GROUP, "bo", ("other", "staff"), Audience.GROUP, True),
            (Audience.GROUP, "bo", ("staff",), Audience.ALL, True),
            (Audience.GROUP, "bo", ("other",), Audience.ALL, False),
            (Audience.GROUP, "bo", ("staff",), Audience.USER, False),
            (Audience.GROUP, "ana", ("other",), Audience.USER, True),
            (Audience.ALL, "bo", ("other",), Audience.ALL, True),
            (Audience.ALL, "bo", ("staff",), Audience.GROUP, False),
            (Audience.ALL, "bo", ("staff",), Audience.USER, False),
        ]
    ):
        asked, case = dataset(number), (audience, user, groups, shares_with)
        publish(publishes, asked, audience=audience)
        other = program(user, groups=groups, shares_with=shares_with)
        assert bool(other.search.find([asked])) is finds, case
        assert isinstance(other.claims.claim(asked), CatalogedResult) is finds, case
    # Two users who share claim a dataset once; of others each has its own claim.
    for number, shares_with in enumerate(Audience, 100):
        claimed(program("ana", shares_with=shares_with), dataset(number))
        second = program("bo", shares_with=shares_with).claims.claim(dataset(number))
        assert isinstance(second, InProduction) is shares_with.is_beyond_user, shares_with


# -- one produces


def test_one_alone_produces(programs: Programs) -> None:
    ana, bo, cy = programs(), programs(), programs()
    publish(ana, seconds=33.0)
    ana.holders.withdraw("gone", digest=produced().digest)
    claim = claimed(ana)
    waiting = bo.claims.claim(DATASET)
    assert isinstance(waiting, InProduction) and waiting.expected == 33.0
    assert isinstance(bo.claims.producer(DATASET), InProduction)
    assert claimed(bo, OTHER)
    # Only who has it gives it up.
    bo.claims.withdraw(DATASET)
    assert isinstance(bo.claims.claim(DATASET), InProduction)
    ana.claims.abandon(claim)
    assert bo.claims.producer(DATASET) is None
    second = claimed(bo)
    assert second.epoch > claim.epoch
    bo.publications.publish(produced(), second, unlimited)
    assert isinstance(cy.claims.claim(DATASET), CatalogedResult)
    assert isinstance(cy.claims.producer(DATASET), CatalogedResult)


def test_a_claim_ends_with_its_lease_and_a_late_publication_is_fenced(programs: Programs) -> None:
    paused, other = programs(), programs()
    claim, free = claimed(paused), claimed(paused, OTHER)
    for _ in range(3):
        pass_time(other, 20.0)
        paused.programs.renew()
        assert isinstance(other.claims.claim(DATASET), InProduction)
    pass_time(other, 40.0)
    taken = claimed(other)
    # It doesn't come alive again by a late sign of life.
    paused.programs.renew()
    with pytest.raises(ClaimFencedError, match="epoch"):
        paused.publications.publish(produced(), claim, unlimited)
    assert other.search.all() == []
    assert other.publications.publish(produced(), taken, unlimited).number is not None
    # One that no other program took is still good.
    assert paused.publications.publish(produced(OTHER), free, unlimited).number is not None


def test_what_was_announced_is_published_under_its_number_or_garbage(programs: Programs) -> None:
    ana, dead, bo = programs(), programs(), programs()
    result, claim = produced(**KEPT), claimed(ana)
    number = ana.publications.announce(result)
    assert bo.search.find([DATASET]) == {}
    dead.publications.announce(produced(OTHER, **KEPT))
    assert ana.publications.publish(result, claim, unlimited, announced=number).number == number
    assert list(bo.search.find([DATASET])) == [DATASET] and bo.holders.sweep() == []
    pass_time(bo, 40.0)
    bo.programs.renew()
    (found,) = bo.holders.sweep()
    assert found.state is ResultState.GOING and found.dataset_id == OTHER


# -- until when


def test_results_of_an_application_go_with_it(programs: Programs) -> None:
    ana, dead, bo = programs(), programs(), programs()
    publish(ana)
    kept(ana, OTHER)
    publish(dead, dataset(3))
    ana.programs.leave()
    assert set(bo.search.find([DATASET, OTHER, dataset(3)])) == {OTHER, dataset(3)}
    (gone,) = bo.search.all([ResultState.GONE])
    assert gone.dataset_id == DATASET and gone.why_gone == "the program that had kept it ended"
    assert bo.holders.sweep() == []
    # Of one that is dead with its lease.
    pass_time(bo, 40.0)
    bo.programs.renew()
    assert list(bo.search.find([dataset(3)])) == []
    assert bo.holders.sweep() == [] and [each.dataset_id for each in bo.search.all()] == [OTHER]


def test_a_lifetime_begins_again_with_each_use_and_the_end_of_who_holds_it(
    programs: Programs,
) -> None:
    ana, bo = programs(), programs()
    number = kept(ana, lifetime=600.0)
    pass_time(bo, 500.0)
    ana.programs.renew()
    ana.programs.leave()
    for _ in range(3):
        pass_time(bo, 400.0)
        bo.programs.renew()
        assert bo.holders.sweep() == [] and bo.holders.use(number, hold=False)
    pass_time(bo, 700.0)
    assert bo.search.find([DATASET]) == {}
    (gone,) = bo.holders.sweep()
    assert gone.number == number and gone.uses == 3 and gone.saved_seconds == 0.0
    assert numbers(bo.holders.sweep()) == [number]
    bo.holders.removed([number])
    assert bo.holders.sweep() == [] and not bo.holders.use(number, hold=True)
    # What holds a result keeps it; until then it was used.
    cy = programs()
    held = kept(cy, OTHER, lifetime=10.0)
    assert bo.holders.use(held, hold=True)
    cy.programs.leave()
    bo.programs.renew()
    pass_time(bo, 20.0)
    assert bo.holders.sweep() == []
    bo.holders.let_go([held])
    assert bo.holders.sweep() == []
    pass_time(bo, 20.0)
    assert numbers(bo.holders.sweep()) == [held]


def test_what_no_program_uses_stays_for_its_time(programs: Programs) -> None:
    ana, bo = programs(), programs()
    kept(ana, lifetime=None, retention=600.0)
    ana.programs.leave()
    found = produced(OTHER, **{**KEPT, "lifetime": 600.0})
    assert bo.publications.restore(found, ana.scope.program, "any")
    pass_time(bo, 500.0)
    assert bo.holders.sweep() == []
    pass_time(bo, 200.0)
    assert {each.dataset_id for each in bo.holders.sweep()} == {DATASET, OTHER}


def test_a_withdrawn_result_is_found_no_more(programs: Programs) -> None:
    ana, bo = programs(), programs("bo")
    kept(ana)
    assert bo.holders.withdraw("bo's wish", digest=produced().digest) == []
    (gone,) = programs().holders.withdraw("ana's wish", digest=produced().digest)
    assert gone.dataset_id == DATASET and programs().search.find([DATASET]) == {}
    assert [each.why_gone for each in ana.holders.sweep()] == ["ana's wish"]


def test_who_asks_for_names_hears_which_are_announced_or_held_still(programs: Programs) -> None:
    catalog = programs()
    announced, held, gone = produced(**KEPT), produced(OTHER, **KEPT), produced(**KEPT)
    catalog.publications.announce(announced)
    for each in (held, gone):
        claim = claimed(catalog, each.dataset_id)
        number = catalog.publications.publish(each, claim, unlimited).number
    assert number is not None
    catalog.holders.withdraw("by hand", numbers=[number])
    names = [str(each.kept.name) for each in (announced, held, gone)]
    found = catalog.holders.recorded([*names, f"{DATASET.hex}-00000000"])
    assert found == {names[0]: True, names[1]: True, names[2]: False}
    many = [f"{digit:064x}-0badcafe" for digit in range(5000)]
    assert catalog.holders.recorded([*many, *names]) == found


# -- room


def test_only_what_a_user_may_remove_makes_room(programs: Programs) -> None:
    ana, bo = programs(), programs("bo", shares_with=Audience.GROUP)
    private, for_all = kept(ana), kept(ana, OTHER, audience=Audience.GROUP)
    ana.holders.let_go([private, for_all])
    ana.programs.leave()
    published = publish(bo, dataset(3), limit=200, lifetime=100.0)
    assert numbers(published.evicted) == numbers(bo.holders.sweep()) == [for_all]


def test_room_is_made_of_what_is_worth_least(programs: Programs) -> None:
    ana = programs()
    costly = kept(ana, seconds=500.0, size=60)
    of_it = kept(ana, OTHER, seconds=5.0, inputs=(DATASET,), size=60)
    alone = kept(ana, dataset(3), seconds=50.0, size=60)
    # What a program holds that runs is not evicted.
    assert publish(ana, dataset(4), size=60, limit=150).number is None
    ana.programs.leave()
    bo = programs()
    bo.holders.withdraw("gone", numbers=[costly])
    published = publish(bo, dataset(4), size=60, limit=150)
    # The other took five seconds out of what took five hundred, and isn't there any more.
    assert numbers(published.evicted) == [alone]
    assert set(numbers(bo.search.all())) == {of_it, published.number}
    # What is larger than all is not kept, and may be produced again.
    assert publish(bo, dataset(5), size=200, limit=150).number is None
    assert claimed(programs(), dataset(5))
