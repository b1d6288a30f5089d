"""Random questions about a join whose files come and go are answered as plain Spark does."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast import Environment, VertexOutcome
from holdfast.testing import outcomes
from tests.spark.implicit_cache import SETTINGS, config

# Some come back more often than others.
KEYS = ("region", "kind", "region", "kind", "shop % 3", "upper(kind)", "color")
MEASURES = ("sum(price)", "avg(price)", "count(price)", "count(*)", "min(kind)", "max(price)")
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
steps = st.lists(st.one_of(questions, questions, questions, changes), min_size=6, max_size=10)


@settings(
    max_examples=settings.default.max_examples // 15,
    derandomize=settings.default.max_examples < 1000,
)
@pytest.mark.timeout(0)
@given(join=st.sampled_from(JOINS), steps=steps)
def test_random_questions_about_a_join(spark: SparkSession, join: str, steps: list[Any]) -> None:
    plain = spark.newSession()
    asking = plain.newSession()
    for each in (plain, asking):
        for key, value in {**SETTINGS, "spark.sql.parquet.mergeSchema": "true"}.items():
            each.conf.set(key, value)
    with TemporaryDirectory() as home:
        change(plain, home, "open", 0)
        change(plain, home, "replace", 0)
        with Environment(asking, config=config(Path(home))) as env:
            for number, step in enumerate(steps):
                if isinstance(step, str):
                    change(plain, home, step, number)
                    continue
                query = question(join, *step)
                # Asked again, it recurs.
                answers = []
                for session in (plain, env, env):
                    for name in ("sales", "shops"):
                        table = session.read.parquet(f"{home}/{name}")
                        table.createOrReplaceTempView(name)
                    answers.append(sorted(map(repr, session.sql(query).collect())))
                assert all(answer == answers[0] for answer in answers), query
                event(f"reads something: {VertexOutcome.READ in outcomes(env)}")


def change(spark: SparkSession, home: str, what: str, number: int) -> None:
    """Further sales or shops; or other sales, which have a color."""
    sales = spark.range(40 + number).selectExpr("id % 12 AS shop", "id % 9 AS price")
    if what == "open":
        shops = spark.range(12 + number).selectExpr(
            "id AS shop", "id % 5 AS region", "concat('n', id % 4) AS kind"
        )
        shops.write.mode("append").parquet(f"{home}/shops")
    elif what == "sell":
        sales.write.mode("append").parquet(f"{home}/sales")
    else:
        color = F.when(F.col("shop") % 3 == 0, "red")
        sales.withColumn("color", color).write.mode("overwrite").parquet(f"{home}/sales")


def question(join: str, keys: list[str], measures: list[str], where: list[str], drill: str) -> str:
    columns = [f"{each} AS k{number}" for number, each in enumerate(keys)]
    columns += [f"{each} AS m{number}" for number, each in enumerate(measures)]
    conditions = f"WHERE {' AND '.join(where)}" if where else ""
    return drill.format(
        f"SELECT {', '.join(columns)} FROM {join} {conditions} GROUP BY {', '.join(keys)}"
    )
