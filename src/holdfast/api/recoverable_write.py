"""Exactly-once writes of files, however often the job is started."""

from __future__ import annotations

import hashlib
import logging
from typing import Any

from holdfast.api.write_target import WriteTarget
from holdfast.sinks.directory_sink import DirectorySink
from holdfast.sinks.unpublishable import why_unpublishable

__all__ = ["WriterCall", "sink_of_write", "staged_calls"]

logger = logging.getLogger(__name__)

WriterCall = tuple[str, tuple[Any, ...]]
"""A call of one of Spark's writers: the method, and what it was given."""

_DISCARDING = "noop"


def sink_of_write(
    name: str, java_writer: Any, target: WriteTarget, calls: tuple[WriterCall, ...]
) -> DirectorySink | None:
    """Returns the sink that writes exactly once.

    Args:
        name: The name of the write, for the log.
        java_writer: Spark's writer, format and mode set.
        target: The target.
        calls: What sets the writer up, and the writing call.

    Returns:
        The sink; None if there is none for such a target, which is then logged.
    """
    files = target.files
    if files is None:
        if not _discards(java_writer) and not target.settled:
            _warn(name, "its target is not a directory on a local or shared file system")
        return None
    reason = why_unpublishable(files.directory)
    if reason is not None:
        _warn(name, f"of {files.directory}: {reason}")
        return None
    # Options can hold secrets, which have no place in the job's record.
    setup = hashlib.sha256(repr([(method, [*map(str, args)]) for method, args in calls]).encode())
    return DirectorySink(
        files.directory,
        files.mode,
        dynamic_partitions=files.dynamic_partitions,
        how=f"{java_writer.source()} {setup.hexdigest()[:12]}",
    )


def staged_calls(calls: tuple[WriterCall, ...], path: str) -> tuple[WriterCall, ...]:
    """Returns the calls that write the same to an empty directory instead.

    Args:
        calls: What sets the writer up, and the writing call.
        path: The directory, an absolute path.

    Example:
        >>> staged_calls((("option", ("path", "out")), ("save", (None,))), "/stage")
        (('mode', ('append',)), ('save', ('file:/stage',)))
    """
    # Spark takes what follows the scheme as it is, with blanks and per cent signs.
    return calls_to(calls, f"file:{path}")


def calls_to(calls: tuple[WriterCall, ...], place: str) -> tuple[WriterCall, ...]:
    """Returns the calls that write the same to an empty or a new directory instead.

    Args:
        calls: What sets the writer up, and the writing call.
        place: The directory, as Hadoop writes paths.
    """
    setup = tuple(
        (method, args)
        for method, args in calls[:-1]
        if not (method == "option" and args[0].lower() == "path")
    )
    return (*setup, ("mode", ("append",)), ("save", (place,)))


def _discards(java_writer: Any) -> bool:
    """Whether the rows go nowhere."""
    source = getattr(java_writer, "source", None)
    return source is not None and str(source()).lower() == _DISCARDING


def _warn(name: str, why: str) -> None:
    logger.warning(
        "%s is not exactly-once: rows may be written twice if the driver is killed during the "
        "write and the program is restarted, because %s",
        name,
        why,
    )
