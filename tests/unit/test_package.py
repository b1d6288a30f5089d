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


@pytest.mark.soak
def test_what_most_programs_never_need_is_not_imported() -> None:
    program = """
import sys
import holdfast.streaming
print({'pyspark', 'pydantic'} & {*sys.modules})
from holdfast import Environment, attach
print({'alembic', 'numpy', 'pandas', 'pyarrow', 'sqlalchemy'} & {*sys.modules})
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.stdout.split() == ["set()", "set()"], ran.stderr
