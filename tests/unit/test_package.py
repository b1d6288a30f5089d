"""What `import holdfast` gives, and what it doesn't cost."""

from __future__ import annotations

import subprocess
import sys

import pytest

import holdfast


def test_every_public_name_is_there() -> None:
    assert {*holdfast._HOMES, "__version__"} == {*holdfast.__all__}
    for name in holdfast.__all__:
        assert getattr(holdfast, name) is not None
    assert {*holdfast.__all__} <= {*dir(holdfast)}
    with pytest.raises(AttributeError, match="no attribute 'Flink'"):
        holdfast.Flink


def test_a_worker_of_spark_imports_no_more_than_it_needs() -> None:
    code = "import sys, holdfast.streaming; print(*({'pyspark', 'pydantic'} & sys.modules.keys()))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
