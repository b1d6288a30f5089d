"""The house: which package may import which, what is public, and how errors are made."""

from __future__ import annotations

import ast
import copy
import functools
import inspect
import json
import pickle
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyspark
import pytest
from pyspark.sql import DataFrame as ParentDataFrame
from pyspark.sql import SparkSession
from pyspark.sql.catalog import Catalog
from pyspark.sql.classic import dataframe as classic
from pyspark.sql.group import GroupedData
from pyspark.sql.merge import MergeIntoWriter
from pyspark.sql.pandas.group_ops import PandasCogroupedOps
from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter, DataFrameWriterV2

import holdfast
from holdfast import errors
from holdfast.api import members
from holdfast.api.cached_table import CachedTable
from holdfast.api.grouped import GroupedTable
from holdfast.api.members import TABLE_MEMBERS, MemberKind, action, members_of
from holdfast.api.table import Table
from holdfast.api.table_catalog import TableCatalog
from holdfast.api.table_session import TableSession
from holdfast.api.writers import TableMergeWriter, TableWriter, TableWriterV2
from holdfast.errors import (
    ConfigurationError,
    HoldfastError,
    StreamTaskError,
    TaskExecutorError,
    UnsupportedTypeError,
)
from holdfast.spark.versions import NEWEST, version_of

# -- which package may import which, and which of them tests of what users see may import


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


# -- what `import holdfast` gives, and what it doesn't cost


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


# -- every public member of PySpark's classes has a place on Holdfast's


INSTALLED = version_of(pyspark.__version__) or NEWEST
# In which version PySpark got a member that it hasn't always had.
SINCE = {
    **dict.fromkeys("repartitionById transformWithState".split(), (4, 1)),
    **dict.fromkeys("_to_pandas changes nearestByJoin zipWithIndex".split(), (4, 2)),
    **dict.fromkeys("__arrow_c_stream__".split(), (4, 2)),
    "zip": (4, 3),
}
NA, STAT = classic.DataFrameNaFunctions, classic.DataFrameStatFunctions
# By the members that are listed for it PySpark's class, and Holdfast's.
CLASSES: dict[str, tuple[type, type]] = {
    "TABLE": (ParentDataFrame, Table),
    "GROUPED": (GroupedData, GroupedTable),
    "COGROUPED": (PandasCogroupedOps, PandasCogroupedOps),
    "NA": (NA, NA),
    "STAT": (STAT, STAT),
    "READER": (DataFrameReader, DataFrameReader),
    "WRITER": (DataFrameWriter, TableWriter),
    "WRITER_V2": (DataFrameWriterV2, TableWriterV2),
    "MERGE_WRITER": (MergeIntoWriter, TableMergeWriter),
    "SESSION": (SparkSession, TableSession),
    "CATALOG": (Catalog, TableCatalog),
}


@pytest.mark.parametrize("which", CLASSES)
def test_every_public_member_of_pyspark_is_classified(which: str) -> None:
    pyspark_class, holdfast_class = CLASSES[which]
    listed: dict[str, MemberKind] = getattr(members, f"{which}_MEMBERS")
    also = dir(classic.DataFrame) if which == "TABLE" else ()
    public = {name for name in (*dir(pyspark_class), *also) if not name.startswith("_")}
    unclassified = sorted(public - listed.keys())
    assert not unclassified, (
        f"holdfast.api.members doesn't say what {pyspark_class.__name__}'s "
        f"{', '.join(unclassified)} shall do on {holdfast_class.__name__}"
    )
    assert issubclass(holdfast_class, pyspark_class)
    missing = {name for name in listed if not hasattr(holdfast_class, name)}
    newer = {name for name, since in SINCE.items() if since > INSTALLED}
    assert missing == newer & listed.keys()


def test_a_table_has_actions_of_its_own_and_inherits_the_rest() -> None:
    inherited = members_of(TABLE_MEMBERS, MemberKind.INHERITED, MemberKind.TRANSFORMATION)
    own = {*TABLE_MEMBERS} - inherited
    there = {name for name in own if SINCE.get(name, INSTALLED) <= INSTALLED}
    assert there == {*TABLE_MEMBERS} & {*vars(Table)}
    added = {name for name in vars(Table) if not name.startswith(("__", "_holdfast"))}
    assert added - {*TABLE_MEMBERS} == {"invalidate_cache", "to_data_stream", "to_dataframe"}
    assert {name for name in vars(CachedTable) if not name.startswith("__")} == {"cache"}


def test_a_misspelt_argument_of_an_action_runs_nothing() -> None:
    class Anything:
        """Has no context, so that running anything would fail otherwise."""

    def show(self: Any, n: int = 20) -> None:
        """PySpark's method."""

    with pytest.raises(TypeError, match="rows"):
        action(show)(Anything(), rows=3)


# -- every error names the thing, and survives pickling


ERRORS = {
    name: member
    for name, member in inspect.getmembers(errors, inspect.isclass)
    if issubclass(member, BaseException)
    and member not in (HoldfastError, StreamTaskError, TaskExecutorError)
}
# What is given for parameters of a type.
VALUES: dict[str, object] = {"int": 3, "tuple[str, ...]": ("ab12", "cd34"), "object": "x"}


@pytest.mark.parametrize("name", ERRORS)
def test_a_message_names_the_thing(name: str) -> None:
    cls = ERRORS[name]
    assert issubclass(cls, HoldfastError)
    parameters = [*inspect.signature(cls.__init__).parameters.values()][1:]
    arguments = [VALUES.get(each.annotation, f"a {each.name}") for each in parameters]
    error = cls(*arguments)
    for part in (each for each in arguments if isinstance(each, str)):
        assert part in str(error)
    made = [pickle.loads(pickle.dumps(error)), copy.copy(error)]
    if isinstance(error, TaskExecutorError):
        # It comes over the network as JSON.
        made.append(type(error)(**json.loads(json.dumps(vars(error)))))
    for again in made:
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_python_s_own_errors_stand_above_some() -> None:
    assert issubclass(ConfigurationError, ValueError)
    assert issubclass(UnsupportedTypeError, TypeError)
