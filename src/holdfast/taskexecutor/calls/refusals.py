"""Errors on their way from a task executor to the job master that caused them."""

from __future__ import annotations

from typing import Any

from holdfast.errors import (
    DuplicateRegistrationError,
    HoldfastError,
    HoldingRefusedError,
    MalformedRequestError,
    RequestTooLargeError,
    StaleEpochError,
    StorageError,
    UnauthorizedError,
    UnknownApplicationError,
    UnknownDataSetError,
    UnknownJobError,
    UnknownPartitionError,
    VersionMismatchError,
)
from holdfast.taskexecutor.calls.control_calls import Message

_STATUS: dict[type[HoldfastError], int] = {
    MalformedRequestError: 400,
    UnauthorizedError: 401,
    UnknownApplicationError: 404,
    UnknownDataSetError: 404,
    UnknownJobError: 404,
    UnknownPartitionError: 404,
    DuplicateRegistrationError: 409,
    VersionMismatchError: 409,
    StaleEpochError: 409,
    HoldingRefusedError: 409,
    RequestTooLargeError: 413,
    StorageError: 507,
}
_BY_NAME = {each.__name__: each for each in _STATUS}


class Refusal(Message):
    """An error, to be raised where the request came from.

    Attributes:
        error: its type's name.
        args: what the type takes.
        message: what it says, for people.
    """

    error: str
    args: dict[str, Any]
    message: str


def refusal(error: HoldfastError) -> tuple[int, Refusal]:
    """The HTTP status and the message for an error.

    Raises:
        KeyError: when no request is refused by an error of this type.
    """
    known = next(each for each in type(error).__mro__ if each in _STATUS or each is HoldfastError)
    status = _STATUS[known]
    return status, Refusal(error=known.__name__, args=dict(vars(error)), message=str(error))


def restored(refusal: Refusal) -> HoldfastError | None:
    """The error that a message tells of; None when it is none that requests are refused by."""
    known = _BY_NAME.get(refusal.error)
    if known is None:
        return None
    try:
        return known(**refusal.args)
    except TypeError:
        return None
