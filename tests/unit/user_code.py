"""Functions and modules of a user's, each time as in another run of a program."""

from __future__ import annotations

import importlib
import itertools
import pickle
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark import cloudpickle

from holdfast.plan.function_digest import digest_function, digest_value

_CELLS = itertools.count()


def define(source: str, name: str = "f") -> Any:
    """What a notebook has under a name after running a source, on other lines of another cell."""
    number = next(_CELLS)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    code = compile("\n" * number + textwrap.dedent(source), f"cell {number}", "exec", 0, True)
    exec(code, namespace)
    return namespace[name]


def round_trip(value: Any) -> Any:
    return cloudpickle.loads(cloudpickle.dumps(value))


def pickled(value: Any) -> Any:
    """A value as workers get it; itself where it can't be pickled."""
    try:
        return round_trip(value)
    except (AttributeError, TypeError, pickle.PicklingError):
        return value


def digests(source: str) -> tuple[str, str, str]:
    """The digests of a function as it is, as it is pickled, and as a command for workers."""
    f = define(source)
    sent = pickled(f)
    return digest_function(f), digest_function(sent), digest_value((sent, "bigint"))


def assert_all_differ(*sources: str) -> None:
    """No two functions have one digest, alive or sent, and each has the same one again."""
    found = {source: digests(source) for source in sources}
    for one, other in itertools.combinations(found, 2):
        assert all(a != b for a, b in zip(found[one], found[other], strict=True)), (one, other)
    assert found == {source: digests(source) for source in sources}


class UserModules:
    """The modules of a directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @classmethod
    def importable(cls, directory: Path, patch: pytest.MonkeyPatch) -> Iterator[UserModules]:
        """Modules that can be imported until this goes on."""
        patch.syspath_prepend(str(directory))
        patch.setattr(sys, "dont_write_bytecode", True)
        modules = cls(directory)
        yield modules
        modules.forget()

    def write(self, **sources: str) -> None:
        """Writes modules by their names, with two underscores for a dot."""
        for name, source in sources.items():
            path = self.directory.joinpath(*name.split("__", 1)).with_suffix(".py")
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(textwrap.dedent(source))

    def forget(self) -> None:
        """Has all of them loaded again."""
        importlib.invalidate_caches()
        for name, module in list(sys.modules.items()):
            location = getattr(module, "__file__", None) or ""
            if location.startswith(str(self.directory)) or name.startswith("hf_"):
                del sys.modules[name]

    def digest(self, function: str, **sources: str) -> str:
        """The digest of a function that a program sends to workers, after writing some modules."""
        self.write(**sources)
        self.forget()
        return digest_value((round_trip(define(function)), "bigint"))
