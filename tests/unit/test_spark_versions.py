"""Java classes of ours and how they are written for older versions of Spark."""

from __future__ import annotations

from importlib.resources import files

from holdfast.spark.versions import DIFFERENCES, NEEDED_FOR, adapted

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
