"""Expressions in canonical form, each with the digest of all that is below it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.plan.hashing import hash_parts
from holdfast.plan.reasons import Reason

Canonical = Any
"""A `Term`, or nested tuples of strings, integers, booleans, None and embedded terms."""


@dataclass(frozen=True, slots=True)
class Term:
    """An expression over the columns of some rows.

    Attributes:
        digest: 64 hexadecimal digits; two terms with the same one have the same value in each row.
        chain: the operator whose operands may be nested in any way, if it is one.
        operands: those operands, each once.
        throws: there may be rows that it has no value for, but an error. Whether that comes then
            depends on what is evaluated before, and decides.
        undetermined: why the rows don't determine its value, if they don't: then no other node, or
            no rows distributed in another way, have a term with this digest.
    """

    digest: str
    chain: str | None = None
    operands: tuple[Term, ...] = ()
    throws: bool = False
    undetermined: tuple[Reason, ...] = ()

    def operands_of(self, chain: str) -> tuple[Term, ...]:
        """What `chain` connects in this term: the term itself where it is something else."""
        return self.operands if self.chain == chain else (self,)


def term(*parts: Canonical) -> Term:
    """The term with these parts: what it is called, and its canonical arguments.

    It throws where one of these does, and is undetermined for what they are.

    >>> term("Add", term("column", 0), 1) == term("Add", term("column", 0), 1)
    True
    >>> term("Not", term("column", 0)) == term("Not", term("column", 0).digest)
    False
    """
    terms = [each for each in parts if isinstance(each, Term)]
    throws = any(each.throws for each in terms)
    digest = hash_parts(*map(embedded, parts))
    return Term(digest, throws=throws, undetermined=undetermined(terms))


def chained(chain: str, operands: Iterable[Term]) -> Term:
    """The term in which an associative, commutative and idempotent operator connects operands.

    >>> a, b, c = (term("column", index) for index in range(3))
    >>> chained("And", [a, chained("And", [c, b])]) == chained("And", [chained("And", [b, a]), c])
    True
    >>> c = Term(c.digest, throws=True)
    >>> chained("And", [a, c]) == chained("And", [c, a])
    False
    """
    flat = in_one_order([each for operand in operands for each in operand.operands_of(chain)])
    if len(flat) == 1:
        return flat[0]
    throws = any(each.throws for each in flat)
    return Term(hash_parts(chain, digests(flat)), chain, flat, throws, undetermined(flat))


def in_one_order(terms: Sequence[Term]) -> tuple[Term, ...]:
    """Each of some terms once, in an order that is theirs unless one decides what is evaluated."""
    flat = {each.digest: each for each in terms}
    if any(each.throws for each in terms):
        return tuple(flat.values())
    return tuple(flat[digest] for digest in sorted(flat))


def embedded(value: Canonical) -> Canonical:
    """A canonical value as a part of another one: no literal looks like a term."""
    return ("term", value.digest) if isinstance(value, Term) else value


def undetermined(terms: Iterable[Term]) -> tuple[Reason, ...]:
    """Why the values of some terms are not determined by their rows, each reason once."""
    return tuple(dict.fromkeys(reason for each in terms for reason in each.undetermined))


def digests(terms: Iterable[Term]) -> tuple[str, ...]:
    """The digests of some terms, in their order."""
    return tuple(each.digest for each in terms)
