"""Readers that leave out, or fill in, what doesn't fit the columns they are asked for."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

from tests.fuzz.family import SIZE, Family
from tests.fuzz.node import Node
from tests.fuzz.pair import Pair

_COLUMNS = ("k", "a", "b", "c")
_TYPES = ("INT", "INT", "BIGINT", "DOUBLE", "STRING", "DATE", "BOOLEAN", "DECIMAL(4, 1)")
_CELLS = ("0", "1", "1", "2", "7", "-3", "1.5", "x", "", " 1", "true", "2020-01-01", "nul", '"', '"1',
          '1"', '"1,2"', "'", "#1", "\\", "1e1", "99999999999")  # fmt: skip
_VALUES = ("0", "1", "1", "2", "7", "1.5", '"x"', '"1"', "null", "true", "[1]", '{"p": 1}', "tru",
           "01", "NaN", "'1'", '"', "1 2", "", '"2020-01-01"', "{", "]")  # fmt: skip
_OPTIONS = {
    "mode": ("PERMISSIVE", "DROPMALFORMED", "DROPMALFORMED", "FAILFAST", "dropMalformed"),
    "multiLine": ("true", "false"),
    "ignoreLeadingWhiteSpace": ("true", "false"),
    "encoding": ("UTF-8", "ISO-8859-1"),
}
_CSV_OPTIONS = _OPTIONS | {
    "header": ("true", "false"),
    "enforceSchema": ("true", "false"),
    "comment": ("#",),
    "nullValue": ("x", "1"),
    "escape": ("\\", '"'),
    "quote": ("'", ""),
    "columnPruning": ("true", "false"),
    "maxColumns": ("4",),
    "unescapedQuoteHandling": ("STOP_AT_CLOSING_QUOTE", "BACK_TO_DELIMITER", "SKIP_VALUE"),
}
_JSON_OPTIONS = _OPTIONS | {
    "allowSingleQuotes": ("false",),
    "allowNumericLeadingZeros": ("true",),
    "allowBackslashEscapingAnyCharacter": ("true",),
    "allowUnquotedFieldNames": ("true",),
    "primitivesAsString": ("true",),
}
_XML_OPTIONS = {"mode": _OPTIONS["mode"], "ignoreSurroundingSpaces": ("true", "false")}
_SETTINGS = {
    "spark.sql.csv.parser.columnPruning.enabled": ("true", "false"),
    "spark.sql.csv.filterPushdown.enabled": ("true", "false"),
    "spark.sql.json.filterPushdown.enabled": ("true", "false"),
    "spark.sql.json.enablePartialResults": ("true", "false"),
    "spark.sql.files.ignoreMissingFiles": ("true",),
    "spark.sql.sources.useV1SourceList": ("",),
    "spark.sql.columnNameOfCorruptRecord": ("c",),
    "spark.sql.caseSensitive": ("true",),
}
_CONDITIONS = ("k = 1", "k > 0", "a IS NULL", "a IS NOT NULL", "b <> '7'", "k = 1 AND a < 5",
               "c IS NULL OR k = 7", "k IN (1, 2)", "coalesce(a, b) IS NULL")  # fmt: skip

_JOINED = "malformed m JOIN groups d ON m.k = d.k"


def pair(rng: Random) -> Pair:
    """Two queries of one view that ask for other columns, or filter by others."""
    setup = _setup(rng)
    if rng.random() < 0.3:
        return Pair(_query(rng), _query(rng), setup=setup)
    # All columns of some rows are these rows, of which the second one has others, or fewer columns.
    table, where = rng.choice(["malformed m", _JOINED]), _where(rng)
    first = Node(f"spark.sql({f'SELECT * FROM {table}{where}'!r})")
    return Pair(first, _narrower(rng, table, where, list(_COLUMNS)), setup=setup)


def family(rng: Random) -> Family:
    """Many queries of one view."""
    setup = _setup(rng)
    return Family.of_plans((_query(rng) for _ in range(2 * SIZE)), setup=setup)


def _setup(rng: Random) -> str:
    """Statements that write files, some of them with something wrong, and name views over them."""
    kind, content, known = rng.choice(
        [*[("csv", _csv, _CSV_OPTIONS)] * 3, *[("json", _json, _JSON_OPTIONS)] * 3,
         ("xml", _xml, _XML_OPTIONS)]
    )  # fmt: skip
    lines = [f"parquet('d', {[{'k': each % 3, 'g': each % 2} for each in range(4)]})"]
    if rng.random() < 0.3:
        settings = rng.sample(sorted(_SETTINGS), rng.choice([1, 1, 2]))
        lines += [f"setting({key!r}, {rng.choice(_SETTINGS[key])!r})" for key in settings]
    options = {key: rng.choice(known[key]) for key in rng.sample(sorted(known), min(2, len(known)))}
    if rng.random() < 0.4:
        options["mode"] = "DROPMALFORMED"
    if rng.random() < 0.25:
        kind, options = _damaged(rng, lines, kind, options, content)
    else:
        lines += [f"text('f/part-{each}.txt', {content(rng)!r})" for each in range(2)]
    if kind == "xml":
        options |= {"rowTag": "r"}
    schema = "k INT, " + ", ".join(f"{name} {rng.choice(_TYPES)}" for name in _COLUMNS[1:])
    if kind == "parquet":
        schema = "k BIGINT, a BIGINT, b BIGINT, c STRING"
    elif rng.random() < 0.2:
        schema = schema.rpartition("c ")[0] + "c STRING"
        options |= {"columnNameOfCorruptRecord": "c"}
    calls = "".join(f".option({key!r}, {value!r})" for key, value in sorted(options.items()))
    read = f"spark.read{calls}.schema({schema!r}).format({kind!r}).load(home + '/f')"
    lines += [f"{read}.createOrReplaceTempView('malformed')",
              "spark.read.parquet(home + '/d').createOrReplaceTempView('groups')"]  # fmt: skip
    return "\n".join(lines)


def _damaged(
    rng: Random,
    lines: list[str],
    kind: str,
    options: dict[str, str],
    content: Callable[[Random], str],
) -> tuple[str, dict[str, str]]:
    """Files that can't be read to their ends, which readers are to ignore."""
    if rng.random() < 0.5:
        lines.append("setting('spark.sql.files.ignoreCorruptFiles', 'true')")
    else:
        options = {**options, "ignoreCorruptFiles": "true"}
    lines += ["import gzip, pathlib", f"text('f/part-0.txt', {content(rng)!r})"]
    if rng.random() < 0.3:
        text = content(rng) * 9
        cut = rng.randrange(4, 40)
        lines.append(f"text('f/part-1.txt.gz', gzip.compress({text!r}.encode())[:-{cut}])")
        return kind, options
    rows = [{"k": each % 3, "a": each, "b": each, "c": str(each)} for each in range(5)]
    lines += ["remove('f')", f"parquet('f/part-0.parquet', {rows})",
              f"file = pathlib.Path(parquet('f/part-1.parquet', {rows}))",
              "raw = bytearray(file.read_bytes())",
              f"at = {rng.randrange(4, 500)}", "raw[at:at + 8] = b'~~~~~~~~'",
              "file.write_bytes(raw)"]  # fmt: skip
    return "parquet", {key: value for key, value in options.items() if key.startswith("ignoreC")}


def _csv(rng: Random) -> str:
    lines = []
    for _ in range(rng.randrange(1, 7)):
        cells = [rng.choice(_CELLS if rng.random() < 0.4 else "0127") for _ in _COLUMNS]
        lines.append(
            ",".join(cells[: rng.choice([2, 3, 4, 4, 4, 4])] + ["9"] * (rng.random() < 0.1))
        )
    return "\n".join(lines) + "\n"


def _json(rng: Random) -> str:
    lines = []
    for _ in range(rng.randrange(1, 7)):
        names = rng.sample(_COLUMNS, rng.randrange(1, 5)) + ["k"] * (rng.random() < 0.2)
        values = [rng.choice(_VALUES if rng.random() < 0.3 else "0127") for _ in names]
        fields = ", ".join(f'"{name}": {value}' for name, value in zip(names, values, strict=True))
        lines.append(f"{{{fields}" + rng.choice(["}", "}", "}", "}", ""]))
    return "\n".join(lines) + "\n"


def _xml(rng: Random) -> str:
    rows = []
    for _ in range(rng.randrange(1, 7)):
        names = rng.sample(_COLUMNS, rng.randrange(1, 5)) + ["k"] * (rng.random() < 0.2)
        values = [rng.choice(("1", "x", "", "<q>", "1", "2")) for _ in names]
        fields = (f"<{name}>{value}</{name}>" for name, value in zip(names, values, strict=True))
        rows.append(f"<r>{''.join(fields)}</r>")
    return f"<all>{''.join(rows)}</all>"


def _query(rng: Random) -> Node:
    """A query in which no other one stands: of that a cached one has its own rows."""
    table = rng.choice(["malformed m"] * 5 + [_JOINED] * 2 + ["groups d"])
    return _narrower(rng, table, _where(rng), rng.sample(_COLUMNS, rng.randrange(1, 5)))


def _where(rng: Random) -> str:
    where = f" WHERE {rng.choice(_CONDITIONS)}" if rng.random() < 0.4 else ""
    return "".join(f"m.{word}" if word in _COLUMNS else word for word in _words(where))


def _narrower(rng: Random, table: str, where: str, columns: list[str]) -> Node:
    """A query for some of the columns of a table, or for what can be computed of them."""
    if table == "groups d":
        condition = where.replace(" WHERE ", " AND ")
        text = f"SELECT d.g FROM groups d LEFT ANTI JOIN malformed m ON m.k = d.k{condition}"
        return Node(f"spark.sql({text!r})")
    named = ", ".join(f"m.{each}" for each in rng.sample(columns, rng.randint(1, len(columns))))
    some = f"m.{rng.choice(columns)}"
    measures = rng.choice(
        ["count(*) AS n", f"count(*) AS n, max({some}) AS x", f"min({some}) AS x, max({some}) AS y"]
    )
    text = rng.choice(
        [
            f"SELECT {named} FROM {table}{where}",
            f"SELECT {named} FROM {table}{where}",
            f"SELECT {measures} FROM {table}{where}",
            f"SELECT DISTINCT {named} FROM {table}{where}",
            f"SELECT {named}, count(*) AS n FROM {table}{where} GROUP BY {named}",
        ]
    )
    if table == _JOINED and rng.random() < 0.5:
        text = f"SELECT d.g, {measures} FROM {table}{where} GROUP BY d.g"
    return Node(f"spark.sql({text!r})")


def _words(text: str) -> list[str]:
    """A text in pieces, each either a word or what is between two."""
    pieces, is_word = [""], False
    for letter in text:
        if letter.isalnum() != is_word:
            pieces.append("")
            is_word = not is_word
        pieces[-1] += letter
    return pieces
