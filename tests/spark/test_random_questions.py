"""Random questions about a join whose files come and go are answered as plain Spark does."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F

from holdfast import Environment
from tests.spark.test_random_plans import SAME_EACH_TIME
from tests.spark.test_recurring_results import Keeping, config
from tests.spark.test_rollup_pieces import READ, Tables

# Some come back more often than others.
KEYS = ("region", "kind", "region", "kind", "shop % 3", "upper(kind)", "color")
MEASURES = (
    "sum(price)",
    "avg(price)",
    "count(price)",
    "count(*)",
    "min(kind)",
    "max(price + region)",
)
CONDITIONS = (
    "price > {}",
    "price BETWEEN 1 AND {}",
    "kind = 'n{}'",
    "region IN ({}, 2, NULL)",
    "shop <> {}",
    "shop % 10 < {}",
    "color IS NULL OR shop > {}",
)
DRILLS = (
    "{}",
    "SELECT count(*) AS n, max(m0) AS m FROM ({})",
    "SELECT * FROM ({}) ORDER BY ALL LIMIT 4",
    "SELECT k0, rank() OVER (ORDER BY m0) AS r FROM ({})",
    "SELECT k0 FROM ({0}) WHERE m0 > (SELECT min(m0) FROM ({0}))",
)
JOINS = (
    "sales JOIN shops USING (shop)",
    "sales LEFT JOIN shops USING (shop)",
    "sales LEFT JOIN (SELECT * FROM shops WHERE region <> 3) USING (shop)",
)

questions = st.tuples(
    st.lists(st.sampled_from(KEYS), min_size=1, max_size=2, unique=True),
    st.lists(st.sampled_from(MEASURES), min_size=1, max_size=2, unique=True),
    st.lists(st.builds(str.format, st.sampled_from(CONDITIONS), st.integers(0, 9)), max_size=1),
    st.sampled_from(DRILLS),
)
changes = st.sampled_from(("sell", "sell", "open", "replace"))
steps = st.lists(st.one_of(questions, questions, questions, changes), min_size=8, max_size=14)


@settings(SAME_EACH_TIME, max_examples=settings.default.max_examples // 10)
@pytest.mark.timeout(0)
@given(join=st.sampled_from(JOINS), steps=steps)
def test_random_questions_about_a_join(spark: SparkSession, join: str, steps: list[Any]) -> None:
    session = spark.newSession()
    plain = session.newSession()
    for each in (session, plain):
        each.conf.set("spark.sql.shuffle.partitions", "2")
        each.conf.set("spark.sql.parquet.mergeSchema", "true")
    with TemporaryDirectory() as home:
        tables = Tables(plain, Path(home))
        tables.sell(60, color=_color())
        with Environment(session, config=config(Path(home))) as env:
            keeping = Keeping(env, plain)
            # From now on finer groups are made of it.
            keeping.compute(partial(tables.asking, join=join), 2, by="kind")
            for number, step in enumerate(steps):
                match step:
                    case "sell":
                        tables.sell(40 + number)
                    case "open":
                        tables.open_shops(30 + number, 2)
                    case "replace":
                        tables.sell(90, "overwrite", color=_color())
                    case _:
                        read = keeping.run(_asking(tables, join, *step))
                        event(f"reads something: {READ in read}")


def _color() -> Column:
    return F.when(F.col("shop") % 3 == 0, "red")


def _asking(
    tables: Tables, join: str, keys: list[str], measures: list[str], where: list[str], drill: str
) -> Any:
    columns = [f"{each} AS k{number}" for number, each in enumerate(keys)]
    columns += [f"{each} AS m{number}" for number, each in enumerate(measures)]
    conditions = f"WHERE {' AND '.join(where)}" if where else ""
    answer = f"SELECT {', '.join(columns)} FROM {join} {conditions} GROUP BY {', '.join(keys)}"
    return tables.asking("*", "", f"({drill.format(answer)})")
