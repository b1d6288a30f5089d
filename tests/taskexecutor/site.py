"""An executor process with a catalog, the programs on it, and the commands over it."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.catalog.commands import run
from tests.catalog.results import pass_time
from tests.taskexecutor.sharing_programs import DATASET, DIGEST, SharingProgram, held_files

ROWS = [1, 1, 1, 2, 2, 2]
INTERVAL = 0.2
SECONDS = 40.0


class Site:
    """All of it; results have two partitions."""

    def __init__(self, start: Any, directory: Path, url: str | None = None) -> None:
        self._start = start
        self.directory = directory / "kept"
        self.file = directory / "catalog.db"
        self.url = url or f"sqlite:///{self.file}"
        self._programs: list[SharingProgram] = []
        self.run()

    def run(self, *arguments: str, with_catalog: bool = True) -> None:
        of_catalog = ("--catalog-url", self.url, "--catalog-interval", str(INTERVAL))
        given = (*(of_catalog if with_catalog else ()), *arguments)
        self.executor = self._start(self.directory, "--lease", "1", *given).serving()

    def stop(self) -> str:
        """Ends the executor; what it has said of errors."""
        self.executor.process.send_signal(signal.SIGTERM)
        return str(self.executor.process.communicate(timeout=30)[1])

    def program(self) -> SharingProgram:
        made = SharingProgram.on(self.url, self.executor.address, self.executor.token)
        self._programs.append(made)
        return made

    def keep(self, **facts: Any) -> str:
        """A program keeps a result, and ends; the name of the result."""
        program = self.program()
        name = program.produce(**facts).kept.name
        program.close()
        assert name is not None and len(self.files()) >= 2
        return name

    def read(self, *arguments: Any) -> list[int] | None:
        """What a program reads that comes and ends."""
        program = self.program()
        found = program.read(*arguments)
        program.close()
        return found

    def recorded(self) -> list[Any]:
        """The results that the catalog has."""
        program = self.program()
        found = list(program.catalog.search.all())
        program.close()
        return found

    def ends_lifetimes(self) -> bool:
        """Whether what is held goes when its lifetime is over, without any program."""
        pass_time(self.program().catalog, 601.0)
        return self.becomes_empty()

    def files(self) -> list[Path]:
        return held_files(self.directory)

    def names(self) -> set[str]:
        return {path.parent.name for path in self.files()}

    def becomes_empty(self) -> bool:
        end = time.monotonic() + SECONDS
        while self.files() and time.monotonic() < end:
            time.sleep(0.05)
        return self.files() == []

    def looks(self, times: float = 5) -> None:
        """Lets it ask the catalog a few times."""
        time.sleep(times * INTERVAL)

    def lose_catalog(self) -> None:
        for path in self.file.parent.glob("catalog.db*"):
            path.unlink()

    def damage(self, name: str) -> None:
        """Another file like it in the place of one: in its footer, whose statistics are used."""
        file = next(path for path in self.files() if path.parent.name == name)
        before, content = file.stat(), bytearray(file.read_bytes())
        content[-12] ^= 1
        file.unlink()
        file.write_bytes(content)
        os.utime(file, ns=(before.st_atime_ns, before.st_mtime_ns))

    def command(self, *arguments: str, others: tuple[str, ...] = ()) -> tuple[int, str]:
        """A command over the executor, with the catalog where it takes one."""
        addresses = ",".join((self.executor.address, *others))
        where = ("--executors", addresses, "--token-file", f"{self.directory}/token")
        of_catalog = () if arguments[0] == "verify" else ("--catalog-url", self.url)
        return run(*arguments, *where, *of_catalog)

    def json(self, *arguments: str) -> Any:
        code, said = self.command(*arguments, "--json")
        assert code == 0, said
        return json.loads(said)

    def rebuild(self, *others: str) -> tuple[int, str]:
        return self.command("catalog", "rebuild", others=others)

    def invalidate(self, *, everywhere: bool) -> None:
        self.program().book.invalidate(DIGEST, everywhere=everywhere)

    def close(self) -> None:
        for program in self._programs:
            program.close()


@contextmanager
def site_at(start: Any, directory: Path, url: str | None = None) -> Iterator[Site]:
    """A site that ends with the block."""
    site = Site(start, directory, url)
    try:
        yield site
    finally:
        site.close()


__all__ = ["DATASET", "ROWS", "Site", "site_at"]
