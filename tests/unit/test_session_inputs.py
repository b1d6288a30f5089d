"""What of a session counts: its settings, its process, its version of Spark."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Mapping
from dataclasses import replace
from importlib.resources import files
from pathlib import Path
from typing import Any

import pyspark
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.determinism import is_known_aggregate
from holdfast.plan.document import EXPRESSIONS
from holdfast.plan.hashing import hash_parts
from holdfast.plan.kept_schema import kept_fields, kept_type
from holdfast.plan.reasons import Why
from holdfast.plan.session_inputs import SessionInputs
from holdfast.plan.terms import term
from holdfast.spark.local_session import is_local
from holdfast.spark.versions import DIFFERENCES, NEEDED_FOR, adapted

# -- a result is that of its plan under the settings that can change it, and under no others


PLAN = CanonicalNode("plan", hash_parts("plan"), (), (), 0, (), False, 0, False)
BY_LAYOUT = replace(PLAN, layout_sensitive=True, ambiguous_rows=True)
TIED = replace(PLAN, ambiguous_rows=True)
NUMBERED = replace(
    PLAN, columns=(replace(term("n"), undetermined=(Why.PARTITIONED.of("MonotonicallyId"),)),)
)
SETTINGS = {"ansi": "true", "time zone": "UTC", "spark.sql.shuffle.partitions": "4"}


def digest(settings: Mapping[str, str] = SETTINGS, plan: CanonicalNode = PLAN) -> str:
    return SessionInputs("4.3.0", settings).dataset_digest(plan)


def with_each_value(key: str, plan: CanonicalNode) -> set[str]:
    """The digests without a setting and with three values of it."""
    without = {name: value for name, value in SETTINGS.items() if name != key}
    return {
        digest(without, plan),
        *(digest({**without, key: each}, plan) for each in ("1", "2", "")),
    }


def test_the_plan_and_the_version_of_spark_count() -> None:
    other = replace(PLAN, digest=hash_parts("other"))
    later = SessionInputs("4.3.1", SETTINGS).dataset_digest(PLAN)
    assert len({digest(), digest(plan=other), later}) == 3


COUNT = """
    ansi spark.sql.ansi.enabled spark.sql.session.timeZone spark.sql.caseSensitive
    spark.sql.legacy.timeParserPolicy spark.sql.sources.partitionColumnTypeInference.enabled
    spark.sql.parquet.int96RebaseModeInRead spark.sql.files.ignoreCorruptFiles
    spark.sql.mapKeyDedupPolicy spark.sql.parquet.filterPushdown
    spark.sql.parquet.enableVectorizedReader spark.sql.a.setting.of.next.year fs.s3a.endpoint
    shuffle.partitions my.spark.sql.shuffle.partitions spark.sql.adaptively
    SPARK.SQL.SHUFFLE.PARTITIONS
""".split()
# They decide which task has which row, and nothing else.
SPEED_ALONE = """
    spark.sql.shuffle.partitions spark.sql.adaptive.enabled spark.sql.codegen.wholeStage
    spark.sql.adaptive.coalescePartitions.enabled spark.sql.autoBroadcastJoinThreshold
    spark.sql.files.maxPartitionBytes spark.sql.cbo.enabled
    spark.sql.execution.arrow.pyspark.enabled spark.sql.parquet.compression.codec
""".split()
OF_NO_ROW = """
    spark.sql.warehouse.dir hadoop:hive.metastore.warehouse.dir spark.sql.ui.retainedExecutions
    spark.sql.debug.maxToStringFields spark.sql.repl.eagerEval.enabled
""".split()


@pytest.mark.parametrize("key", COUNT)
def test_a_setting_that_may_change_rows_counts(key: str) -> None:
    assert len(with_each_value(key, PLAN)) == len(with_each_value(key, BY_LAYOUT)) == 4


@pytest.mark.parametrize("key", SPEED_ALONE)
def test_a_setting_of_speed_counts_where_rows_depend_on_their_tasks(key: str) -> None:
    assert len(with_each_value(key, PLAN)) == 1
    assert len(with_each_value(key, BY_LAYOUT)) == len(with_each_value(key, TIED)) == 4


@pytest.mark.parametrize("key", OF_NO_ROW)
def test_what_no_row_depends_on_never_counts(key: str) -> None:
    key = key.replace(":", ": ")
    assert len(with_each_value(key, PLAN)) == len(with_each_value(key, BY_LAYOUT)) == 1


@pytest.mark.parametrize("plan", [BY_LAYOUT, TIED, NUMBERED])
def test_cores_count_where_several_answers_are_right(plan: CanonicalNode) -> None:
    programs = [SessionInputs("4.3.0", SETTINGS, cores=cores) for cores in (2, 2, 8)]
    assert len({each.dataset_digest(plan) for each in programs}) == 2
    assert len({each.dataset_digest(PLAN) for each in programs}) == 1


TEXTS = st.text(st.sampled_from("ab=,'\"()\\ é\ud800"), max_size=4)
SOME = st.dictionaries(TEXTS, TEXTS, max_size=4)


@given(SOME, SOME)
def test_settings_count_but_not_their_order(one: dict[str, str], other: dict[str, str]) -> None:
    assert digest(dict(reversed(one.items()))) == digest(one)
    assert (digest(one) == digest(other)) == (one == other)


def test_where_one_text_ends_and_the_next_begins_counts() -> None:
    assert digest({"ab": "c"}) != digest({"a": "bc"})
    assert digest({"a": "b", "c": "d"}) != digest({"a": "b', 'c': 'd"})


# -- where a master may be configured, so that a new session listens on loopback alone or doesn't


ARGUMENTS = "PYSPARK_SUBMIT_ARGS"


@pytest.mark.parametrize(
    ("variables", "file", "text", "expected"),
    [
        ({}, "", "", True),
        ({"MASTER": "local[2]"}, "", "", True),
        ({"MASTER": "spark://node-1:7077"}, "", "", False),
        ({ARGUMENTS: "--conf a=b pyspark-shell"}, "", "", True),
        ({ARGUMENTS: "--master yarn pyspark-shell"}, "", "", False),
        ({ARGUMENTS: "--conf spark.master='k8s://x' pyspark-shell"}, "", "", False),
        ({ARGUMENTS: "--properties-file of-cluster pyspark-shell"}, "", "", False),
        ({}, "spark-defaults.conf", "spark.ui.enabled false\nspark.master\tyarn\n", False),
        ({}, "spark-defaults.conf", "spark.master=local[3]\n", True),
        ({"MASTER": "local"}, "spark-defaults.conf", "spark.master: yarn\n", False),
        ({}, "spark-env.sh", "export MASTER=$(known_to_the_shell)\n", False),
    ],
)
@pytest.mark.parametrize(("variable", "conf"), [("SPARK_CONF_DIR", "."), ("SPARK_HOME", "conf")])
def test_a_session_is_local_unless_a_cluster_may_be_configured(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    variable: str,
    conf: str,
    variables: dict[str, str],
    file: str,
    text: str,
    expected: bool,
) -> None:
    for name in ("MASTER", ARGUMENTS, "SPARK_CONF_DIR", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / conf).mkdir(exist_ok=True)
    if file:
        (tmp_path / conf / file).write_text(text, encoding="utf-8")
    for name, value in {variable: str(tmp_path), **variables}.items():
        monkeypatch.setenv(name, value)
    assert is_local() is expected


# -- java classes of ours and how they are written for older versions of Spark


JAVA = {
    each.name: each.read_text(encoding="utf-8")
    for each in files("holdfast.spark").joinpath("java").iterdir()
}


def test_each_class_has_features_that_need_it() -> None:
    assert {f"{name}.java" for name in NEEDED_FOR} == JAVA.keys()


def test_each_difference_is_in_its_source() -> None:
    for each in DIFFERENCES:
        assert each.ours in JAVA[f"{each.java_class}.java"], each
    for name in NEEDED_FOR:
        for spark in ("4.3.0", "5.0.0"):
            assert adapted(name, JAVA[f"{name}.java"], spark) == JAVA[f"{name}.java"]


# -- which of Spark's aggregate functions have been looked at


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


# -- columns get names that are distinct for any Parquet reader


RESERVED = ("holdfast_position", "holdfast_filler")

# Names that are close to each other, to our own, and to those by place.
CLOSE = "a A c0 C0 c1 c1_1 a.b é É ß ss İ i̇ ſ s holdfast_position HOLDFAST_FILLER _metadata ` 0"
NAMES = st.one_of(st.sampled_from(["", " ", *CLOSE.split()]), st.text(max_size=4))


def struct(*fields: tuple[str, Any]) -> dict[str, Any]:
    rest = {"nullable": True, "metadata": {}}
    fields_of_it = [{"name": name, "type": data_type, **rest} for name, data_type in fields]
    return {"type": "struct", "fields": fields_of_it}


TYPES = st.recursive(
    st.sampled_from(["long", "string", {"type": "udt", "class": "x", "sqlType": "double"}]),
    lambda inner: st.one_of(
        st.lists(st.tuples(NAMES, inner), min_size=1, max_size=4).map(lambda each: struct(*each)),
        inner.map(lambda each: {"type": "array", "elementType": each, "containsNull": True}),
        inner.map(lambda each: {"type": "map", "keyType": each, "valueType": each}),
    ),
    max_leaves=12,
)


def structs_of(data_type: Any) -> list[list[str]]:
    """The field names of every struct in a type."""
    if not isinstance(data_type, dict):
        return []
    if data_type["type"] == "struct":
        names = [field["name"] for field in data_type["fields"]]
        return [names, *(each for f in data_type["fields"] for each in structs_of(f["type"]))]
    inner = ("elementType", "keyType", "valueType")
    return [each for key in inner if key in data_type for each in structs_of(data_type[key])]


def without_names(data_type: Any) -> Any:
    if isinstance(data_type, list):
        return [without_names(each) for each in data_type]
    if isinstance(data_type, dict):
        return {key: without_names(value) for key, value in data_type.items() if key != "name"}
    return data_type


def is_plain(name: str) -> bool:
    return name.isascii() and name[:1].isalpha() and name.replace("_", "").isalnum()


@given(st.lists(NAMES, max_size=12))
def test_names_are_plain_and_unique_in_any_case(names: list[str]) -> None:
    def kept_names(names: list[str]) -> list[str]:
        return [field.name for field in kept_fields([(name, "long") for name in names], RESERVED)]

    kept = kept_names(names)
    assert len(kept) == len(names) and all(map(is_plain, kept))
    # Names that have been made plain need no further change.
    assert kept_names(kept) == kept
    for fold in (str.lower, str.upper, str.casefold):
        assert len({fold(name) for name in (*kept, *RESERVED)}) == len(names) + len(RESERVED)
    # The first of a plain name keeps it.
    seen = {*RESERVED}
    for name, as_kept in zip(names, kept, strict=True):
        if is_plain(name) and name.lower() not in seen:
            assert as_kept == name
            seen.add(name.lower())
        else:
            assert as_kept.startswith("c")


@given(TYPES)
def test_no_struct_has_fields_that_differ_by_case_alone(data_type: Any) -> None:
    kept = kept_type(data_type)
    assert without_names(kept) == without_names(data_type)
    for before, after in zip(structs_of(data_type), structs_of(kept), strict=True):
        assert len({name.casefold() for name in after}) == len(after)
        # What is clear stays.
        if len({name.casefold() for name in before}) == len(before):
            assert after == before
