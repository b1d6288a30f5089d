"""The examples in the docstrings of streams hold."""

from __future__ import annotations

import doctest
import importlib
from pathlib import Path

import pytest

import holdfast
from holdfast import Environment

MODULES = [
    "cached_data_stream",
    "closeable_iterator",
    "data_stream",
    "data_stream_sink",
    "keyed_stream",
    "stream_environment",
]


@pytest.mark.parametrize("name", MODULES)
@pytest.mark.sampled(6, 5)
def test_examples(env: Environment, tmp_path: Path, name: str) -> None:
    module = importlib.import_module(f"holdfast.api.{name}")
    names = {exported: getattr(holdfast, exported) for exported in holdfast.__all__}
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    runner = doctest.DocTestRunner(optionflags=flags)
    for number, example in enumerate(doctest.DocTestFinder().find(module)):
        # What an example defines is pickled as what a program defines.
        example.globs = {"__name__": "__main__", "env": env, **names}
        example.globs["path"] = str(tmp_path / f"{name}-{number}")
        env.set_parallelism(2)
        runner.run(example)
    assert runner.summarize(verbose=False).failed == 0
    assert runner.tries > 0
