"""What only the demo needs: whoever installs a cache need not install a plotting library."""

from __future__ import annotations

import importlib
from types import ModuleType

from holdfast.cli.demo.errors import DemoError

INSTALL = "pip install 'holdfast[demo]'"


def chart() -> ModuleType:
    """The module that draws the demo's chart.

    Raises:
        DemoError: when what it draws with is not installed.
    """
    try:
        return importlib.import_module("holdfast.cli.demo.chart")
    except ModuleNotFoundError as error:
        raise DemoError(
            f"{error.name}, required for the chart, is not installed; install it with `{INSTALL}`"
        ) from error
