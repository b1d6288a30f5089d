"""Where rows come from: the identity and version of a plan's leaves."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.plan.document import EXECUTION, EXPRESSIONS, OperatorDocument, Value
from holdfast.plan.expressions import freeze_json, short
from holdfast.plan.file_version import FileVersion
from holdfast.plan.hive_tables import doubts_of, is_known, observed_by, splits_of
from holdfast.plan.observed import EVERYTHING, Observed, of_reader, of_schema
from holdfast.plan.reasons import Reason, Why
from holdfast.plan.terms import Canonical

# Where files lie is in their listing; the same files may be named in several ways.
_PATH_OPTIONS = frozenset({"path", "paths", "__paths__"})

# What is kept is read by a class that has another name in each program.
_OURS = re.compile(r"(?<=^holdfast\.)made_\w+\.")

# They give the same rows for any columns and conditions that reach them.
_READ_ALIKE = frozenset(
    {
        "holdfast.KeptFormat",
        "org.apache.spark.sql.avro.AvroFileFormat",
        "org.apache.spark.sql.hive.orc.OrcFileFormat",
        *(
            f"{EXECUTION}datasources.{name}FileFormat"
            for name in ("binaryfile.Binary", "orc.Orc", "parquet.Parquet", "text.Text")
        ),
    }
)
_PARQUET = EXECUTION + "datasources.parquet.ParquetFileFormat"
# So does CSV, but for records that don't fit the columns that are read.
_CSV = EXECUTION + "datasources.csv.CSVFileFormat"

# What the JVM says of rows that are too many to be compared.
_TOO_MANY = "!"
_UNLISTED = "a catalog's table that Spark has cached, or whose partitions can't be listed"

# The part of a file that a task reads depends on how files are split.
_OF_SPLIT = frozenset({"file_block_start", "file_block_length"})
_FIELD = EXPRESSIONS + "GetStructField"
_NAME_OF_FIELD = 2


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What identifies sources beside their own arguments.

    Attributes:
        session: a text that no other application has.
        portable: files count as they look on every machine that has them.
        passes_on: whether a Python function, in base64, gives the rows that it gets.
    """

    session: str
    portable: bool = False
    passes_on: Callable[[str], bool] = lambda _: False


@dataclass(frozen=True, slots=True)
class CanonicalSource:
    """A leaf's identity and version.

    Attributes:
        content: what its rows are determined by.
        doubts: why they are not determined by `content`, if they are not.
        files: the files that are read, as they were listed.
        partitioned: why the rows depend on how the files are split among tasks, if they do.
        scan_sensitive: they depend on which columns and conditions reach the reader.
        of_catalog: they were listed for a catalog's table.
        observes: what of the process around them the rows may depend on.
        of_session: why `content` is known in this session alone, if it is.
    """

    content: Canonical
    doubts: tuple[Reason, ...] = ()
    files: tuple[FileVersion, ...] = ()
    partitioned: tuple[Reason, ...] = ()
    scan_sensitive: bool = False
    of_catalog: bool = False
    of_session: tuple[Reason, ...] = ()
    observes: frozenset[Observed] = EVERYTHING


def canonical_source(
    operator: OperatorDocument, context: SourceContext, *, with_splits: bool = True
) -> CanonicalSource:
    """The identity and version of a leaf that `holdfast.plan.catalyst_operators` knows as a source.

    Files count in the version that the DataFrame listed when it was made. Rows that the program has
    made from its values count by these. Any other RDD counts as itself, in this application.
    Anything else is a doubt.

    Args:
        operator: the leaf.
        context: identifies it beside its own arguments.
        with_splits: whether the plan uses what its metadata says of how files are split.
    """
    match short(operator["c"]):
        case "LogicalRelation":
            return _relation(operator, context, with_splits and has_metadata(operator))
        case "LocalRelation":
            return _inline_table(operator)
        case "LogicalRDD":
            return _rdd(operator, context)
        case "HiveTableRelation":
            return _hive_table(operator, context)
    return CanonicalSource((), (Why.UNREADABLE.of(f"the source {short(operator['c'])}"),))


def _relation(
    operator: OperatorDocument, context: SourceContext, with_splits: bool
) -> CanonicalSource:
    relation = operator["f"][0]
    if short(relation.get("c", "")) != "HadoopFsRelation":
        name = relation.get("c") or relation.get("opaque") or "relation"
        doubt = Why.UNVERSIONED.of(short(name))
        return CanonicalSource((), (doubt,), scan_sensitive=True)
    listing, partition_schema, data_schema, buckets, file_format, options = relation["f"]
    reader = _OURS.sub("", file_format.get("opaque") or file_format.get("c"))
    said = relation["defaults"] | {key.lower(): value for key, value in _pairs(options)}
    leaves_out = said["ignorecorruptfiles"].lower() != "false"
    scan_sensitive = (
        leaves_out
        or said["ignoremissingfiles"].lower() != "false"
        or not _reads_alike(reader, said, data_schema)
    )
    how = (
        "files",
        reader,
        freeze_json(partition_schema),
        freeze_json(data_schema),
        freeze_json(buckets),
        _options(options),
        freeze_json(operator["s"]),
        with_splits,
    )
    if "files" not in listing:
        name = listing.get("opaque") or listing.get("c") or "file index"
        now = listing.get("now")
        lists = f"a {short(name)}" if now is None else _UNLISTED
        doubt = Why.LISTED_LATER.of(lists)
        return CanonicalSource((*how, now), (doubt,), scan_sensitive=scan_sensitive)
    files = listed_files(listing["files"], context)
    content = (
        *how,
        tuple(map(tuple, files)),
        # Paths are read as values when files are listed, by the settings of that moment.
        listing["partitions"],
    )
    return CanonicalSource(
        content,
        files=files,
        partitioned=_of_splits(leaves_out=leaves_out, with_splits=with_splits),
        scan_sensitive=scan_sensitive,
        of_catalog=operator["f"][2] is not None,
        observes=of_reader(reader, repr(how)),
    )


def _hive_table(operator: OperatorDocument, context: SourceContext) -> CanonicalSource:
    """A table that Spark reads by a SerDe."""
    table = operator.get("table")
    if table is None:
        return CanonicalSource((), (Why.LISTED_LATER.of(_UNLISTED),), scan_sensitive=True)
    files = listed_files(operator["files"], context)
    schema = freeze_json(operator["s"])
    return CanonicalSource(
        ("serde", table["how"], table["code"], schema, tuple(map(tuple, files))),
        tuple(doubts_of(table)),
        files=files,
        partitioned=tuple(splits_of(table)),
        scan_sensitive=not is_known(table) or table["ignorecorruptfiles"].lower() != "false",
        of_catalog=True,
        observes=observed_by(table, schema),
    )


def _of_splits(*, leaves_out: bool, with_splits: bool) -> tuple[Reason, ...]:
    """Why rows depend on how files are split among tasks."""
    if leaves_out:
        # Of a file that can't be read to its end, what was read until then is there.
        return (Why.PARTITIONED.of("what is read of corrupt files"),)
    return (Why.PARTITIONED.of("the place of a block in its file"),) if with_splits else ()


def _reads_alike(reader: str, said: Mapping[str, str], data_schema: Value) -> bool:
    """Whether a reader gives the same rows for any columns and conditions that reach it.

    A record that doesn't fit a column is malformed for those alone that read the column: then it
    may be left out, or stand in a column for such records. And JSON's and XML's readers have more
    or less of a broken record, or of one with a name in it twice, when they leave it.

    Args:
        reader: the class of the file format.
        said: its options in lower case, with the session's defaults.
        data_schema: of the files.
    """
    if reader == _PARQUET and said["null structs"].lower() != "false":
        # Those of which the file has no field that is read.
        return not any(_has_struct(field["type"]) for field in data_schema["type"]["fields"])
    if reader != _CSV:
        return reader in _READ_ALIKE
    names = {field["name"].lower() for field in data_schema["type"]["fields"]}
    drops = said.get("mode", "").upper() == "DROPMALFORMED"
    return not drops and said["columnnameofcorruptrecord"].lower() not in names


def _has_struct(data_type: Any) -> bool:
    """Whether a type has fields anywhere."""
    if not isinstance(data_type, dict):
        return False
    inner = ("elementType", "keyType", "valueType")
    return data_type["type"] == "struct" or any(_has_struct(data_type.get(each)) for each in inner)


def has_metadata(operator: OperatorDocument) -> bool:
    """Whether a relation has columns of metadata; their fields are chosen further up."""
    return bool(_of_metadata(operator))


def _of_metadata(operator: OperatorDocument) -> frozenset[int]:
    kinds = [column["type"] for column in operator["s"]["fields"]]
    return frozenset(
        attribute
        for attribute, kind in zip(operator["out"], kinds, strict=True)
        if isinstance(kind, dict)
        and kind.get("type") == "struct"
        and not _OF_SPLIT.isdisjoint(field["name"] for field in kind["fields"])
    )


def shows_splits(relation: OperatorDocument, operators: Iterable[OperatorDocument]) -> bool:
    """Whether a plan uses more of a relation's metadata than fields of whole files.

    Args:
        relation: a leaf that `has_metadata`.
        operators: of the plan.
    """
    attributes = _of_metadata(relation)
    waiting: list[Value] = [part for each in operators for part in (each["f"], each["o"])]
    seen = set()
    while waiting:
        value = waiting.pop()
        if isinstance(value, list):
            waiting += value
        elif isinstance(value, dict) and id(value) not in seen:
            seen.add(id(value))
            if value.get("a") in attributes:
                return True
            of = value["f"][0] if value.get("c") == _FIELD else None
            if isinstance(of, dict) and of.get("a") in attributes:
                if value["f"][_NAME_OF_FIELD] in (None, *_OF_SPLIT):
                    return True
            else:
                waiting += value.values()
    return False


def listed_files(listed: Iterable[list[Any]], context: SourceContext) -> tuple[FileVersion, ...]:
    """The versions of files in a listing, in the order of their paths.

    Args:
        listed: each file's path, length, modification time and tag.
        context: says how they count.
    """
    files = (FileVersion(*file) for file in listed)
    return tuple(sorted(file.portable() if context.portable else file for file in files))


def _options(options: list[Any]) -> Canonical:
    return tuple(sorted(pair for pair in _pairs(options) if pair[0].lower() not in _PATH_OPTIONS))


def _pairs(options: list[Any]) -> list[tuple[str, str]]:
    return [(option["f"][0], option["f"][1]) for option in options]


def _inline_table(operator: OperatorDocument) -> CanonicalSource:
    content = operator.get("rows")
    if content is None:
        return CanonicalSource(("rows", *_shape(operator)), (Why.INCOMPARABLE_ROWS.of(),))
    return _values("rows", operator, content)


def _values(kind: str, operator: OperatorDocument, content: str) -> CanonicalSource:
    shape = _shape(operator)
    return CanonicalSource((kind, *shape, content), observes=of_schema(repr(shape)))


def _shape(operator: OperatorDocument) -> tuple[str, ...]:
    """What a table's columns can hold; the collation of a text stands in the metadata."""
    fields = operator["s"]["fields"]
    columns = ((each["type"], each["nullable"], each["metadata"]) for each in fields)
    return tuple(map(freeze_json, columns))


def _rdd(operator: OperatorDocument, context: SourceContext) -> CanonicalSource:
    rows, _, through = (operator.get("rows") or "").partition(" ")
    if rows and rows != _TOO_MANY and (not through or context.passes_on(through)):
        # They are distributed to tasks in another way than those of an inline table.
        return _values("rows of values", operator, rows)
    rdd = operator["f"][1]
    if "rdd" not in rdd:
        return CanonicalSource((), (Why.UNREADABLE.of("an RDD without an id"),))
    content = ("rdd", context.session, rdd["rdd"], freeze_json(operator["s"]))
    why = Why.MANY_VALUES.of() if rows == _TOO_MANY else Why.RDD.of()
    return CanonicalSource(content, of_session=(why,))
