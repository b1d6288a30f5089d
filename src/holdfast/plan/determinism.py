"""Which expressions give other values from run to run, or from task to task; which never throw."""

from __future__ import annotations

import re
from typing import Any

from holdfast.plan.document import EXPRESSIONS, Value

_AGGREGATES = EXPRESSIONS + "aggregate."
# Sketches hold what they have seen in the order that it came in, or drop some of it by that order.
_ORDER_DEPENDENT = re.compile(
    r"AnyValue|ApproxTopK\w*|ApproximatePercentile|Collect(List|Set|TopK)|First|HistogramNumeric"
    r"|Hll(Sketch|Union)Agg|Last|ListAgg|(Max|Min|MaxMin)By(K|)|Mode|PandasMode"
    r"|Theta\w+|Tuple\w+"
)
# `pivot` puts PivotFirst over one row for each group and value.
_ORDER_INDEPENDENT = re.compile(
    r"AggregateExpression|ApproxCountDistinctForIntervals|Average|Bit(And|Or|Xor)Agg"
    r"|BloomFilterAggregate|Bool(And|Or)|Corr|Count|CountIf|CountMinSketchAgg|Cov(Population|Sample)"
    r"|HyperLogLogPlusPlus|Kurtosis|Max|Median|Min|Pandas(Covar|Kurtosis|Product|Skewness|Stddev"
    r"|Variance)|PearsonCorrelation|Percentile(Cont|Disc|)|PivotFirst|Product|Regr\w+|Skewness"
    r"|Stddev(Pop|Samp)|Sum|Variance(Pop|Samp)"
)
# They give rows that tie the same value.
_RANKS = frozenset({"CumeDist", "DenseRank", "PercentRank", "Rank"})
_OVER_FRAMES = frozenset({"AggregateExpression"})
_FRAME = 2
# Catalyst takes the sketches of quantiles for deterministic, but they draw what they drop; and
# what is encrypted gets an initialization vector that is made up.
_RANDOM = re.compile(
    r"AesEncrypt|CallMethodViaReflection|InputFile(BlockLength|BlockStart|Name)"
    r"|MonotonicallyIncreasingID|Shuffle|SparkPartitionID|Uuid"
    r"|(aggregate\.)?Kll(Sketch)?(Agg|Merge)\w*"
)
_NEVER_THROWS = re.compile(
    r"And|Between|CaseWhen|Coalesce|CommonExpression(Def|Ref)|Contains|Create(Array|NamedStruct)"
    r"|DayOfMonth|EndsWith|EqualNullSafe|EqualTo|GetStructField|GreaterThan(OrEqual|)|If|In|IsNaN"
    r"|IsNotNull|IsNull|LessThan(OrEqual|)|Literal|Lower|Month|Not|Or|OuterReference|StartsWith"
    r"|Upper|With|Year"
)


def never_throws(name: str) -> bool:
    """Whether an expression has a value whatever those of its operands are.

    >>> never_throws(EXPRESSIONS + "LessThan"), never_throws(EXPRESSIONS + "Divide")
    (True, False)
    """
    return _NEVER_THROWS.fullmatch(name.removeprefix(EXPRESSIONS)) is not None


def is_random(name: str) -> bool:
    """Whether an expression has another value in each run, whatever its operands are.

    >>> is_random(EXPRESSIONS + "aggregate.KllSketchAggBigint"), is_random(EXPRESSIONS + "Add")
    (True, False)
    """
    return _RANDOM.fullmatch(name.removeprefix(EXPRESSIONS)) is not None


def depends_on_order(name: str) -> bool:
    """Whether an aggregate function's value depends on the order in which rows come.

    The sums of floating-point numbers, which do in their last digits, are not among them.

    >>> depends_on_order(EXPRESSIONS + "aggregate.First")
    True
    >>> depends_on_order(EXPRESSIONS + "aggregate.Sum")
    False
    """
    short = name.removeprefix(_AGGREGATES)
    return short != name and _ORDER_DEPENDENT.fullmatch(short) is not None


def depends_on_ties(window_expression: dict[str, Any]) -> bool:
    """Whether rows of a window with equal sort keys may get other values in another order.

    Ranks don't, nor does what is aggregated over ranges of keys, or over all rows.

    Args:
        window_expression: as the plan's document describes it.
    """
    function, specification = window_expression["f"][:2]
    name = _short(function)
    if name in _RANKS:
        return False
    frame = specification["f"][_FRAME]
    if name not in _OVER_FRAMES or _short(frame) != "SpecifiedWindowFrame":
        return True
    kind, lower, upper = map(_short, frame["f"][:3])
    is_whole = lower == "UnboundedPreceding$" and upper == "UnboundedFollowing$"
    return not is_whole and kind != "RangeFrame$"


def _short(product: Value) -> str:
    return str(product.get("c", "")).rpartition(".")[2] if isinstance(product, dict) else ""


def is_known_aggregate(name: str) -> bool:
    """False for an aggregate function of which it is not known what its value depends on.

    >>> is_known_aggregate(EXPRESSIONS + "aggregate.V2Aggregator")
    False
    """
    short = name.removeprefix(_AGGREGATES)
    return (
        short == name
        or depends_on_order(name)
        or is_random(name)
        or _ORDER_INDEPENDENT.fullmatch(short) is not None
    )
