"""Expressions in canonical form, each with the digest of all that is below it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from holdfast.plan.hashing import hash_parts

Canonical = Any
"""A `Term`, or nested tuples of strings, integers, booleans, None and embedded terms."""


@dataclass(frozen=True, slots=True)
class Term:
    """An expression over the columns of some rows.

    Attributes:
        digest: 64 hexadecimal digits; two terms with the same one have the same value in each row.
        chain: the operator whose operands may stand in any order and number, if it is one.
        operands: those operands, each once.
    """

    digest: str
    chain: str | None = None
    operands: tuple[Term, ...] = ()

    def operands_of(self, chain: str) -> tuple[Term, ...]:
        """What `chain` connects in this term: the term itself where it is something else."""
        return self.operands if self.chain == chain else (self,)


def term(*parts: Canonical) -> Term:
    """The term with these parts: what it is called, and its canonical arguments.

    >>> term("Add", term("column", 0), 1) == term("Add", term("column", 0), 1)
    True
    >>> term("Not", term("column", 0)) == term("Not", term("column", 0).digest)
    False
    """
    return Term(hash_parts(*map(embedded, parts)))


def chained(chain: str, operands: Iterable[Term]) -> Term:
    """The term in which an associative, commutative and idempotent operator connects operands.

    >>> a, b, c = (term("column", index) for index in range(3))
    >>> chained("And", [a, chained("And", [c, b])]) == chained("And", [chained("And", [b, a]), c])
    True
    """
    flat = {each.digest: each for operand in operands for each in operand.operands_of(chain)}
    if len(flat) == 1:
        return next(iter(flat.values()))
    ordered = tuple(flat[digest] for digest in sorted(flat))
    return Term(hash_parts(chain, digests(ordered)), chain, ordered)


def embedded(value: Canonical) -> Canonical:
    """A canonical value as a part of another one: no literal looks like a term."""
    return ("term", value.digest) if isinstance(value, Term) else value


def digests(terms: Iterable[Term]) -> tuple[str, ...]:
    """The digests of some terms, in their order."""
    return tuple(each.digest for each in terms)
