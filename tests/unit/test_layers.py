"""Which package may import which: nothing below the engine knows Spark, and none looks up."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast

HOME = Path(holdfast.__path__[0])
NO_SPARK = (
    *("graph", "plan", "runtime", "eventstore", "taskexecutor", "storage", "highavailability"),
    *("sinks", "functions", "files"),
)
# From the top down, as far as the layers are ordered: what may never be imported from each.
ABOVE = {
    "spark": {"api", "cli"},
    "runtime": {"api", "cli", "spark"},
    "graph": {"api", "cli", "spark", "runtime", "taskexecutor", "highavailability", "sinks"},
    "sinks": {"api", "cli", "spark", "runtime"},
    "highavailability": {"api", "cli", "spark", "runtime", "sinks"},
    "eventstore": {"api", "cli", "spark", "runtime", "highavailability", "sinks"},
    "taskexecutor": {"api", "cli", "spark", "runtime", "highavailability", "eventstore", "sinks"},
    "storage": {"api", "cli", "spark", "runtime", "highavailability", "eventstore", "taskexecutor"},
    "plan": {"api", "cli", "spark", "runtime", "graph", "highavailability", "taskexecutor"},
    "files": {
        *("api", "cli", "spark", "runtime", "graph", "highavailability", "eventstore", "plan"),
        *("taskexecutor", "storage", "sinks", "streaming", "functions"),
    },
    "api": {"cli"},
}


def imports(package: str) -> Iterator[tuple[Path, str]]:
    for path in sorted((HOME / package).rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                yield from ((path, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0
                yield path, node.module or ""


@pytest.mark.parametrize("package", NO_SPARK)
def test_nothing_below_the_engine_imports_spark(package: str) -> None:
    found = [(path.name, name) for path, name in imports(package)]
    assert [each for each in found if each[1].split(".")[0] in ("pyspark", "py4j")] == []


@pytest.mark.parametrize("package", ABOVE)
def test_no_import_points_back_up(package: str) -> None:
    upwards = {f"holdfast.{above}" for above in ABOVE[package]}
    found = [(path.name, name) for path, name in imports(package)]
    assert [each for each in found if ".".join(each[1].split(".")[:2]) in upwards] == []


def test_no_two_public_classes_have_one_name() -> None:
    found = [
        node.name
        for path in HOME.rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert [name for name, times in Counter(found).items() if times > 1] == []
