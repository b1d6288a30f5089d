"""The examples in docstrings hold, where no Spark session is needed to run them."""

from __future__ import annotations

import doctest
import importlib
import pkgutil

import pytest

import holdfast

NEEDS_SPARK = ("holdfast.api", "holdfast.spark", "holdfast.cli", "holdfast.testing")
# What Alembic runs finds there what Alembic has given it.
RUN_BY_OTHERS = "holdfast.catalog.migrations.env"
MODULES = [
    module.name
    for module in pkgutil.walk_packages(holdfast.__path__, "holdfast.")
    if not module.name.startswith((*NEEDS_SPARK, RUN_BY_OTHERS))
]


@pytest.mark.parametrize("name", MODULES)
def test_examples(name: str) -> None:
    module = importlib.import_module(name)
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.testmod(module, optionflags=flags).failed == 0
