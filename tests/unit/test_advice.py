"""Which logs are read for advice, what is known of their queries, and what is proposed."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.advice.choice import choose
from holdfast.advice.counted_rows import RanStep, counted_rows
from holdfast.advice.event_log_files import event_logs
from holdfast.advice.past_query import PastQuery, PlanPart
from holdfast.advice.proposal import StorageRates
from holdfast.advice.replay import replay
from holdfast.errors import EventLogError
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.document import LOGICAL

# -- logs ------------------------------------------------------------------------------------------

LINES = [b'{"Event":"SparkListenerLogStart"}', b'{"Event":"SparkListenerApplicationEnd"}']


def write(path: Path, lines: list[bytes] = LINES) -> Path:
    """Compressed, where it is called so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = b"\n".join(lines) + b"\n"
    if ".zstd" in path.name:
        with pyarrow.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(content)
    else:
        path.write_bytes(content)
    return path


def lines_in(path: Path) -> list[list[bytes]]:
    return [list(log.lines()) for log in event_logs(path)]


def test_one_file(tmp_path: Path) -> None:
    for name in ("local-1", "local-2.inprogress", "local-3.zstd", "local-4.zstd.inprogress"):
        assert lines_in(write(tmp_path / name)) == [LINES]
    # Lines longer than what is read at a time.
    long = [b"a" * 3_000_000, b"b", b"c" * 1_500_000]
    assert lines_in(write(tmp_path / "local-5.zstd", long)) == [long]


def test_a_directory_of_logs_and_one_in_parts(tmp_path: Path) -> None:
    parts = tmp_path / "eventlog_v2_local-2"
    for number in (10, 9, 2):
        write(parts / f"events_{number}_local-2.zstd", [b"%d" % number])
    write(parts / "appstatus_local-2", [])
    assert lines_in(parts) == [[b"2", b"9", b"10"]]
    write(tmp_path / "local-1")
    write(tmp_path / "something" / "else")
    write(tmp_path / ".hidden")
    for name in ("eventlog_v2_local-3", "empty"):
        (tmp_path / name).mkdir()
    assert [log.path.name for log in event_logs(tmp_path)] == ["eventlog_v2_local-2", "local-1"]
    assert lines_in(tmp_path) == [[b"2", b"9", b"10"], LINES]
    assert event_logs(tmp_path / "empty") == []


def test_a_log_that_ends_in_the_middle_of_a_line_or_frame(tmp_path: Path) -> None:
    cut = tmp_path / "local-1"
    cut.write_bytes(LINES[0] + b"\n" + LINES[1][:10])
    assert lines_in(cut) == [[LINES[0], LINES[1][:10]]]
    many = [b'{"Event":"%d"}' % number for number in range(100_000)]
    whole = write(tmp_path / "local-2.zstd", many)
    whole.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    [found] = lines_in(whole)
    assert 0 < len(found) < len(many)
    assert found == many[: len(found)]


@pytest.mark.parametrize("codec", ["lz4", "snappy", "lzf"])
def test_other_compression_is_an_error_that_says_what_to_do(tmp_path: Path, codec: str) -> None:
    [log] = event_logs(write(tmp_path / f"local-1.{codec}"))
    with pytest.raises(
        EventLogError, match=rf"{codec}.*spark\.eventLog\.compression\.codec to zstd"
    ):
        list(log.lines())


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(EventLogError, match="nowhere: no such file or directory"):
        event_logs(tmp_path / "nowhere")
    [log] = event_logs(write(tmp_path / "local-1"))
    (tmp_path / "local-1").unlink()
    assert list(log.lines()) == []


# -- rows ------------------------------------------------------------------------------------------

# What stands above what, upper ones first; the steps that ran, as the JVM writes them (how many
# joins, rows, columns); and the rows that are known. Operators' own columns are their places.
CASES: dict[str, tuple[list[str], list[str], list[tuple[str, int]]]] = {
    "an aggregate of a join": (
        ["Aggregate", "Project", "Join"],
        ["0 40 0", "1 2000 2"],
        [("Aggregate", 40), ("Join", 2000)],
    ),
    "an aggregate of an aggregate": (
        ["Aggregate", "Project", "Aggregate"],
        ["0 13 0", "0 1000 2"],
        [("Aggregate", 13), ("Aggregate", 1000)],
    ),
    "all are sorted before the first ones are taken": (
        ["GlobalLimit", "LocalLimit", "Sort", "Aggregate"],
        ["0 40 3"],
        [("Aggregate", 40)],
    ),
    "what an action gathers": (["Aggregate"], ["0 1 99", "0 40 0"], [("Aggregate", 40)]),
    "an unknown number": (["Aggregate", "Join"], ["0 -1 0", "1 7 1"], [("Join", 7)]),
    "a condition may have moved below": (["Filter", "Aggregate"], ["0 10 1"], []),
    "a condition between them": (
        ["Aggregate", "Filter", "Join"],
        ["0 40 0", "1 2000 2"],
        [("Aggregate", 40)],
    ),
    "other joins": (["Aggregate", "Join"], ["0 40 0", "2 9 1"], [("Aggregate", 40)]),
    "other columns": (["Aggregate"], ["0 40 0 99"], []),
}


@pytest.mark.parametrize("case", CASES)
def test_what_has_run_is_counted(case: str) -> None:
    names, lines, expected = CASES[case]
    root: Any = None
    for handle, name in reversed([*enumerate(names)]):
        below = () if root is None else (root,)
        root = CanonicalNode(name, f"{handle}", below, (), handle, (handle,), False, 0, False)
    operators: Any = [
        {"c": LOGICAL + name, "i": handle, "f": [], "o": [], "n": 0}
        for handle, name in enumerate(names)
    ]
    counted = counted_rows(root, operators, map(RanStep.read, lines))
    assert [(names[handle], rows) for handle, rows in counted.items()] == expected


# -- proposals -------------------------------------------------------------------------------------

RATES = StorageRates(written=100.0, read=200.0)


def queries(*roots: PlanPart) -> list[PastQuery]:
    return [
        PastQuery("app-1", "report", number, f"count at r.py:{number}", float(number), 1.0, root)
        for number, root in enumerate(roots)
    ]


def part(key: str | None, seconds: float, size: int = 0, *inputs: PlanPart) -> PlanPart:
    return PlanPart(key, f"part {key}", seconds, size, inputs)


JOIN = part("join", 10.0, 100)
WIDE, UNKNOWN = part("wide", 1.0, 1_000_000), part(None, 10.0)
# An exchange that a query reuses saves nothing there.
REUSED = part("self-join", 1.0, 10, JOIN, part("join", 0.0, 100))
LARGE, SMALL, OTHER = part("large", 20.0, 300), part("small", 3.0, 10), part("other", 3.0, 10)
TWICE = [LARGE, LARGE, SMALL, SMALL, OTHER, OTHER]
RISING = [part(f"{n}", float(n)) for n in range(1, 6)] * 2


@pytest.mark.parametrize(
    ("asked", "limits", "proposed"),
    [
        ([], {}, ""),
        ([JOIN, part("other", 20.0)], {}, ""),
        # Dearer to read than to compute, or not known.
        ([WIDE] * 3, {}, ""),
        ([UNKNOWN] * 2, {}, ""),
        ([REUSED], {}, ""),
        ([REUSED, JOIN], {}, "join"),
        (TWICE, {"budget": 10}, "other"),
        # A large part takes the place of several small ones.
        (TWICE, {"budget": 300}, "large"),
        # Of what is equal the same one is chosen by every program.
        (TWICE, {"budget": 319}, "large small"),
        (TWICE, {"budget": 320}, "large other small"),
        (RISING, {}, "5 4 3 2 1"),
        (RISING, {"most": 2}, "5 4"),
        (RISING, {"least_seconds": 3.5}, "5 4"),
    ],
)
def test_what_saves_most_is_proposed(
    asked: list[PlanPart], limits: dict[str, float], proposed: str
) -> None:
    found = choose(queries(*asked), RATES, **limits)  # type: ignore[arg-type]
    assert [each.key for each in found] == proposed.split()


def test_a_proposal_says_what_it_saves_in_which_queries() -> None:
    asked = queries(*(part(f"top {number}", 1.0, 10, JOIN) for number in range(3)))
    [proposal] = choose([*reversed(asked)], RATES)
    assert (proposal.key, proposal.reads, proposal.bytes) == ("join", 2, 100)
    assert proposal.queries == tuple(asked), "the first one by time keeps it"
    assert proposal.seconds == 10.0
    # Twice 10 s less 0.5 s to read it, and once 1 s to write it.
    assert proposal.saved_seconds == pytest.approx(2 * 9.5 - 1)


def test_what_is_below_a_proposal_is_not_counted_twice() -> None:
    whole = part("whole", 1.0, 10, JOIN)
    assert [each.key for each in choose(queries(whole, whole, whole), RATES)] == ["whole"]
    also = choose(queries(whole, whole, part("else", 1.0, 10, JOIN)), RATES)
    assert {each.key for each in also} == {"whole", "join"}
    total = sum(each.saved_seconds for each in also)
    assert total == pytest.approx((11 - 0.05) + (10 - 0.5) - 0.1 - 1)


KEYS = "abcde"


@st.composite
def histories(draw: st.DrawFn) -> list[PastQuery]:
    """Queries over parts of which one key always means the same tree."""
    parts: list[PlanPart] = []
    for key in KEYS:
        inputs = draw(st.lists(st.sampled_from(parts), max_size=2)) if parts else []
        seconds = draw(st.floats(0.1, 20))
        parts.append(part(key, seconds, draw(st.integers(0, 1000)), *inputs))
    return queries(*draw(st.lists(st.sampled_from(parts), max_size=6)))


def saved(asked: list[PastQuery], kept: set[str]) -> float:
    return sum(each.saved_seconds for each in replay(asked, kept, RATES).values())


@given(histories(), st.sampled_from([None, 300, 1500]))
def test_what_is_proposed_is_nearly_the_best(asked: list[PastQuery], budget: int | None) -> None:
    found = choose(asked, RATES, budget=budget)
    kept = {each.key for each in found}
    sizes = {each.key: each.bytes for query in asked for each in query.root.walk()}
    if budget is not None:
        assert sum(sizes[key] for key in kept) <= budget
    assert all(each.saved_seconds > 0 and each.reads > 0 for each in found)
    best = max(
        saved(asked, {key for key in keys if key})
        for count in range(len(sizes) + 1)
        for keys in itertools.combinations(sizes, count)
        if budget is None or sum(sizes[key] for key in keys) <= budget
    )
    assert saved(asked, kept) >= 0.8 * best - 1e-6


@given(histories(), st.randoms())
def test_no_more_is_saved_than_it_cost_in_any_order(
    asked: list[PastQuery], chance: random.Random
) -> None:
    found = choose(asked, RATES)
    assert sum(each.saved_seconds for each in found) <= sum(each.root.seconds for each in asked)
    mixed = [replace(each) for each in asked]
    chance.shuffle(mixed)
    assert choose(mixed, RATES) == found
