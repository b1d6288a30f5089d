"""What the program calls a result, and where it has asked for it."""

from __future__ import annotations

import ast

import pytest

from holdfast.api.call_site import cached_name, call_site
from holdfast.plan.result_label import result_label


@pytest.mark.parametrize(
    ("source", "line", "name"),
    [
        ("hot = table.cache()", 1, "hot"),
        ("hot: object = table.persist()", 1, "hot"),
        ("a = b = table.cache()", 1, "a"),
        ("hot = (\n    table\n    .distinct()\n    .cache()\n)", 4, "hot"),
        ("table.cache()", 1, "table"),
        ("def f():\n    if True:\n        hot = spark.range(3).cache()\n", 3, "hot"),
        ("spark.range(3).cache().count()", 1, None),
        ("self.hot = spark.range(3).cache()", 1, None),
        ("hot[0] = spark.range(3).cache()", 1, None),
        ("spark.sql('CACHE TABLE hot')", 1, None),
        ("%matplotlib inline\nhot = table.cache()", 2, None),
        ("\0", 1, None),
    ],
)
def test_the_variable_of_a_cached_table(source: str, line: int, name: str | None) -> None:
    assert cached_name(source, line) == name


def test_a_parser_that_gives_up_costs_the_name_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def gives_up(source: str) -> None:
        raise SystemError("AST constructor recursion depth mismatch (before=33, after=28)")

    monkeypatch.setattr(ast, "parse", gives_up)
    assert cached_name("hot = table.cache()", 1) is None
    assert str(call_site().place).startswith("test_call_site.py:")


CELLS = ("/tmp/ipykernel_17/3405.py", "<ipython-input-5-f32>")


class Shell:
    execution_count = 5


@pytest.mark.parametrize(
    ("file", "shell", "place"),
    [
        ("<string>", None, "None"),
        *((file, None, "'line 2 of a cell'") for file in CELLS),
        *((file, Shell, "'cell 5, line 2'") for file in CELLS),
    ],
)
def test_a_notebook_has_cells(file: str, shell: object, place: str) -> None:
    names: dict[str, object] = {"call_site": call_site}
    if shell is not None:
        names["get_ipython"] = shell
    exec(compile("\nhot = call_site()", file, "exec"), names)
    assert repr(names["hot"]) == f"CallSite(place={place}, name=None)"


def test_a_label_is_one_line_of_a_decent_length() -> None:
    assert result_label("Filter over a", None) == "Filter over a"
    label = result_label("Filter over a", "Filter (x#1L = 'two\nlines')", "hot", "a.py:1")
    assert label == "hot: Filter (x = 'two lines') over a (a.py:1)"
    assert len(result_label("Filter", "Filter " + "x" * 1000)) < 100
