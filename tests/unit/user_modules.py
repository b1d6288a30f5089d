"""Modules of a user's, written anew and then loaded, as in another run of a program."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest
from typing_extensions import Self


class UserModules:
    """The modules of a directory.

    Args:
        directory: where they are written.
    """

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @classmethod
    def importable(cls, directory: Path, patch: pytest.MonkeyPatch) -> Iterator[Self]:
        """Modules that can be imported until this goes on."""
        patch.syspath_prepend(str(directory))
        patch.setattr(sys, "dont_write_bytecode", True)
        modules = cls(directory)
        yield modules
        modules.forget()

    def write(self, name: str, source: str) -> None:
        """Writes a module, by its name with dots."""
        path = self.directory.joinpath(*name.split(".")).with_suffix(".py")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(source))

    def forget(self) -> None:
        """Has all of them loaded anew."""
        importlib.invalidate_caches()
        for name, module in list(sys.modules.items()):
            location = getattr(module, "__file__", None) or ""
            if location.startswith(str(self.directory)) or name.startswith("hf_"):
                del sys.modules[name]
