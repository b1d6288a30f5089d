"""Why one of the commands ends without doing what was asked."""

from __future__ import annotations


class DataSetsError(Exception):
    """The message is a line, or several, for the person who asked."""

    exit_code = 1


class BadInputError(DataSetsError):
    """What the person gave can't be worked with: a directory, an address, a token, an id."""

    exit_code = 2
