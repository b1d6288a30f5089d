"""What a row knows of the file and the task that it was read in."""

from __future__ import annotations

from random import Random

from tests.fuzz.family import Family
from tests.fuzz.node import Node
from tests.fuzz.pair import Pair

_COLUMNS = (
    *("_metadata.file_block_start", "_metadata.file_block_length"),
    *("_metadata.file_block_start", "_metadata.file_block_length", "_metadata.file_size"),
    *("_metadata.file_name", "_metadata.file_modification_time", "_metadata.row_index"),
    *("input_file_name()", "input_file_block_start()", "input_file_block_length()"),
    *("spark_partition_id()", "monotonically_increasing_id()", "_metadata.file_path"),
)
_LAYOUT = (
    ("spark.sql.files.maxPartitionBytes", ("128MB", "150", "300", "1000")),
    ("spark.sql.files.openCostInBytes", ("4MB", "1", "200")),
    ("spark.sql.files.minPartitionNum", (None, "1", "6")),
    ("spark.sql.files.maxPartitionNum", (None, "1", "4")),
    ("spark.sql.leafNodeDefaultParallelism", (None, "1", "6")),
    ("spark.sql.parquet.enableVectorizedReader", ("true", "false")),
    ("spark.sql.adaptive.enabled", ("true", "false")),
    ("spark.sql.shuffle.partitions", ("1", "2", "5")),
)
_OVER = (
    ".selectExpr('{} AS v', 'a')",
    ".groupBy(F.expr('{}').alias('v')).count()",
    ".agg(F.expr('count(DISTINCT {}) AS c'), F.expr('max(a) AS a'))",
    ".orderBy(F.expr('{}'), 'a').limit(5).select('a')",
    ".selectExpr('a', '{} AS v').where('a > 3')",
    ".where('{} IS NOT NULL').selectExpr('struct({}) AS v', 'a')",
)


def pair(rng: Random) -> Pair:
    """One such column, under two ways of cutting files; or two of them."""
    column = rng.choice(_COLUMNS)
    text = rng.choice(_OVER)
    kind = rng.choice(["parquet", "parquet", "json", "csv", "text"])
    first = _query(text, column, kind)
    if rng.random() < 0.2:
        other = rng.choice(_COLUMNS)
        return Pair(first, _query(text, other, kind), setup=_SETUPS[kind])
    key, values = rng.choice(_LAYOUT[:4] if rng.random() < 0.6 else _LAYOUT)
    one, two = rng.sample(values, 2)
    return Pair(
        first,
        first,
        setup=_SETUPS[kind],
        first_state=f"setting({key!r}, {one!r})",
        second_state=f"setting({key!r}, {two!r})",
    )


def family(rng: Random) -> Family:
    """One such column, under many ways of cutting files."""
    column, text = rng.choice(_COLUMNS), rng.choice(_OVER)
    kind = rng.choice(["parquet", "parquet", "json", "csv", "text"])
    states = [f"only({{{key!r}: {value!r}}})" for key, values in _LAYOUT for value in values]
    rng.shuffle(states)
    return Family.of_states(_query(text, column, kind), ["only({})", *states], setup=_SETUPS[kind])


_READ = {
    "parquet": "spark.read.parquet(home + '/f')",
    "json": "spark.read.schema('a BIGINT').json(home + '/f')",
    "csv": "spark.read.schema('a BIGINT').csv(home + '/f')",
    "text": "spark.read.text(home + '/f').withColumnRenamed('value', 'a')",
}
_LINES = {"json": "'{\"a\": %d}\\n' % i", "csv": "'%d\\n' % i", "text": "'%d\\n' % i"}
_SETUPS = {
    "parquet": (
        "from pyspark.sql import functions as F\n"
        "for n in range(2):\n"
        "    parquet(f'f/part-{n}.parquet', [{'a': i, 'b': str(i) * 9} for i in range(12)])"
    ),
    **{
        kind: "from pyspark.sql import functions as F\n"
        f"for n in range(2):\n    text(f'f/part-{{n}}.txt', ''.join({line} for i in range(60)))"
        for kind, line in _LINES.items()
    },
}


def _query(text: str, column: str, kind: str) -> Node:
    return Node(f"{_READ[kind]}{text.replace('{}', column)}")
