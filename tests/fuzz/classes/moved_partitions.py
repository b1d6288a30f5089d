"""Partitions of a catalog's table that get other values, or other directories."""

from __future__ import annotations

from random import Random

from tests.fuzz.family import SIZE, Family
from tests.fuzz.node import Node
from tests.fuzz.pair import Pair

_DIRECTORIES = ("x", "y", "z")
# Three that partitions have, and as many that they only pass through.
_VALUES = {
    "INT": ("1", "2", "3", "7", "8", "9"),
    "STRING": ("'1'", "'01'", "'a,b'", "'7'", "'8'", "'9'"),
    "DATE": tuple(f"DATE'2020-01-0{day}'" for day in (1, 2, 3, 7, 8, 9)),
    "DOUBLE": ("1.0D", "2.5D", "-0.5D", "7.0D", "8.0D", "9.0D"),
}
_READS = (
    "SELECT p, count(*) AS n, max(id) AS m FROM moved WHERE p IS NOT NULL GROUP BY p",
    "SELECT id, count(*) AS n, min(p) AS p FROM moved WHERE p > {value} OR p = {value} GROUP BY id",
    "SELECT p, sum(id) AS s FROM moved WHERE p = {value} GROUP BY p",
    "SELECT p, count(*) AS n FROM moved GROUP BY p",
    "SELECT DISTINCT p FROM moved WHERE p <> {value}",
    "SELECT a.p, b.p AS q, count(*) AS n FROM moved AS a JOIN moved AS b ON a.id = b.id"
    " WHERE a.p = {value} AND b.p IS NOT NULL GROUP BY a.p, b.p",
    "SELECT id, p, row_number() OVER (PARTITION BY id ORDER BY p) AS r FROM moved WHERE p <> {value}",
    "SELECT k2, max(p) AS p FROM other JOIN moved ON k2 = id WHERE p IS NOT NULL GROUP BY k2",
)
# What is there becomes what should be, by one of the ways that Spark has.
_MOVES = """
def created(how):
    spark.sql('DROP TABLE IF EXISTS moved')
    spark.sql(f"CREATE TABLE moved (id BIGINT, p {kind}) USING {reader} PARTITIONED BY (p)"
              f" LOCATION '{home}/table'")
    for value, name in how.items():
        added(value, name)

def added(value, name):
    spark.sql(f"ALTER TABLE moved ADD PARTITION (p={value}) LOCATION '{home}/{name}'")

def renamed(value, other):
    spark.sql(f"ALTER TABLE moved PARTITION (p={value}) RENAME TO PARTITION (p={other})")

def moved(way, how):
    there = dict(now)
    if way == 'created':
        created(how)
    elif way == 'renamed' and sorted(there.values()) == sorted(how.values()):
        left = dict(how)
        targets = {}
        for value, name in there.items():
            targets[value] = next(each for each in left if left[each] == name)
            del left[targets[value]]
        # Each is out of the others' way first.
        for place, value in enumerate(targets):
            renamed(value, aside[place])
        for place, value in enumerate(targets.values()):
            renamed(aside[place], value)
    else:
        for value in there.keys() - how.keys():
            spark.sql(f"ALTER TABLE moved DROP PARTITION (p={value})")
        for value, name in how.items():
            if value not in there:
                added(value, name)
            elif there[value] != name and way == 'set':
                spark.sql(f"ALTER TABLE moved PARTITION (p={value}) SET LOCATION '{home}/{name}'")
            elif there[value] != name:
                spark.sql(f"ALTER TABLE moved DROP PARTITION (p={value})")
                added(value, name)
    now.clear()
    now.update(how)
"""


def pair(rng: Random) -> Pair:
    """A query, and the same once partitions are elsewhere."""
    setup, values = _setup(rng)
    read, states = _read(rng, values), [_state(rng, values) for _ in range(2)]
    return Pair(read, read, setup=setup, first_state=states[0], second_state=states[1])


def family(rng: Random) -> Family:
    """A query while partitions move."""
    setup, values = _setup(rng)
    states = [_state(rng, values) for _ in range(SIZE // 2)]
    return Family.of_states(_read(rng, values), states, setup=setup)


def _setup(rng: Random) -> tuple[str, tuple[str, ...]]:
    kind, reader = rng.choice(list(_VALUES)), rng.choice(["parquet", "parquet", "csv", "json"])
    values, aside = _VALUES[kind][:3], _VALUES[kind][3:]
    lines = [f"kind, reader, now, aside = {kind!r}, {reader!r}, {{}}, {aside!r}"]
    for place, name in enumerate(_DIRECTORIES):
        # Of one directory as many rows as of another: nothing but their values differs then.
        ids = [place * 10 + each for each in range(rng.choice([3, 3, 5]))]
        if reader == "parquet":
            lines.append(f"parquet({name!r}, [{{'id': i}} for i in {ids}])")
        else:
            content = "".join(f"{i}\n" if reader == "csv" else f'{{"id": {i}}}\n' for i in ids)
            lines.append(f"text({name!r}, {content!r})")
    return "\n".join([*lines, _MOVES, "created({})"]), values


def _state(rng: Random, values: tuple[str, ...]) -> str:
    named = rng.sample(values, rng.choice([1, 2, 2, 3]))
    how = {value: rng.choice(_DIRECTORIES) for value in named}
    if rng.random() < 0.5:
        # No two in one directory.
        how = dict(zip(named, rng.sample(_DIRECTORIES, len(named)), strict=True))
    way = rng.choice(["set", "set", "dropped", "created", "renamed"])
    return f"moved({way!r}, {how!r})"


def _read(rng: Random, values: tuple[str, ...]) -> Node:
    sql = rng.choice(_READS).replace("{value}", rng.choice(values))
    return Node(f'spark.sql(r"""{sql}""")')
