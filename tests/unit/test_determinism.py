"""Which of Spark's aggregate functions have been looked at."""

from __future__ import annotations

import re
import zipfile
from pathlib import Path

import pyspark

from holdfast.plan.determinism import is_known_aggregate
from holdfast.plan.document import EXPRESSIONS

NO_FUNCTIONS = (
    r"Aggregate(Function|Mode)|ativeAggregate$|Base$|Buffer$|Builder$|Sketch(State)?$|^(Binary|Byte|Int|Long|Short"
    r"|BloomFilter)|Updater|^(Complete|Final|Partial|PartialMerge|NoOp|CombineInternal)$"
    r"|TypedAggregate|Serializer|Normalizer|Heap$|MaxMinBy|^(Collect|CollectUnion|FirstLast|Covariance|BitAgg"
    r"|CentralMomentAgg|MaxMinByK|BitAggregate|RegrReplacement|PandasAggregate)$|^Supports"
)


def test_each_of_sparks_aggregate_functions_has_been_looked_at() -> None:
    """A new one is doubted; who sees this fail decides what its value depends on."""
    (catalyst,) = (Path(pyspark.__file__).parent / "jars").glob("spark-catalyst_*.jar")
    package = "org/apache/spark/sql/catalyst/expressions/aggregate/"
    with zipfile.ZipFile(catalyst) as jar:
        names = [
            name.removeprefix(package).removesuffix(".class")
            for name in jar.namelist()
            if name.startswith(package) and name.endswith(".class") and "$" not in name
        ]
    unknown = {name for name in names if not is_known_aggregate(f"{EXPRESSIONS}aggregate.{name}")}
    functions = {name for name in unknown if not re.search(NO_FUNCTIONS, name)}
    assert functions == {"V2Aggregator", "Measure"}
