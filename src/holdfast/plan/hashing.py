"""The one digest of what a plan consists of."""

from __future__ import annotations

import hashlib


def hash_parts(*parts: object) -> str:
    """SHA-256 in hex of nested tuples of strings, integers, booleans and None.

    Their `repr` is unambiguous, so different parts have different digests.

    >>> hash_parts("a", ("b", 1)) == hash_parts("a", ("b", 1))
    True
    >>> hash_parts("a", ("b", 1)) == hash_parts("a", ("b", "1"))
    False
    """
    return hashlib.sha256(repr(parts).encode("utf-8", "surrogatepass")).hexdigest()
