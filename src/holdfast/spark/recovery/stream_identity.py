"""What a job of streams is known by."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class StreamIdentity:
    """What a job of streams is known by when its program starts again.

    Attributes:
        digest: of its streams and sinks, without the versions of files, 64 hexadecimal digits; None
            where some function of it can't be told for sure.
        vertices: the ids of the datasets that are kept on the way, in hexadecimal digits.
    """

    digest: str | None
    vertices: tuple[str, ...]
