"""What a sink notes down for a job that nobody will recover."""

from __future__ import annotations


class PassingJournal:
    """A `SinkJournal` that is gone with its process."""

    def __init__(self) -> None:
        self._text = ""

    def read(self) -> str:
        """What was written last."""
        return self._text

    def write(self, text: str) -> None:
        """Replaces the text."""
        self._text = text
