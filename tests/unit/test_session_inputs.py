"""A result is that of its plan under the settings that can change it, and under no others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from holdfast.ids import IntermediateDataSetID
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.hashing import hash_parts
from holdfast.plan.reasons import Why
from holdfast.plan.session_inputs import SessionInputs
from holdfast.plan.terms import term


def node(
    name: str = "plan", *, layout_sensitive: bool = False, ties: bool = False
) -> CanonicalNode:
    return CanonicalNode(
        name,
        hash_parts(name),
        (),
        (),
        0,
        (),
        False,
        0,
        layout_sensitive,
        ambiguous_rows=layout_sensitive or ties,
    )


PLAN = node()
DEALT = node(layout_sensitive=True)
TIED = node(ties=True)
NUMBERED = (Why.PARTITIONED.of("MonotonicallyIncreasingID"),)
SETTINGS = {"ansi": "true", "time zone": "UTC", "spark.sql.shuffle.partitions": "4"}


def digest(
    settings: Mapping[str, str] = SETTINGS, plan: CanonicalNode = PLAN, version: str = "4.3.0"
) -> str:
    return SessionInputs(version, settings).dataset_digest(plan)


def test_a_digest_identifies_a_dataset() -> None:
    assert IntermediateDataSetID.from_digest(digest()).hex == digest()
    assert len(digest()) == 64


def test_the_plan_and_the_version_of_spark_count() -> None:
    assert len({digest(), digest(plan=node("other")), digest(version="4.3.1")}) == 3


@pytest.mark.parametrize(
    "key",
    [
        "ansi",
        "case sensitive",
        "time zone",
        "spark.sql.ansi.enabled",
        "spark.sql.session.timeZone",
        "spark.sql.caseSensitive",
        "spark.sql.legacy.timeParserPolicy",
        "spark.sql.sources.partitionColumnTypeInference.enabled",
        "spark.sql.parquet.int96RebaseModeInRead",
        "spark.sql.files.ignoreCorruptFiles",
        "spark.sql.mapKeyDedupPolicy",
        # Parquet's own filters lose zeros of the other sign.
        "spark.sql.parquet.filterPushdown",
        "spark.sql.parquet.enableVectorizedReader",
        "spark.sql.a.setting.that.comes.next.year",
        "fs.s3a.endpoint",
        # What only looks like a setting that changes nothing.
        "shuffle.partitions",
        "my.spark.sql.shuffle.partitions",
        "spark.sql.adaptively",
        "SPARK.SQL.SHUFFLE.PARTITIONS",
    ],
)
def test_a_setting_that_may_change_rows_counts(key: str) -> None:
    values = [{**SETTINGS, key: value} for value in ("true ", "false", "")]
    without = {name: value for name, value in SETTINGS.items() if name != key}
    assert len({digest(each) for each in (without, *values)}) == 4
    assert len({digest(each, DEALT) for each in (without, *values)}) == 4


SPEED_ALONE = [
    "spark.sql.shuffle.partitions",
    "spark.sql.adaptive.enabled",
    "spark.sql.adaptive.coalescePartitions.enabled",
    "spark.sql.autoBroadcastJoinThreshold",
    "spark.sql.files.maxPartitionBytes",
    "spark.sql.codegen.wholeStage",
    "spark.sql.cbo.enabled",
    "spark.sql.execution.arrow.pyspark.enabled",
    "spark.sql.parquet.compression.codec",
]
OF_NO_ROW = [
    "spark.sql.warehouse.dir",
    "hadoop: hive.metastore.warehouse.dir",
    "spark.sql.ui.retainedExecutions",
    "spark.sql.debug.maxToStringFields",
    "spark.sql.repl.eagerEval.enabled",
]


@pytest.mark.parametrize("key", OF_NO_ROW)
def test_what_no_row_depends_on_does_not_count_however_rows_are_dealt(key: str) -> None:
    for plan in (PLAN, DEALT):
        one, other = ({**SETTINGS, key: value} for value in "12")
        without = {name: value for name, value in SETTINGS.items() if name != key}
        assert digest(one, plan) == digest(other, plan) == digest(without, plan)


@pytest.mark.parametrize("key", SPEED_ALONE)
def test_a_setting_that_changes_speed_alone_does_not_count(key: str) -> None:
    without = {name: value for name, value in SETTINGS.items() if name != key}
    assert digest({**SETTINGS, key: "1"}) == digest({**SETTINGS, key: "2"}) == digest(without)


@pytest.mark.parametrize("key", SPEED_ALONE)
def test_it_counts_where_rows_depend_on_how_they_are_dealt(key: str) -> None:
    without = {name: value for name, value in SETTINGS.items() if name != key}
    settings = [without, {**SETTINGS, key: "1"}, {**SETTINGS, key: "2"}]
    for plan in (DEALT, TIED):
        assert len({digest(each, plan) for each in settings}) == 3


@pytest.mark.parametrize(
    "plan", [DEALT, TIED, replace(PLAN, columns=(replace(term("n"), undetermined=NUMBERED),))]
)
def test_cores_count_where_several_answers_are_right(plan: CanonicalNode) -> None:
    programs = [SessionInputs("4.3.0", SETTINGS, cores=cores) for cores in (2, 2, 8)]
    assert len({each.dataset_digest(plan) for each in programs}) == 2
    assert len({each.dataset_digest(PLAN) for each in programs}) == 1


TEXTS = st.text(st.sampled_from("ab=,'\"()\\ é\ud800"), max_size=4)
SOME = st.dictionaries(TEXTS, TEXTS, max_size=4)


@given(settings=SOME, data=st.data(), plan=st.sampled_from([PLAN, DEALT]))
def test_the_order_in_which_settings_were_made_does_not_count(
    settings: dict[str, str], data: st.DataObject, plan: CanonicalNode
) -> None:
    shuffled = dict(data.draw(st.permutations(list(settings.items()))))
    assert digest(shuffled, plan) == digest(settings, plan)


@given(one=SOME, other=SOME, plan=st.sampled_from([PLAN, DEALT]))
def test_no_two_sets_of_settings_are_taken_for_each_other(
    one: dict[str, str], other: dict[str, str], plan: CanonicalNode
) -> None:
    assume(one != other)
    assert digest(one, plan) != digest(other, plan)


def test_where_one_text_ends_and_the_next_begins_counts() -> None:
    assert digest({"ab": "c"}) != digest({"a": "bc"})
    assert digest({"a": "b", "c": "d"}) != digest({"a": "b', 'c': 'd"})
    assert digest({}, version="4.3") != digest({"4": "3"}, version="")


def test_asking_changes_nothing() -> None:
    settings = dict(SETTINGS)
    inputs = SessionInputs("4.3.0", settings)
    assert inputs.dataset_digest(PLAN) == inputs.dataset_digest(PLAN)
    assert settings == SETTINGS
