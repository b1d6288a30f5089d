"""What computes something else is never read, however alike it looks."""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from holdfast.runtime.vertex_outcome import VertexOutcome

pytestmark = pytest.mark.usefixtures("interpreted")

# Each line holds expressions over `trips` no two of which are the same computation.
EXPRESSIONS = r"""
1 ~ 1L ~ 1.0 ~ 1.00 ~ 1.0D ~ 1.0F ~ '1' ~ 1S ~ 1Y ~ true ~ X'01' ~ NULL ~ CAST(NULL AS INT)
0.0D ~ -0.0D ~ 0.0F ~ -0.0F ~ DOUBLE('NaN') ~ FLOAT('NaN') ~ DOUBLE('Infinity')
'a' ~ 'A' ~ 'a ' ~ '' ~ 'a' COLLATE UTF8_LCASE ~ 'a' COLLATE UNICODE_CI ~ CAST('a' AS BINARY)
c ~ c COLLATE UTF8_LCASE ~ c COLLATE UNICODE ~ CAST(c AS STRING COLLATE UNICODE_CI)
c = 'Y' ~ c COLLATE UTF8_LCASE = 'Y' ~ c COLLATE UNICODE_CI = 'Y'
array(c) ~ CAST(array(c) AS ARRAY<STRING COLLATE UTF8_LCASE>)
CAST(a AS INT) ~ TRY_CAST(a AS INT) ~ CAST(a AS SMALLINT) ~ CAST(a AS DOUBLE) ~ CAST(a AS STRING)
CAST(n AS DECIMAL(10, 0)) ~ CAST(n AS DECIMAL(11, 0)) ~ CAST(n AS DECIMAL(11, 1))
CAST(c AS DATE) ~ TRY_CAST(c AS DATE) ~ CAST(c AS TIMESTAMP) ~ CAST(c AS TIMESTAMP_NTZ)
a + 1 ~ try_add(a, 1) ~ a - 1 ~ try_subtract(a, 1) ~ a * 1 ~ try_multiply(a, 1) ~ a / 1
a / b ~ b / a ~ try_divide(a, b) ~ a DIV b ~ a % b ~ try_mod(a, b) ~ pmod(a, b) ~ a - b ~ b - a
a < b ~ b < a ~ a <= b ~ a = b ~ a <=> b ~ a <> b ~ a < b AND a = 1 ~ a < b OR a = 1
NOT (a < b AND a = 1) ~ NOT a < b AND a = 1 ~ (a = 1 OR b = 5) AND i = 1 ~ a = 1 OR b = 5 AND i = 1
coalesce(a, b) ~ coalesce(b, a) ~ nvl2(a, a, b) ~ IF(a > 1, a, b) ~ IF(a > 1, b, a) ~ nullif(a, b)
a IN (1, 2) ~ a IN (1, 3) ~ a NOT IN (1, 2) ~ a IN (1, 2, NULL) ~ a BETWEEN 1 AND 2
CASE WHEN a > 1 THEN b END ~ CASE WHEN a > 1 THEN b ELSE a END ~ CASE a WHEN 1 THEN b END
CASE WHEN a > 1 THEN b WHEN b > 1 THEN a END ~ CASE WHEN b > 1 THEN a WHEN a > 1 THEN b END
greatest(a, b) ~ least(a, b) ~ a & b ~ a | b ~ a ^ b ~ shiftleft(a, 1) ~ shiftright(a, 1)
named_struct('x', a) ~ named_struct('y', a) ~ struct(a AS x, b AS y) ~ struct(b AS x, a AS y)
to_json(struct(a)) ~ to_json(struct(a AS z)) ~ to_json(struct(a, b)) ~ to_json(struct(b, a))
to_json(struct(ts)) ~ to_json(struct(ts), map('timestampFormat', 'yyyy'))
c LIKE 'x%' ~ c LIKE 'x_' ~ c ILIKE 'x%' ~ c RLIKE 'x%' ~ c NOT LIKE 'x%' ~ c LIKE 'y%'
c LIKE 'x/_' ~ c LIKE 'x/_' ESCAPE '/' ~ c LIKE ANY ('x%', 'y') ~ c LIKE ALL ('x%', 'y')
date_format(ts, 'yyyy') ~ date_format(ts, 'MM') ~ date_format(ts, 'HH') ~ date_format(dt, 'yyyy')
to_date(c, 'yyyy') ~ to_date(c, 'MM') ~ to_date(c) ~ try_to_date(c) ~ to_timestamp(c, 'yyyy')
from_json(c, 'a int') ~ from_json(c, 'b int') ~ from_json(c, 'a long') ~ from_json(c, 'a string')
from_json(c, 'a int', map('mode', 'FAILFAST')) ~ from_json(c, 'a int', map('mode', 'PERMISSIVE'))
from_json(c, 'x string') ~ from_json(c, 'x string collate utf8_lcase')
from_csv(c, 'a int') ~ from_csv(c, 'a int', map('sep', ';')) ~ from_csv(c, 'a string')
transform(arr, x -> x + 1) ~ transform(arr, x -> x + 2) ~ transform(arr, x -> a)
transform(arr, (x, i) -> i) ~ transform(arr, (x, i) -> x) ~ filter(arr, x -> x > 1)
exists(arr, x -> x > 1) ~ forall(arr, x -> x > 1) ~ exists(arr, x -> x > 2)
transform(arr, x -> transform(arr, y -> x)) ~ transform(arr, x -> transform(arr, y -> y))
transform(arr, x -> transform(arr, y -> x - y)) ~ transform(arr, x -> transform(arr, y -> y - x))
aggregate(arr, 0L, (s, x) -> s + x) ~ aggregate(arr, 1L, (s, x) -> s + x) ~ arr[0] ~ arr[1] ~ arr
aggregate(arr, 0L, (s, x) -> s + x, s -> s + 1) ~ aggregate(arr, 0L, (s, x) -> s)
zip_with(arr, arr, (x, y) -> x - y) ~ zip_with(arr, arr, (x, y) -> y - x)
array_sort(arr) ~ sort_array(arr) ~ sort_array(arr, false)
element_at(arr, 1) ~ try_element_at(arr, 1) ~ get(arr, 0) ~ get(arr, 1)
m['k'] ~ m['l'] ~ element_at(m, 'k') ~ map_keys(m) ~ map_values(m) ~ st.p ~ st.q ~ st
map('a', 1, 'b', 2) ~ map('b', 2, 'a', 1) ~ map('a', 2, 'b', 1) ~ array(a, b) ~ array(b, a)
concat(c, 'x') ~ concat('x', c) ~ concat_ws('x', c, c) ~ concat_ws('y', c, c)
substring(c, 1, 2) ~ substring(c, 1, 3) ~ substring(c, 2, 2) ~ left(c, 2) ~ right(c, 2)
round(d, 1) ~ round(d, 2) ~ bround(d, 1) ~ floor(d) ~ ceil(d)
date_trunc('year', ts) ~ date_trunc('month', ts) ~ extract(YEAR FROM ts) ~ extract(MONTH FROM ts)
ts + INTERVAL 1 DAY ~ ts + INTERVAL 24 HOURS ~ ts + INTERVAL 1 MONTH ~ ts - INTERVAL 1 DAY
INTERVAL '1' DAY ~ INTERVAL '1' HOUR ~ INTERVAL '1' MONTH ~ INTERVAL '24' HOUR
DATE'2020-01-01' ~ TIMESTAMP'2020-01-01' ~ TIMESTAMP_NTZ'2020-01-01' ~ '2020-01-01'
from_utc_timestamp(ts, 'Asia/Tokyo') ~ from_utc_timestamp(ts, 'UTC') ~ to_utc_timestamp(ts, 'UTC')
rand(1) ~ rand(2) ~ randn(1) ~ rand(1) + 1 ~ uniform(0, 9, 1) ~ uniform(0, 9, 2) ~ randstr(3, 1)
hash(a) ~ xxhash64(a) ~ hash(a, b) ~ hash(b, a) ~ sha2(c, 256) ~ sha2(c, 512)
regexp_replace(c, 'x', 'b') ~ regexp_replace(c, 'x', 'b', 2) ~ regexp_replace(c, 'y', 'b')
split(c, ',') ~ split(c, ',', 2) ~ trim(c) ~ ltrim(c) ~ rtrim(c) ~ trim('x' FROM c)
lpad(c, 3) ~ rpad(c, 3) ~ lpad(c, 3, '-') ~ format_string('%s', c) ~ format_string('%5s', c)
window(ts, '1 day') ~ window(ts, '1 hour') ~ window(ts, '1 day', '1 day', '1 hour')
try_variant_get(try_parse_json(c), '$.a', 'int') ~ try_variant_get(try_parse_json(c), '$.b', 'int')
explode(arr) ~ explode_outer(arr) ~ explode(array(a, b)) ~ explode(array(b, a))
sum(b) ~ sum(DISTINCT b) ~ sum(b) FILTER (WHERE a > 1) ~ sum(b) FILTER (WHERE a > 2) ~ try_sum(b)
avg(b) ~ try_avg(b) ~ count(b) ~ count(*) ~ count(DISTINCT b) ~ count(a, b) ~ max(b) ~ min(b)
first(b) ~ first(b, true) ~ last(b) ~ last(b, true) ~ any_value(b) ~ any_value(b, true)
collect_list(b) ~ collect_set(b) ~ collect_list(DISTINCT b) ~ mode(b) ~ mode(b, true)
percentile(b, 0.5) ~ percentile(b, 0.6) ~ percentile_cont(0.5) WITHIN GROUP (ORDER BY b DESC)
percentile_disc(0.3) WITHIN GROUP (ORDER BY b) ~ percentile_disc(0.3) WITHIN GROUP (ORDER BY b DESC)
approx_percentile(b, 0.5) ~ approx_percentile(b, 0.5, 10) ~ median(b)
listagg(c) ~ listagg(c, ',') ~ listagg(c, ',') WITHIN GROUP (ORDER BY c)
listagg(c, ',') WITHIN GROUP (ORDER BY c DESC) ~ listagg(DISTINCT c, ',')
max_by(a, b) ~ max_by(b, a) ~ min_by(a, b) ~ stddev(b) ~ stddev_pop(b) ~ variance(b) ~ skewness(b)
sum(b) OVER (PARTITION BY a) ~ sum(b) OVER (PARTITION BY c) ~ sum(b) OVER ()
  ~ sum(b) OVER (ORDER BY i)
sum(b) OVER (ORDER BY i DESC) ~ sum(b) OVER (ORDER BY i NULLS LAST) ~ avg(b) OVER (ORDER BY i)
sum(b) OVER (ORDER BY i ROWS UNBOUNDED PRECEDING) ~ sum(b) OVER (ORDER BY i RANGE 1 PRECEDING)
sum(b) OVER (ORDER BY i ROWS 1 PRECEDING) ~ sum(b) OVER (ORDER BY i ROWS 2 PRECEDING)
sum(b) OVER (ORDER BY i ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING) ~ sum(a) OVER (ORDER BY i)
lag(b) OVER (ORDER BY i) ~ lead(b) OVER (ORDER BY i) ~ lag(b, 2) OVER (ORDER BY i)
lag(b, 1, 0L) OVER (ORDER BY i) ~ lag(b) IGNORE NULLS OVER (ORDER BY i) ~ lag(a) OVER (ORDER BY i)
first_value(b) OVER (ORDER BY i) ~ first_value(b) IGNORE NULLS OVER (ORDER BY i)
rank() OVER (ORDER BY b) ~ dense_rank() OVER (ORDER BY b) ~ row_number() OVER (ORDER BY b)
ntile(2) OVER (ORDER BY b) ~ ntile(3) OVER (ORDER BY b) ~ percent_rank() OVER (ORDER BY b)
"""

# The same for whole queries.
QUERIES = r"""
SELECT a FROM riders ~ SELECT e FROM riders ~ SELECT a, e FROM riders
  ~ SELECT DISTINCT a FROM riders ~ SELECT a FROM riders ORDER BY a ~ SELECT a, a + 0 FROM riders
  ~ SELECT a FROM riders ORDER BY a DESC ~ SELECT a FROM riders ORDER BY a NULLS LAST
  ~ SELECT a FROM riders SORT BY a ~ SELECT a FROM riders WHERE a = 1 ~ SELECT a FROM trips
SELECT a FROM riders LIMIT 1 ~ SELECT a FROM riders LIMIT 2 ~ SELECT a FROM riders OFFSET 1
  ~ SELECT a FROM riders LIMIT 1 OFFSET 1 ~ SELECT a FROM riders LIMIT 2 OFFSET 1
SELECT a FROM riders TABLESAMPLE (50 PERCENT) REPEATABLE (1)
  ~ SELECT a FROM riders TABLESAMPLE (50 PERCENT) REPEATABLE (2)
  ~ SELECT a FROM riders TABLESAMPLE (60 PERCENT) REPEATABLE (1)
SELECT /*+ REPARTITION(2) */ a FROM riders ~ SELECT /*+ REPARTITION(3) */ a FROM riders
  ~ SELECT /*+ COALESCE(2) */ a FROM riders ~ SELECT /*+ REPARTITION(2, a) */ a FROM riders
SELECT * FROM trips t JOIN riders r ON t.a = r.a
  ~ SELECT * FROM trips t LEFT JOIN riders r ON t.a = r.a
  ~ SELECT * FROM trips t RIGHT JOIN riders r ON t.a = r.a ~ SELECT * FROM trips CROSS JOIN riders
  ~ SELECT * FROM trips t FULL JOIN riders r ON t.a = r.a
  ~ SELECT * FROM trips t JOIN riders r ON t.a <=> r.a
  ~ SELECT * FROM trips t JOIN riders r ON t.b = r.e
  ~ SELECT * FROM trips t JOIN riders r ON t.a = r.e
  ~ SELECT * FROM trips t JOIN riders r ON t.a = r.a AND t.b = r.e
  ~ SELECT * FROM trips t JOIN riders r ON t.a = r.a OR t.b = r.e
  ~ SELECT * FROM trips t LEFT SEMI JOIN riders r ON t.a = r.a
  ~ SELECT * FROM trips t LEFT ANTI JOIN riders r ON t.a = r.a
  ~ SELECT * FROM trips t JOIN riders r USING (a) ~ SELECT * FROM trips t JOIN riders r USING (a, c)
SELECT x.a FROM riders x JOIN riders y ON x.a = y.e
  ~ SELECT y.a FROM riders x JOIN riders y ON x.a = y.e
  ~ SELECT x.a FROM riders x JOIN riders y ON x.a = y.a
SELECT a, c, count(*) FROM trips GROUP BY a, c
  ~ SELECT a, c, count(*) FROM trips GROUP BY ROLLUP (a, c)
  ~ SELECT a, c, count(*) FROM trips GROUP BY CUBE (a, c)
  ~ SELECT a, c, count(*) FROM trips GROUP BY GROUPING SETS ((a), (c))
  ~ SELECT a, c, count(*) FROM trips GROUP BY GROUPING SETS ((a, c), (c))
  ~ SELECT a, c, count(*) FROM trips GROUP BY GROUPING SETS ((a), (c), ())
  ~ SELECT a, c, count(*) FROM trips GROUP BY ROLLUP (c, a)
  ~ SELECT a, c, grouping(a) FROM trips GROUP BY ROLLUP (a, c)
  ~ SELECT a, c, grouping(c) FROM trips GROUP BY ROLLUP (a, c)
  ~ SELECT a, c, grouping_id() FROM trips GROUP BY ROLLUP (a, c)
  ~ SELECT a, c, count(*) FROM trips GROUP BY a, c HAVING count(*) > 1
  ~ SELECT a, c, count(*) FROM trips GROUP BY a, c HAVING count(*) > 0
SELECT a FROM trips UNION ALL SELECT a FROM riders
  ~ SELECT a FROM riders UNION ALL SELECT a FROM trips
  ~ SELECT a FROM trips UNION SELECT a FROM riders
  ~ SELECT a FROM trips UNION ALL SELECT e FROM riders
  ~ SELECT a FROM trips INTERSECT SELECT a FROM riders
  ~ SELECT a FROM riders EXCEPT SELECT a FROM trips
  ~ SELECT a FROM trips INTERSECT ALL SELECT a FROM riders
  ~ SELECT a FROM trips EXCEPT SELECT a FROM riders
  ~ SELECT a FROM trips EXCEPT ALL SELECT a FROM riders
SELECT * FROM trips WHERE a IN (SELECT a FROM riders)
  ~ SELECT * FROM trips WHERE a IN (SELECT e FROM riders)
  ~ SELECT * FROM trips WHERE b IN (SELECT a FROM riders)
  ~ SELECT * FROM trips WHERE a NOT IN (SELECT a FROM riders)
  ~ SELECT * FROM trips t WHERE EXISTS (SELECT 1 FROM riders r WHERE r.a = t.a)
  ~ SELECT * FROM trips t WHERE EXISTS (SELECT 1 FROM riders r WHERE r.a = t.b)
  ~ SELECT * FROM trips t WHERE EXISTS (SELECT 1 FROM riders r WHERE r.e = t.b)
  ~ SELECT * FROM trips t WHERE EXISTS (SELECT 1 FROM riders r WHERE r.a = t.a AND r.e > 10)
  ~ SELECT * FROM trips t WHERE NOT EXISTS (SELECT 1 FROM riders r WHERE r.a = t.a)
  ~ SELECT * FROM trips WHERE a = (SELECT max(a) FROM riders)
  ~ SELECT * FROM trips WHERE a = (SELECT min(a) FROM riders)
  ~ SELECT * FROM trips t WHERE b < (SELECT max(e) FROM riders r WHERE r.a = t.a)
  ~ SELECT * FROM trips t WHERE b < (SELECT max(e) FROM riders r WHERE r.a = t.b)
  ~ SELECT * FROM trips t WHERE b < (SELECT max(e) FROM riders r WHERE r.a < t.a)
SELECT t.a, x.e FROM trips t, LATERAL (SELECT * FROM riders r WHERE r.a = t.a) x
  ~ SELECT t.a, x.e FROM trips t, LATERAL (SELECT * FROM riders r WHERE r.a = t.i) x
  ~ SELECT t.a, x.e FROM trips t LEFT JOIN LATERAL (SELECT * FROM riders r WHERE r.a = t.a) x
SELECT a, x FROM trips LATERAL VIEW explode(arr) AS x
  ~ SELECT a, x FROM trips LATERAL VIEW OUTER explode(arr) AS x
  ~ SELECT a, x FROM trips LATERAL VIEW explode(array(a)) AS x
  ~ SELECT a, x FROM trips LATERAL VIEW posexplode(arr) AS p, x
  ~ SELECT a, p FROM trips LATERAL VIEW posexplode(arr) AS p, x
SELECT * FROM (SELECT a, b, c FROM trips) PIVOT (sum(b) FOR c IN ('x', 'y'))
  ~ SELECT * FROM (SELECT a, b, c FROM trips) PIVOT (sum(b) FOR c IN ('x', 'Y'))
  ~ SELECT * FROM (SELECT a, b, c FROM trips) PIVOT (sum(b) FOR c IN ('y', 'x'))
  ~ SELECT * FROM (SELECT a, b, c FROM trips) PIVOT (max(b) FOR c IN ('x', 'y'))
  ~ SELECT * FROM (SELECT a, b, c FROM trips) PIVOT (sum(a) FOR c IN ('x', 'y'))
SELECT * FROM riders UNPIVOT (v FOR k IN (a, e)) ~ SELECT * FROM riders UNPIVOT (v FOR k IN (e, a))
  ~ SELECT * FROM riders UNPIVOT (v FOR k IN (a AS x, e))
  ~ SELECT * FROM riders UNPIVOT INCLUDE NULLS (v FOR k IN (a, e))
SELECT * FROM VALUES (1) ~ SELECT * FROM VALUES (2) ~ SELECT * FROM VALUES (1L)
  ~ SELECT * FROM VALUES ('1')
  ~ SELECT * FROM VALUES (1), (1) ~ SELECT * FROM VALUES (1), (2) ~ SELECT * FROM VALUES (2), (1)
  ~ SELECT * FROM VALUES (1, 2) ~ SELECT * FROM VALUES (NULL) ~ SELECT * FROM VALUES (1), (NULL)
  ~ SELECT * FROM VALUES (1.0) ~ SELECT * FROM VALUES (1.00) ~ SELECT * FROM VALUES (1.0D)
SELECT * FROM VALUES ('a\\b') ~ SELECT * FROM VALUES ('a\b') ~ SELECT * FROM VALUES ('a''), (''b')
  ~ SELECT * FROM VALUES ('a'), ('b') ~ SELECT * FROM VALUES ('\n') ~ SELECT * FROM VALUES ('\\n')
  ~ SELECT * FROM VALUES ('') ~ SELECT * FROM VALUES ('NULL') ~ SELECT * FROM VALUES ('\'')
SELECT * FROM VALUES (0.0D) ~ SELECT * FROM VALUES (-0.0D) ~ SELECT * FROM VALUES (DOUBLE('NaN'))
  ~ SELECT * FROM VALUES (FLOAT('NaN')) ~ SELECT * FROM VALUES (X'00') ~ SELECT * FROM VALUES (0.0F)
SELECT DISTINCT x FROM VALUES ('a'), ('A') AS t(x)
  ~ SELECT DISTINCT x FROM VALUES ('a' COLLATE UTF8_LCASE), ('A' COLLATE UTF8_LCASE) AS t(x)
  ~ SELECT DISTINCT x FROM VALUES ('a' COLLATE UNICODE_CI), ('A' COLLATE UNICODE_CI) AS t(x)
SELECT * FROM VALUES (array(1)) ~ SELECT * FROM VALUES (array(2)) ~ SELECT * FROM VALUES (map(1, 1))
  ~ SELECT * FROM VALUES (map(1, 2)) ~ SELECT * FROM VALUES (struct(1))
  ~ SELECT * FROM VALUES (struct(2))
SELECT * FROM VALUES (TIMESTAMP'2020-01-01') ~ SELECT * FROM VALUES (TIMESTAMP'2020-01-02')
  ~ SELECT * FROM VALUES (TIMESTAMP_NTZ'2020-01-01') ~ SELECT * FROM VALUES (DATE'2020-01-01')
SELECT * FROM range(5) ~ SELECT * FROM range(6) ~ SELECT * FROM range(1, 5)
  ~ SELECT * FROM range(0, 5, 2)
WITH x AS (SELECT a FROM riders), y AS (SELECT e AS a FROM riders) SELECT * FROM x JOIN y USING (a)
  ~ WITH x AS (SELECT a FROM riders), y AS (SELECT a FROM riders) SELECT * FROM x JOIN y USING (a)
"""


def families(text: str) -> list[Any]:
    lines: list[str] = []
    for line in text.strip().splitlines():
        if line.startswith("  ~"):
            lines[-1] += " " + line.strip()
        else:
            lines.append(line)
    return [
        pytest.param([each.strip() for each in line.split(" ~ ")], id=line.partition(" ~ ")[0])
        for line in lines
    ]


def assert_apart(probe: Any, queries: list[Any]) -> None:
    """No two of the queries have one identity, and the first one's rows serve no other."""
    identities = [probe.identity(query) for query in queries]
    for (one, first), (other, second) in itertools.combinations(
        zip(queries, identities, strict=True), 2
    ):
        assert first != second, f"{one!r} would be read for {other!r}"


@pytest.mark.parametrize("expressions", families(EXPRESSIONS))
def test_other_expressions_are_other_computations(probe: Any, expressions: list[str]) -> None:
    assert_apart(probe, [f"SELECT {each} AS x FROM trips" for each in expressions])


@pytest.mark.parametrize("queries", families(QUERIES))
def test_other_queries_are_other_computations(probe: Any, queries: list[str]) -> None:
    assert_apart(probe, queries)


# -- stories with rows ------------------------------------------------------------------------


def sums(column: str) -> Callable[[Any], DataFrame]:
    return lambda p: p.spark.table("riders").groupBy("a").agg(F.sum(column))


def with_udf(function: Any) -> Callable[[Any], DataFrame]:
    return lambda p: p.spark.table("riders").select(function("e").alias("x"))


OFFSET = 1


def shifted() -> Any:
    return F.udf(lambda x: x + OFFSET, "bigint")


def closed_over(step: Any) -> Any:
    return F.udf(lambda x: x + int(step), "bigint")


def with_default(step: int) -> Any:
    def add(x: int, by: int = step) -> int:
        return x + by

    return F.udf(add, "bigint")


class Steps:
    """A class whose attribute a function refers to."""

    by = 1


def names_of_columns(batches: Any) -> Any:
    for batch in batches:
        yield pd.DataFrame({"names": [",".join(batch.columns)] * len(batch)})


def doubled(batches: Any) -> Any:
    for batch in batches:
        yield batch * 2


def tripled(batches: Any) -> Any:
    for batch in batches:
        yield batch * 3


def group_names(group: pd.DataFrame) -> pd.DataFrame:
    return pd.DataFrame({"names": [",".join(group.columns)]})


def batch_means(values: pd.Series) -> pd.Series:
    return values * 0 + len(values)


FUNCTIONS = {
    "the body": lambda: (F.udf(lambda x: x + 1, "bigint"), F.udf(lambda x: x + 2, "bigint")),
    "the operator": lambda: (F.udf(lambda x: x + 2, "bigint"), F.udf(lambda x: x * 2, "bigint")),
    "the type of a constant": lambda: (
        F.udf(lambda x: str(x * 1), "string"),
        F.udf(lambda x: str(x * 1.0), "string"),
    ),
    "the closure": lambda: (closed_over(1), closed_over(2)),
    "a closure's type": lambda: (
        F.udf((lambda step: lambda x: str(x + step))(1), "string"),
        F.udf((lambda step: lambda x: str(x + step))(1.0), "string"),
    ),
    "a default": lambda: (with_default(1), with_default(2)),
    "the return type": lambda: (F.udf(lambda x: x, "bigint"), F.udf(lambda x: x, "int")),
    "the name of a field returned": lambda: (
        F.udf(lambda x: (x,), "struct<p: bigint>"),
        F.udf(lambda x: (x,), "struct<q: bigint>"),
    ),
    "row by row or in batches": lambda: (
        F.udf(lambda x: x * 2, "bigint"),
        F.pandas_udf(lambda x: x * 2, "bigint"),  # type: ignore[call-overload]
    ),
    "a call's argument": lambda: (
        F.udf(lambda x: str(x).zfill(3), "string"),
        F.udf(lambda x: str(x).zfill(4), "string"),
    ),
    "the function called": lambda: (
        F.udf(lambda x: hex(x), "string"),
        F.udf(lambda x: oct(x), "string"),
    ),
    "an attribute's name": lambda: (
        F.udf(lambda x: str(x).isdigit(), "boolean"),
        F.udf(lambda x: str(x).isalpha(), "boolean"),
    ),
    "the order of operands": lambda: (
        F.udf(lambda x: x - 100, "bigint"),
        F.udf(lambda x: 100 - x, "bigint"),
    ),
}


@pytest.mark.parametrize("functions", FUNCTIONS.values(), ids=FUNCTIONS.keys())
def test_a_function_that_differs_in(probe: Any, functions: Any) -> None:
    one, other = functions()
    probe.keep(with_udf(one))
    probe.assert_computes(with_udf(other))


def test_a_global_that_a_function_refers_to(probe: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    probe.keep(with_udf(shifted()))
    monkeypatch.setitem(globals(), "OFFSET", 2)
    probe.assert_computes(with_udf(shifted()))


def local_steps() -> Any:
    class Local:
        by = 1

    return Local, lambda: F.udf(lambda x: x + Local.by, "bigint")


def test_an_attribute_of_a_class_that_a_function_refers_to(probe: Any) -> None:
    local, function = local_steps()
    probe.keep(with_udf(function()))
    local.by = 2
    probe.assert_computes(with_udf(function()))


def test_looking_at_a_function_leaves_its_classes_alone(probe: Any) -> None:
    local, function = local_steps()
    first = function()
    kept = probe.table(with_udf(first)).cache()
    local.by = 5
    kept.collect()
    probe.table(with_udf(function())).cache().collect()
    assert local.by == 5


def test_a_broadcast_variable_that_a_function_refers_to(probe: Any) -> None:
    context = probe.spark.sparkContext
    one, other = context.broadcast([1]), context.broadcast([2])
    probe.keep(with_udf(F.udf(lambda x: x + one.value[0], "bigint")))
    probe.assert_computes(with_udf(F.udf(lambda x: x + other.value[0], "bigint")))


def test_a_function_of_other_columns_or_arguments(probe: Any) -> None:
    function = F.udf(lambda x, y: f"{x} {y}", "string")
    probe.keep(lambda p: p.spark.table("riders").select(function("a", "e")))
    probe.assert_computes(lambda p: p.spark.table("riders").select(function("e", "a")))
    probe.assert_computes(lambda p: p.spark.table("riders").select(function("a", "a")))


def test_a_function_that_is_not_deterministic_matches_only_itself(probe: Any) -> None:
    def query(p: Any) -> DataFrame:
        random = F.udf(lambda x: x + 1, "bigint").asNondeterministic()
        return p.spark.table("riders").select(random("e"))

    probe.keep(query)
    probe.assert_computes(query)


def test_a_function_in_batches_may_see_how_they_are_cut(probe: Any) -> None:
    numbers = probe.spark.range(0, 8, 1, 2)
    sizes = F.pandas_udf(batch_means, "bigint")  # type: ignore[call-overload]
    kept = probe.keep(lambda p: numbers.select(sizes("id").alias("n")))
    assert {row.n for row in kept.collect()} == {4}
    with probe.settings({"spark.sql.execution.arrow.maxRecordsPerBatch": "3"}):
        assert {row.n for row in kept.collect()} == {3, 1}
        assert VertexOutcome.READ not in probe.outcomes()


def test_whole_row_functions_see_the_names_of_columns(probe: Any) -> None:
    def query(name: str) -> Callable[[Any], DataFrame]:
        return lambda p: (
            p.spark.table("riders")
            .select(F.col("e").alias(name))
            .mapInPandas(names_of_columns, "names string")
        )

    probe.keep(query("x"))
    probe.assert_computes(query("y"))

    def grouped(name: str) -> Callable[[Any], DataFrame]:
        return lambda p: (
            p.spark.table("riders")
            .select(F.col("e").alias(name))
            .groupBy(name)
            .applyInPandas(group_names, "names string")
        )

    probe.keep(grouped("x"))
    probe.assert_computes(grouped("y"))


def test_whole_row_functions_of_other_code_or_schema(probe: Any) -> None:
    def query(function: Any, schema: str) -> Callable[[Any], DataFrame]:
        return lambda p: p.spark.table("riders").select("a", "e").mapInPandas(function, schema)

    probe.keep(query(doubled, "a double, e bigint"))
    probe.assert_computes(query(tripled, "a double, e bigint"))
    probe.assert_computes(query(doubled, "e bigint, a double"))
    probe.assert_computes(query(doubled, "a double, e double"))


MOMENTS = [
    "rand()",
    "randn()",
    "uuid()",
    "current_date()",
    "current_timestamp()",
    "now()",
    "localtimestamp()",
    "unix_timestamp()",
    "CAST('today' AS DATE)",
    "CAST(lower('NOW') AS TIMESTAMP)",
    "to_date('today')",
    "to_timestamp('now')",
    "try_to_timestamp('now')",
    "to_timestamp_ntz('now')",
    "date_add('tomorrow', 1)",
    "current_user()",
    "current_timezone()",
    "current_database()",
    "current_catalog()",
    "input_file_name()",
    "shuffle(array(1, 2, 3))",
    "java_method('java.util.UUID', 'randomUUID')",
    "java_method('java.lang.Math', 'max', rand(1), 0.5D)",
    "aes_encrypt(c, '0000111122223333')",
    "randstr(8)",
    "uniform(0, 1000000)",
]


@pytest.mark.parametrize("expression", MOMENTS)
def test_what_depends_on_the_moment_matches_only_itself(probe: Any, expression: str) -> None:
    query = f"SELECT e, {expression} AS x FROM riders"
    assert probe.identity(query) != probe.identity(query)
    moment = probe.table(query)
    assert probe.identity(lambda p: moment) == probe.identity(lambda p: moment)
    assert probe.identity(lambda p: moment.where("e > 1")) == probe.identity(
        lambda p: moment.where("e > 1")
    )


def test_the_moment_is_not_kept_for_the_same_text(probe: Any) -> None:
    query = "SELECT a, now() AS t, rand() AS r FROM riders"
    first = probe.keep(query).collect()
    probe.assert_computes(query, steady=False)
    second = probe.table(query).collect()
    assert {row.t for row in first}.isdisjoint({row.t for row in second})
    assert {row.r for row in first}.isdisjoint({row.r for row in second})


def test_a_moment_in_a_subquery_a_cte_or_a_view(probe: Any) -> None:
    for query in (
        "SELECT * FROM riders WHERE a < (SELECT rand())",
        "WITH x AS (SELECT rand() AS r) SELECT * FROM riders, x",
        "SELECT * FROM riders ORDER BY rand()",
        "SELECT a, max(r) FROM (SELECT a, rand() AS r FROM riders) GROUP BY a",
        "SELECT transform(array(1, 2), x -> rand()) FROM riders",
    ):
        assert probe.identity(query) != probe.identity(query), query


def test_a_sample_without_a_seed_is_another_sample_each_time(probe: Any) -> None:
    query = "SELECT * FROM riders TABLESAMPLE (50 PERCENT)"
    probe.keep(query)
    probe.assert_computes(query, steady=False)
    other = [lambda p: p.spark.table("riders").sample(0.5)] * 2
    assert_apart(probe, other)


def test_a_variable_that_was_set_anew(probe: Any) -> None:
    probe.spark.sql("DECLARE OR REPLACE VARIABLE threshold BIGINT DEFAULT 10")
    query = "SELECT * FROM riders WHERE e > threshold"
    try:
        probe.keep(query)
        probe.spark.sql("SET VARIABLE threshold = 20")
        probe.assert_computes(query)
    finally:
        probe.spark.sql("DROP TEMPORARY VARIABLE threshold")


def test_parameters_of_other_values_or_types(probe: Any) -> None:
    def query(value: Any) -> Callable[[Any], DataFrame]:
        return lambda p: p.env.sql("SELECT * FROM riders WHERE e > :x", {"x": value})

    probe.keep(query(10))
    probe.assert_computes(query(20))
    assert_apart(probe, [query(10), query(10.0), query("10"), query(20)])


def test_a_view_that_was_defined_anew_under_its_name(probe: Any) -> None:
    probe.spark.sql("CREATE OR REPLACE TEMP VIEW chosen AS SELECT * FROM riders WHERE e > 10")
    try:
        probe.keep("SELECT * FROM chosen")
        probe.spark.sql("CREATE OR REPLACE TEMP VIEW chosen AS SELECT * FROM riders WHERE e > 20")
        probe.assert_computes("SELECT * FROM chosen")
    finally:
        probe.spark.catalog.dropTempView("chosen")


def test_a_function_of_sql_that_was_defined_anew(probe: Any) -> None:
    query = "SELECT moved(e) AS x FROM riders"
    try:
        probe.spark.sql(
            "CREATE OR REPLACE TEMPORARY FUNCTION moved(x BIGINT) RETURNS BIGINT RETURN x + 1"
        )
        probe.keep(query)
        probe.spark.sql(
            "CREATE OR REPLACE TEMPORARY FUNCTION moved(x BIGINT) RETURNS BIGINT RETURN x + 2"
        )
        probe.assert_computes(query)
    finally:
        probe.spark.sql("DROP TEMPORARY FUNCTION IF EXISTS moved")


def test_a_function_of_python_that_was_registered_anew(probe: Any) -> None:
    query = "SELECT stepped(e) AS x FROM riders"
    probe.spark.udf.register("stepped", lambda x: x + 1, "bigint")
    probe.keep(query)
    probe.spark.udf.register("stepped", lambda x: x + 2, "bigint")
    try:
        probe.assert_computes(query)
    finally:
        probe.spark.sql("DROP TEMPORARY FUNCTION IF EXISTS stepped")


def test_rows_handed_in_by_python(probe: Any) -> None:
    def rows(*numbers: int) -> Callable[[Any], DataFrame]:
        return lambda p: p.spark.createDataFrame([(n,) for n in numbers], "x int")

    probe.keep(rows(1, 2))
    probe.assert_computes(rows(1, 3))

    def frame(**columns: list[Any]) -> Callable[[Any], DataFrame]:
        return lambda p: p.spark.createDataFrame(pd.DataFrame(columns))

    probe.keep(frame(x=[1, 2]))
    probe.assert_computes(frame(x=[1, 3]))
    probe.assert_computes(frame(x=[2, 1]))
    probe.assert_computes(frame(x=["1", "2"]))
    probe.assert_computes(frame(x=[1.0, 2.0]))


def test_other_arguments_of_dataframe_methods(probe: Any) -> None:
    def riders(p: Any) -> DataFrame:
        return p.spark.table("riders")

    def more(p: Any) -> DataFrame:
        return riders(p).withColumn("more", F.lit(1))

    swapped = ("c", "a", "e")
    for queries in (
        [
            lambda p: riders(p).union(riders(p).select(*swapped)),
            lambda p: riders(p).unionByName(riders(p).select(*swapped)),
            lambda p: riders(p).unionByName(more(p), allowMissingColumns=True),
            lambda p: more(p).unionByName(riders(p), allowMissingColumns=True),
        ],
        [
            lambda p: riders(p).dropDuplicates(["a"]),
            lambda p: riders(p).dropDuplicates(["c"]),
            lambda p: riders(p).dropDuplicates(["a", "c"]),
            lambda p: riders(p).dropDuplicates(),
        ],
        [
            lambda p: riders(p).exceptAll(riders(p).limit(1)),
            lambda p: riders(p).subtract(riders(p).limit(1)),
            lambda p: riders(p).intersectAll(riders(p).limit(1)),
        ],
        [
            lambda p: riders(p).repartition(2),
            lambda p: riders(p).repartition(3),
            lambda p: riders(p).repartition(2, "a"),
            lambda p: riders(p).repartitionByRange(2, "a"),
            lambda p: riders(p).coalesce(2),
        ],
        [
            lambda p: riders(p).sample(fraction=0.5, seed=1),
            lambda p: riders(p).sample(fraction=0.5, seed=2),
            lambda p: riders(p).sample(fraction=0.6, seed=1),
            lambda p: riders(p).sample(True, 0.5, 1),
        ],
        [
            lambda p: riders(p).fillna(0),
            lambda p: riders(p).fillna(1),
            lambda p: riders(p).fillna(0, ["a"]),
            lambda p: riders(p).dropna(),
            lambda p: riders(p).dropna("all"),
        ],
        [
            lambda p: riders(p).orderBy("a"),
            lambda p: riders(p).sortWithinPartitions("a"),
            lambda p: riders(p).orderBy("a", "e"),
            lambda p: riders(p).orderBy(F.desc("a")),
        ],
    ):
        assert_apart(probe, queries)


def test_a_watched_table_matches_only_itself(probe: Any) -> None:
    def query(p: Any) -> DataFrame:
        return p.spark.table("riders").observe("seen", F.count(F.lit(1)))

    assert probe.identity(query) != probe.identity(query)
    assert probe.identity(query) != probe.identity("SELECT * FROM riders")


# -- files ------------------------------------------------------------------------------------


@pytest.fixture
def numbers(spark: SparkSession, tmp_path: Path) -> Path:
    """A directory with one Parquet file of three rows."""
    folder = tmp_path / "numbers"
    spark.range(3).coalesce(1).write.parquet(str(folder))
    return folder


def rewrite(folder: Path, frame: pd.DataFrame) -> None:
    """Other rows under the same file names, without Spark's knowledge."""
    [part] = folder.glob("part-*.parquet")
    frame.to_parquet(part)
    (folder / f".{part.name}.crc").unlink(missing_ok=True)


def test_a_file_rewritten_in_place(probe: Any, numbers: Path) -> None:
    def query(p: Any) -> DataFrame:
        return p.env.read.parquet(str(numbers))

    probe.keep(query)
    probe.assert_reads(query)
    rewrite(numbers, pd.DataFrame({"id": [5, 6, 7]}))
    probe.assert_computes(query)


def test_a_text_rewritten_at_the_same_length(probe: Any, tmp_path: Path) -> None:
    file = tmp_path / "lines.csv"
    file.write_text("a,1\nb,2\n")
    written = file.stat().st_mtime_ns

    def query(p: Any) -> DataFrame:
        return p.env.read.csv(str(file))

    probe.keep(query)
    file.write_text("a,1\nb,3\n")
    os.utime(file, ns=(written, written + 1_000_000))
    probe.assert_computes(query)


def test_files_added_and_removed(probe: Any, numbers: Path) -> None:
    def query(p: Any) -> DataFrame:
        return p.env.read.parquet(str(numbers))

    probe.keep(query)
    pd.DataFrame({"id": [9]}).to_parquet(numbers / "part-9.parquet")
    probe.keep(query)
    [first] = [part for part in numbers.glob("part-*") if part.name != "part-9.parquet"]
    first.unlink()
    probe.assert_computes(query)


def test_the_same_files_through_other_readers(probe: Any) -> None:
    csv = probe.home / "riders.csv"

    def read(**options: Any) -> Callable[[Any], DataFrame]:
        return lambda p: p.env.read.csv(str(csv), **options)

    probe.keep(read(header=True))
    probe.assert_computes(read())
    assert_apart(
        probe,
        [
            read(),
            read(header=True),
            read(header=True, inferSchema=True),
            read(header=True, sep=";"),
            read(header=True, nullValue="x"),
            read(header=True, mode="FAILFAST"),
            read(header=True, mode="DROPMALFORMED"),
            read(schema="a long, e long, c string"),
            read(schema="a long, e long, d string"),
            read(schema="a string, e long, c string"),
            read(schema="a int, e int, c string", header=True),
            lambda p: p.env.read.text(str(csv)),
            lambda p: p.env.read.text(str(csv), wholetext=True),
            lambda p: p.env.read.json(str(csv), schema="a long"),
            lambda p: p.env.read.format("binaryFile").load(str(csv)),
        ],
    )


def test_one_partition_of_a_directory_is_not_the_directory(probe: Any) -> None:
    folder = probe.home / "by_e"

    def read(*names: str, **options: Any) -> Callable[[Any], DataFrame]:
        paths = [str(folder / name) for name in names] or [str(folder)]
        return lambda p: p.env.read.options(**options).parquet(*paths)

    assert_apart(
        probe,
        [
            read(),
            read("e=10"),
            read("e=20"),
            read("e=10", "e=20"),
            read("e=10", basePath=str(folder)),
            read("e=20", basePath=str(folder)),
        ],
    )
    probe.keep(read("e=10"))
    probe.assert_computes(read("e=10", basePath=str(folder)))


def test_a_path_read_as_a_time_under_another_zone(probe: Any, tmp_path: Path) -> None:
    folder = tmp_path / "by_time"
    times = probe.spark.range(2).selectExpr("id", "timestamp_seconds(id * 8640000) AS t")
    times.write.partitionBy("t").parquet(str(folder))

    def read_in(zone: str) -> DataFrame:
        with probe.settings({"spark.sql.session.timeZone": zone}):
            return probe.spark.read.parquet(str(folder))

    utc, tokyo = read_in("UTC"), read_in("Asia/Tokyo")
    assert sorted(utc.collect()) != sorted(tokyo.collect())
    assert_apart(probe, [lambda p: utc, lambda p: tokyo])


# -- settings ---------------------------------------------------------------------------------


SETTINGS = {
    "spark.sql.session.timeZone": ("Asia/Tokyo", "SELECT date_format(ts, 'HH') AS h FROM trips"),
    "spark.sql.ansi.enabled": ("false", "SELECT try_cast(c AS INT) AS x FROM trips"),
    "spark.sql.caseSensitive": ("true", "SELECT a FROM riders"),
    "spark.sql.legacy.timeParserPolicy": ("LEGACY", "SELECT date_format(ts, 'y') AS x FROM trips"),
    "spark.sql.legacy.castComplexTypesToString.enabled": (
        "true",
        "SELECT CAST(array(a, NULL) AS STRING) AS x FROM riders",
    ),
    "spark.sql.mapKeyDedupPolicy": ("LAST_WIN", "SELECT map(e, a) AS m FROM riders"),
    "spark.sql.parquet.int96RebaseModeInRead": ("LEGACY", "SELECT a FROM riders"),
    "parquet.strings.signed-min-max.enabled": ("true", "SELECT a FROM riders"),
}


@pytest.mark.parametrize("key", SETTINGS)
def test_a_setting_that_was_changed_between_jobs(probe: Any, key: str) -> None:
    value, query = SETTINGS[key]
    table = probe.keep(query)
    identity = probe.identity(query)
    with probe.settings({key: value}):
        assert probe.identity(query) != identity
        rows = probe.rows(table)
        assert VertexOutcome.READ not in probe.outcomes()
        assert sorted(rows) == sorted(probe.plain_rows(lambda p: table))
    assert probe.rows(table)
    assert VertexOutcome.READ in probe.outcomes()


def test_a_plan_made_under_ansi_is_not_one_made_without(probe: Any) -> None:
    query = "SELECT CAST(e AS TINYINT) + 100Y AS x FROM riders WHERE e < 25"

    def made_under(ansi: str) -> DataFrame:
        with probe.settings({"spark.sql.ansi.enabled": ansi}):
            return probe.spark.sql(query)

    strict, wrapping = made_under("true"), made_under("false")
    assert probe.identity(lambda p: strict) != probe.identity(lambda p: wrapping)
    probe.keep(lambda p: strict)
    probe.assert_computes(lambda p: wrapping)


def test_a_plan_made_under_another_time_zone(probe: Any) -> None:
    def made_in(zone: str) -> DataFrame:
        with probe.settings({"spark.sql.session.timeZone": zone}):
            return probe.spark.sql("SELECT CAST(ts AS STRING) AS s FROM trips")

    tokyo, utc = made_in("Asia/Tokyo"), made_in("UTC")
    probe.keep(lambda p: utc)
    probe.assert_computes(lambda p: tokyo)


MADE_UNDER = {
    "spark.sql.legacy.sizeOfNull": ("true", "false", "SELECT size(NULL) AS x FROM riders"),
    "spark.sql.legacy.statisticalAggregate": (
        "true",
        "false",
        "SELECT stddev(e) AS x FROM riders GROUP BY a",
    ),
    "spark.sql.legacy.createEmptyCollectionUsingStringType": (
        "true",
        "false",
        "SELECT array() AS x FROM riders",
    ),
    "spark.sql.decimalOperations.allowPrecisionLoss": (
        "true",
        "false",
        "SELECT CAST(e AS DECIMAL(38, 10)) * CAST(e AS DECIMAL(38, 10)) AS x FROM riders",
    ),
    "spark.sql.orderByOrdinal": ("true", "false", "SELECT e, a FROM riders ORDER BY 2"),
    "spark.sql.groupByAliases": (
        "true",
        "false",
        "SELECT e + 1 AS k, count(*) FROM riders GROUP BY e + 1",
    ),
    "spark.sql.legacy.charVarcharAsString": (
        "true",
        "false",
        "SELECT CAST(c AS CHAR(3)) AS x FROM riders",
    ),
    "spark.sql.parser.escapedStringLiterals": (
        "true",
        "false",
        r"SELECT '\n' AS x FROM riders",
    ),
    "spark.sql.timestampType": (
        "TIMESTAMP_LTZ",
        "TIMESTAMP_NTZ",
        "SELECT TIMESTAMP'2020-01-01' AS x FROM riders",
    ),
    "spark.sql.legacy.integerGroupingId": (
        "true",
        "false",
        "SELECT a, grouping_id() FROM riders GROUP BY ROLLUP (a)",
    ),
    "spark.sql.legacy.setopsPrecedence.enabled": (
        "true",
        "false",
        "SELECT a FROM riders UNION SELECT e FROM riders INTERSECT SELECT a FROM trips",
    ),
}


@pytest.mark.parametrize("key", MADE_UNDER)
def test_the_same_text_under_settings_that_have_been_set_back(probe: Any, key: str) -> None:
    """Made under two values of a setting, run under one: read only where the rows are the same."""
    one, other, query = MADE_UNDER[key]

    def made_under(value: str) -> DataFrame:
        with probe.settings({key: value}):
            return probe.spark.sql(query)

    first, second = made_under(one), made_under(other)
    probe.keep(lambda p: first)
    rows = probe.rows(probe.table(lambda p: second))
    assert sorted(rows) == sorted(probe.plain_rows(lambda p: second))
    schema = json.loads(second._jdf.schema().json())
    executed = probe.table(lambda p: second).to_dataframe()
    assert json.loads(executed._jdf.schema().json()) == schema


def test_two_environments_keep_their_own(probe: Any, tmp_path: Path) -> None:
    from holdfast import Environment

    probe.keep(sums("e"))
    directory = {"intermediate-result-storage.directory": str(tmp_path / "other")}
    with Environment(probe.spark, config=directory) as other:
        table = other.from_dataframe(sums("e")(probe))
        assert sorted(probe.rows(table)) == sorted(probe.plain_rows(sums("e")))
        result = other.last_job_result
        assert result is not None
        assert [vertex.outcome for vertex in result.vertices] == [VertexOutcome.RUN]
