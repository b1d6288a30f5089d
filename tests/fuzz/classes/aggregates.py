"""Every aggregate function, over enough rows for those that draw to do so."""

from __future__ import annotations

from random import Random

from tests.fuzz.family import SIZE, Family
from tests.fuzz.node import Node, listed
from tests.fuzz.pair import Pair
from tests.fuzz.plans import dataframe

# All that Spark 4.3 lists (`SHOW FUNCTIONS`), with arguments of `many`.
_CALLS = listed(r"""
any_value(id) ~ approx_count_distinct(s) ~ approx_count_distinct(id, 0.2)
approx_percentile(d, 0.3) ~ approx_percentile(d, array(0.1, 0.9), 5) ~ approx_top_k(k)
approx_top_k(id, 3) ~ approx_top_k_accumulate(id) ~ array_agg(k) ~ avg(d) ~ avg(f) ~ bit_and(id)
bitmap_construct_agg(k) ~ bitmap_or_agg(x) ~ bool_and(b) ~ collect_list(id) ~ collect_set(k)
corr(d, f) ~ count_min_sketch(k, 0.5D, 0.5D, 1) ~ covar_pop(d, f) ~ first(id) ~ first_value(s)
last(id) ~ histogram_numeric(d, 5) ~ hll_sketch_agg(id) ~ hll_sketch_agg(s, 4)
hll_sketch_estimate(hll_sketch_agg(id, 4)) ~ kll_sketch_agg_bigint(id) ~ kll_sketch_agg_double(d)
kll_sketch_agg_float(f) ~ kll_sketch_agg_bigint(id, 8) ~ kll_sketch_agg_double(d, 8)
kll_sketch_agg_float(f, 8) ~ kll_sketch_get_quantile_bigint(kll_sketch_agg_bigint(id, 8), 0.37)
kll_sketch_get_rank_double(kll_sketch_agg_double(d, 8), 100D) ~ kurtosis(d) ~ listagg(s, ',')
listagg(s, ',') WITHIN GROUP (ORDER BY s) ~ max_by(s, k) ~ median(d) ~ min_by(id, k) ~ mode(k)
mode(s) ~ percentile(id, 0.37) ~ percentile_cont(0.3) WITHIN GROUP (ORDER BY d)
percentile_disc(0.3) WITHIN GROUP (ORDER BY d) ~ regr_slope(d, f) ~ skewness(d) ~ std(f)
schema_of_variant_agg(parse_json(s)) ~ sum(d) ~ sum(f) ~ theta_sketch_agg(id)
theta_sketch_agg(id, 4) ~ theta_sketch_estimate(theta_sketch_agg(id, 4)) ~ try_avg(d)
tuple_sketch_agg_double(id, d) ~ tuple_sketch_agg_integer(id, i)
tuple_sketch_agg_double(id, d, 4) ~ var_samp(d) ~ vector_sum(array(f)) ~ vector_avg(array(f))
max(al) ~ min(struct(d, s)) ~ regr_r2(d, f) ~ string_agg(s) ~ sum(DISTINCT f) ~ count(DISTINCT d)
try_sum(id) ~ bit_xor(id)
""")
_ROWS = ("many", "(SELECT * FROM many ORDER BY s)", "(SELECT * FROM many WHERE id > 7)")


def pair(rng: Random) -> Pair:
    """An aggregate, and the same written again, or over another group, or another one."""
    call, rows = rng.choice(_CALLS), rng.choice(_ROWS)
    group = rng.choice(["", "", " GROUP BY id % 2"])
    first = Node(f"SELECT {call} AS v FROM {rows}{group}", kind="plan")
    second = first
    if rng.random() < 0.4:
        second = Node(f"SELECT {rng.choice(_CALLS)} AS v FROM {rows}{group}", kind="plan")
    return Pair(dataframe(first), dataframe(second))


def family(rng: Random) -> Family:
    """Aggregates over the same rows and groups."""
    rows, group = rng.choice(_ROWS), rng.choice(["", " GROUP BY id % 2"])
    return Family.of_plans(
        dataframe(Node(f"SELECT {call} AS v FROM {rows}{group}", kind="plan"))
        for call in rng.sample(_CALLS, SIZE)
    )
