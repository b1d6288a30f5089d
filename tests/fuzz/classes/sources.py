"""Files that change, and readers that read them in another way."""

from __future__ import annotations

from random import Random

from tests.fuzz.family import Family
from tests.fuzz.node import Node
from tests.fuzz.pair import Pair

_CSV = 'a,b\n1,x\n2, y\n3,\n"4","q,r"\n,NULL\n#5,z\n6;7,1e3\n'
_JSON = (
    '{"a": 1, "b": "x"}\n{"a": "2", "b": 3.50}\n{"A": 4, "b": null}\n'
    '{\'a\': 5}\n{"a": 01}\nbroken\n{"a": NaN, "b": "2020-01-01"}\n'
)
_CSV_OPTIONS = {
    "header": ("true", "false"),
    "sep": (",", ";"),
    "quote": ('"', "'"),
    "nullValue": ("", "NULL", "x"),
    "ignoreLeadingWhiteSpace": ("true", "false"),
    "mode": ("PERMISSIVE", "DROPMALFORMED"),
    "comment": ("#",),
    "inferSchema": ("true", "false"),
    "multiLine": ("true", "false"),
    "encoding": ("UTF-8", "ISO-8859-1", "UTF-16"),
    "emptyValue": ("", "e"),
    "lineSep": ("\n", ";"),
    "pathGlobFilter": ("*.txt", "*0.txt"),
    "modifiedBefore": ("2030-01-01T00:00:00", "2020-01-01T00:00:00"),
}
_JSON_OPTIONS = {
    "primitivesAsString": ("true", "false"),
    "prefersDecimal": ("true", "false"),
    "allowSingleQuotes": ("true", "false"),
    "allowNumericLeadingZeros": ("true", "false"),
    "allowNonNumericNumbers": ("true", "false"),
    "mode": ("PERMISSIVE", "DROPMALFORMED"),
    "multiLine": ("true", "false"),
    "columnNameOfCorruptRecord": ("bad", "_corrupt_record"),
    "dropFieldIfAllNull": ("true", "false"),
    "inferTimestamp": ("true", "false"),
}
_SCHEMAS = ("a STRING, b STRING", "a BIGINT, b STRING", "a DOUBLE", "b STRING", "a INT, b STRING",
            "a STRING, b STRING COLLATE UTF8_LCASE", "b STRING, a STRING")  # fmt: skip


def pair(rng: Random) -> Pair:
    """A read of files, and a read of others or in another way."""
    return rng.choice([_options, _options, _contents, _contents, _schemas, _partitions, _tables])(
        rng
    )


def _options(rng: Random) -> Pair:
    kind, content, known = rng.choice([("csv", _CSV, _CSV_OPTIONS), ("json", _JSON, _JSON_OPTIONS)])
    common = _chosen(rng, known, rng.choice([0, 1, 1]))
    setup = f"text('f/part-0.txt', {content!r})\ntext('f/part-1.txt', {content!r})"
    first = _read(kind, common)
    second = _read(kind, {**common, **_chosen(rng, known, 1)})
    return Pair(first, second, setup=setup)


def family(rng: Random) -> Family:
    """Reads of the same files with other options, and with other schemas."""
    kind, content, known = rng.choice([("csv", _CSV, _CSV_OPTIONS), ("json", _JSON, _JSON_OPTIONS)])
    common = _chosen(rng, known, rng.choice([0, 1, 1]))
    options = [{key: value} for key, values in known.items() for value in values]
    reads = [_read(kind, {**common, **each}) for each in options]
    reads += [_read(kind, common, schema) for schema in _SCHEMAS]
    setup = f"text('f/part-0.txt', {content!r})\ntext('f/part-1.txt', {content!r})"
    return Family.of_plans([_read(kind, common), *rng.sample(reads, len(reads))], setup=setup)


def _chosen(rng: Random, known: dict[str, tuple[str, ...]], count: int) -> dict[str, str]:
    return {key: rng.choice(known[key]) for key in rng.sample(sorted(known), count)}


def _read(kind: str, options: dict[str, str], schema: str = "") -> Node:
    calls = "".join(f".option({key!r}, {value!r})" for key, value in sorted(options.items()))
    if schema:
        calls += f".schema({schema!r})"
    return Node(f"spark.read{calls}.format({kind!r}).load(home + '/f')")


def _schemas(rng: Random) -> Pair:
    kind, content = rng.choice([("csv", _CSV), ("json", _JSON)])
    one, other = rng.sample(_SCHEMAS, 2)
    setup = f"text('f/part-0.txt', {content!r})"
    return Pair(_read(kind, {}, one), _read(kind, {}, other), setup=setup)


def _contents(rng: Random) -> Pair:
    """A file is replaced, or one comes or goes; the time of a file is in whole seconds here."""
    first, second = (
        f"parquet('f', [{{'a': i, 'b': {text!r}}} for i in range({count})], stamp={stamp})"
        for text, count, stamp in [
            (rng.choice("xy"), rng.choice([3, 5]), 1),
            (rng.choice("xy"), rng.choice([3, 5]), 2),
        ]
    )
    if rng.random() < 0.3:
        second = "parquet('f/part-9.parquet', [{'a': 9, 'b': 'z'}], stamp=2)"
        first = "import os\nif os.path.exists(home + '/f/part-9.parquet'):\n    remove('f/part-9.parquet')"
        setup = "parquet('f', [{'a': i, 'b': 'x'} for i in range(3)])"
    else:
        setup = ""
    read = rng.choice(
        ["spark.read.parquet(home + '/f')", "spark.sql('SELECT b, a FROM parquet.`' + home + '/f`')",
         "spark.read.parquet(home + '/f').where('a > 1')",
         "spark.read.parquet(home + '/f').groupBy('b').count()",
         "spark.read.format('binaryFile').load(home + '/f').selectExpr('content')"]
    )  # fmt: skip
    return Pair(Node(read), Node(read), setup=setup, first_state=first, second_state=second)


def _partitions(rng: Random) -> Pair:
    """Directories whose names are values, read by other rules."""
    values = rng.sample(
        ["1", "01", "1.0", "x", "2020-01-01", "__HIVE_DEFAULT_PARTITION__", "1e1"], 2
    )
    setup = "\n".join(
        f"parquet('f/p={value}/part-0.parquet', [{{'a': {place}}}])"
        for place, value in enumerate(values)
    )
    key = rng.choice(
        ["spark.sql.sources.partitionColumnTypeInference.enabled", "spark.sql.session.timeZone",
         "spark.sql.caseSensitive"]
    )  # fmt: skip
    one, other = ("UTC", "Asia/Tokyo") if "Zone" in key else ("true", "false")
    if rng.random() < 0.4:
        first = _read("parquet", {})
        second = _read(
            "parquet", {}, rng.choice(["a BIGINT, p STRING", "a BIGINT, p DOUBLE", "a INT"])
        )
        if rng.random() < 0.5:
            second = Node("spark.read.option('basePath', home + '/f').parquet(home + '/f/p=*')")
        return Pair(first, second, setup=setup)
    return Pair(
        _read("parquet", {}),
        _read("parquet", {}),
        setup=setup,
        first_state=f"setting({key!r}, {one!r})",
        second_state=f"setting({key!r}, {other!r})",
    )


def _tables(rng: Random) -> Pair:
    """A table of the catalog, or a view, that is changed by what Spark gives for that."""
    kind = rng.choice(["parquet", "json", "orc"])
    drop = "spark.sql('DROP TABLE IF EXISTS fuzz_table')\n"
    first = (
        f"{drop}spark.sql('CREATE TABLE fuzz_table USING {kind} AS SELECT id AS a FROM range(3)')"
    )
    second = rng.choice(
        [
            "spark.sql('INSERT INTO fuzz_table VALUES (9)')",
            "spark.sql('INSERT OVERWRITE fuzz_table SELECT id + 1 FROM range(3)')",
            "spark.sql('TRUNCATE TABLE fuzz_table')",
            "spark.sql('ALTER TABLE fuzz_table ADD COLUMNS (b INT)')",
            f"{drop}spark.sql('CREATE TABLE fuzz_table USING {kind} AS SELECT id + 1 AS a FROM range(3)')",
            f"{drop}spark.sql('CREATE TEMP VIEW fuzz_table AS SELECT id + 2 AS a FROM range(3)')",
        ]
    )
    if "TEMP VIEW" in second:
        second = second.replace("DROP TABLE IF EXISTS fuzz_table", "SELECT 1")
        first = "spark.catalog.dropTempView('fuzz_table')\n" + first
    read = rng.choice(
        ["spark.table('fuzz_table')", "spark.sql('SELECT count(*), max(a) FROM fuzz_table')"]
    )
    return Pair(Node(read), Node(read), first_state=first, second_state=second)
