"""Text that comes from files and other machines, made fit for a terminal."""

from __future__ import annotations


def printable(text: str) -> str:
    """The text without control characters, which a terminal would obey.

    >>> printable("a\\x1b[31mb")
    'a?[31mb'
    """
    return "".join(letter if letter.isprintable() else "?" for letter in text)
