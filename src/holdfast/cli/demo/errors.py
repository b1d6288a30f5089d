"""Why a demo ends early."""

from __future__ import annotations


class DemoError(Exception):
    """The demo can't go on; the message is for the person who started it."""

    exit_code = 1


class BadDemoInputError(DemoError):
    """What the person gave can't be worked with: a path, a folder's content, a scale."""

    exit_code = 2
