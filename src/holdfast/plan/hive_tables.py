"""What is known of how Hive's tables are read that Spark reads by a SerDe."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from holdfast.plan.observed import EVERYTHING, Observed, of_schema
from holdfast.plan.reasons import Reason, Why

_HIVE = "org.apache.hadoop.hive."
_IO = _HIVE + "ql.io."
_SERDE = _HIVE + "serde2."

HIVE_FORMATS = frozenset(
    {
        "org.apache.hadoop.mapred.SequenceFileInputFormat",
        "org.apache.hadoop.mapred.TextInputFormat",
        _IO + "RCFileInputFormat",
        _IO + "avro.AvroContainerInputFormat",
        _IO + "orc.OrcInputFormat",
        _IO + "parquet.MapredParquetInputFormat",
    }
)
"""The formats that read the files below a directory, and nothing else."""

HIVE_SERDES = frozenset(
    {
        _IO + "orc.OrcSerde",
        _IO + "parquet.serde.ParquetHiveSerDe",
        _SERDE + "JsonSerDe",
        _SERDE + "OpenCSVSerde",
        _SERDE + "RegexSerDe",
        _SERDE + "avro.AvroSerDe",
        _SERDE + "columnar.ColumnarSerDe",
        _SERDE + "columnar.LazyBinaryColumnarSerDe",
        _SERDE + "lazy.LazySimpleSerDe",
        _SERDE + "lazybinary.LazyBinarySerDe",
    }
)
"""The SerDes of Spark's own jars: each makes a row of a record, whatever is read of it."""

# Properties by which rows are elsewhere, or are made of more than the files that are listed.
_ELSEWHERE = {
    "avro.schema.url": "schema of Avro's at a URL",
    "storage_handler": "table with a storage handler",
    "transactional": "transactional table of Hive's",
}


def doubts_of(table: dict[str, Any]) -> Iterator[Reason]:
    """Why a table's rows are not determined by what has been listed of it, if they are not.

    Args:
        table: what the JVM's `HiveFiles` says of it.
    """
    for name in table["formats"]:
        if name not in HIVE_FORMATS:
            yield Why.UNVERSIONED.of(name.rpartition(".")[2] or "table without an input format")
    for key in table["keys"]:
        if key.lower() in _ELSEWHERE:
            yield Why.UNVERSIONED.of(_ELSEWHERE[key.lower()])
    if table["code"].startswith("?"):
        yield Why.OBJECT.of(table["code"][1:])


def splits_of(table: dict[str, Any]) -> Iterator[Reason]:
    """Why rows depend on how files are split among tasks, if they do.

    Args:
        table: as for `doubts_of`.
    """
    if table["ignorecorruptfiles"].lower() != "false":
        yield Why.PARTITIONED.of("what is read of corrupt files")
    if table["header"] > 1:
        # The first part of a file may have fewer lines.
        yield Why.PARTITIONED.of("what is left out of a header")


def is_known(table: dict[str, Any]) -> bool:
    """Whether a table is read by classes of Spark's own jars.

    Args:
        table: as for `doubts_of`.
    """
    return HIVE_SERDES.issuperset(table["serdes"]) and HIVE_FORMATS.issuperset(table["formats"])


def observed_by(table: dict[str, Any], schema: str) -> frozenset[Observed]:
    """What of the process a table's rows may depend on.

    Args:
        table: as for `doubts_of`.
        schema: of its columns, as Spark's JSON has it.
    """
    if not is_known(table):
        return EVERYTHING
    return of_schema(schema) | {Observed.LOCALE, Observed.ZONE}
