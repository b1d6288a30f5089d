"""Every public member of PySpark's classes has a place on Holdfast's."""

from __future__ import annotations

import inspect
from typing import Any

import pyspark
import pytest
from pyspark.sql import DataFrame as ParentDataFrame
from pyspark.sql import SparkSession
from pyspark.sql.catalog import Catalog
from pyspark.sql.classic.dataframe import (
    DataFrame,
    DataFrameNaFunctions,
    DataFrameStatFunctions,
)
from pyspark.sql.group import GroupedData
from pyspark.sql.merge import MergeIntoWriter
from pyspark.sql.pandas.group_ops import PandasCogroupedOps
from pyspark.sql.readwriter import DataFrameReader, DataFrameWriter, DataFrameWriterV2

from holdfast.api.cached_table import CachedTable
from holdfast.api.grouped import GroupedTable
from holdfast.api.members import (
    CATALOG_MEMBERS,
    COGROUPED_MEMBERS,
    GROUPED_MEMBERS,
    MERGE_WRITER_MEMBERS,
    NA_MEMBERS,
    READER_MEMBERS,
    SESSION_MEMBERS,
    STAT_MEMBERS,
    TABLE_MEMBERS,
    WRITER_MEMBERS,
    WRITER_V2_MEMBERS,
    MemberKind,
    action,
    members_of,
)
from holdfast.api.table import Table
from holdfast.api.table_catalog import TableCatalog
from holdfast.api.table_session import TableSession
from holdfast.api.writers import TableMergeWriter, TableWriter, TableWriterV2
from holdfast.spark.versions import NEWEST, version_of

INSTALLED = version_of(pyspark.__version__) or NEWEST
# In which version PySpark got a member that it hasn't always had.
SINCE = {
    **dict.fromkeys("repartitionById transformWithState".split(), (4, 1)),
    **dict.fromkeys("_to_pandas changes nearestByJoin zipWithIndex".split(), (4, 2)),
    **dict.fromkeys("__arrow_c_stream__".split(), (4, 2)),
    "zip": (4, 3),
}
CLASSES = [
    pytest.param((DataFrame, ParentDataFrame), Table, TABLE_MEMBERS, id="DataFrame"),
    pytest.param((GroupedData,), GroupedTable, GROUPED_MEMBERS, id="GroupedData"),
    pytest.param((PandasCogroupedOps,), PandasCogroupedOps, COGROUPED_MEMBERS, id="cogrouped"),
    pytest.param((DataFrameNaFunctions,), DataFrameNaFunctions, NA_MEMBERS, id="na"),
    pytest.param((DataFrameStatFunctions,), DataFrameStatFunctions, STAT_MEMBERS, id="stat"),
    pytest.param((DataFrameReader,), DataFrameReader, READER_MEMBERS, id="DataFrameReader"),
    pytest.param((DataFrameWriter,), TableWriter, WRITER_MEMBERS, id="DataFrameWriter"),
    pytest.param((DataFrameWriterV2,), TableWriterV2, WRITER_V2_MEMBERS, id="DataFrameWriterV2"),
    pytest.param((MergeIntoWriter,), TableMergeWriter, MERGE_WRITER_MEMBERS, id="MergeIntoWriter"),
    pytest.param((SparkSession,), TableSession, SESSION_MEMBERS, id="SparkSession"),
    pytest.param((Catalog,), TableCatalog, CATALOG_MEMBERS, id="Catalog"),
]


@pytest.mark.parametrize(("pyspark_classes", "holdfast_class", "members"), CLASSES)
def test_every_public_member_of_pyspark_is_classified(
    pyspark_classes: tuple[type, ...], holdfast_class: type, members: dict[str, MemberKind]
) -> None:
    public = {name for cls in pyspark_classes for name in dir(cls) if not name.startswith("_")}
    unclassified = sorted(public - members.keys())
    assert not unclassified, (
        f"holdfast.api.members doesn't say what {pyspark_classes[0].__name__}'s "
        f"{', '.join(unclassified)} shall do on {holdfast_class.__name__}"
    )
    assert issubclass(holdfast_class, pyspark_classes)
    missing = {name for name in members if not hasattr(holdfast_class, name)}
    newer = {name for name, since in SINCE.items() if since > INSTALLED}
    assert missing == newer & members.keys()


OF_ITS_OWN = (
    *(MemberKind.EAGER_TRANSFORMATION, MemberKind.ACTION, MemberKind.STREAMING_ACTION),
    *(MemberKind.HAND_OUT, MemberKind.OVERRIDDEN),
)


def test_a_table_has_actions_of_its_own_and_inherits_the_rest() -> None:
    own = {*members_of(TABLE_MEMBERS, *OF_ITS_OWN)}
    there = {name for name in own if SINCE.get(name, INSTALLED) <= INSTALLED}
    assert there == {*TABLE_MEMBERS} & {*vars(Table)}
    inherited = members_of(TABLE_MEMBERS, MemberKind.INHERITED, MemberKind.TRANSFORMATION)
    assert own | {*inherited} == {*TABLE_MEMBERS}


def test_what_a_table_adds_is_listed_here() -> None:
    added = {name for name in vars(Table) if not name.startswith(("__", "_holdfast"))}
    added -= TABLE_MEMBERS.keys()
    assert added == {"invalidate_cache", "to_data_stream", "to_dataframe"}
    assert {name for name in vars(CachedTable) if not name.startswith("__")} == {"cache"}


@pytest.mark.parametrize("name", ["filter", "join", "collect", "crosstab", "head", "select"])
def test_wrappers_keep_what_help_shows(name: str) -> None:
    wrapped, original = getattr(Table, name), getattr(DataFrame, name)
    assert inspect.getdoc(wrapped) == inspect.getdoc(original)
    assert list(inspect.signature(wrapped).parameters) == list(
        inspect.signature(original).parameters
    )


def test_a_misspelt_argument_of_an_action_runs_nothing() -> None:
    class Anything:
        """Has no context, so that running anything would fail otherwise."""

    def show(self: Any, n: int = 20) -> None:
        """PySpark's method."""

    with pytest.raises(TypeError, match="rows"):
        action(show)(Anything(), rows=3)
