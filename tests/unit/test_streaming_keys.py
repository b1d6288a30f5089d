"""Hashes of keys that are the same in all processes, and what can be no key."""

from __future__ import annotations

import datetime
import enum
import subprocess
import sys
from collections import namedtuple
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from pyspark.sql import Row

from holdfast.errors import InvalidKeyError
from holdfast.streaming.key_hash import stable_hash
from holdfast.streaming.key_selection import targets_of


class Name(str, enum.Enum):
    ADA = "ada"


class Level(enum.IntEnum):
    LOW = 1


class Plain:
    pass


Pair = namedtuple("Pair", ["left", "right"])


@dataclass(frozen=True)
class Point:
    x: int
    label: str | None = None


@pytest.mark.parametrize(
    "keys",
    [
        (1, 1.0, True, Decimal(1), Fraction(1), 1 + 0j, Level.LOW, np.int16(1), np.float32(1)),
        ("ada", np.str_("ada"), Name.ADA),
        (b"ada", np.bytes_(b"ada")),
        (0, -0.0, False),
        ((1, None), (1.0, None), Pair(True, None), Row(a=1, b=None)),
        (Point(1), Point(1, None)),
        (frozenset({1, "a", None}), frozenset({None, "a", 1.0})),
        (2**100, float(2**100)),
    ],
)
def test_keys_of_different_types_that_are_equal(keys: tuple[object, ...]) -> None:
    assert len(set(keys)) == 1
    assert len({stable_hash(key) for key in keys}) == 1


PROGRAM = """
import enum
from dataclasses import dataclass
from decimal import Decimal
from holdfast.streaming.key_hash import stable_hash

class Color(enum.Enum):
    RED = 1

@dataclass(frozen=True)
class Point:
    x: int

keys = [None, 1, 1.5, 2**80, "a", "\\ud800", b"a", ("a", None, (1, b"")), Color.RED, Point(1),
        Point(("a", None)), frozenset({"a", "b", None}), int, Point, len, Decimal("1.5")]
print([stable_hash(key) for key in keys])
"""


def test_hashes_are_the_same_in_processes_with_other_seeds() -> None:
    printed = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
        ).stdout
        for seed in "12"
    ]
    assert printed[0] == printed[1]


@pytest.mark.parametrize(
    "key", [[1], (1, [2]), float("nan"), (1, np.float64("nan")), Decimal("nan"), Plain()]
)
def test_what_can_be_no_key_is_named_with_its_operator(key: object) -> None:
    with pytest.raises(InvalidKeyError, match="'Sum'"):
        targets_of([1, key], 2, "Sum")


def test_hashes_of_a_person_s_own_need_a_fixed_seed(monkeypatch: pytest.MonkeyPatch) -> None:
    day = datetime.date(2024, 1, 2)
    monkeypatch.setenv("PYTHONHASHSEED", "0")
    assert stable_hash(day) == stable_hash(datetime.date(2024, 1, 2))
    monkeypatch.delenv("PYTHONHASHSEED")
    with pytest.raises(InvalidKeyError, match="PYTHONHASHSEED"):
        targets_of([day], 2, "Sum")
