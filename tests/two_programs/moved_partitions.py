"""What programs ask of a catalog's table `t`, of partitions 1 to 3, while it is moved."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from pyspark.sql import SparkSession

from holdfast import Environment, VertexOutcome
from holdfast.testing import outcomes

QUERIES = {
    "all": "SELECT * FROM t",
    "one": "SELECT k FROM t WHERE p = 1",
    "grouped": "SELECT p, count(*) AS n, max(k) AS k FROM t GROUP BY p",
    "above": "SELECT * FROM (SELECT p, max(k) AS k FROM t GROUP BY p) WHERE p = 1",
    "defined": "WITH c AS (SELECT * FROM t) SELECT k + 1 AS k FROM c WHERE p = 1",
    "viewed": "SELECT k FROM v WHERE p = 1",
    "joined": "SELECT a.k, b.k AS l FROM t a JOIN t b USING (p) WHERE a.p = 1",
    "both": "SELECT k FROM t WHERE p = 1 UNION ALL SELECT k FROM t WHERE p = 2",
    "inside": "SELECT k FROM t WHERE k = (SELECT max(k) FROM t WHERE p = 1)",
    "other": "SELECT k FROM t WHERE p IN (2, 3)",
}
EVERY = {1, 2, 3}


def alter(*texts: str) -> list[str]:
    return [f"ALTER TABLE t {each}" for each in texts]


_MOVED = "PARTITION (p = {}) RENAME TO PARTITION (p = {})"
_LOCATED = "PARTITION (p = {}) SET LOCATION '{{path}}/new'"
# Of each, the partitions whose rows it changes; the rest has the same rows in the same files.
CHANGES: dict[str, tuple[set[int], list[str]]] = {
    "added": (set(), alter("ADD PARTITION (p = 9) LOCATION '{path}/new'")),
    "dropped": ({1}, alter("DROP PARTITION (p = 1)")),
    "renamed": ({1}, alter(_MOVED.format(1, 8))),
    "located": ({1}, alter(_LOCATED.format(1))),
    "overwritten by the same": ({1}, ["INSERT OVERWRITE t PARTITION (p = 1) VALUES (10)"]),
    "appended": ({1}, ["INSERT INTO t VALUES (11, 1)"]),
    "in one directory": ({1, 2}, alter(*map(_LOCATED.format, (1, 2)))),
    "swapped": ({1, 2}, alter(*map(_MOVED.format, (1, 2, 8), (8, 1, 2)))),
}


class Programs:
    """Programs that share results, each with another session on one catalog.

    Args:
        spark: whose catalog it is.
        home: a directory that is written.
    """

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self._spark = spark
        self.home = home
        self.outcomes: list[VertexOutcome] = []
        self.why: list[str] = []

    def session(self) -> SparkSession:
        session = self._spark.newSession()
        session.sql("USE between_programs")
        return session

    def sql(self, *texts: str) -> None:
        session = self.session()
        for text in texts:
            session.sql(text.replace("{path}", str(self.home)))

    def elsewhere(self, name: str, key: int) -> None:
        """A directory that no table has, with one row."""
        self.sql(f"INSERT OVERWRITE DIRECTORY '{{path}}/{name}' USING parquet SELECT {key} AS k")

    def program(self) -> Environment:
        return Environment(self.session(), config=self.config)

    @property
    def config(self) -> dict[str, str]:
        keys = {"directory": str(self.home / "kept"), "lifetime": "1 h"}
        return {f"intermediate-result-storage.{key}": value for key, value in keys.items()}

    def asks(self, query: str) -> list[str]:
        """What another program answers, which keeps it for the next ones."""
        with self.program() as env:
            rows = sorted(map(str, env.sql(query).cache().collect()))
            self.outcomes = outcomes(env)
            self.why = [*map(str, env.list_cached()[-1].matches_only_itself)]
        assert rows == self.plain(query)
        return rows

    def plain(self, query: str) -> list[str]:
        return sorted(map(str, self.session().sql(query).collect()))

    def finds(self, query: str) -> bool:
        """Whether a program has all that it keeps from another one; rows are right in any case."""
        self.asks(query)
        return VertexOutcome.PRODUCED not in self.outcomes

    def finds_what_stays(
        self, reached: Mapping[str, set[int]], moved: set[int], texts: Iterable[str]
    ) -> None:
        """Asks, moves the table, and asks again: what is found is what has not been moved.

        Args:
            reached: the partitions of each query.
            moved: those whose rows are others afterwards; where none are, it has more of them.
            texts: what moves them.
        """
        for name in reached:
            self.asks(QUERIES[name])
        self.sql(*texts)
        for name, parts in reached.items():
            stays = not (moved & parts) if moved else parts != EVERY
            assert self.finds(QUERIES[name]) is stays, name
