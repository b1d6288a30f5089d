"""What a stream's task has failed with, as the typed error that it was there."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from pyspark.errors import PySparkException

from holdfast.errors import (
    InvalidKeyError,
    OperatorFailedError,
    RecordNotSerializableError,
    StreamTaskError,
    WorkerModuleMissingError,
)

__all__ = ["told_as_themselves"]

# Python's workers send a text, of which the messages of these errors are a part.
_MESSAGES: tuple[tuple[Callable[..., StreamTaskError], str], ...] = (
    (
        OperatorFailedError,
        rf"\[{OperatorFailedError.marker}\] operator (['\"])(?P<operator>.*?)\1 raised "
        r"(?P<raised>.*?)\. The traceback of the cause shows where in its function\."
        r"\s*(?P<trace>.*)",
    ),
    (
        RecordNotSerializableError,
        r"operator (['\"])(?P<operator>.*?)\1 emitted a record of type (?P<record_type>\S+) that "
        r"can't be sent or kept: (?P<why>.*?)\. Expected a picklable record",
    ),
    (
        InvalidKeyError,
        r"operator (['\"])(?P<operator>.*?)\1 got the key (?P<key>.*?): (?P<why>.*?)\. "
        r"Expected a hashable value",
    ),
)


# It was raised before anything of Holdfast's ran there.
_MISSING = re.compile(r"^ModuleNotFoundError: No module named '(?P<module>[^']+)'", re.MULTILINE)


@contextmanager
def told_as_themselves() -> Iterator[None]:
    """Errors of a stream's tasks are raised here as they were there.

    Raises:
        StreamTaskError: when a task has failed with one.
    """
    try:
        yield
    except PySparkException as error:
        told = _told(str(error))
        if told is None:
            raise
        raise told from error


def _told(text: str) -> StreamTaskError | None:
    for error, message in _MESSAGES:
        found = re.search(rf"^holdfast\.errors\.\w+: {message}", text, re.DOTALL | re.MULTILINE)
        if found is not None:
            return error(**found.groupdict())
    missing = _MISSING.search(text)
    return None if missing is None else WorkerModuleMissingError(**missing.groupdict())
