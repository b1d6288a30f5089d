"""Tables and views that are cached by name, while commands change what the names stand for."""

from __future__ import annotations

import random
import re
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from py4j.protocol import Py4JJavaError
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql import DataFrame, SparkSession

import holdfast
from holdfast import VertexOutcome
from holdfast.testing import assert_reads, outcomes

PRODUCED = [VertexOutcome.PRODUCED, VertexOutcome.RUN]
READ = [VertexOutcome.READ, VertexOutcome.RUN]

TABLES = ("flat", "parts", "lines")
KINDS = {
    "flat": "USING parquet",
    "parts": "USING parquet PARTITIONED BY (p)",
    "lines": "USING csv",
}
_LOST = "FAILED_READ_FILE.FILE_NOT_EXIST"
Script = list[tuple[str, ...]]
NAMES = (*TABLES, "v", "w", "saved", "x", "y")


class Player:
    """Plays commands on a session, in a database that it alone uses.

    Args:
        session: plain, or attached.
        database: that is there for as long as this plays.
        home: a directory that is written.
        names: of which it is asked whether they are cached, after each step that is no query.
    """

    def __init__(
        self, session: SparkSession, database: str, home: Path, names: Sequence[str]
    ) -> None:
        self._session, self._names = session, names
        self._database = database
        self._path = str(home / database)
        self._frames: dict[str, DataFrame] = {}
        session.sql(f"CREATE DATABASE {database}")
        session.sql(f"USE {database}")
        session.sql("DECLARE OR REPLACE VARIABLE least INT DEFAULT 1")

    def play(self, step: tuple[str, ...]) -> tuple[Any, ...]:
        """What a step gives, or the condition of its error; and which names are cached then."""
        kind, *arguments = step
        try:
            answer = getattr(self, f"_{kind}")(*arguments)
        except PySparkException as error:
            lost = "FileNotFoundException" in str(error)
            answer = _LOST if lost else error.getCondition() or type(error).__name__
        except Py4JJavaError as error:
            lost = "FileNotFoundException" in str(error)
            answer = _LOST if lost else str(error.java_exception.getClass().getSimpleName())
        asked = () if arguments[0].startswith("SELECT") else self._names
        return answer, tuple(self._is_cached(name) for name in asked)

    def end(self) -> None:
        for frame in self._frames.values():
            frame.unpersist()
        self._session.catalog.clearCache()
        self._session.sql("USE default")
        self._session.sql(f"DROP DATABASE {self._database} CASCADE")

    def _is_cached(self, name: str) -> bool | str | None:
        try:
            return bool(self._session.catalog.isCached(name))
        except PySparkException as error:
            return error.getCondition()

    def _sql(self, text: str) -> list[str]:
        text = text.replace("{db}", self._database).replace("{path}", self._path)
        return sorted(map(str, self._session.sql(text).collect()))

    def _cached(self, name: str) -> bool:
        return self._session.catalog.isCached(name.replace("{db}", self._database))

    def _insert(self, name: str, key: str, part: str) -> None:
        row = self._session.createDataFrame([(int(key), int(part))], "k INT, p INT")
        row.write.insertInto(name)

    def _save(self, name: str, mode: str, key: str) -> None:
        row = self._session.createDataFrame([(int(key), 1)], "k INT, p INT")
        row.write.mode(mode).format("parquet").saveAsTable(name)

    def _write(self, mode: str, key: str) -> None:
        row = self._session.createDataFrame([(int(key), 1)], "k INT, p INT").coalesce(1)
        row.write.mode(mode).parquet(self._path)

    def _frame(self, name: str, of: str) -> None:
        read = self._session.read.parquet(self._path) if of == "path" else self._session.table(of)
        self._frames[name] = read.where("k > 0").cache()

    def _rows(self, name: str) -> list[str] | None:
        frame = self._frames.get(name)
        return None if frame is None else sorted(map(str, frame.collect()))

    def _release(self, name: str) -> None:
        if name in self._frames:
            self._frames.pop(name).unpersist()

    def _catalog(self, method: str, *arguments: str) -> None:
        getattr(self._session.catalog, method)(*arguments)


def _query(rng: random.Random, *, within: bool = False) -> str:
    names = (*TABLES, "v", "w", "saved") if within else NAMES
    one, other = rng.choice(names), rng.choice(names)
    return rng.choice(
        (
            f"SELECT * FROM {one}",
            f"SELECT k, p FROM {one} WHERE p = {rng.randint(1, 3)}",
            f"SELECT k + 1 AS k, p FROM {one} WHERE k >= least",
            f"SELECT p, count(*) AS k FROM {one} GROUP BY p",
            f"SELECT a.k, b.p FROM {one} a JOIN {other} b USING (p)",
            f"SELECT k, p FROM {one} WHERE k IN (SELECT k FROM {other})",
            f"SELECT k, p FROM {one} UNION ALL SELECT k, p FROM {other}",
            f"SELECT 12 DIV (k - 5) AS k, p FROM {one}",
        )
    )


def _command(rng: random.Random) -> str:
    name, view, cached = rng.choice(TABLES), rng.choice("vw"), rng.choice("xy")
    any_name, lazy = rng.choice(NAMES), rng.choice(("", "LAZY "))
    key, part = rng.randint(1, 9), rng.randint(1, 3)
    return rng.choice(
        (
            f"INSERT INTO {name} (k, p) VALUES ({key}, {part})",
            f"INSERT INTO {name} (k, p) SELECT k + 1, p FROM {rng.choice(NAMES)}",
            f"INSERT OVERWRITE {name} (k, p) VALUES ({key}, {part}), ({key + 1}, {part})",
            f"INSERT INTO parts PARTITION (p = {part}) (k) VALUES ({key})",
            f"INSERT OVERWRITE parts PARTITION (p = {part}) (k) VALUES ({key})",
            f"SET spark.sql.sources.partitionOverwriteMode={rng.choice(('static', 'dynamic'))}",
            f"TRUNCATE TABLE {name}",
            f"TRUNCATE TABLE parts PARTITION (p = {part})",
            f"ALTER TABLE parts ADD IF NOT EXISTS PARTITION (p = {part})",
            f"ALTER TABLE parts DROP IF EXISTS PARTITION (p = {part})",
            f"ALTER TABLE parts PARTITION (p = {part}) RENAME TO PARTITION (p = {part + 1})",
            "MSCK REPAIR TABLE parts",
            f"ALTER TABLE {name} ADD COLUMNS (more{key} INT)",
            f"DROP TABLE {name}",
            f"CREATE TABLE IF NOT EXISTS {name} (k INT, p INT) {KINDS[name]}",
            f"CREATE OR REPLACE TEMP VIEW {view} AS {_query(rng, within=True)}",
            f"CREATE OR REPLACE VIEW saved AS SELECT k, p FROM {name} WHERE k > {key}",
            f"DROP VIEW IF EXISTS {rng.choice(('v', 'w', 'saved', 'x', 'y'))}",
            f"CACHE {lazy}TABLE {any_name}",
            f"CACHE {lazy}TABLE {any_name}",
            f"CACHE {lazy}TABLE {cached} AS {_query(rng, within=True)}",
            f"CACHE {lazy}TABLE {cached} AS {_query(rng, within=True)}",
            f"CACHE TABLE {cached} OPTIONS ('storageLevel' 'DISK_ONLY') AS {_query(rng)}",
            f"UNCACHE TABLE {rng.choice(('', 'IF EXISTS '))}{any_name}",
            f"REFRESH TABLE {any_name}",
            f"ALTER TABLE {name} RENAME TO {rng.choice(TABLES)}",
            "CLEAR CACHE" if rng.random() < 0.3 else f"SET VAR least = {key}",
        )
    )


def _step(rng: random.Random) -> tuple[str, ...]:
    key, part = str(rng.randint(1, 9)), str(rng.randint(1, 3))
    frame, path_or_name = rng.choice("ab"), rng.choice(("path", *TABLES))
    mode = rng.choice(("append", "overwrite"))
    others = (
        ("insert", rng.choice(TABLES), key, part),
        ("save", "flat", mode, key),
        ("write", mode, key),
        ("frame", frame, path_or_name),
        ("rows", frame),
        ("rows", frame),
        ("release", frame),
        ("catalog", rng.choice(("cacheTable", "uncacheTable", "refreshTable")), rng.choice(NAMES)),
        ("catalog", "recoverPartitions", "parts"),
    )
    luck = rng.random()
    if luck < 0.4:
        return ("sql", _query(rng))
    return ("sql", _command(rng)) if luck < 0.8 else rng.choice(others)


def steps(seed: int, number: int = 25) -> Script:
    """Commands and queries, the same for each seed."""
    rng = random.Random(seed)
    first: Script = [("write", "overwrite", "4")]
    for name, kind in KINDS.items():
        first.append(("sql", f"CREATE TABLE {name} (k INT, p INT) {kind}"))
        first.append(("sql", f"INSERT INTO {name} VALUES (1, 1), (2, 2), (6, 2)"))
    first.append(("sql", "CREATE TEMP VIEW v AS SELECT k, p FROM parts WHERE k > 1"))
    return first + [_step(rng) for _ in range(number)]


def play_on_both(spark: SparkSession, name: str, script: Script, home: Path) -> None:
    """Plays a script on a plain session and on an attached one: both answer alike."""
    names = [each for each in NAMES if re.search(rf"\b{each}\b", str(script))]
    plain = Player(spark.newSession(), f"plain_{name}", home, names)
    try:
        expected = [plain.play(step) for step in script]
    finally:
        plain.end()
    config = {"intermediate-result-storage.directory": str(home / "kept")}
    attached = holdfast.attach(spark.newSession(), config)
    ours = Player(attached, f"ours_{name}", home, names)
    try:
        for number, step in enumerate(script):
            answer = ours.play(step)
            # Spark fails where what it has cached lists files that its own command has removed.
            if expected[number][0] != _LOST:
                played = "\n".join(map(str, script[: number + 1]))
                assert answer == expected[number], f"{answer}, not {expected[number]}:\n{played}"
    finally:
        ours.end()
        holdfast.detach(attached)


@pytest.mark.sampled(200)
@pytest.mark.parametrize("seed", range(200))
def test_commands_have_their_effect_on_what_is_cached(
    spark: SparkSession, tmp_path: Path, seed: int
) -> None:
    play_on_both(spark, str(seed), steps(seed), tmp_path)


SCRIPTS = {
    "names": """
        CREATE TABLE flat (k INT, p INT) USING parquet; INSERT INTO flat VALUES (1, 1), (2, 2)
        CACHE TABLE spark_catalog.{db}.flat; ?flat; ?{db}.flat; ?spark_catalog.{db}.flat
        CREATE GLOBAL TEMP VIEW cached_globally AS SELECT k FROM {db}.flat WHERE k > 1
        CACHE LAZY TABLE global_temp.cached_globally; ?global_temp.cached_globally
        CREATE TEMP VIEW `a.b` AS SELECT k + 1 AS k FROM global_temp.cached_globally
        CACHE TABLE `a.b`; ?`a.b`; CACHE TABLE `c``d` AS SELECT k FROM `a.b`; ?`c``d`
        INSERT INTO {db}.flat VALUES (3, 3)
        ?`a.b`; ?`c``d`; SELECT * FROM `c``d`; SELECT * FROM `a.b`; SELECT * FROM flat
        SELECT * FROM global_temp.cached_globally; UNCACHE TABLE {db}.flat
        ?`a.b`; ?`c``d`; ?flat; ?global_temp.cached_globally; CACHE TABLE {db}.x AS SELECT 1
        DROP VIEW global_temp.cached_globally; SELECT * FROM `c``d`; ?`c``d`""",
    "functions": """
        CREATE TABLE flat (k INT, p INT) USING parquet; INSERT INTO flat VALUES (1, 1), (2, 2)
        CREATE FUNCTION next(a INT) RETURNS INT RETURN a + 1
        CREATE TEMPORARY FUNCTION most() RETURNS INT RETURN SELECT max(k) FROM flat
        CACHE TABLE x AS SELECT next(k) AS k FROM flat; CACHE TABLE y AS SELECT most() AS k
        SELECT * FROM x; SELECT * FROM y
        CREATE OR REPLACE FUNCTION next(a INT) RETURNS INT RETURN a + 2
        INSERT INTO flat VALUES (7, 7); SELECT * FROM x
        DROP TEMPORARY FUNCTION most; SELECT * FROM y; DROP FUNCTION next; SELECT * FROM x""",
    "levels": """
        CREATE TABLE flat (k INT, p INT) USING parquet; INSERT INTO flat VALUES (1, 1), (2, 2)
        CACHE TABLE flat OPTIONS ('storageLevel' 'MEMORY_ONLY'); CACHE TABLE flat
        INSERT INTO flat VALUES (3, 3); SELECT * FROM flat; UNCACHE TABLE flat
        CACHE TABLE flat OPTIONS ('storageLevel' 'nothing known'); SELECT * FROM flat
        CACHE TABLE x OPTIONS ('storageLevel' 'nothing known') AS SELECT 1; SELECT * FROM x
        CACHE TABLE x OPTIONS ('storageLevel' 'NONE') AS SELECT 1 AS k; SELECT * FROM x
        CACHE TABLE y OPTIONS ('storageLevel' 'disk_only', 'other' '1') AS SELECT 2 AS k
        CACHE TABLE y AS SELECT 3; UNCACHE TABLE nowhere; UNCACHE TABLE IF EXISTS nowhere
        CACHE TABLE nowhere; CACHE TABLE w AS SELECT * FROM nowhere; CACHE THE TABLE
        CACHE TABLE w AS SELECT k DIV 0 AS k FROM flat; SELECT * FROM w
        /**/ cache lazy table w AS SELECT k DIV 0 AS k FROM flat; SELECT * FROM w; CLEAR CACHE""",
    "renamed": """
        CREATE TABLE flat (k INT, p INT) USING parquet; INSERT INTO flat VALUES (1, 1), (2, 2)
        CREATE TEMP VIEW v AS SELECT k FROM flat; CACHE TABLE v; CACHE TABLE flat
        ALTER TABLE flat RENAME TO lines; ?lines; SELECT * FROM lines; SELECT * FROM v
        INSERT INTO lines VALUES (3, 3); SELECT * FROM lines
        ALTER VIEW v RENAME TO w; CREATE TABLE flat (k INT, p INT) USING parquet
        SELECT * FROM w; CACHE TABLE lines; ALTER TABLE lines RENAME TO flat; DROP TABLE flat
        ALTER TABLE {db}.lines RENAME TO {db}.flat; SELECT * FROM flat; SELECT * FROM w""",
    "partitions": """
        CREATE TABLE parts (k INT, p INT) USING parquet PARTITIONED BY (p)
        INSERT INTO parts VALUES (1, 1), (2, 2); CACHE TABLE x AS SELECT 1 AS k
        SELECT * FROM parts; CACHE TABLE parts; SELECT * FROM parts
        INSERT INTO parts VALUES (3, 2); SELECT * FROM parts
        INSERT OVERWRITE DIRECTORY '{path}/elsewhere' USING parquet SELECT 9 AS k
        ALTER TABLE parts PARTITION (p = 1) SET LOCATION '{path}/elsewhere'
        SELECT * FROM parts; SELECT * FROM parts WHERE p = 1
        ALTER TABLE parts ADD PARTITION (p = 3) LOCATION '{path}/elsewhere'
        SELECT * FROM parts; ALTER TABLE parts PARTITION (p = 3) RENAME TO PARTITION (p = 4)
        SELECT * FROM parts; SELECT k FROM parts WHERE p > 2
        INSERT OVERWRITE DIRECTORY '{path}/elsewhere' USING parquet SELECT 8 AS k
        SELECT * FROM parts; REFRESH TABLE parts; SELECT * FROM parts
        ALTER TABLE parts DROP PARTITION (p = 1); SELECT * FROM parts; TRUNCATE TABLE parts
        INSERT INTO parts PARTITION (p = 2) VALUES (5); SELECT * FROM parts
        LOAD DATA INPATH '{path}/elsewhere' INTO TABLE parts PARTITION (p = 2)
        SELECT * FROM parts""",
}


# What functions read is followed by `test_what_subqueries_read_is_followed` as well.
AT_NIGHT = {"functions": pytest.mark.soak}


@pytest.mark.parametrize(
    "name", [pytest.param(each, marks=AT_NIGHT.get(each, ())) for each in SCRIPTS]
)
def test_a_script_answers_as_on_a_plain_session(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    lines = SCRIPTS[name].replace("\n", ";").split(";")
    script = [
        ("cached", line[1:]) if line.startswith("?") else ("sql", line)
        for line in map(str.strip, lines)
        if line
    ]
    play_on_both(spark, name, script, tmp_path)


# --- what is read, and what is kept again ---------------------------------------------------------


@pytest.fixture
def session(attached: Any) -> Iterator[SparkSession]:
    """An attached session with a database of its own."""
    attached.sql("CREATE DATABASE of_cached_names")
    attached.sql("USE of_cached_names")
    yield attached
    attached.sql("USE default")
    attached.sql("DROP DATABASE of_cached_names CASCADE")


def keys(session: SparkSession, query: str) -> list[int]:
    return sorted(row[0] for row in session.sql(query).collect())


def table(session: SparkSession, kind: str) -> None:
    """A table t of keys and parts."""
    parts = "PARTITIONED BY (p)" if kind == "partitioned" else ""
    session.sql(f"CREATE TABLE t (k INT, p INT) USING parquet {parts}")
    session.sql("INSERT INTO t VALUES (1, 1), (2, 2)")


WRITES: dict[str, Callable[[SparkSession], object]] = {
    "INSERT": lambda s: s.sql("INSERT INTO t VALUES (9, 1)"),
    "insertInto": lambda s: s.createDataFrame([(9, 1)], "k INT, p INT").write.insertInto("t"),
    "saveAsTable": lambda s: (
        s.createDataFrame([(9, 1)], "k INT, p INT")
        .write.mode("append")
        .format("parquet")
        .partitionBy(*[column.name for column in s.catalog.listColumns("t") if column.isPartition])
        .saveAsTable("t")
    ),
    "INSERT SELECT": lambda s: s.sql("INSERT INTO t SELECT k + 8, p FROM t WHERE k = 1"),
}
KINDS_OF_T = ("flat", "partitioned")


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("kind", KINDS_OF_T)
@pytest.mark.sampled(6)
def test_what_is_written_is_cached_again(session: SparkSession, kind: str, write: str) -> None:
    table(session, kind)
    session.sql("CREATE TEMP VIEW v AS SELECT k FROM t WHERE k > 0")
    session.sql("CACHE TABLE t")
    session.sql("CACHE TABLE v")
    assert_reads(session.sql("SELECT k FROM t WHERE p = 1"))
    WRITES[write](session)
    assert session.catalog.isCached("t") and session.catalog.isCached("v")
    assert keys(session, "SELECT k FROM t WHERE p = 1") == [1, 9]
    assert outcomes(session) == PRODUCED
    # What reads the view by another text reads it as well.
    for query in ("SELECT k FROM t", "SELECT k FROM t WHERE k > 0", "SELECT k FROM v"):
        assert keys(session, query) == [1, 2, 9]
        assert_reads(session.sql(query))


# What a subquery reads of t; the rows after each of two commands.
OF_SUBQUERIES: dict[str, tuple[str, list[int], list[int]]] = {
    "a value": ("SELECT (SELECT max(k) FROM t) AS k", [7], [5]),
    "a condition": ("SELECT id FROM range(9) WHERE id IN (SELECT k FROM t)", [1, 2, 7], [3, 5]),
    "a correlated value": (
        "SELECT (SELECT max(k) FROM t WHERE p = id) FROM range(1, 3)",
        [1, 7],
        [3, 5],
    ),
    "a lateral join": (
        "SELECT l.k FROM range(1, 3) r, LATERAL (SELECT k FROM t WHERE p = r.id) l",
        [1, 2, 7],
        [3, 5],
    ),
    "a function": ("SELECT most(id) AS k FROM range(1, 3)", [1, 7], [3, 5]),
    "a table function": ("SELECT k FROM those(1)", [1, 2, 7], [3, 5]),
}


@pytest.mark.parametrize("of", OF_SUBQUERIES)
@pytest.mark.parametrize("kind", KINDS_OF_T)
@pytest.mark.sampled(10)
def test_what_subqueries_read_is_followed(session: SparkSession, kind: str, of: str) -> None:
    query, inserted, overwritten = OF_SUBQUERIES[of]
    table(session, kind)
    function = "CREATE TEMPORARY FUNCTION"
    session.sql(f"{function} most(a BIGINT) RETURNS INT RETURN SELECT max(k) FROM t WHERE p = a")
    session.sql(
        f"{function} those(a INT) RETURNS TABLE (k INT) RETURN SELECT k FROM t WHERE k >= a"
    )
    cached = session.sql(query).cache()
    session.sql(f"CACHE TABLE x AS {query}")
    for command, expected in {
        "INSERT INTO t VALUES (7, 2)": inserted,
        "INSERT OVERWRITE t VALUES (3, 1), (5, 2)": overwritten,
    }.items():
        session.sql(command)
        assert session.catalog.isCached("x") and cached.storageLevel.useDisk
        assert keys(session, "SELECT * FROM x") == expected
        assert outcomes(session) == PRODUCED
        assert keys(session, query) == sorted(row[0] for row in cached.collect()) == expected
        assert outcomes(session) == READ


def test_a_dataframe_of_files_is_kept_again_when_they_are_written(
    session: SparkSession, tmp_path: Path
) -> None:
    path = str(tmp_path / "files")
    session.range(3).write.parquet(path)
    cached = session.read.parquet(path).where("id >= 0").cache()
    assert cached.count() == 3
    for mode, rows in {"append": 5, "overwrite": 2}.items():
        session.range(2).write.mode(mode).parquet(path)
        assert cached.count() == rows
        assert_reads(cached)


def test_a_cached_text_means_what_its_names_mean_now(session: SparkSession) -> None:
    def assert_kept(*expected: int) -> None:
        assert session.catalog.isCached("x")
        assert keys(session, "SELECT id FROM x") == [*expected]
        assert outcomes(session) == READ

    session.range(3).createOrReplaceTempView("source")
    session.sql("DECLARE least INT DEFAULT 1")
    session.sql("CACHE TABLE x AS SELECT id FROM source WHERE id >= least")
    assert_kept(1, 2)
    session.sql("SET VAR least = 2")
    assert not session.catalog.isCached("x") and keys(session, "SELECT id FROM x") == [2]
    session.sql("SET VAR least = 1")
    assert_kept(1, 2)
    session.range(5).createOrReplaceTempView("source")
    assert not session.catalog.isCached("x") and not session.holdfast.list_cached()
    assert keys(session, "SELECT id FROM x") == [1, 2, 3, 4]
    session.catalog.dropTempView("source")
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        session.table("x")


def test_a_query_that_fails_is_not_cached_eagerly(session: SparkSession) -> None:
    # No column is needed to count its rows.
    failing = "TABLE x AS SELECT 1 DIV (id - 1) AS y FROM range(3)"
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        session.sql(f"CACHE {failing}")
    assert not session.catalog.tableExists("x") and not session.holdfast.list_cached()
    session.sql(f"CACHE LAZY {failing}")
    assert session.catalog.isCached("x") and session.table("x").count() == 3
    session.sql("UNCACHE TABLE x")
    session.range(3).selectExpr("1 DIV (id - 1) AS y").createOrReplaceTempView("x")
    with pytest.raises(Exception, match="DIVIDE_BY_ZERO"):
        session.sql("CACHE TABLE x")
    assert not session.catalog.isCached("x")


def test_nothing_stays_in_spark_s_cache(
    spark: SparkSession, session: SparkSession, tmp_path: Path
) -> None:
    cache: Any = spark._jsparkSession.sharedState().cacheManager()  # type: ignore[attr-defined]
    before = cache.numCachedEntries()
    session.sql("CACHE TABLE x AS SELECT 1 AS y")
    assert session.range(3).cache().count() == 3
    session.sql("CLEAR CACHE")
    assert cache.numCachedEntries() == before
    session.range(3).cache().count()
    session.table("x").cache().unpersist()
    holdfast.detach(session)
    assert cache.numCachedEntries() == before
    holdfast.attach(session, {"intermediate-result-storage.directory": str(tmp_path / "kept")})
