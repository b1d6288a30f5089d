"""What the catalog records, over each database that it can be in."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.runtime.migration import MigrationContext
from sqlalchemy import URL, event, text

from holdfast.catalog.audience import Audience
from holdfast.catalog.catalog import Catalog
from holdfast.catalog.catalog_database import CatalogDatabase
from holdfast.catalog.cataloged_result import (
    CatalogClaim,
    CatalogedResult,
    InProduction,
    MadeFrom,
    ProgramIdentity,
    ResultState,
)
from holdfast.catalog.schema import METADATA
from holdfast.errors import CatalogError, CatalogVersionError, ClaimFencedError
from holdfast.ids import ApplicationID, IntermediateDataSetID
from holdfast.plan.file_version import FileVersion
from tests.catalog.results import DATASET, OTHER, pass_time, produced, publish, unlimited

Programs = Callable[..., Catalog]


def test_the_tables_are_those_of_the_schema(url: URL) -> None:
    database = CatalogDatabase(url)
    with database.reading() as connection:
        assert compare_metadata(MigrationContext.configure(connection), METADATA) == []
    database.close()


def test_several_programs_make_the_tables_at_once(url: URL) -> None:
    databases = [CatalogDatabase(url) for _ in range(8)]
    failures: list[Exception] = []

    def use(database: CatalogDatabase) -> None:
        try:
            with database.writing() as connection:
                connection.execute(text("SELECT count(*) FROM results"))
        except CatalogError as error:
            failures.append(error)

    threads = [threading.Thread(target=use, args=(each,)) for each in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for database in databases:
        database.close()
    assert failures == []


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
    # Its own it has in memory.
    assert ana.search.find([DATASET]) == {} and ana.search.is_empty()


def test_results_are_found_by_their_datasets(tmp_path: Path) -> None:
    url = URL.create("sqlite", database=str(tmp_path / "catalog.db"))
    identity = ProgramIdentity(ApplicationID.random(), "ana", ("staff",), "node-1", 1)
    catalog = Catalog(CatalogDatabase(url), lambda: "5" * 32, lambda: "e" * 64, identity, 30.0)
    asked: list[tuple[str, Any]] = []
    event.listen(
        catalog.database._ready(),
        "before_cursor_execute",
        lambda connection, cursor, text, values, *_: asked.append((text, values)),
    )
    catalog.search.find([IntermediateDataSetID(f"{number:064x}") for number in range(200)])
    catalog.claims.claim(DATASET)
    with catalog.database.reading() as connection:
        for query, values in [each for each in asked if "WHERE results.dataset_id" in each[0]]:
            plan = connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {query}", values).all()
            assert "results USING INDEX results_of_dataset" in str(plan)
    # Nearly all results are kept: the index of states would go through every one.
    assert sum("WHERE results.dataset_id" in each for each, _ in asked) >= 2
    catalog.database.close()


@pytest.mark.parametrize(
    ("audience", "user", "groups", "shares_with", "finds"),
    [
        (Audience.NOBODY, "ana", ("staff",), Audience.ALL, False),
        (Audience.USER, "ana", ("other",), Audience.USER, True),
        (Audience.USER, "ana", ("other",), Audience.ALL, True),
        (Audience.USER, "bo", ("staff",), Audience.ALL, False),
        (Audience.GROUP, "bo", ("other", "staff"), Audience.GROUP, True),
        (Audience.GROUP, "bo", ("staff",), Audience.ALL, True),
        (Audience.GROUP, "bo", ("other",), Audience.ALL, False),
        (Audience.GROUP, "bo", ("staff",), Audience.USER, False),
        (Audience.GROUP, "ana", ("other",), Audience.USER, True),
        (Audience.ALL, "bo", (), Audience.ALL, True),
        (Audience.ALL, "bo", ("staff",), Audience.GROUP, False),
        (Audience.ALL, "bo", ("staff",), Audience.USER, False),
    ],
)
def test_who_may_read_a_result(
    programs: Programs,
    audience: Audience,
    user: str,
    groups: tuple[str, ...],
    shares_with: Audience,
    finds: bool,
) -> None:
    publish(programs(), audience=audience)
    other = programs(user, groups=groups, shares_with=shares_with)
    assert bool(other.search.find([DATASET])) is finds
    assert other.search.is_empty() is not finds
    assert isinstance(other.claims.claim(DATASET), CatalogedResult if finds else CatalogClaim)


@pytest.mark.parametrize("shares_with", Audience)
def test_nobody_waits_for_what_is_not_for_them(programs: Programs, shares_with: Audience) -> None:
    """Two users who share claim a dataset once; of others each has a claim of its own."""
    claims = [
        programs(user, shares_with=shares_with).claims.claim(DATASET) for user in ("ana", "bo")
    ]
    first, second = claims
    assert isinstance(first, CatalogClaim)
    assert isinstance(second, InProduction if shares_with.is_beyond_user else CatalogClaim)


def test_only_what_a_user_may_remove_makes_room(programs: Programs) -> None:
    ana, bo = programs(), programs("bo", shares_with=Audience.GROUP)
    private = publish(ana, lifetime=100.0, is_shared=True)
    for_all = publish(ana, OTHER, lifetime=100.0, is_shared=True, audience=Audience.GROUP)
    ana.holders.let_go([private.number, for_all.number])
    ana.programs.leave()
    third = IntermediateDataSetID("3" * 64)
    published = publish(bo, third, limit=200, lifetime=100.0)
    assert [each.number for each in published.evicted] == [for_all.number]
    assert [each.number for each in bo.holders.sweep()] == [for_all.number]


def test_what_lies_elsewhere_is_not_found(programs: Programs) -> None:
    publish(programs())
    elsewhere = programs(storage="6" * 32)
    assert elsewhere.search.find([DATASET]) == {}
    assert isinstance(elsewhere.claims.claim(DATASET), CatalogClaim)


def test_one_alone_produces(programs: Programs) -> None:
    ana, bo, cy = programs(), programs(), programs()
    claim = ana.claims.claim(DATASET)
    assert isinstance(claim, CatalogClaim)
    assert isinstance(bo.claims.claim(DATASET), InProduction)
    assert isinstance(bo.claims.producer(DATASET), InProduction)
    assert isinstance(bo.claims.claim(OTHER), CatalogClaim)
    ana.claims.abandon(claim)
    assert bo.claims.producer(DATASET) is None
    second = bo.claims.claim(DATASET)
    assert isinstance(second, CatalogClaim) and second.epoch > claim.epoch
    bo.publications.publish(produced(), second, unlimited)
    assert isinstance(cy.claims.claim(DATASET), CatalogedResult)
    assert isinstance(cy.claims.producer(DATASET), CatalogedResult)


def test_what_a_program_does_not_produce_after_all_another_one_does(programs: Programs) -> None:
    ana, bo = programs(), programs()
    ana.claims.claim(DATASET)
    bo.claims.withdraw(DATASET)
    assert isinstance(bo.claims.claim(DATASET), InProduction)
    ana.claims.withdraw(DATASET)
    assert isinstance(bo.claims.claim(DATASET), CatalogClaim)


def test_how_long_it_took_the_last_time_is_known(programs: Programs) -> None:
    ana, bo = programs(), programs()
    publish(ana, seconds=33.0)
    ana.holders.withdraw("gone", digest=produced().digest)
    ana.claims.claim(DATASET)
    found = bo.claims.claim(DATASET)
    assert isinstance(found, InProduction)
    assert found.expected == 33.0


def test_a_claim_ends_with_its_lease_and_a_late_publication_is_fenced(programs: Programs) -> None:
    paused, other = programs(), programs()
    claim = paused.claims.claim(DATASET)
    assert isinstance(claim, CatalogClaim)
    pass_time(other, 40.0)
    taken = other.claims.claim(DATASET)
    assert isinstance(taken, CatalogClaim)
    # It doesn't come alive again by a late sign of life.
    paused.programs.renew()
    with pytest.raises(ClaimFencedError, match="epoch 1"):
        paused.publications.publish(produced(), claim, unlimited)
    assert other.search.all() == []
    assert other.publications.publish(produced(), taken, unlimited).number is not None


def test_a_claim_that_nobody_took_is_still_good(programs: Programs) -> None:
    slow = programs()
    claim = slow.claims.claim(DATASET)
    assert isinstance(claim, CatalogClaim)
    pass_time(slow, 40.0)
    assert slow.publications.publish(produced(), claim, unlimited).number is not None


def test_renewal_keeps_a_claim(programs: Programs) -> None:
    slow, other = programs(), programs()
    slow.claims.claim(DATASET)
    for _ in range(4):
        pass_time(other, 20.0)
        slow.programs.renew()
        assert isinstance(other.claims.claim(DATASET), InProduction)


def test_results_of_an_application_go_with_it(programs: Programs) -> None:
    ana, bo = programs(), programs()
    publish(ana)
    publish(ana, OTHER, lifetime=60.0, is_shared=True)
    ana.programs.leave()
    assert list(bo.search.find([DATASET, OTHER])) == [OTHER]
    (gone,) = bo.search.all([ResultState.GONE])
    assert gone.dataset_id == DATASET and gone.why_gone == "the program that had kept it ended"
    assert bo.holders.sweep() == []


def test_results_of_a_dead_application_go_with_its_lease(programs: Programs) -> None:
    dead, bo = programs(), programs()
    publish(dead)
    assert list(bo.search.find([DATASET])) == [DATASET]
    pass_time(bo, 40.0)
    bo.programs.renew()
    assert bo.search.find([DATASET]) == {}
    assert bo.holders.sweep() == [] and bo.search.all() == []


def test_a_lifetime_begins_anew_with_each_use(programs: Programs) -> None:
    ana, bo = programs(), programs()
    number = publish(ana, lifetime=600.0, is_shared=True).number
    assert number is not None
    ana.programs.leave()
    for _ in range(3):
        pass_time(bo, 400.0)
        assert bo.holders.use(number, hold=False)
    pass_time(bo, 700.0)
    assert bo.search.find([DATASET]) == {}
    (gone,) = bo.holders.sweep()
    assert gone.number == number and gone.uses == 3 and gone.saved_seconds == 0.0
    assert [each.number for each in bo.holders.sweep()] == [number]
    bo.holders.removed([number])
    assert bo.holders.sweep() == []
    assert not bo.holders.use(number, hold=True)


def test_who_holds_a_result_keeps_it(programs: Programs) -> None:
    ana, bo = programs(), programs()
    number = publish(ana, lifetime=10.0, is_shared=True).number
    assert number is not None
    assert bo.holders.use(number, hold=True)
    ana.programs.leave()
    pass_time(bo, 20.0)
    assert bo.holders.sweep() == []
    bo.holders.let_go([number])
    # Until now it was used.
    assert bo.holders.sweep() == []
    pass_time(bo, 20.0)
    assert [each.number for each in bo.holders.sweep()] == [number]


def test_a_lifetime_begins_anew_when_a_program_ends_that_held_it(programs: Programs) -> None:
    ana, bo = programs(), programs()
    publish(ana, lifetime=600.0, is_shared=True)
    pass_time(bo, 500.0)
    ana.programs.renew()
    ana.programs.leave()
    pass_time(bo, 500.0)
    assert list(bo.search.find([DATASET])) == [DATASET]
    pass_time(bo, 200.0)
    assert bo.search.find([DATASET]) == {}


def test_what_was_announced_and_never_published_is_garbage(programs: Programs) -> None:
    dead, bo = programs(), programs()
    dead.publications.announce(produced(is_shared=True, lifetime=60.0))
    assert bo.holders.sweep() == []
    pass_time(bo, 40.0)
    (found,) = bo.holders.sweep()
    assert found.state is ResultState.GOING and found.is_shared


def test_what_was_announced_is_published_under_its_number(programs: Programs) -> None:
    ana = programs()
    result = produced(is_shared=True, lifetime=60.0)
    claim = ana.claims.claim(DATASET)
    assert isinstance(claim, CatalogClaim)
    number = ana.publications.announce(result)
    assert programs().search.find([DATASET]) == {}
    assert ana.publications.publish(result, claim, unlimited, announced=number).number == number
    assert list(programs().search.find([DATASET])) == [DATASET]


def test_a_withdrawn_result_is_found_no_more(programs: Programs) -> None:
    ana, bo = programs(), programs("bo")
    publish(ana, lifetime=60.0, is_shared=True)
    assert bo.holders.withdraw("bo's wish", digest=produced().digest) == []
    (gone,) = programs().holders.withdraw("ana's wish", digest=produced().digest)
    assert gone.dataset_id == DATASET
    assert programs().search.find([DATASET]) == {}
    assert [each.why_gone for each in ana.holders.sweep()] == ["ana's wish"]


def test_room_is_made_of_what_is_worth_least(programs: Programs) -> None:
    ana = programs()
    cheap = publish(ana, size=60, seconds=1.0, lifetime=60.0, is_shared=True).number
    dear = publish(ana, OTHER, size=60, seconds=100.0, lifetime=60.0, is_shared=True).number
    ana.programs.leave()
    bo = programs()
    bo.programs.renew()
    third = produced().dataset_id.from_digest("3" * 64)
    published = publish(bo, third, size=60, limit=150)
    assert [each.number for each in published.evicted] == [cheap]
    assert {each.number for each in bo.search.all()} == {dear, published.number}
    assert [each.number for each in bo.holders.sweep()] == [cheap]


def test_what_is_made_of_something_gone_costs_more_to_compute_again(programs: Programs) -> None:
    ana = programs()
    stays = {"lifetime": 60.0, "is_shared": True, "size": 60}
    costly = publish(ana, seconds=500.0, **stays).number
    of_it = publish(ana, OTHER, seconds=5.0, inputs=(DATASET,), **stays).number
    third = produced().dataset_id.from_digest("3" * 64)
    alone = publish(ana, third, seconds=50.0, **stays).number
    ana.programs.leave()
    bo = programs()
    assert costly is not None
    bo.holders.withdraw("gone", numbers=[costly])
    fourth = produced().dataset_id.from_digest("4" * 64)
    published = publish(bo, fourth, size=60, limit=150)
    # It took five seconds out of what took five hundred, and isn't there any more.
    assert [each.number for each in published.evicted] == [alone]
    assert of_it in {each.number for each in bo.search.all()}


def test_what_is_held_is_not_evicted(programs: Programs) -> None:
    ana = programs()
    publish(ana, size=60, lifetime=60.0, is_shared=True)
    third = produced().dataset_id.from_digest("3" * 64)
    assert publish(ana, third, size=60, limit=100).number is None
    assert publish(ana, OTHER, size=40, limit=100).number is not None


def test_a_result_that_is_larger_than_the_budget_is_not_kept(programs: Programs) -> None:
    ana, bo = programs(), programs()
    assert publish(ana, size=200, limit=100).number is None
    assert isinstance(bo.claims.claim(DATASET), CatalogClaim)


def test_a_later_version_of_the_tables_is_refused(url: URL, programs: Programs) -> None:
    programs()
    database = CatalogDatabase(url)
    with database.writing() as connection:
        connection.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    database.close()
    with pytest.raises(CatalogVersionError, match="9999.*Upgrade Holdfast"):
        programs()


@pytest.mark.parametrize("content", [b"", b"this is no database" * 100])
def test_a_damaged_file_is_an_error(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "catalog.db"
    file.write_bytes(content)
    database = CatalogDatabase(URL.create("sqlite", database=str(file)))
    if not content:
        # An empty file is an empty database.
        with database.reading():
            pass
    else:
        with pytest.raises(CatalogError, match="not a database"), database.reading():
            pass
    database.close()


def test_a_server_that_is_away_is_an_error() -> None:
    database = CatalogDatabase("postgresql+psycopg://ana:secret@127.0.0.1:9/catalog")
    with pytest.raises(CatalogError, match="127.0.0.1") as caught, database.reading():
        pass
    assert "secret" not in str(caught.value)


def test_a_locked_file_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "catalog.db"
    database = CatalogDatabase(URL.create("sqlite", database=str(file)))
    with database.reading():
        pass
    with sqlite3.connect(file, isolation_level=None) as other:
        other.execute("BEGIN EXCLUSIVE")
        with pytest.raises(CatalogError, match="locked"), database.writing():
            pass
        other.execute("ROLLBACK")
    database.close()


def test_who_asks_for_names_hears_which_are_announced_or_held_still(programs: Programs) -> None:
    catalog = programs()
    announced = produced(is_shared=True, lifetime=60.0)
    catalog.publications.announce(announced)
    held, gone = produced(OTHER, is_shared=True, lifetime=60.0), produced(is_shared=True)
    for each in (held, gone):
        claim = catalog.claims.claim(each.dataset_id)
        assert isinstance(claim, CatalogClaim)
        catalog.publications.publish(each, claim, unlimited)
    names = [str(each.kept.name) for each in (announced, held, gone)]
    (number,) = [each.number for each in catalog.search.all() if each.name == names[2]]
    catalog.holders.withdraw("by hand", numbers=[number])
    found = catalog.holders.recorded([*names, f"{DATASET.hex}-00000000"])
    assert found == {names[0]: True, names[1]: True, names[2]: False}
    many = [f"{digit:064x}-0badcafe" for digit in range(5000)]
    assert catalog.holders.recorded([*many, *names]) == found


def test_a_catalog_that_is_made_anew_has_another_identity(url: URL, tmp_path: Path) -> None:
    databases = [
        CatalogDatabase(url),
        CatalogDatabase(url),
        CatalogDatabase(f"sqlite:///{tmp_path}/o"),
    ]
    first, again, other = (each.identity() for each in databases)
    assert first == again != other
    for each in databases:
        each.close()
