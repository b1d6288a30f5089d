"""The tables of the catalog.

Times are seconds since 1970, by the clock of the database.
"""

from __future__ import annotations

from sqlalchemy import (
    BigInteger,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
)

# SQLite counts rows up by itself for this very type alone.
_NUMBER = BigInteger().with_variant(Integer, "sqlite")
_ID = 32
_DIGEST = 64
_NAME = 255
_WORD = 16

METADATA = MetaData()

CATALOG = Table(
    "catalog",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("created", Float, nullable=False),
)
"""One row. Who makes room, or who publishes, locks it."""

PROGRAMS = Table(
    "programs",
    METADATA,
    Column("application", String(_ID), primary_key=True),
    Column("user_name", String(_NAME), nullable=False),
    Column("host", String(_NAME), nullable=False),
    Column("process", Integer, nullable=False),
    Column("started", Float, nullable=False),
    Column("alive_until", Float, nullable=False),
)
"""The programs that run, as far as is known: each renews its lease."""

RESULTS = Table(
    "results",
    METADATA,
    Column("number", _NUMBER, primary_key=True, autoincrement=True),
    Column("storage", String(_DIGEST), nullable=False),
    Column("environment", String(_DIGEST), nullable=False),
    Column("dataset_id", String(_DIGEST), nullable=False),
    Column("digest", String(_DIGEST), nullable=False),
    Column("name", String(_NAME), nullable=False),
    Column("state", String(_WORD), nullable=False),
    Column("computes", Text, nullable=False),
    Column("directories", Text, nullable=False),
    Column("is_shared", Integer, nullable=False),
    Column("audience", String(_WORD), nullable=False),
    Column("user_name", String(_NAME), nullable=False),
    Column("group_name", String(_NAME), nullable=False),
    Column("host", String(_NAME), nullable=False),
    Column("application", String(_ID), nullable=False),
    Column("bytes", BigInteger, nullable=False),
    Column("row_count", BigInteger, nullable=False),
    Column("partitions", Integer, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("cpu_seconds", Float),
    Column("created", Float, nullable=False),
    Column("lifetime", Float),
    Column("uses", Integer, nullable=False),
    Column("saved_seconds", Float, nullable=False),
    Column("used", Text, nullable=False),
    Column("why_gone", Text),
    Column("shape", String(_DIGEST), nullable=False),
    Column("last_used", Float),
    Column("gone", Float),
    Column("reasons", Text),
    Index("results_of_dataset", "dataset_id"),
    Index("results_of_shape", "shape"),
    Index("results_in_state", "state"),
    Index("results_by_size", "state", "storage", "bytes"),
    Index("results_that_went", "gone"),
    # A number is never another result's, not even after the last one is forgotten.
    sqlite_autoincrement=True,
)
"""What was kept.

`storage`: the storage directory or the task executors where its bytes are, where alone a result can
be read. `environment`: what a digest takes for granted, such as the version of Java: programs that
have another one don't find the result. `shape`: what it computes, whatever versions its files have.
`used`: when it was used, the last few times, as a JSON list. `gone`: when it was withdrawn.
`reasons`: why it is not read everywhere, as a JSON list; null where it is.
"""

MANIFESTS = Table(
    "manifests",
    METADATA,
    Column("result", ForeignKey(RESULTS.c.number, ondelete="CASCADE"), primary_key=True),
    Column("checksum", String(_DIGEST), nullable=False),
    Column("content", LargeBinary, nullable=False),
    Column("made_from", LargeBinary, nullable=False),
    Column("statistics", LargeBinary, nullable=False),
)
"""What lies where the result is kept: its manifest; the files and settings it was made from; the
least and the greatest values of its columns. Each is JSON, deflated."""

HOLDERS = Table(
    "holders",
    METADATA,
    Column("result", ForeignKey(RESULTS.c.number, ondelete="CASCADE"), primary_key=True),
    # Empty: the catalog.
    Column("application", String(_ID), primary_key=True),
    Column("until", Float),
    Index("holders_that_are_programs", "application"),
)
"""Why a result stays: a program that lives, or the catalog until its time is over."""

INPUTS = Table(
    "inputs",
    METADATA,
    Column("result", ForeignKey(RESULTS.c.number, ondelete="CASCADE"), primary_key=True),
    Column("dataset_id", String(_DIGEST), primary_key=True),
)
"""Which other results were read when a result was produced."""

CLAIMS = Table(
    "claims",
    METADATA,
    Column("storage", String(_DIGEST), primary_key=True),
    Column("environment", String(_DIGEST), primary_key=True),
    Column("dataset_id", String(_DIGEST), primary_key=True),
    Column("circle", String(_NAME), primary_key=True),
    Column("epoch", BigInteger, nullable=False),
    Column("application", String(_ID)),
    Column("since", Float, nullable=False),
    Column("until", Float, nullable=False),
)
"""Who produces a dataset right now. A later claim has a later epoch.

`circle`: those who share with each other, as what is nobody else's is not worth waiting for.
"""

USES = Table(
    "uses",
    METADATA,
    Column("number", _NUMBER, primary_key=True, autoincrement=True),
    Column("result", ForeignKey(RESULTS.c.number, ondelete="CASCADE"), nullable=False),
    Column("application", String(_ID), nullable=False),
    Column("user_name", String(_NAME), nullable=False),
    Column("used", Float, nullable=False),
    Column("saved_seconds", Float, nullable=False),
    Index("uses_of_result", "result"),
    Index("uses_by_time", "used"),
)
"""Who has read what: a program that reads what it has itself says so in one row now and then."""

DAYS = Table(
    "days",
    METADATA,
    Column("day", Integer, primary_key=True, autoincrement=False),
    Column("user_name", String(_NAME), primary_key=True),
    Column("uses", BigInteger, nullable=False),
    Column("read_bytes", BigInteger, nullable=False),
    Column("saved_seconds", Float, nullable=False),
    Column("kept", BigInteger, nullable=False),
    Column("kept_bytes", BigInteger, nullable=False),
    Column("produced_seconds", Float, nullable=False),
)
"""What each user's programs have read and kept, day by day: it stays when results are forgotten.

`day`: since 1970, in UTC.
"""

QUERIES = Table(
    "queries",
    METADATA,
    Column("number", _NUMBER, primary_key=True, autoincrement=True),
    Column("storage", String(_DIGEST), nullable=False),
    Column("environment", String(_DIGEST), nullable=False),
    Column("audience", String(_WORD), nullable=False),
    Column("user_name", String(_NAME), nullable=False),
    Column("group_name", String(_NAME), nullable=False),
    Column("started", Float, nullable=False),
    Column("content", LargeBinary, nullable=False),
    Index("queries_by_time", "started"),
)
"""The last queries of programs that keep what recurs: what they cost, part by part.

`content`: JSON, deflated; no rows and no literals.
"""
