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
    *("sinks", "functions", "files", "catalog", "advice"),
)
# From the bottom up: none imports one that comes after it.
LAYERS = """
    files plan functions graph storage catalog taskexecutor eventstore highavailability sinks
    streaming advice runtime spark api testing cli
""".split()
ROOMS = "partitions outputs recovery applications connections calls reading".split()


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


@pytest.mark.parametrize(
    ("home", "layers"), [("", LAYERS), ("taskexecutor", ROOMS)], ids=["all", "taskexecutor"]
)
def test_no_import_points_up(home: str, layers: list[str]) -> None:
    assert {path.parent.name for path in (HOME / home).glob("*/__init__.py")} == set(layers)
    prefix = ["holdfast", *home.split()]
    found = [
        (path.name, name)
        for height, layer in enumerate(layers)
        for path, name in imports(f"{home}/{layer}" if home else layer)
        for above in layers[height + 1 :]
        if name.split(".")[: len(prefix) + 1] == [*prefix, above]
    ]
    assert found == []


def test_no_two_public_classes_have_one_name() -> None:
    found = [
        node.name
        for path in HOME.rglob("*.py")
        for node in ast.parse(path.read_text(encoding="utf-8")).body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert [name for name, times in Counter(found).items() if times > 1] == []
