"""The examples in docstrings hold, where no Spark session is needed to run them."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import holdfast

HOME = Path(holdfast.__path__[0])
NEEDS_SPARK = ("holdfast.api", "holdfast.spark", "holdfast.cli", "holdfast.testing")
MODULES = [
    name
    for path in sorted(HOME.rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
    and not (name := ".".join(path.relative_to(HOME.parent).with_suffix("").parts)).startswith(
        NEEDS_SPARK
    )
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    module = importlib.import_module(name.removesuffix(".__init__"))
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.testmod(module, optionflags=flags).failed == 0
