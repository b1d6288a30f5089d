"""The cases that have found bugs, by class and seed: each fails where its bug's fix is taken out."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

from tests.fuzz.classes import case
from tests.fuzz.script import Script, snippet


@dataclass(frozen=True)
class Proof:
    """A case that goes wrong where a bug is."""

    bug: str
    name: str
    seed: int
    fingerprint: str
    """Of the program that it was then: another one, as seeds make other ones, proves nothing."""
    implicit: bool = False

    def script(self) -> Script:
        """The case."""
        return case(self.name, self.seed)


def fingerprint(script: Script) -> str:
    """A few digits that tell a case from others."""
    return hashlib.sha256(snippet(script).encode()).hexdigest()[:8]


PROOFS = (
    Proof("1: zeros of both signs under push-down", "push-down", 195, "2850c7ee"),
    Proof("1: zeros of both signs under push-down", "push-down", 240, "fd55aa41"),
    Proof("2: produced from another query's expressions", "settings", 116, "aed43e53"),
    Proof("2: produced from another query's expressions", "settings", 118, "3c0651f8"),
    Proof("5: blocks of files depend on neutral settings", "metadata", 63, "1f1442de"),
    Proof("5: blocks of files depend on neutral settings", "metadata", 95, "0df25773"),
    Proof("6: texts that aren't UTF-8, in values", "literals", 173, "6f77e71d"),
    Proof("6: texts that aren't UTF-8, from Arrow", "literals", 195, "7bc1bcf1"),
    Proof("7: what a function calls itself", "functions", 3, "336af58a"),
    Proof("7: what a function calls itself", "functions", 12, "a2b7e6bf"),
    Proof("9: aggregates that draw random numbers", "aggregates", 7, "7d3702b1"),
    Proof("a: operands in another order", "live-order", 19, "5047a721", True),
    Proof("a: operands in another order", "live-order", 20, "31a73d47", True),
    Proof("b: partitions of a catalog that have moved", "live-partitions", 3, "380c4065", True),
    Proof("b: partitions of a catalog that have moved", "live-partitions", 6, "31a27d2c", True),
    Proof("c: columns asked for decide which rows there are", "malformed", 6, "94c80705"),
    Proof("d: operands that may throw, in another order", "arithmetic", 3, "4c4f1ac6"),
    Proof("d: operands that may throw, in another order", "arithmetic", 17, "9e9412c9"),
    Proof("e: conditions over what is kept unasked", "throwing", 0, "64fd6d44"),
    Proof("f: values of partitions, to another program", "programs", 38, "b57da4da"),
    Proof("f: values of partitions, to another program", "programs", 52, "5b205ec1"),
)
"""For each bug that was found, cases that find it."""
