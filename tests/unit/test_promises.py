"""The lists of promises and of what a digest assumes name tests that there are."""

from __future__ import annotations

import re
from pathlib import Path

_TESTS = Path(__file__).parents[1]
_ROW = re.compile(r"\| (?P<promise>[^|]+) \| (?P<tests>`[^|]+`) \|")
_NAMED = re.compile(r"`(?P<file>[\w/]*\.py)?::(?P<test>\w+)`")


def test_each_promise_has_its_tests() -> None:
    rows = _ROW.findall((_TESTS / "PROMISES.md").read_text(encoding="utf-8"))
    assert len(rows) > 40
    for promise, tests in rows:
        for named in tests.split(", "):
            path, _, test = named.strip("`").partition("::")
            assert (_TESTS / path).exists(), (promise, path)
            assert not test or is_in(_TESTS / path, test), (promise, test)


def test_each_assumption_of_a_digest_has_its_test() -> None:
    text = (_TESTS.parent / "CONTRIBUTING.md").read_text(encoding="utf-8")
    section = text.partition("## What a digest assumes")[2].partition("\n## ")[0]
    file, found = "", 0
    for given, test in _NAMED.findall(section):
        file = given or file
        path = _TESTS.parent / file if "/" in file else _TESTS / "spark" / file
        assert is_in(path, test), (file, test)
        found += 1
    assert found > 30


def is_in(file: Path, test: str) -> bool:
    return f"def {test}(" in file.read_text(encoding="utf-8")
