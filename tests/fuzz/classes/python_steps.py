"""Steps in Python over batches and groups: pandas, Arrow, tables of functions."""

from __future__ import annotations

from random import Random

from tests.fuzz.family import Family
from tests.fuzz.node import Node
from tests.fuzz.pair import Pair

_BASE = "spark.sql('SELECT id AS k, id % 3 AS g, CAST(id AS DOUBLE) AS d FROM range(6)')"
_STEPS = (
    ("def f(it):\n    for b in it:\n        yield b.assign(d=b.d * {c})", ".mapInPandas(f, 'k BIGINT, g BIGINT, d DOUBLE')"),
    ("def f(it):\n    yield from it\nn = {c}", ".mapInArrow(f, 'k BIGINT, g BIGINT, d DOUBLE')"),
    ("def f(it):\n    yield from it\nn = {c}", ".mapInArrow(f, 'k BIGINT, g BIGINT, d DOUBLE', barrier=True)"),
    ("def f(it):\n    for b in it:\n        yield b.assign(d=b.d + {c})", ".mapInPandas(f, 'k BIGINT, g BIGINT, d DOUBLE', barrier=True)"),
    ("def f(b):\n    return b.assign(d=b.d.sum() + {c})", ".groupBy('g').applyInPandas(f, 'k BIGINT, g BIGINT, d DOUBLE')"),
    ("def f(t):\n    return t.slice(0, {i})", ".groupBy('g').applyInArrow(f, 'k BIGINT, g BIGINT, d DOUBLE')"),
    ("@F.pandas_udf('double')\ndef f(s):\n    return s + {c}", ".select('k', f('d').alias('d'))"),
    ("@F.pandas_udf('double')\ndef f(s: pd.Series) -> float:\n    return s.sum() + {c}", ".groupBy('g').agg(f('d').alias('d'))"),
    ("@F.udf('double', useArrow=True)\ndef f(s):\n    return s + {c}", ".select('k', f('d').alias('d'))"),
    ("@F.udtf(returnType='a BIGINT')\nclass f:\n    def eval(self, x: int):\n        yield (x + {i},)", ".lateralJoin(f(F.col('k').outer()))"),
    ("@F.udf('long')\ndef f(x):\n    import os\n    return len(os.environ.get('FUZZ', '')) + {i}", ".select(f('k').alias('v'))"),
    ("v = {c}\n@F.udf('double')\ndef f(x):\n    return globals()['v'] * x", ".select(f('d').alias('v'))"),
    ("v = {c}\n@F.udf('string')\ndef f(x):\n    return str(eval('v'))", ".select(f('d').alias('v'))"),
    ("@F.udf('double')\ndef f(x, y=[{c}]):\n    return x + y[0]", ".select(f('d').alias('v'))"),
    ("def f(df):\n    return df.withColumn('z', F.col('d') + {c})", ".transform(f)"),
    ("n = {c}", ".replace(1.0, n)"),
    ("n = {c}", ".fillna(n)"),
    ("n = {i}", ".sample(True, 0.5, n)"),
    ("n = {i}", ".randomSplit([0.5, 0.5], n)[0]"),
    ("n = {i}", ".repartition(n).selectExpr('k', 'spark_partition_id() AS p')"),
    ("n = {i}", ".unpivot('k', ['g'] if n == 1 else ['d'], 'a', 'b')"),
    ("n = {i}", ".groupBy('g').pivot('k', [n]).sum('d')"),
    ("n = {i}", ".withColumns({'z': F.lit(n), 'k': F.col('k') * n})"),
    ("n = {i}", ".orderBy(F.desc('k')).limit(n)"),
    ("n = {i}", ".orderBy('k').offset(n)"),
    ("n = {i}", ".dropDuplicates(['g'] if n == 1 else ['k', 'g']).select('g')"),
    ("n = {i}", ".cube('g').agg(F.grouping('g') * n)"),
    ("n = {c}", ".select(F.transform(F.array('d'), lambda e: e * n).alias('v'))"),
    ("n = {i}", ".withMetadata('k', {'a': n})"),
    ("n = {i}", ".observe(f'o{n}', F.count('k'))"),
    ("n = {i}", ".to(T.StructType.fromDDL('d DOUBLE, k STRING' if n == 1 else 'd DOUBLE, k BIGINT'))"),
)  # fmt: skip
_SETTINGS = (
    ("spark.sql.execution.arrow.maxRecordsPerBatch", "10000", "2"),
    ("spark.sql.execution.pythonUDF.arrow.enabled", "true", "false"),
    ("spark.sql.execution.python.udf.maxRecordsPerBatch", "100", "1"),
    ("spark.sql.session.timeZone", "UTC", "Asia/Tokyo"),
    ("spark.sql.execution.pandas.structHandlingMode", "legacy", "dict"),
    ("spark.sql.legacy.execution.pandas.groupedMap.assignColumnsByName", "true", "false"),
)


def pair(rng: Random) -> Pair:
    """A step, and the same with another constant, or under another setting, or one step more."""
    made, call = rng.choice(_STEPS)
    one, other = rng.sample(["0.0", "-0.0", "1.0", "2.0"], 2)
    first, second = (_HEAD + made.replace("{c}", value).replace("{i}", str(place))
                     for place, value in enumerate((one, other), 1))  # fmt: skip
    plan = Node(_BASE + call)
    if rng.random() < 0.3:
        key, low, high = rng.choice(_SETTINGS)
        first, second = (f"{first}\nsetting({key!r}, {value!r})" for value in (low, high))
    elif rng.random() < 0.4:
        above = Node(f"{_table(rng)}{call}")
        return Pair(Node(_BASE), above, setup=first, expects="a Python step above")
    return Pair(plan, plan, first_state=first, second_state=second)


def family(rng: Random) -> Family:
    """One step with several constants, each under several settings."""
    made, call = rng.choice(_STEPS)
    states = [
        f"{_HEAD}{made.replace('{c}', value).replace('{i}', str(place))}\nonly({setting})"
        for place, value in enumerate(("0.0", "-0.0", "1.0", "2.0"), 1)
        for setting in ("{}", *(f"{{{key!r}: {value!r}}}" for key, _, value in _SETTINGS))
    ]
    return Family.of_states(Node(_BASE + call), rng.sample(states, len(states)))


def _table(rng: Random) -> str:
    return _BASE + rng.choice(["", ".where('k > 1')", ".repartition(3)"])


_HEAD = "import pandas as pd\nfrom pyspark.sql import functions as F, types as T\n"
