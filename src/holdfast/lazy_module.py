"""Modules that are loaded once something of them is asked for."""

from __future__ import annotations

from importlib import import_module
from typing import Any


class LazyModule:
    """Stands for a module that most programs never need, and that takes long to import.

    Type checkers are given the import itself, under `TYPE_CHECKING`.

    Args:
        name: the module's full name.

    Raises:
        ImportError: when an attribute is asked for, and the module can't be imported.

    Example:
        >>> fractions = LazyModule("fractions")
        >>> fractions.Fraction(2, 4)
        Fraction(1, 2)
    """

    def __init__(self, name: str) -> None:
        self._name = name

    def __getattr__(self, attribute: str) -> Any:
        return getattr(import_module(self._name), attribute)
