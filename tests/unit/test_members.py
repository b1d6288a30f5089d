"""Every public member of PySpark's classes has a place on Holdfast's."""

from __future__ import annotations

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

from holdfast.api import members
from holdfast.api.cached_table import CachedTable
from holdfast.api.grouped import GroupedTable
from holdfast.api.members import TABLE_MEMBERS, MemberKind, action, members_of
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
