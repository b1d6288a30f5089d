"""The database of a catalog: how it is reached, and brought to the tables of this version."""

from __future__ import annotations

import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import RLock
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    URL,
    Connection,
    Engine,
    create_engine,
    event,
    func,
    make_url,
    select,
)
from sqlalchemy.exc import NoSuchModuleError, SQLAlchemyError

from holdfast.catalog.catalog_file import is_catalog_file, may_be_there
from holdfast.catalog.catalog_url import POSTGRESQL, SQLITE
from holdfast.catalog.schema import CATALOG
from holdfast.errors import CatalogError, CatalogVersionError
from holdfast.files.access_modes import PRIVATE, AccessModes, give_mode, make_shared
from holdfast.lazy_module import LazyModule
from holdfast.quiet_logs import ALEMBIC, unheard

if TYPE_CHECKING:
    from alembic import command, config, script, util
    from alembic.runtime import migration
else:
    # Alembic logs that it is imported.
    command = LazyModule("alembic.command")
    config = LazyModule("alembic.config")
    migration = LazyModule("alembic.runtime.migration")
    script = LazyModule("alembic.script")
    util = LazyModule("alembic.util")

_PATIENCE_SECONDS = 5.0
# Which lock of PostgreSQL's whoever makes the tables holds: any number that is always the same.
_MIGRATING = 4_865_460
_MIGRATIONS = Path(__file__).with_name("migrations")


class CatalogDatabase:
    """Connections to a database whose tables are those of this version. Safe for several threads.

    Nothing is opened before it is asked for.

    Args:
        url: `sqlite:////path/of/a/file`, or `postgresql+psycopg://user@host/database`.
        modes: whose programs use it, if it is a file.

    Source: FLIP-36, phase 2, and "Long Term Goal": an external catalog.
    """

    def __init__(self, url: str | URL, modes: AccessModes = PRIVATE) -> None:
        self._url = make_url(url)
        self._modes = modes
        self._lock = RLock()
        self._engine: Engine | None = None
        self._owner = os.getpid()

    @property
    def name(self) -> str:
        """What it is called in messages, without its password."""
        return self._url.render_as_string()

    @property
    def is_file(self) -> bool:
        """Whether it is a file of this machine."""
        return self._url.get_backend_name() == SQLITE

    def is_there(self) -> bool:
        """Whether there may be anything in it; without looking, where it is no file."""
        return not self.is_file or may_be_there(Path(self._url.database or ""))

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A transaction that only reads.

        Raises:
            CatalogVersionError: when the tables are of a later version of Holdfast.
            CatalogError: when the database is away, locked or damaged.
        """
        with self._explained(), self._ready().connect() as connection, connection.begin():
            yield connection

    @contextmanager
    def writing(self, *, alone: bool = False) -> Iterator[Connection]:
        """A transaction that writes.

        Args:
            alone: whether no other one that is alone may run at the same time.

        Raises:
            CatalogVersionError: when the tables are of a later version of Holdfast.
            CatalogError: when the database is away, locked or damaged.
        """
        with self._explained(), _writing(self._ready()) as connection:
            if alone and not self.is_file:
                connection.execute(select(CATALOG.c.id).with_for_update())
            yield connection

    def identity(self) -> str:
        """What tells it from every other one, also from one that is made anew in its place.

        Raises:
            CatalogVersionError: when the tables are of a later version of Holdfast.
            CatalogError: when the database is away, locked or damaged.
        """
        with self.reading() as connection:
            created = connection.scalar(select(CATALOG.c.created))
        if created is None:
            raise CatalogError(self.name, "it doesn't say when it was made")
        return repr(float(created))

    def now(self, connection: Connection) -> float:
        """The time by the database's clock, in seconds since 1970."""
        if self.is_file:
            return time.time()
        found = connection.scalar(select(func.extract("epoch", func.clock_timestamp())))
        return float(found or 0.0)

    def close(self) -> None:
        """Ends all connections. Does nothing the second time."""
        with self._lock:
            engine, self._engine = self._engine, None
        if engine is not None and os.getpid() == self._owner:
            engine.dispose()

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except (SQLAlchemyError, OSError) as error:
            raise CatalogError(self.name, _in_a_line(error)) from error

    def _ready(self) -> Engine:
        if os.getpid() != self._owner:
            # A connection that is used on both sides of a fork is damaged on both.
            raise CatalogError(self.name, "it was opened before this process was forked off")
        with self._lock:
            if self._engine is None:
                if self.is_file:
                    _make_file(Path(self._url.database or ""), self._modes)
                engine = _engine(self._url)
                try:
                    _migrate(engine, self.name)
                except BaseException:
                    engine.dispose()
                    raise
                # A finalizer may have needed it meanwhile.
                self._engine = self._engine or engine
            return self._engine


def _make_file(file: Path, modes: AccessModes) -> None:
    """Makes an empty one; lets others write to this user's, whose mode what lies beside it gets."""
    is_there, is_ours = file.exists(), is_catalog_file(file)
    if is_ours and not (is_there and modes.is_private):
        make_shared(file.parent, modes, modes.filling)
    if not is_there:
        os.close(os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
    if file.stat().st_uid == os.getuid() and not modes.is_private:
        give_mode(file, modes.database, modes.group_of(file.parent))


def _engine(url: URL) -> Engine:
    try:
        if url.get_backend_name() == SQLITE:
            return _of_a_file(url)
        options = f"-c lock_timeout={_ms(_PATIENCE_SECONDS)} -c statement_timeout=60000"
        arguments = {"connect_timeout": int(_PATIENCE_SECONDS), "options": options}
        return create_engine(url, connect_args=arguments, pool_size=2, pool_pre_ping=True)
    except (ImportError, NoSuchModuleError) as error:
        raise CatalogError(
            url.render_as_string(),
            f"its driver is missing: pip install 'holdfast[postgresql]' ({error})",
        ) from error


def _of_a_file(url: URL) -> Engine:
    engine = create_engine(url, connect_args={"timeout": _PATIENCE_SECONDS}, pool_size=2)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, _: Any) -> None:
        # Python's driver begins transactions by itself, and too late for those that write.
        connection.isolation_level = None
        _set_wal(connection)
        for pragma in ("synchronous = NORMAL", "foreign_keys = ON"):
            connection.execute(f"PRAGMA {pragma}")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("holdfast_writes", False)
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _set_wal(connection: sqlite3.Connection) -> None:
    """Sets the mode of the file, for which SQLite has no program wait for another one."""
    until = time.monotonic() + _PATIENCE_SECONDS
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
            return
        except sqlite3.OperationalError as error:
            if "locked" not in str(error) or time.monotonic() > until:
                raise
        time.sleep(0.01)


@contextmanager
def _writing(engine: Engine) -> Iterator[Connection]:
    with engine.connect() as plain:
        connection = plain.execution_options(holdfast_writes=True)
        with connection.begin():
            yield connection


def _migrate(engine: Engine, name: str) -> None:
    """Brings the tables to this version, if they are of an earlier one or not there at all."""
    with unheard(*ALEMBIC):
        settings = config.Config()
        settings.set_main_option("script_location", str(_MIGRATIONS).replace("%", "%%"))
        with engine.connect() as connection, connection.begin():
            if _is_current(connection, settings, name):
                return
        with _writing(engine) as connection:
            if engine.dialect.name == POSTGRESQL:
                connection.execute(select(func.pg_advisory_xact_lock(_MIGRATING)))
            # Another program may have done it by now.
            if _is_current(connection, settings, name):
                return
            settings.attributes["connection"] = connection
            command.upgrade(settings, "head")
            found = connection.scalar(select(CATALOG.c.id))
            if found is None:
                connection.execute(CATALOG.insert().values(id=1, created=time.time()))


def _is_current(connection: Connection, settings: config.Config, name: str) -> bool:
    directory = script.ScriptDirectory.from_config(settings)
    found = migration.MigrationContext.configure(connection).get_current_revision()
    if found is None:
        return False
    try:
        directory.get_revision(found)
    except util.CommandError:
        raise CatalogVersionError(name, found, str(directory.get_current_head())) from None
    return found == directory.get_current_head()


def _in_a_line(error: Exception) -> str:
    original = getattr(error, "orig", None) or error
    return " ".join(str(original).split()) or type(error).__name__


def _ms(seconds: float) -> int:
    return round(seconds * 1000)
