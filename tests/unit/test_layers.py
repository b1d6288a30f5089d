"""Which package may import which, and which of them tests of what users see may import."""

from __future__ import annotations

import ast
import functools
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast

HOME = Path(holdfast.__path__[0])
TESTS = Path(__file__).parents[1]
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
# Folders of tests that look at Holdfast as its users do, and what these may import of it: public
# names, and the command.
FROM_OUTSIDE = ("chaos", "cluster", "promises", "spark", "two_programs")
# Of what these ask there is no sign outside (byte code that is kept, a rule whose answer is late,
# shuffles whose names are a secret of the job, tags of files that object stores have), or they
# compile a class of Java's for it.
FROM_INSIDE = (
    *("failures", "kept_byte_code", "late_answers", "observed", "retained_shuffles"),
    "source_versions",
)
PUBLIC = (
    *("holdfast", "holdfast.errors", "holdfast.testing", "holdfast.testing.plugin"),
    *("holdfast.ids", "holdfast.version", "holdfast.cli.main"),
)


@functools.cache
def files(folder: Path) -> dict[Path, ast.Module]:
    paths = sorted(folder.rglob("*.py"))
    return {path: ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def imports(folder: Path) -> Iterator[tuple[str, str]]:
    """What the files of a folder import, after their names: modules, or names of packages."""
    for path, tree in files(HOME if folder.is_relative_to(HOME) else folder).items():
        for node in ast.walk(tree) if path.is_relative_to(folder) else ():
            if isinstance(node, ast.Import):
                yield from ((path.name, alias.name) for alias in node.names)
            elif isinstance(node, ast.ImportFrom):
                assert node.level == 0 and node.module is not None
                yield path.name, node.module


@pytest.mark.parametrize("package", NO_SPARK)
def test_nothing_below_the_engine_imports_spark(package: str) -> None:
    found = [
        each for each in imports(HOME / package) if each[1].split(".")[0] in ("pyspark", "py4j")
    ]
    assert found == []


@pytest.mark.parametrize(
    ("home", "layers"), [("", LAYERS), ("taskexecutor", ROOMS)], ids=["all", "taskexecutor"]
)
def test_no_import_points_up(home: str, layers: list[str]) -> None:
    assert {path.parent.name for path in (HOME / home).glob("*/__init__.py")} == set(layers)
    prefix = ["holdfast", *home.split()]
    found = [
        (path, name)
        for height, layer in enumerate(layers)
        for path, name in imports(HOME / home / layer)
        for above in layers[height + 1 :]
        if name.split(".")[: len(prefix) + 1] == [*prefix, above]
    ]
    assert found == []


def test_no_two_public_classes_have_one_name() -> None:
    found = [
        node.name
        for tree in files(HOME).values()
        for node in tree.body
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_")
    ]
    assert [name for name, times in Counter(found).items() if times > 1] == []


@pytest.mark.parametrize("folder", FROM_OUTSIDE)
def test_tests_of_what_users_see_import_what_users_import(folder: str) -> None:
    found = [
        (path, name)
        for path, name in imports(TESTS / folder)
        if name.split(".")[0] == "holdfast" and name not in PUBLIC
        if path.removeprefix("test_").removesuffix(".py") not in FROM_INSIDE
    ]
    assert found == []
