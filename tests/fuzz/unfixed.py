"""Takes the fix of a bug out again, to show that the fuzzer finds it without."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from holdfast.plan import canonicalizer, determinism, expressions, sources
from holdfast.plan.reach_encoder import ReachEncoder
from holdfast.runtime import job_master
from holdfast.spark import java_classes
from holdfast.spark.catalyst_bridge import CatalystBridge


def _filters_of_zeros_are_pushed() -> None:
    _change_java("KeptFormat", "isExact(filter, data) &&", "")


def _whatever_was_cached_is_produced() -> None:
    CatalystBridge.detached = lambda self, plan, session: plan  # type: ignore[method-assign]
    job_master._Job._part = lambda self, digest: None  # type: ignore[method-assign]


def _blocks_depend_on_nothing() -> None:
    sources._OF_SPLIT = frozenset()


def _bytes_are_read_as_text() -> None:
    _change_java("PlanReader", "((UTF8String) value).isValid()", "true")
    utf8 = "StandardCharsets.UTF_8"
    _change_java(
        "KnownContent",
        "digest.update(row);",
        f"digest.update(new String(row, {utf8}).getBytes({utf8}));",
    )


def _change_java(name: str, old: str, new: str) -> None:
    real = java_classes.adapted

    def changed(asked: str, source: str, version: str) -> str:
        source = real(asked, source, version)
        if asked == name:
            assert old in source, f"{old} stands nowhere in {name}"
            source = source.replace(old, new)
        return source

    java_classes.adapted = changed


def _names_do_not_count() -> None:
    ReachEncoder._describe = lambda self, function: None  # type: ignore[method-assign]
    ReachEncoder._describe_closely = lambda self: None  # type: ignore[method-assign]


def _aggregates_draw_nothing() -> None:
    expressions.is_random = lambda name: "Kll" not in name and determinism.is_random(name)
    expressions.is_known_aggregate = lambda name: (
        "Kll" in name or determinism.is_known_aggregate(name)
    )


def _order_does_not_count() -> None:
    _change_java("WrittenOrder", "if (isFixed) {", "if (true) {")


def _partitions_have_no_values() -> None:
    _change_java("StageInputs", "texts.intern(partitions(index))", '""')


def _values_of_partitions_do_not_count() -> None:
    _change_java("PlanReader", "'\\n' + values + ' '", "'\\n' + \"\" + ' '")


def _nothing_throws() -> None:
    expressions.never_throws = lambda name: True


def _all_readers_read_alike() -> None:
    real = canonicalizer.canonical_source
    canonicalizer.canonical_source = lambda operator, context, **more: replace(  # type: ignore[attr-defined]
        real(operator, context, **more), scan_sensitive=False
    )


def _errors_are_final() -> None:
    job_master._Job.goes_as_written = lambda self: False  # type: ignore[method-assign]


UNFIXED: dict[str, Callable[[], None]] = {
    "1": _filters_of_zeros_are_pushed,
    "2": _whatever_was_cached_is_produced,
    "5": _blocks_depend_on_nothing,
    "6": _bytes_are_read_as_text,
    "7": _names_do_not_count,
    "9": _aggregates_draw_nothing,
    "a": _order_does_not_count,
    "b": _partitions_have_no_values,
    "c": _all_readers_read_alike,
    "d": _nothing_throws,
    "e": _errors_are_final,
    "f": _values_of_partitions_do_not_count,
}
"""What takes a fix out for the rest of the process, by the bug's number in `proofs`."""
