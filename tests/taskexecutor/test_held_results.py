"""What the catalog holds on task executors: real processes, a real catalog, no Spark."""

from __future__ import annotations

import json
import logging
import os
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import sqlalchemy
from sqlalchemy import URL

from holdfast.catalog.catalog import Catalog
from holdfast.catalog.catalog_database import CatalogDatabase
from holdfast.catalog.cataloged_result import ResultState
from holdfast.catalog.result_record import ResultRecord
from holdfast.catalog.schema import RESULTS
from holdfast.catalog.this_program import this_program
from holdfast.cli import main as cli
from holdfast.errors import (
    DuplicateRegistrationError,
    HoldingRefusedError,
    MalformedRequestError,
    StorageError,
    UnknownDataSetError,
)
from holdfast.ids import CATALOG_APPLICATION, ApplicationID, IntermediateDataSetID, JobID
from holdfast.runtime.cluster_directory import cluster_identity
from holdfast.taskexecutor import catalog_watch
from holdfast.taskexecutor.applications import held_partitions
from holdfast.taskexecutor.calls.client import RemoteTaskExecutor
from holdfast.taskexecutor.catalog_watch import CatalogWatch
from holdfast.taskexecutor.partitions.partition_info import OutputID
from holdfast.taskexecutor.task_executor import TaskExecutor
from holdfast.version import __version__
from tests.catalog import results as cataloged
from tests.catalog.conftest import postgresql as postgresql
from tests.catalog.results import pass_time
from tests.taskexecutor import sharing_programs
from tests.taskexecutor.sharing_programs import DATASET, LIFETIME, SharingProgram, held_files

ROWS = [1, 1, 1, 2, 2, 2]
OFTEN = 0.2
OTHER = IntermediateDataSetID("2" * 64)


def comes(condition: Callable[[], object], seconds: float = 40) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.05)
    return False


class Site:
    """An executor process with a catalog, and the programs on it."""

    def __init__(self, start: Any, directory: Path, url: str | None = None) -> None:
        self._start = start
        self.directory = directory / "kept"
        self.file = directory / "catalog.db"
        self.url = url or f"sqlite:///{self.file}"
        self._programs: list[SharingProgram] = []
        self.run()

    def run(self, *arguments: str, with_catalog: bool = True) -> None:
        of_catalog = ("--catalog-url", self.url, "--catalog-interval", str(OFTEN))
        given = (*(of_catalog if with_catalog else ()), *arguments)
        self.executor = self._start(self.directory, "--lease", "1", *given).serving()

    def stop(self) -> str:
        """Ends the executor; what it has said of errors."""
        self.executor.process.send_signal(signal.SIGTERM)
        said = self.executor.process.communicate(timeout=30)[1]
        assert isinstance(said, str)
        return said

    def program(self) -> SharingProgram:
        made = SharingProgram.on(self.url, self.executor.address, self.executor.token)
        self._programs.append(made)
        return made

    def keep(self, **facts: Any) -> str:
        """A program keeps a result, and ends; the name of the result."""
        program = self.program()
        name = program.produce(**facts).kept.name
        program.close()
        assert name is not None and len(self.files()) == 2
        return name

    def files(self) -> list[Path]:
        return held_files(self.directory)

    def asks(self, times: float = 5) -> None:
        """Lets it ask the catalog a few times."""
        time.sleep(times * OFTEN)

    def close(self) -> None:
        for program in self._programs:
            program.close()


def lose(site: Site) -> None:
    """The catalog is gone."""
    for path in site.file.parent.glob("catalog.db*"):
        path.unlink()


@pytest.fixture
def site(start: Any, tmp_path: Path) -> Iterator[Site]:
    site = Site(start, tmp_path)
    yield site
    site.close()


def test_a_result_with_a_lifetime_is_read_by_the_next_program(site: Site) -> None:
    site.keep()
    site.asks()
    later = site.program()
    assert later.read() == ROWS
    (file, *_), held = (
        site.files(),
        [path for path in site.files() if CATALOG_APPLICATION.hex in str(path)],
    )
    # No row is copied.
    assert len(held) == 2 and file.stat().st_nlink > 1
    later.close()
    assert site.program().read() == ROWS


def test_a_result_of_a_program_that_runs_is_read_beside_it_and_goes_with_it(site: Site) -> None:
    one, other = site.program(), site.program()
    one.produce(lifetime=None)
    with other.book.reading() as lease:
        result = lease.acquire(DATASET)
        one.close()
        assert result is not None and sharing_programs.rows(result.kept) == ROWS
    other.close()
    assert site.program().read() is None and site.files() == []


def test_what_a_killed_driver_has_kept_is_found_by_the_next_one(site: Site) -> None:
    arguments = [site.url, site.executor.address, site.executor.token]
    driver = subprocess.Popen(
        [sys.executable, "-m", sharing_programs.__name__, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert driver.stdout is not None and driver.stdout.readline() == "kept\n"
    driver.kill()
    driver.communicate()
    # Its own goes with its lease, what is held stays.
    assert comes(lambda: len(list(site.directory.glob("application-*"))) == 1)
    assert len(site.files()) == 2
    assert site.program().read() == ROWS


@pytest.mark.soak
def test_kills_at_any_time_leave_what_the_catalog_records_and_nothing_else(
    site: Site, tmp_path: Path
) -> None:
    catalog, complaints = site.program().catalog, tmp_path / "complaints"
    for turn in range(6):
        arguments = [site.url, site.executor.address, site.executor.token, str(turn)]
        driver = subprocess.Popen(
            [sys.executable, "-m", sharing_programs.__name__, *arguments],
            stdout=subprocess.PIPE,
            stderr=complaints.open("w"),
        )
        assert driver.stdout is not None
        assert driver.stdout.readline() == b"kept\n", complaints.read_text()
        time.sleep(0.1 + 0.037 * turn)
        if turn % 2:
            site.executor.kill()
            site.run()
        driver.kill()
        driver.communicate()
    recorded = {each.name for each in catalog.search.all() if each.is_shared}
    assert len(recorded) >= 6

    def held() -> set[str]:
        return {path.parent.name for path in site.files()}

    # What was announced, and not kept, goes with the leases of those that were killed.
    assert comes(lambda: len(list(site.directory.glob("application-*"))) == 1)
    assert comes(lambda: held() == recorded), held() ^ recorded
    gateway = site.executor.gateway()
    for name in recorded:
        assert gateway.damage(CATALOG_APPLICATION, OutputID.parse(name)) is None
    site.asks()
    assert held() == recorded


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_it_survives_the_executor_s_restart_at_another_port(
    site: Site, number: signal.Signals
) -> None:
    site.keep()
    site.executor.process.send_signal(number)
    site.executor.process.wait(20)
    address = site.executor.address
    site.run()
    assert site.executor.address != address
    # Longer than any application that is found would have to register again.
    time.sleep(1.5)
    assert site.program().read() == ROWS


def test_it_goes_when_its_lifetime_is_over_without_any_program(site: Site) -> None:
    site.keep()
    site.asks()
    assert len(site.files()) == 2
    catalog = site.program().catalog
    pass_time(catalog, 601.0)
    assert comes(lambda: site.files() == [])
    (gone,) = catalog.search.all([ResultState.GOING])
    assert gone.why_gone == "its lifetime was over"


def test_the_catalog_may_be_a_server(
    start: Any, tmp_path: Path, postgresql: URL, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, logger="holdfast")
    site = Site(start, tmp_path, postgresql.render_as_string(hide_password=False))
    name = site.keep()
    site.stop()
    site.run()
    site.asks()
    later = site.program()
    # A program that doesn't reach the executor at once computes it again.
    assert comes(lambda: later.read() == ROWS), caplog.text
    assert site.files() != []
    (result,) = later.catalog.search.all()
    assert result.name == name and result.is_shared
    later.close()
    pass_time(site.program().catalog, 601.0)
    gone = comes(lambda: site.files() == [])
    site.close()
    assert (gone, site.stop()) == (True, "")


def test_a_row_that_is_withdrawn_is_noticed(site: Site) -> None:
    site.keep()
    catalog = site.program().catalog
    (result,) = catalog.search.all()
    catalog.holders.withdraw("it was removed by hand", numbers=[result.number])
    assert comes(lambda: site.files() == [])


def test_an_invalidation_everywhere_takes_it_away_at_once(site: Site) -> None:
    program = site.program()
    program.produce()
    program.book.invalidate(sharing_programs.DIGEST, everywhere=True)
    assert site.files() == []
    assert [each.state for each in program.catalog.search.all([ResultState.GONE])] == [
        ResultState.GONE
    ]
    program.produce()
    program.book.invalidate(sharing_programs.DIGEST)
    assert len(site.files()) == 2


def test_what_could_not_be_taken_away_is_once_the_executor_is_back(
    site: Site, free_port: int
) -> None:
    site.stop()
    site.run("--port", str(free_port))
    site.keep()
    program = site.program()
    assert program.read() == ROWS
    site.executor.kill()
    program.book.invalidate(sharing_programs.DIGEST, everywhere=True)
    assert len(program.catalog.search.all([ResultState.GOING])) == 1
    site.run("--port", site.executor.port)
    assert comes(lambda: site.files() == [])


# -- an executor without a catalog


def test_an_executor_without_a_catalog_refuses_and_the_result_goes_with_its_program(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    site.stop()
    site.run(with_catalog=False)
    program = site.program()
    with caplog.at_level(logging.WARNING):
        program.produce()
        program.produce(dataset_id=OTHER)
    said = [each.getMessage() for each in caplog.records if "will go with" in each.getMessage()]
    assert len(said) == 1 and "--catalog-url" in said[0]
    beside = site.program()
    assert beside.read() == ROWS
    beside.close()
    program.close()
    assert site.files() == [] and site.program().read() is None


def test_without_the_catalog_s_url_an_executor_keeps_what_it_holds(site: Site) -> None:
    site.keep()
    site.stop()
    site.run(with_catalog=False)
    time.sleep(1.5)
    assert site.program().read() == ROWS
    assert "1 results are held for a catalog, and stay" in site.stop()


def test_a_program_can_not_act_as_the_catalog(site: Site) -> None:
    name = site.keep()
    gateway = site.executor.gateway()
    with pytest.raises(MalformedRequestError, match="is the catalog"):
        gateway.register_application(CATALOG_APPLICATION, 1.0, __version__)
    with pytest.raises(MalformedRequestError, match="is the catalog"):
        gateway.unregister_application(CATALOG_APPLICATION)
    with pytest.raises(MalformedRequestError, match="is the catalog"):
        gateway.register_job(CATALOG_APPLICATION, JobID.random())
    gateway.heartbeat(CATALOG_APPLICATION, {})
    assert [path.parent.name for path in site.files()] == [name] * 2


def test_what_is_not_there_or_held_already_is_not_held(site: Site) -> None:
    program = site.program()
    kept = program.produce().kept
    gateway, identity = site.executor.gateway(), program.catalog.database.identity()
    (report, _) = gateway.report(None)
    assert report.output.name == kept.name
    with pytest.raises(UnknownDataSetError):
        other = OutputID(OTHER, "0badcafe")
        gateway.hold_output(program.storage.application, other, identity, "{}")
    with pytest.raises(DuplicateRegistrationError):
        gateway.hold_output(program.storage.application, report.output, identity, "{}")
    assert len({path.stat().st_ino for path in site.files()}) == 2


# -- a catalog that can't be asked


def spoiled(file: Path) -> None:
    file.write_bytes(b"this is no database" * 100)


def newer(file: Path) -> None:
    with sqlite3.connect(file) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()


def away(file: Path) -> None:
    file.unlink()


@pytest.mark.parametrize("harm", [spoiled, newer, away])
@pytest.mark.sampled(2)
def test_while_the_catalog_is_away_it_keeps_what_it_has(
    site: Site, harm: Callable[[Path], None], tmp_path: Path
) -> None:
    site.keep()
    program = site.program()
    (result,) = program.catalog.search.all()
    program.close()
    site.stop()
    copy = tmp_path / "copy.db"
    copy.write_bytes(site.file.read_bytes())
    harm(site.file)
    site.run()
    site.asks(8)
    assert len(site.files()) == 2
    # None is made in its place.
    assert site.file.exists() == (harm is not away)
    # It is back, and has let go of the result meanwhile.
    for path in tmp_path.glob("catalog.db-*"):
        path.unlink()
    copy.replace(site.file)
    later = site.program()
    later.catalog.holders.withdraw("it was removed by hand", numbers=[result.number])
    assert comes(lambda: site.files() == [])
    said = site.stop()
    assert said.count("1 results stay until the catalog that holds them answers") == 1
    assert "Traceback" not in said


def test_a_locked_catalog_is_waited_for_and_nothing_is_let_go_of(site: Site) -> None:
    site.keep()
    program = site.program()
    (result,) = program.catalog.search.all()
    lock = sqlite3.connect(site.file, isolation_level=None)
    lock.execute("BEGIN EXCLUSIVE")
    time.sleep(6)
    assert len(site.files()) == 2
    lock.execute("ROLLBACK")
    lock.close()
    program.catalog.holders.withdraw("it was removed by hand", numbers=[result.number])
    assert comes(lambda: site.files() == [])
    assert "1 results stay until" in site.stop()


# -- another catalog


def test_a_catalog_that_was_made_anew_lets_go_of_nothing(site: Site) -> None:
    site.keep()
    for path in site.file.parent.glob("catalog.db*"):
        path.unlink()
    fresh = site.program()
    assert fresh.catalog.search.all() == []
    site.asks(8)
    assert len(site.files()) == 2
    # What is announced there is held and let go of, beside what is not its own.
    assert fresh.read() is None
    fresh.produce()
    fresh.close()
    assert len(site.files()) == 4
    later = site.program()
    assert later.read() == ROWS
    later.book.invalidate(sharing_programs.DIGEST, everywhere=True)
    later.close()
    assert len(site.files()) == 2
    said = site.stop()
    assert said.count("1 results are held for another catalog") == 1


def test_programs_of_another_catalog_are_refused(site: Site, tmp_path: Path) -> None:
    site.keep()
    site.asks()
    gateway = site.executor.gateway()
    other = SharingProgram.on(
        f"sqlite:///{tmp_path}/other.db", site.executor.address, site.executor.token
    )
    kept = other.produce().kept
    (report,) = gateway.report(other.storage.application)
    assert report.output.name == kept.name
    with pytest.raises(HoldingRefusedError, match="another one"):
        gateway.hold_output(
            other.storage.application, report.output, other.catalog.database.identity(), "{}"
        )
    other.close()
    assert len(site.files()) == 2


def test_what_the_catalog_does_not_record_goes_when_it_was_asked_twice(site: Site) -> None:
    site.keep()
    with sqlite3.connect(site.file) as connection:
        connection.execute("DELETE FROM results")
    connection.close()
    assert comes(lambda: site.files() == [])
    assert "released 1 results that" in site.stop()


def test_a_disk_is_not_filled_for_the_catalog(
    tmp_path: Path, make_caller: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    executor = TaskExecutor(tmp_path / "kept", holds_for_catalog=True)
    (tmp_path / "kept").mkdir(mode=0o700)
    executor.adopt(60)
    app = make_caller(executor).connect()
    first, second = app.keep("1"), app.keep("2")
    executor.hold_output(app.application, first, "a catalog", "{}")
    monkeypatch.setattr(held_partitions, "MOST_OF_THE_DISK", 1e-15)
    with pytest.raises(StorageError, match="no room to hold .* beside [1-9][0-9,]* held"):
        executor.hold_output(app.application, second, "a catalog", "{}")
    assert set(executor.held()) == {first}
    monkeypatch.undo()
    executor.hold_output(app.application, second, "a catalog", "{}")
    assert set(executor.held()) == {first, second}
    executor.close()


def test_it_asks_in_batches(
    tmp_path: Path, make_caller: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch is one query; here of two names."""
    monkeypatch.setattr(catalog_watch, "_BATCH", 2)
    executor = TaskExecutor(tmp_path / "kept", holds_for_catalog=True)
    (tmp_path / "kept").mkdir(mode=0o700)
    executor.adopt(60)
    app = make_caller(executor).connect()
    database = CatalogDatabase(f"sqlite:///{tmp_path}/catalog.db")
    program = this_program(app.application)
    catalog = Catalog(database, lambda: "5" * 32, lambda: "e" * 64, program, 600.0)
    catalog.programs.renew()
    numbers = {}
    for digit in "12345":
        output = app.keep(digit)
        kept = cataloged.kept(output.dataset_id).model_copy(update={"name": output.name})
        announced = cataloged.produced(output.dataset_id, kept=kept, is_shared=True, lifetime=9.0)
        numbers[output] = catalog.publications.announce(announced)
        executor.hold_output(app.application, output, database.identity(), "{}")
    gone = list(numbers)[::2]
    catalog.holders.withdraw("by hand", numbers=[numbers[output] for output in gone])
    statements: list[str] = []
    listen = sqlalchemy.event.listens_for(sqlalchemy.Engine, "before_cursor_execute")

    @listen
    def note(connection: Any, cursor: Any, statement: str, *more: Any) -> None:
        if statement.startswith("SELECT results.name, results.state"):
            statements.append(statement)

    try:
        CatalogWatch(executor, f"sqlite:///{tmp_path}/catalog.db").look()
    finally:
        sqlalchemy.event.remove(sqlalchemy.Engine, "before_cursor_execute", note)
    assert len(statements) == 3
    left = set(numbers) - set(gone)
    assert set(executor.held()) == left
    # What it doesn't know at all is asked for once more.
    forgotten = left.pop()
    with database.writing() as connection:
        connection.execute(RESULTS.delete().where(RESULTS.c.number == numbers[forgotten]))
    watch = CatalogWatch(executor, f"sqlite:///{tmp_path}/catalog.db")
    watch.look()
    assert set(executor.held()) == {forgotten, *left}
    watch.look()
    assert set(executor.held()) == left
    database.close()
    executor.close()
    assert len(held_files(tmp_path / "kept")) == 2


# -- damage


def test_a_file_that_was_replaced_by_one_like_it_is_noticed(site: Site) -> None:
    name = site.keep()
    file = next(path for path in site.files() if path.parent.name == name)
    before = file.stat()
    content = bytearray(file.read_bytes())
    # In the footer, whose statistics would be believed.
    content[-12] ^= 1
    file.unlink()
    file.write_bytes(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    program = site.program()
    assert program.read() is None
    assert program.catalog.search.all() == []
    assert comes(lambda: site.files() == [])


def test_what_was_deleted_on_the_executor_is_found_out_and_withdrawn(site: Site) -> None:
    site.keep()
    for file in site.files():
        file.unlink()
    program = site.program()
    assert program.read() is None
    assert program.catalog.search.all() == []
    assert program.produce().refusal is None and program.read() == ROWS


def test_a_program_that_is_lost_to_the_executor_alone_costs_its_readers_nothing(
    site: Site,
) -> None:
    lost, reader = site.program(), site.program()
    lost.produce(lifetime=None)
    # As when its lease has lapsed there: the catalog has heard of it since.
    lost.storage.close()
    assert reader.read() is None
    assert reader.catalog.search.all() == []
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
    lying = site.program()
    found = lying.book.find([OTHER])[OTHER]
    assert sharing_programs.rows(found.kept) == ROWS
    assert ApplicationID(found.kept.directories[0].split("application-")[1][:32]) == (
        CATALOG_APPLICATION
    )


# -- commands


def command(
    capsys: pytest.CaptureFixture[str], site: Site, *arguments: str
) -> tuple[int, list[dict[str, Any]]]:
    where = ("--executors", site.executor.address, "--token-file", f"{site.directory}/token")
    code = cli.main([*arguments, *where, "--json"])
    return code, json.loads(capsys.readouterr().out or "[]")


def test_what_is_held_is_listed_once_with_what_the_catalog_records(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    program = site.program()
    name = program.produce().kept.name
    of_catalog = ("--catalog-url", site.url)
    code, (found,) = command(capsys, site, "ls", *of_catalog)
    assert (code, found["id"], found["user"], found["state"]) == (0, name, "ana", "complete")
    assert found["lifetime_seconds"] == LIFETIME
    assert found["application"] == program.storage.application.hex
    program.close()
    _, (found,) = command(capsys, site, "ls")
    assert (found["id"], found["application"]) == (name, CATALOG_APPLICATION.hex)
    _, (shown,) = command(capsys, site, "show", name or "")
    # Read over the network, with a key to what is the catalog's.
    assert shown["columns"] == [{"name": "a", "type": "int64", "nullable": True}]
    assert command(capsys, site, "ls", "--catalog-url", f"{site.url}.no")[0] == 1


@pytest.mark.parametrize("runs", [True, False])
def test_what_is_removed_by_hand_is_found_by_nobody(
    site: Site, capsys: pytest.CaptureFixture[str], runs: bool
) -> None:
    program = site.program()
    name = program.produce().kept.name
    assert name is not None
    if not runs:
        program.close()
    code, _ = command(capsys, site, "rm", name[:8], "--catalog-url", site.url)
    assert code == 0 and site.files() == []
    later = site.program()
    assert later.catalog.search.all() == [] and later.read() is None
    assert [each.name for each in later.catalog.search.all([ResultState.GONE])] == [name]


# -- a catalog that is rebuilt


def upkeep(
    capsys: pytest.CaptureFixture[str],
    site: Site,
    *others: str,
    command: Sequence[str] = ("catalog", "rebuild"),
) -> tuple[int, str]:
    addresses = ",".join((site.executor.address, *others))
    where = ("--executors", addresses, "--token-file", f"{site.directory}/token")
    of_catalog = ("--catalog-url", site.url) if command[0] == "catalog" else ()
    code = cli.main([*command, *where, *of_catalog])
    captured = capsys.readouterr()
    return code, captured.out + captured.err


@pytest.mark.parametrize("restarted", [False, True])
def test_a_lost_catalog_is_rebuilt_and_lets_go_of_what_it_records(
    site: Site, capsys: pytest.CaptureFixture[str], restarted: bool
) -> None:
    name = site.keep()
    site.asks()
    lose(site)
    code, said = upkeep(capsys, site)
    assert code == 0 and f"{name} (rows): recorded\n" in said and "1 of 1 shared results" in said
    if restarted:
        site.stop()
        site.run()
    # Neither forgotten nor taken for another catalog's.
    site.asks(8)
    assert len(site.files()) == 2
    later = site.program()
    assert later.read() == ROWS
    (result,) = later.catalog.search.all()
    assert (result.name, result.seconds, result.lifetime, result.user) == (
        *(name, 12.0, LIFETIME, "ana"),
    )
    found = later.catalog.search.find([DATASET])[DATASET]
    assert found.made_from == sharing_programs.FACTS.made_from
    later.close()
    code, said = upkeep(capsys, site)
    assert code == 0 and "it is recorded already" in said and "0 of 1" in said
    pass_time(site.program().catalog, 601.0)
    assert comes(lambda: site.files() == [])
    if restarted:
        assert "another catalog" not in site.stop()


@pytest.mark.parametrize("has_empty_partition", [False, True])
def test_a_result_is_recorded_when_all_its_parts_are_there(
    site: Site,
    start: Any,
    make_caller: Any,
    leave: Any,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    has_empty_partition: bool,
) -> None:
    """Two executors hold a part each; what has no rows has no file."""
    second = start(
        *(tmp_path / "second", "--host", "127.0.0.2"),
        *("--token-file", f"{site.directory}/token"),
        *("--catalog-url", site.url, "--catalog-interval", str(OFTEN)),
    ).serving()
    output, number = OutputID(DATASET, "0badcafe"), 3 if has_empty_partition else 2
    database = CatalogDatabase(site.url)
    identity = database.identity()
    gateways = [site.executor.gateway(), RemoteTaskExecutor(second.address, site.executor.token)]
    apps = [make_caller(gateway).connect() for gateway in gateways]
    parts = []
    for index, app in enumerate(apps):
        leave(app.open(output), index)
        (part,) = app.finish(output, [index], number)
        app.promote(output, (part,))
        parts.append(part)
    whole = cataloged.kept(DATASET)
    manifest = whole.manifest.model_copy(update={"partitions": tuple(parts)})
    produced = cataloged.produced(
        DATASET, kept=whole.model_copy(update={"manifest": manifest}), lifetime=LIFETIME
    )
    program, later = (this_program(ApplicationID.random()) for _ in range(2))
    result = ResultRecord.of(produced, program, "e" * 64).model_dump_json()
    for app in apps:
        app.gateway.hold_output(app.application, output, identity, result)
    database.close()
    lose(site)
    code, said = upkeep(capsys, site)
    assert code == 0 and "not recorded: 1 of its 2 partitions are there" in said
    code, said = upkeep(capsys, site, second.address)
    assert code == 0 and "1 of 1 shared results" in said
    ids = [gateway.describe().executor_id for gateway in gateways]
    catalog = Catalog(database, lambda: cluster_identity(ids), lambda: "e" * 64, later, 60.0)
    kept = catalog.search.find([DATASET])[DATASET].kept
    assert kept.directories == tuple(
        f"taskexecutor://{host}/application-{CATALOG_APPLICATION.hex}/{output.name}"
        for host in ("127.0.0.1", "127.0.0.2")
    )
    assert [(part.index, holder) for part, holder in kept.placed] == [(0, 0), (1, 1)]
    assert kept.name == output.name
    # On both, the catalog's own are let go of.
    pass_time(catalog, LIFETIME + 1.0)
    database.close()
    for gateway in gateways:
        assert comes(lambda gateway=gateway: gateway.report(CATALOG_APPLICATION) == ())


def test_a_catalog_that_was_made_anew_takes_over_what_the_first_one_held(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.keep()
    lose(site)

    def holds_for_a_fresh_one() -> bool:
        fresh = site.program()
        fresh.produce(dataset_id=OTHER)
        fresh.close()
        return len(site.files()) == 4

    # Until the executor has asked, it takes the fresh one for another one, and refuses.
    assert comes(holds_for_a_fresh_one)
    code, said = upkeep(capsys, site)
    assert code == 0 and "1 of 2 shared results" in said
    later = site.program()
    assert (later.read(), later.read(OTHER)) == (ROWS, ROWS)
    later.close()
    pass_time(site.program().catalog, 601.0)
    assert comes(lambda: site.files() == [])


def test_what_is_damaged_is_verified_as_such_and_not_recorded(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    damaged = site.keep()
    program = site.program()
    whole = program.produce(dataset_id=OTHER).kept.name
    program.close()
    assert upkeep(capsys, site, command=["verify"]) == (
        *(0, f"2 shared results on task executors {site.executor.address}, 0 of them damaged.\n"),
    )
    file = next(path for path in site.files() if path.parent.name == damaged)
    before, content = file.stat(), bytearray(file.read_bytes())
    content[-12] ^= 1
    file.unlink()
    file.write_bytes(content)
    os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))
    code, said = upkeep(capsys, site, command=["verify"])
    assert code == 1 and f"{damaged} on 127.0.0.1: partition 0" in said and "1 of them" in said
    lose(site)
    code, said = upkeep(capsys, site)
    assert code == 0 and f"{whole} (rows): recorded" in said
    assert f"{damaged} (rows): not recorded: partition 0" in said
    # It stays, for whoever knows more.
    site.asks(8)
    assert {path.parent.name for path in site.files()} == {whole, damaged}


def test_an_executor_without_a_catalog_is_said_not_to_be_told(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.keep()
    site.stop()
    lose(site)
    site.run(with_catalog=False)
    code, said = upkeep(capsys, site)
    assert code == 1 and "1 of 1 shared results" in said and "started without one" in said
    later = site.program()
    assert later.read() == ROWS
    later.close()
    site.stop()
    site.run()
    code, said = upkeep(capsys, site)
    assert code == 0 and "it is recorded already" in said
    pass_time(site.program().catalog, 601.0)
    assert comes(lambda: site.files() == [])


def test_nothing_is_recorded_unless_every_executor_responds(
    site: Site, capsys: pytest.CaptureFixture[str]
) -> None:
    site.keep()
    site.executor.kill()
    lose(site)
    code, said = upkeep(capsys, site)
    assert code == 1 and "nothing was recorded" in said and site.executor.address in said
    assert not site.file.exists()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--executors", "127.0.0.1:1"], "--executors requires --catalog-url"),
        (["--catalog-url", "sqlite:////c.db"], "--catalog-url requires --executors"),
        (["--token-file", "t"], "--token-file requires --executors"),
        (["--executors", "x", "--catalog-url", "sqlite:////c.db"], "HOST:PORT"),
    ],
)
def test_arguments_that_do_not_go_together_are_refused(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["catalog", "rebuild", *arguments]) == 2
    assert why in capsys.readouterr().err
