"""A result is that of its plan under the settings that can change it, and under no others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.hashing import hash_parts
from holdfast.plan.reasons import Why
from holdfast.plan.session_inputs import SessionInputs
from holdfast.plan.terms import term

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
