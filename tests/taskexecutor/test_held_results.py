"""What the catalog holds on task executors: real processes, a real catalog, no Spark."""

from __future__ import annotations

import logging
import signal
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from holdfast.ids import CATALOG_APPLICATION, IntermediateDataSetID
from tests.catalog.conftest import postgresql as postgresql
from tests.harness.forked import CONTEXT
from tests.taskexecutor import sharing_programs
from tests.taskexecutor.site import ROWS, SECONDS, Site, site_at

OTHER = IntermediateDataSetID("2" * 64)


@pytest.fixture
def site(start: Any, tmp_path: Path) -> Iterator[Site]:
    with site_at(start, tmp_path) as site:
        yield site


def test_a_result_with_a_lifetime_outlives_its_program_and_others_go_with_it(site: Site) -> None:
    one, other = site.program(), site.program()
    one.produce(lifetime=None)
    with other.book.reading() as lease:
        result = lease.acquire(sharing_programs.DATASET)
        one.close()
        assert result is not None and sharing_programs.rows(result.kept) == ROWS
    other.close()
    assert site.read() is None and site.files() == []
    site.keep()
    later = site.program()
    assert later.read() == ROWS
    held = [path for path in site.files() if CATALOG_APPLICATION.hex in str(path)]
    # No row is copied.
    assert len(held) == 2 and held[0].stat().st_nlink > 1
    later.close()
    assert site.read() == ROWS
    assert site.ends_lifetimes()


def killed_driver(site: Site, seed: str | None = None) -> BaseProcess:
    """A driver that has kept a result, and goes on with that where it has a seed."""
    has_kept = CONTEXT.Event()
    arguments = (site.url, site.executor.address, site.executor.token, seed, has_kept)
    driver = CONTEXT.Process(target=sharing_programs.main, args=arguments, daemon=True)
    driver.start()
    assert has_kept.wait(SECONDS)
    return driver


def only_the_catalog_s_are_left(site: Site) -> bool:
    end = time.monotonic() + 40
    while time.monotonic() < end:
        if len(list(site.directory.glob("application-*"))) == 1:
            return True
        time.sleep(0.05)
    return False


def test_what_a_killed_driver_has_kept_survives_the_executor_s_kill_too(site: Site) -> None:
    driver = killed_driver(site)
    driver.kill()
    driver.join()
    address = site.executor.address
    site.executor.kill()
    site.run()
    assert site.executor.address != address
    # Its own goes with its lease, what is held stays.
    assert only_the_catalog_s_are_left(site)
    assert len(site.files()) == 2 and site.read() == ROWS


@pytest.mark.soak
def test_kills_at_any_time_leave_what_the_catalog_records_and_nothing_else(site: Site) -> None:
    for turn in range(6):
        driver = killed_driver(site, str(turn))
        time.sleep(0.1 + 0.037 * turn)
        if turn % 2:
            site.executor.kill()
            site.run()
        driver.kill()
        driver.join()
    recorded = {each.name for each in site.recorded() if each.is_shared}
    assert len(recorded) >= 6
    # What was announced, and not kept, goes with the leases of those that were killed.
    assert only_the_catalog_s_are_left(site)
    end = time.monotonic() + 40
    while site.names() != recorded and time.monotonic() < end:
        time.sleep(0.1)
    assert site.names() == recorded
    assert site.command("verify")[0] == 0


@pytest.mark.soak
def test_the_catalog_may_be_a_server(start: Any, tmp_path: Path, postgresql: Any) -> None:
    url = postgresql.render_as_string(hide_password=False)
    with site_at(start, tmp_path, url) as site:
        name = site.keep()
        site.stop()
        site.run()
        assert site.read() == ROWS
        (result,) = site.recorded()
        assert result.name == name and result.is_shared
        assert site.ends_lifetimes() and site.stop() == ""


def test_an_invalidation_takes_it_away_at_once_or_when_the_executor_is_back(
    site: Site, free_port: int
) -> None:
    site.stop()
    site.run("--port", str(free_port))
    program = site.program()
    program.produce()
    program.book.invalidate(sharing_programs.DIGEST, everywhere=True)
    assert site.files() == [] and site.recorded() == []
    program.produce()
    program.book.invalidate(sharing_programs.DIGEST)
    assert len(site.files()) == 2 and site.read() == ROWS
    site.executor.kill()
    program.book.invalidate(sharing_programs.DIGEST, everywhere=True)
    site.run("--port", str(free_port))
    assert site.becomes_empty()


def test_without_a_catalog_an_executor_refuses_results_and_keeps_those_that_it_holds(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.keep()
    site.stop()
    site.run(with_catalog=False)
    program = site.program()
    with caplog.at_level(logging.WARNING):
        for number in "34":
            program.produce(dataset_id=IntermediateDataSetID(number * 64))
    said = [each.getMessage() for each in caplog.records if "will go with" in each.getMessage()]
    assert len(said) == 1 and "--catalog-url" in said[0]
    assert site.read(IntermediateDataSetID("3" * 64)) == ROWS
    program.close()
    assert site.read(IntermediateDataSetID("3" * 64)) is None
    assert site.read() == ROWS
    assert "1 results are held for a catalog, and stay" in site.stop()


# -- damage


def deleted(site: Site, name: str) -> None:
    for file in site.files():
        file.unlink()


@pytest.mark.parametrize("harm", [Site.damage, deleted])
def test_what_is_damaged_or_gone_is_not_read_and_made_again(
    site: Site, harm: Callable[[Site, str], None]
) -> None:
    harm(site, site.keep())
    program = site.program()
    assert program.read() is None and site.recorded() == []
    assert program.produce().refusal is None and program.read() == ROWS


def test_a_program_that_is_lost_to_the_executor_alone_costs_its_readers_nothing(
    site: Site,
) -> None:
    lost, reader = site.program(), site.program()
    lost.produce(lifetime=None)
    # As when its lease has lapsed there, and not in the catalog.
    lost.storage.close()
    assert reader.read() is None and site.recorded() == []
    assert reader.storage.connections[0].is_up
    reader.produce()
    assert reader.read() == ROWS


def test_the_catalog_records_no_read_key(site: Site) -> None:
    program = site.program()
    program.produce(lifetime=None)
    key = program.storage.connections[0].read_root.split("/")[3]
    program.produce(dataset_id=OTHER)
    program.close()
    assert len(key) == 64
    for path in site.file.parent.glob("catalog.db*"):
        assert key.encode() not in path.read_bytes()
    assert site.read(OTHER) == ROWS


# -- commands


def test_what_is_held_is_listed_once_shown_and_removed(site: Site) -> None:
    program = site.program()
    name = str(program.produce().kept.name)
    (found,) = site.json("ls")
    assert (found["id"], found["user"], found["state"]) == (name, "ana", "complete")
    assert found["lifetime_seconds"] == sharing_programs.LIFETIME
    assert found["application"] == program.storage.application.hex
    program.close()
    (found,) = site.json("ls")
    assert (found["id"], found["application"]) == (name, CATALOG_APPLICATION.hex)
    # Read over the network, with a key to what is the catalog's.
    (shown,) = site.json("show", name)
    assert shown["columns"] == [{"name": "a", "type": "int64", "nullable": True}]
    assert site.command("rm", name[:8])[0] == 0 and site.files() == []
    assert site.recorded() == [] and site.read() is None
    program = site.program()
    name = str(program.produce().kept.name)
    # Also while the program runs that has kept it.
    assert site.command("rm", name[:8])[0] == 0 and site.files() == []
    assert site.read() is None


# -- a catalog that is rebuilt


@pytest.mark.parametrize("restarted", [False, pytest.param(True, marks=pytest.mark.soak)])
def test_a_lost_catalog_is_rebuilt_and_releases_what_it_records(
    site: Site, restarted: bool
) -> None:
    name = site.keep()
    site.lose_catalog()
    code, said = site.rebuild()
    assert code == 0 and f"{name} (rows): recorded\n" in said and "1 of 1 shared results" in said
    if restarted:
        site.stop()
        site.run()
    # Neither forgotten nor taken for another catalog's.
    site.looks()
    later = site.program()
    assert len(site.files()) == 2 and later.read() == ROWS
    (result,) = later.catalog.search.all()
    assert (result.name, result.seconds, result.lifetime, result.user) == (
        *(name, 12.0, sharing_programs.LIFETIME, "ana"),
    )
    found = later.catalog.search.find([sharing_programs.DATASET])[sharing_programs.DATASET]
    assert found.made_from == sharing_programs.FACTS.made_from
    later.close()
    code, said = site.rebuild()
    assert code == 0 and "it is recorded already" in said and "0 of 1" in said
    assert site.ends_lifetimes()
    if restarted:
        assert "another catalog" not in site.stop()


@pytest.mark.parametrize("has_empty_partition", [False, True])
@pytest.mark.sampled(2)
def test_a_result_is_recorded_when_all_its_parts_are_there(
    site: Site, start: Any, tmp_path: Path, has_empty_partition: bool
) -> None:
    """Two executors hold a part each; what has no rows has no file."""
    second = start(
        *(tmp_path / "second", "--host", "127.0.0.2"),
        *("--token-file", f"{site.directory}/token"),
        *("--catalog-url", site.url, "--catalog-interval", "0.2"),
    ).serving()
    gateways = [site.executor.gateway(), second.gateway(site.executor.token)]
    name = sharing_programs.keep_in_parts(
        gateways, site.url, number=3 if has_empty_partition else 2
    )
    site.lose_catalog()
    code, said = site.rebuild()
    assert code == 0 and "not recorded: 1 of its 2 partitions are there" in said
    code, said = site.rebuild(second.address)
    assert code == 0 and "1 of 1 shared results" in said
    holders = sharing_programs.holders_recorded(gateways, site.url, name)
    assert holders == [(0, "127.0.0.1"), (1, "127.0.0.2")]
    assert site.ends_lifetimes()
    end = time.monotonic() + 40
    while gateways[1].report(CATALOG_APPLICATION) and time.monotonic() < end:
        time.sleep(0.05)
    assert gateways[1].report(CATALOG_APPLICATION) == ()


def test_a_catalog_that_was_made_again_takes_over_what_the_first_one_held(site: Site) -> None:
    site.keep()
    site.lose_catalog()
    end = time.monotonic() + 40
    # Until the executor has asked, it takes the fresh one for another one, and refuses.
    while len(site.files()) != 4 and time.monotonic() < end:
        fresh = site.program()
        fresh.produce(dataset_id=OTHER)
        fresh.close()
    code, said = site.rebuild()
    assert code == 0 and "1 of 2 shared results" in said
    later = site.program()
    assert (later.read(), later.read(OTHER)) == (ROWS, ROWS)
    later.close()
    assert site.ends_lifetimes()


def test_what_is_damaged_is_verified_as_such_and_not_recorded(site: Site) -> None:
    damaged, whole = site.keep(), site.keep(dataset_id=OTHER)
    code, said = site.command("verify")
    assert code == 0 and "2 shared results on task executors" in said and ", 0 of them" in said
    site.damage(damaged)
    code, said = site.command("verify")
    assert code == 1 and f"{damaged} on 127.0.0.1: partition 0" in said and "1 of them" in said
    site.lose_catalog()
    code, said = site.rebuild()
    assert code == 0 and f"{whole} (rows): recorded" in said
    assert f"{damaged} (rows): not recorded: partition 0" in said
    # It stays, as others may know more of it.
    site.looks()
    assert site.names() == {whole, damaged}
    deleted(site, damaged)
    (shown,) = site.json("show", damaged)
    assert shown["id"] == damaged and not shown["columns"]


def test_what_an_executor_can_not_be_asked_or_say_is_said(site: Site, other_server: int) -> None:
    name, stranger = site.keep(), f"127.0.0.1:{other_server}"
    code, said = site.command("ls", others=(stranger,))
    assert code == 1 and name[:8] in said and f"task executor {stranger}" in said
    site.stop()
    site.lose_catalog()
    site.run(with_catalog=False)
    code, said = site.rebuild()
    assert code == 1 and "1 of 1 shared results" in said and "started without one" in said
    assert site.read() == ROWS
    site.executor.process.send_signal(signal.SIGKILL)
    site.executor.process.wait()
    site.lose_catalog()
    code, said = site.rebuild()
    assert code == 1 and "nothing was recorded" in said and site.executor.address in said
    assert not site.file.exists()
