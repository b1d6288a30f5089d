"""Where rows come from: the identity and version of a plan's leaves."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from holdfast.plan.canonical_plan import FileVersion
from holdfast.plan.document import OperatorDocument
from holdfast.plan.expressions import Canonical, freeze_json, short

# Where files lie is in their listing; the same files may be named in several ways.
_PATH_OPTIONS = frozenset({"path", "paths", "__paths__"})

# Types whose SQL literals say everything; a timestamp's doesn't where clocks are put back.
_INLINE_TYPES = frozenset(
    {
        "boolean",
        "byte",
        "short",
        "integer",
        "long",
        "float",
        "double",
        "string",
        "date",
        "binary",
        "void",
    }
)


@dataclass(frozen=True, slots=True)
class SourceContext:
    """What identifies sources beside their own arguments.

    Attributes:
        session: a text that no other application has.
        inline_name: what the texts of inline tables end with.
    """

    session: str
    inline_name: str


@dataclass(frozen=True, slots=True)
class CanonicalSource:
    """A leaf's identity and version.

    Attributes:
        content: what its rows are determined by.
        doubts: why they are not determined by `content`, if they are not.
        files: the files that are read, as they were listed.
    """

    content: Canonical
    doubts: tuple[str, ...] = ()
    files: tuple[FileVersion, ...] = ()


def canonical_source(operator: OperatorDocument, context: SourceContext) -> CanonicalSource:
    """The identity and version of a leaf that `holdfast.plan.operators` knows as a source.

    Files count with path, length and modification time, as the DataFrame listed them when it was
    made. An RDD counts as itself, in this application. Anything else is a doubt.
    """
    match short(operator["c"]):
        case "LogicalRelation":
            return _relation(operator)
        case "LocalRelation":
            return _inline_table(operator, context)
        case "LogicalRDD":
            return _rdd(operator, context)
    return CanonicalSource((), (f"the source {short(operator['c'])}",))


def _relation(operator: OperatorDocument) -> CanonicalSource:
    relation = operator["f"][0]
    if short(relation.get("c", "")) != "HadoopFsRelation":
        name = relation.get("c") or relation.get("opaque") or "relation"
        return CanonicalSource((), (f"a {short(name)}, whose content has no version",))
    listing, partition_schema, data_schema, buckets, file_format, options = relation["f"]
    if "files" not in listing:
        name = listing.get("opaque") or listing.get("c") or "file index"
        return CanonicalSource((), (f"files listed by a {short(name)}",))
    files = tuple(sorted((path, length, modified) for path, length, modified in listing["files"]))
    content = (
        "files",
        file_format.get("opaque") or file_format.get("c"),
        freeze_json(partition_schema),
        freeze_json(data_schema),
        freeze_json(buckets),
        _options(options),
        freeze_json(operator["s"]),
        files,
        # Paths are read as values when files are listed, by the settings of that moment.
        listing["partitions"],
    )
    return CanonicalSource(content, files=files)


def _options(options: list[Any]) -> Canonical:
    pairs = (tuple(option["f"]) for option in options)
    return tuple(sorted(pair for pair in pairs if pair[0].lower() not in _PATH_OPTIONS))


def _inline_table(operator: OperatorDocument, context: SourceContext) -> CanonicalSource:
    types = [column["type"] for column in operator["s"]["fields"]]
    shape = ("rows", *map(freeze_json, types))
    text = operator.get("sql")
    if text is None:
        return CanonicalSource((*shape, None))
    rows, end, _ = text.rpartition(f" AS {context.inline_name}(")
    plain = all(
        isinstance(kind, str) and (kind in _INLINE_TYPES or kind.startswith("decimal("))
        for kind in types
    )
    if not plain or not end:
        return CanonicalSource(shape, ("rows of types that can't be compared by value",))
    return CanonicalSource((*shape, rows))


def _rdd(operator: OperatorDocument, context: SourceContext) -> CanonicalSource:
    rdd = operator["f"][1]
    if "rdd" not in rdd:
        return CanonicalSource((), ("an RDD without an id",))
    return CanonicalSource(("rdd", context.session, rdd["rdd"], freeze_json(operator["s"])))
