"""What computes something else is never read, however alike it looks."""

from __future__ import annotations

import pytest
from pyspark.sql import functions as F

from holdfast.testing import assert_differ, assert_same
from tests.spark.asking import assert_apart, families
from tests.spark.conftest import Probe
from tests.spark.conftest import assert_same as assert_same_rows

pytest_plugins = ["tests.spark.asking"]

# Each line holds expressions over `trips` no two of which are the same computation.
EXPRESSIONS = r"""
1 ~ 1L ~ 1.0 ~ 1.00 ~ 1.0D ~ 1.0F ~ '1' ~ 1S ~ 1Y ~ true ~ X'01' ~ NULL ~ CAST(NULL AS INT)
0.0D ~ -0.0D ~ 0.0F ~ -0.0F ~ DOUBLE('NaN') ~ FLOAT('NaN') ~ DOUBLE('Infinity')
'a' ~ 'A' ~ 'a ' ~ '' ~ 'a' COLLATE UTF8_LCASE ~ 'a' COLLATE UNICODE_CI ~ CAST('a' AS BINARY)
c ~ c COLLATE UTF8_LCASE ~ c COLLATE UNICODE ~ CAST(c AS STRING COLLATE UNICODE_CI)
c = 'Y' ~ c COLLATE UTF8_LCASE = 'Y' ~ c COLLATE UNICODE_CI = 'Y'
array(c) ~ CAST(array(c) AS ARRAY<STRING COLLATE UTF8_LCASE>)
array(1, 2) ~ array(2, 1) ~ X'00' ~ X'' ~ parse_json('1') ~ parse_json('2')
INTERVAL '1' DAY ~ INTERVAL '2' DAY ~ array(CAST('a' AS STRING COLLATE UTF8_LCASE)) ~ array('a')
CAST(a AS INT) ~ TRY_CAST(a AS INT) ~ CAST(a AS SMALLINT) ~ CAST(a AS DOUBLE) ~ CAST(a AS STRING)
CAST(n AS DECIMAL(10, 0)) ~ CAST(n AS DECIMAL(11, 0)) ~ CAST(n AS DECIMAL(11, 1))
CAST(c AS DATE) ~ TRY_CAST(c AS DATE) ~ CAST(c AS TIMESTAMP) ~ CAST(c AS TIMESTAMP_NTZ)
a + 1 ~ try_add(a, 1) ~ a - 1 ~ try_subtract(a, 1) ~ a * 1 ~ try_multiply(a, 1) ~ a / 1
a / b ~ b / a ~ try_divide(a, b) ~ a DIV b ~ a % b ~ try_mod(a, b) ~ pmod(a, b) ~ a - b ~ b - a
(a + b) + i ~ a + (b + i) ~ (d + i) + a ~ d + (i + a) ~ (d * i) * a ~ d * (i * a)
a < b ~ a > b ~ a <= b ~ a >= b ~ a = b ~ a <=> b ~ a <> b ~ a < b AND a = 1 ~ a < b OR a = 1
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
from_json(c, 'a INT', map('timestampFormat', '\\uD800'))
  ~ from_json(c, 'a INT', map('timestampFormat', '\\uD801'))
  ~ from_json(c, 'a INT', map('timestampFormat', '?'))
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
SELECT * FROM VALUES (array(1, NULL), map('k', 1), named_struct('x', 'x')), (NULL, NULL, NULL)
  ~ SELECT * FROM VALUES (NULL, NULL, NULL), (array(1, NULL), map('k', 1), named_struct('x', 'x'))
  ~ SELECT * FROM VALUES (array(1), map('k', 1), named_struct('x', 'x')), (NULL, NULL, NULL)
  ~ SELECT * FROM VALUES (array(1, NULL), map('k', 2), named_struct('x', 'x')), (NULL, NULL, NULL)
  ~ SELECT * FROM VALUES (array(1, NULL), map('k', 1), named_struct('x', 'y')), (NULL, NULL, NULL)
SELECT * FROM VALUES (TIMESTAMP'2020-01-01') ~ SELECT * FROM VALUES (TIMESTAMP'2020-01-02')
  ~ SELECT * FROM VALUES (TIMESTAMP_NTZ'2020-01-01') ~ SELECT * FROM VALUES (DATE'2020-01-01')
SELECT * FROM range(5) ~ SELECT * FROM range(6) ~ SELECT * FROM range(1, 5)
  ~ SELECT * FROM range(0, 5, 2)
WITH x AS (SELECT a FROM riders), y AS (SELECT e AS a FROM riders) SELECT * FROM x JOIN y USING (a)
  ~ WITH x AS (SELECT a FROM riders), y AS (SELECT a FROM riders) SELECT * FROM x JOIN y USING (a)
"""


def first(family: list[str]) -> str:
    return family[0]


@pytest.mark.parametrize("expressions", families(EXPRESSIONS), ids=first)
def test_other_expressions_are_other_computations(asked: Probe, expressions: list[str]) -> None:
    assert_apart(asked, [f"SELECT {each} AS x FROM trips" for each in expressions])


@pytest.mark.parametrize("queries", families(QUERIES), ids=first)
def test_other_queries_are_other_computations(asked: Probe, queries: list[str]) -> None:
    assert_apart(asked, queries)


@pytest.mark.parametrize("queries", families(QUERIES), ids=first)
@pytest.mark.sampled(30)
def test_other_queries_have_their_own_rows(probe: Probe, queries: list[str]) -> None:
    probe.keep(queries[0])
    for other in queries[1:]:
        assert_same_rows(probe.rows(probe.table(other)), probe.plain_rows(other))


# The same for methods of a DataFrame, `riders`.
METHODS = """
riders.union(swapped) ~ riders.unionByName(swapped) ~ riders.unionByName(more, True)
  ~ more.unionByName(riders, True)
riders.dropDuplicates(["a"]) ~ riders.dropDuplicates(["c"]) ~ riders.dropDuplicates(["a", "c"])
  ~ riders.dropDuplicates()
riders.exceptAll(riders.limit(1)) ~ riders.subtract(riders.limit(1))
  ~ riders.intersectAll(riders.limit(1))
riders.repartition(2) ~ riders.repartition(3) ~ riders.repartition(2, "a") ~ riders.coalesce(2)
  ~ riders.repartitionByRange(2, "a")
riders.sample(0.5, 1) ~ riders.sample(0.5, 2) ~ riders.sample(0.6, 1) ~ riders.sample(True, 0.5, 1)
riders.fillna(0) ~ riders.fillna(1) ~ riders.fillna(0, ["a"]) ~ riders.dropna()
  ~ riders.dropna("all")
riders.orderBy("a") ~ riders.orderBy("a", "e") ~ riders.orderBy(F.desc("a"))
  ~ riders.sortWithinPartitions("a")
"""


@pytest.mark.parametrize("methods", families(METHODS), ids=first)
def test_other_arguments_of_dataframe_methods(asked: Probe, methods: list[str]) -> None:
    riders = asked.env.table("riders")
    swapped, more = riders.select("c", "a", "e"), riders.withColumn("more", F.lit(1))
    names = {"F": F, "riders": riders, "swapped": swapped, "more": more}
    assert_apart(asked, [lambda _, each=each: eval(each, names) for each in methods])


# -- what is another one each time -----------------------------------------------------------------

MOMENTS = """
rand() ~ randn() ~ uuid() ~ randstr(8) ~ uniform(0, 1000000) ~ shuffle(array(1, 2, 3))
current_date() ~ current_timestamp() ~ now() ~ localtimestamp() ~ unix_timestamp()
CAST('today' AS DATE) ~ CAST(lower('NOW') AS TIMESTAMP) ~ to_date('today') ~ to_timestamp('now')
try_to_timestamp('now') ~ to_timestamp_ntz('now') ~ date_add('tomorrow', 1)
current_user() ~ current_timezone() ~ current_database() ~ current_catalog() ~ input_file_name()
java_method('java.util.UUID', 'randomUUID') ~ java_method('java.lang.Math', 'max', rand(1), 0.5D)
aes_encrypt(c, '0000111122223333') ~ transform(array(1, 2), x -> rand())
kll_sketch_agg_bigint(e) ~ kll_sketch_agg_double(CAST(e AS DOUBLE))
kll_merge_agg_bigint(CAST(c AS BINARY)) ~ kll_sketch_merge_bigint(CAST(c AS BINARY), X'')
"""
DRAWN = [f"SELECT {each} AS x FROM riders" for line in families(MOMENTS) for each in line] + [
    "WITH x AS (SELECT rand() AS r) SELECT * FROM riders, x",
    "SELECT * FROM riders ORDER BY rand()",
    "SELECT * FROM riders WHERE a < (SELECT rand())",
    "SELECT a, max(r) FROM (SELECT a, rand() AS r FROM riders) GROUP BY a",
    "SELECT * FROM riders TABLESAMPLE (50 PERCENT)",
]


@pytest.mark.parametrize("query", DRAWN)
def test_what_depends_on_the_moment_matches_only_itself(asked: Probe, query: str) -> None:
    moment = asked.table(query)
    assert_differ(moment, asked.table(query))
    assert_same(moment, moment)


def test_a_watched_table_matches_only_itself(asked: Probe) -> None:
    riders = asked.env.table("riders")
    assert_apart(asked, [lambda _: riders.observe("seen", F.count(F.lit(1)))] * 2)


# -- how files are read ----------------------------------------------------------------------------


def test_the_same_files_through_other_readers(asked: Probe) -> None:
    csv = str(asked.home / "riders.csv")
    options: list[dict[str, object]] = [
        {},
        {"header": True},
        {"header": True, "inferSchema": True},
        {"header": True, "sep": ";"},
        {"header": True, "nullValue": "x"},
        {"header": True, "mode": "FAILFAST"},
        {"header": True, "mode": "DROPMALFORMED"},
        {"schema": "a long, e long, c string"},
        {"schema": "a long, e long, d string"},
        {"schema": "a string, e long, c string"},
        {"schema": "a int, e int, c string", "header": True},
    ]
    readers = [asked.env.read.csv(csv, **each) for each in options]  # type: ignore[arg-type]
    readers += [asked.env.read.text(csv), asked.env.read.text(csv, wholetext=True)]
    readers.append(asked.env.read.json(csv, schema="a long"))
    readers.append(asked.env.read.format("binaryFile").load(csv))
    assert_apart(asked, [lambda _, each=each: each for each in readers])


def test_one_partition_of_a_directory_is_not_the_directory(asked: Probe) -> None:
    folder = asked.home / "by_e"
    ten, twenty = str(folder / "e=10"), str(folder / "e=20")
    readers = [
        asked.env.read.parquet(*paths) for paths in ([str(folder)], [ten], [twenty], [ten, twenty])
    ]
    readers += [
        asked.env.read.option("basePath", str(folder)).parquet(path) for path in (ten, twenty)
    ]
    assert_apart(asked, [lambda _, each=each: each for each in readers])
