"""Programs one after another, which share what they keep of a catalog's tables, while these move."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.fuzz.node import Node
from tests.fuzz.pair import start
from tests.fuzz.script import Build, Enter, Next, Run, Script, Step

PROGRAMS = 5
"""How many programs a case has."""

_QUERIES = 8
_VALUES = {
    "INT": ("1", "2", "3", "10"),
    "STRING": ("'1'", "'01'", "'b'", "'c'"),
    "DATE": tuple(f"DATE'2020-01-0{day}'" for day in (1, 2, 3, 4)),
}
_DIRECTORIES = ("x", "y", "z")
_IDS = ([1, 2, 3], [4, 5, 6], [1, 5, 9], [7, 8], [2, 3, 4, 6])


@dataclass(frozen=True)
class _Kind:
    """A kind of table: what creates it, and formats of the files of its partitions."""

    name: str
    made: str
    files: str
    others: tuple[str, ...] = ()


_OF_SPARK = tuple(_Kind(each, f"USING {each}", each) for each in ("parquet", "orc", "csv", "json"))
_OF_HIVE = (
    _Kind("Hive's parquet", "STORED AS PARQUET", "parquet"),
    _Kind("Hive's orc", "STORED AS ORC", "orc"),
    _Kind("Hive's text", "STORED AS TEXTFILE", "text"),
    _Kind("Hive's, of several formats", "STORED AS TEXTFILE", "text", ("orc", "parquet")),
)
_SCHEMES = ("x * 2", "x * 3", "x + 1")
_SMALL = (
    [(1, "a"), (2, "b")],
    [(1, "a"), (2, "c")],
    [(2, "b"), (1, "a")],
    [(1, "a"), (2, "b"), (2, "b")],
)
_MADE = (
    "spark.createDataFrame({rows}, 'id BIGINT, t STRING')",
    "spark.createDataFrame([dict(zip(('id', 't'), each)) for each in {rows}])",
    "spark.createDataFrame([Row(id=i, t=t) for i, t in {rows}])",
    "spark.createDataFrame(pd.DataFrame({rows}, columns=['id', 't']))",
    'spark.sql("SELECT * FROM VALUES {values} AS s(id, t)")',
)


@dataclass(frozen=True)
class _Query:
    """A query, and what its rows follow from."""

    text: str
    reaches: Callable[[int], bool] = lambda place: True
    """Whether it reads a partition's rows, by the place of the value."""
    uses: tuple[str, ...] = ()
    """What else it uses, by names of `_Moving.others`."""


@dataclass
class _Moving:
    """What there is at a moment: what has not changed since is to be found."""

    rng: Random
    kind: _Kind
    values: tuple[str, ...]
    is_managed: bool
    partitions: dict[str, str] = field(default_factory=dict)
    formats: dict[str, str] = field(default_factory=dict)
    delimiters: dict[str, int] = field(default_factory=dict)
    files: dict[str, int] = field(default_factory=dict)
    others: dict[str, int] = field(default_factory=dict)
    numbers: itertools.count[int] = field(default_factory=itertools.count)

    def seen(self, query: _Query) -> object:
        """What a query sees; in two moments the same where it has the same rows."""
        reached = [
            (value, name, self.files[name], self.formats.get(value), self.delimiters.get(value))
            for value, name in sorted(self.partitions.items())
            if query.reaches(self.values.index(value))
        ]
        return repr((reached, [self.others[each] for each in query.uses]))

    def own(self, value: str) -> str:
        """The directory of a partition that has been given none."""
        return f"{'database/' if self.is_managed else ''}t/p={_raw(value)}"

    def written(self, name: str, kind: str | None = None) -> str:
        """A statement that writes a file, or another one of the same time in its place."""
        self.files[name] = next(self.numbers)
        ids, stamp = self.rng.choice(_IDS), self.rng.choice([0, 0, 0, 1])
        return f"part({name!r}, {kind or self.kind.files!r}, {ids}, {stamp})"

    def created(self) -> str:
        """A statement that makes the table, without partitions."""
        kind = next(name for name, values in _VALUES.items() if values == self.values)
        columns = "id BIGINT, v INT"
        column = f"(p {kind})"
        if self.kind.made.startswith("USING"):
            columns, column = f"{columns}, p {kind}", "(p)"
        place = "" if self.is_managed else " LOCATION '{home}/t'"
        partitioned = f"PARTITIONED BY {column}"
        clauses = (
            (self.kind.made, partitioned)
            if "USING" in self.kind.made
            else (partitioned, self.kind.made)
        )
        return _sql(f"CREATE TABLE t ({columns}) {' '.join(clauses)}{place}")

    def added(self, value: str, name: str) -> list[str]:
        """Adds a partition in one of the directories that aren't the table's."""
        self.partitions[value] = name
        made = _sql(f"ALTER TABLE t ADD PARTITION (p={value}) LOCATION '{{home}}/{name}'")
        return [made, *self._formatted(value, name)]

    def _formatted(self, value: str, name: str) -> list[str]:
        if not self.kind.others:
            return []
        kind = _format_of(self.kind, name)
        self.formats[value] = kind
        named = "textfile" if kind == "text" else kind
        return [f"stored_as('t', {_raw(value)!r}, {named!r})"]

    def inserted(self, value: str, *, into: bool = False, dynamically: bool = False) -> list[str]:
        """Writes a partition by Spark."""
        name = self.partitions.setdefault(value, self.own(value))
        self.files[name] = next(self.numbers)
        self.formats.pop(value, None)
        ids = self.rng.choice(_IDS)
        how = "INTO" if into else "OVERWRITE"
        before = [
            "SET spark.sql.sources.partitionOverwriteMode = dynamic",
            "SET hive.exec.dynamic.partition.mode = nonstrict",
        ]
        partition = "(p)" if dynamically else f"(p={value})"
        rows = ", ".join(f"({i}L, {i % 3}{f', {value}' if dynamically else ''})" for i in ids)
        text = f"INSERT {how} t PARTITION {partition} VALUES {rows}"
        return [_sql(*(before if dynamically else []), text)]

    def moved(self) -> list[str]:
        """Statements of a random move."""
        present = sorted(self.partitions)
        absent = [each for each in self.values if each not in present]
        one = self.rng.choice(present or self.values)
        new = self.rng.choice(absent or self.values)
        name = self.rng.choice(_DIRECTORIES)
        ways = [
            "insert", "insert", "append", "dynamic", "replace", "replace", "created", "analyzed", "view", "doubled",
        ]  # fmt: skip
        if absent:
            ways += ["add", "add", "repair", "repair"]
        if present:
            ways += ["locate", "locate"]
        if len(present) > 1:
            ways += ["drop", "swap", "swap"]
        if present and absent:
            ways += ["rename", "rename", "rename"]
        if self.kind.others and present:
            ways += ["format", "delimiter"]
        match self.rng.choice(ways):
            case "insert":
                return self.inserted(self.rng.choice(self.values))
            case "append":
                return self.inserted(self.rng.choice(self.values), into=True)
            case "dynamic":
                return self.inserted(self.rng.choice(self.values), dynamically=True)
            case "replace":
                return [self.written(name, _format_of(self.kind, name))]
            case "add":
                return self.added(new, name)
            case "locate":
                self.partitions[one] = name
                place = f"'{{home}}/{name}'"
                text = f"ALTER TABLE t PARTITION (p={one}) SET LOCATION {place}"
                return [_sql(text), *self._formatted(one, name)]
            case "drop":
                left = self.partitions.pop(one)
                self.formats.pop(one, None)
                self.delimiters.pop(one, None)
                again = [self.written(left, _format_of(self.kind, left))] if self.is_managed else []
                return [_sql(f"ALTER TABLE t DROP PARTITION (p={one})"), *again]
            case "rename":
                text = f"ALTER TABLE t PARTITION (p={one}) RENAME TO PARTITION (p={new})"
                is_there = self.is_managed and self.own(new) in self.files
                before = [f"remove({self.own(new)!r})"] if is_there else []
                return [*before, _sql(text), *self._rename(one, new)]
            case "swap":
                other = self.rng.choice([each for each in present if each != one])
                names = self.partitions[other], self.partitions[one]
                self.partitions[one], self.partitions[other] = names
                texts = [
                    f"ALTER TABLE t PARTITION (p={value}) SET LOCATION '{{home}}/{name}'"
                    for value, name in zip((one, other), names, strict=True)
                ]
                formats = zip((one, other), names, strict=True)
                return [
                    _sql(*texts),
                    *(line for each in formats for line in self._formatted(*each)),
                ]
            case "repair":
                return self._repaired(new)
            case "created":
                return self._created_again()
            case "format":
                kind = self.rng.choice(("text", *self.kind.others))
                self.formats[one] = kind
                named = "textfile" if kind == "text" else kind
                return [f"stored_as('t', {_raw(one)!r}, {named!r})"]
            case "delimiter":
                self.delimiters[one] = next(self.numbers)
                between = self.rng.choice([",", "|", "2"])
                properties = f"SERDEPROPERTIES ('field.delim' = '{between}')"
                return [_sql(f"ALTER TABLE t PARTITION (p={one}) SET {properties}")]
            case "view":
                return [self.viewed()]
            case "doubled":
                return [self.doubled()]
            case _:
                return [_sql("ANALYZE TABLE t COMPUTE STATISTICS")]

    def _rename(self, one: str, new: str) -> list[str]:
        name = left = self.partitions.pop(one)
        for each in (self.formats, self.delimiters):
            if one in each:
                each[new] = each.pop(one)
        if self.is_managed:
            # Its files are moved, too.
            name = self.own(new)
            self.files[name] = next(self.numbers)
        self.partitions[new] = name
        return [self.written(left, _format_of(self.kind, left))] if self.is_managed else []

    def _repaired(self, value: str) -> list[str]:
        statement = self.written(self.own(value))
        for each in self.values:
            if self.own(each) in self.files:
                self.partitions.setdefault(each, self.own(each))
        return [statement, _sql("MSCK REPAIR TABLE t")]

    def _created_again(self) -> list[str]:
        if self.is_managed:
            return []
        self.formats.clear()
        self.delimiters.clear()
        there, self.partitions = self.partitions, {}
        lines = [_sql("DROP TABLE t"), self.created()]
        for value, name in there.items():
            lines += self.added(value, name)
        return lines

    def viewed(self) -> str:
        """Makes the view, or another one of its name."""
        self.others["view"] = least = self.rng.choice([0, 0, 1])
        return _sql(f"CREATE OR REPLACE VIEW w AS SELECT p, v, id FROM t WHERE v >= {least}")

    def doubled(self) -> str:
        """Makes the function of the catalog, or another one of its name."""
        self.others["doubled"] = which = self.rng.randrange(len(_SCHEMES))
        body = f"(x BIGINT) RETURNS BIGINT RETURN {_SCHEMES[which]}"
        return _sql("DROP FUNCTION IF EXISTS doubled", f"CREATE FUNCTION doubled{body}")

    def declared(self) -> list[str]:
        """What each program makes for itself: functions, a variable, a small table."""
        scheme = _SCHEMES[self.others["scheme"]]
        rows = _SMALL[self.others["small"]]
        values = ", ".join(f"({i}L, '{t}')" for i, t in rows)
        made = _MADE[self.others["made"]].replace("{rows}", str(rows)).replace("{values}", values)
        least = self.others["least"]
        return [
            "import pandas as pd",
            "from pyspark.sql import Row, functions as F",
            f"def closing(c):\n    return lambda x: {scheme} + c",
            f"plus = F.udf(closing({least}), 'long')",
            f"program(r\"\"\"CREATE OR REPLACE TEMPORARY FUNCTION twice(x BIGINT) RETURNS BIGINT RETURN {scheme}\"\"\")",
            "program(r\"\"\"CREATE OR REPLACE TEMPORARY FUNCTION below(n INT) RETURNS TABLE (id BIGINT, v INT)"
            f" RETURN SELECT id, v FROM t WHERE v < n + {least}\"\"\")",
            "program('DECLARE OR REPLACE VARIABLE least INT DEFAULT 0')",
            f"program('SET VAR least = {least}')",
            f"small = {made}",
        ]  # fmt: skip

    def turned(self, chance: float) -> None:
        """Other functions, another value of the variable, other rows of the small table, perhaps."""
        for name, most in (("scheme", len(_SCHEMES)), ("least", 3), ("small", len(_SMALL))):
            if self.rng.random() < chance:
                self.others[name] = self.rng.randrange(most)


def of_spark(rng: Random, label: str) -> Script:
    """Programs over tables of Spark's readers."""
    return _script(rng, label, rng.choice(_OF_SPARK[:2] * 2 + _OF_SPARK))


def of_hive(rng: Random, label: str) -> Script:
    """Programs over tables of Hive's formats."""
    return _script(rng, label, rng.choice(_OF_HIVE))


def _script(rng: Random, label: str, kind: _Kind) -> Script:
    values = rng.choice(list(_VALUES.values()))
    moving = _Moving(rng, kind, values, is_managed=not kind.others and rng.random() < 0.3)
    moving.others["made"] = rng.randrange(len(_MADE))
    moving.turned(1)
    setup = [moving.written(name, _format_of(kind, name)) for name in _DIRECTORIES]
    setup.append(moving.created())
    for value in rng.sample(values, 3):
        setup += moving.inserted(value) if rng.random() < 0.3 else moving.added(value, rng.choice(_DIRECTORIES))  # fmt: skip
    setup += [moving.viewed(), moving.doubled()]
    queries = _queries(rng, values)
    kept: set[tuple[int, object, str]] = set()
    steps: list[Step] = []
    for number in range(PROGRAMS):
        if number:
            setup = [line for _ in range(rng.choice([0, 1, 1, 2])) for line in moving.moved()]
            moving.turned(0.2)
        settings = _settings(rng)
        steps += [
            Next(),
            Enter(f"settings {number}", settings),
            Enter(f"moved {number}", "\n".join(setup)),
            Enter(f"declared {number}", "\n".join(moving.declared())),
        ]
        for place, query in enumerate(queries):
            # Where rows tie, settings that distribute rows count.
            seen = (place, moving.seen(query), settings if "row_number" in query.text else "")
            steps += [
                Build(f"q{place}", Node(query.text), cached=True),
                Run(f"q{place}", due=kind.name if seen in kept else ""),
            ]
            kept.add(seen)
    return Script(label, tuple(steps), pairs=PROGRAMS * (PROGRAMS - 1) // 2 * len(queries))


def _queries(rng: Random, values: tuple[str, ...]) -> list[_Query]:
    one, other = (values.index(each) for each in rng.sample(values, 2))
    v, w = values[one], values[other]
    is_one = one.__eq__
    is_either = {one, other}.__contains__
    # In the order of values.
    is_above = {p for p in range(len(values)) if _key(values[p]) > _key(v)}.__contains__
    either = rng.choice([f"p IN ({v}, {w})", f"(p = {v} OR p = {w})"])
    made = [
        _Query(_asked("SELECT * FROM t")),
        _Query(_asked(f"SELECT id, v FROM t WHERE p = {v}"), is_one),
        _Query(_asked(f"SELECT id, p FROM t WHERE {either} AND v < 2"), is_either),
        _Query(_asked(f"SELECT p, sum(id) AS s FROM t WHERE p > {v} GROUP BY p"), is_above),
        _Query(_asked("SELECT p, count(*) AS n, max(v) AS m FROM t GROUP BY p")),
        _Query(_asked("SELECT p, count(*) AS n FROM t GROUP BY p")),
        _Query(_asked(f"SELECT DISTINCT p FROM t WHERE p <> {v}"), lambda place: place != one),
        _Query(_asked(f"SELECT a.id, b.v FROM t AS a JOIN t AS b ON a.id = b.id WHERE a.p = {v} AND b.p = {w}"), is_either),
        # Spark's filters of ORC files fail where one compares with a subquery that gives NULL.
        _Query(_asked(f"SELECT id FROM t WHERE v = (SELECT coalesce(max(v), 0) FROM t WHERE p = {v})")),
        _Query(_asked(f"SELECT id FROM t WHERE p = {w} AND id IN (SELECT id + 1 FROM t WHERE p = {v})"), is_either),
        _Query(_asked("SELECT p, id, row_number() OVER (PARTITION BY p ORDER BY id, v) AS r FROM t")),
        _Query(_asked(f"SELECT id FROM t WHERE p = {v} UNION ALL SELECT id FROM t WHERE p = {w}"), is_either),
        _Query(_asked(f"SELECT id, v FROM w WHERE p = {v}"), is_one, ("view",)),
        _Query(_asked(f"SELECT doubled(id) AS d FROM t WHERE p = {v}"), is_one, ("doubled",)),
        _Query(_asked(f"SELECT twice(id) AS d FROM t WHERE p = {v}"), is_one, ("scheme",)),
        _Query(_asked("SELECT * FROM below(2)"), uses=("least",)),
        _Query(_asked(f"SELECT id FROM t WHERE p = {v} AND v >= least"), is_one, ("least",)),
        _Query(_asked("SELECT least + v AS l FROM t"), uses=("least",)),
        _Query("small.join(spark.table('t'), 'id')", uses=("small",)),
        _Query("small.groupBy('t').count()", lambda place: False, ("small",)),
        _Query(f"spark.table('t').where(\"p = {v}\").select(plus('id').alias('c'))", is_one, ("scheme", "least")),
        _Query("spark.table('t').repartition(3, 'v').groupBy('v').agg(F.sum('id').alias('s'))"),
        _Query(f"spark.table('t').where(F.col('p').isin('{_raw(v)}', '{_raw(w)}')).select('id')", is_either),
    ]  # fmt: skip
    return rng.sample(made, _QUERIES)


def _format_of(kind: _Kind, name: str) -> str:
    """How the files of a directory are written."""
    if not kind.others or name not in _DIRECTORIES:
        return kind.files
    return (kind.files, *kind.others)[_DIRECTORIES.index(name)]


def _raw(value: str) -> str:
    return value.removeprefix("DATE").strip("'")


def _key(value: str) -> tuple[int, str]:
    return (int(value), "") if value.isdigit() else (0, _raw(value))


def _asked(sql: str) -> str:
    return f'spark.sql(r"""{sql}""")'


def _sql(*texts: str) -> str:
    return f"elsewhere({', '.join(f'f{each!r}' for each in texts)})"


def _settings(rng: Random) -> str:
    """What changes no rows, so that programs may differ in it."""
    others = {
        "spark.sql.shuffle.partitions": ["2", "3"],
        "spark.sql.autoBroadcastJoinThreshold": ["-1", "10485760"],
        "spark.sql.files.maxPartitionBytes": ["134217728", "1000000"],
    }
    lines = [f"setting({key!r}, {rng.choice(values)!r})" for key, values in others.items()]
    return "\n".join([start(rng).text, *lines, "program = spark.sql"])
