"""What most programs never need is not imported before it is."""

from __future__ import annotations

import subprocess
import sys

import pytest

from holdfast.lazy_module import LazyModule

COSTLY = ("alembic", "numpy", "pandas", "pyarrow", "sqlalchemy")


def test_a_module_is_imported_when_something_of_it_is_asked_for() -> None:
    program = f"""
import sys
from holdfast import Environment, attach
print(sorted(set({COSTLY}) & set(sys.modules)))
from holdfast.storage import partition_directory
print(partition_directory.parquet.read_metadata.__name__, "pyarrow" in sys.modules)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout.splitlines() == ["[]", "read_metadata True"], ran.stderr


def test_a_module_that_is_not_there_is_an_import_error() -> None:
    missing = LazyModule("holdfast.no_such_module")
    with pytest.raises(ImportError, match="no_such_module"):
        _ = missing.anything
    with pytest.raises(AttributeError, match="nothing"):
        _ = LazyModule("holdfast.errors").nothing
