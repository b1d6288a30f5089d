"""A person's functions: how they are called, opened and closed."""

from __future__ import annotations

import os
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any

from pyspark import cloudpickle

from holdfast.errors import (
    InvalidStreamArgumentError,
    OperatorFailedError,
    StreamTaskError,
)
from holdfast.functions.function import Function
from holdfast.functions.runtime_context import RuntimeContext
from holdfast.older_python import add_note

__all__ = ["OpenedFunctions", "call_of", "failing_as", "own_copy"]

_OWN_FILES = os.path.dirname(__file__) + os.sep


def call_of(function: Any, method: str) -> Callable[..., Any]:
    """What to call for each record.

    Args:
        function: an object with the method, or anything callable.
        method: the method's name, such as `map`.

    Raises:
        InvalidStreamArgumentError: when it is neither.

    >>> call_of(len, "map")("abc")
    3
    """
    call: Any = function
    if isinstance(function, Function) or not callable(function):
        call = getattr(function, method, None)
    if not callable(call):
        raise InvalidStreamArgumentError(
            method, function, f"a function, or an object with a method {method}()"
        )
    called: Callable[..., Any] = call
    return called


def own_copy(function: Any) -> Any:
    """A copy of a function for one operator alone, if it may hold anything.

    Args:
        function: a person's function that several operators were given.
    """
    if not _has_life(function):
        return function
    return cloudpickle.loads(cloudpickle.dumps(function))


@contextmanager
def failing_as(operator: str) -> Iterator[None]:
    """Whatever a person's function raises inside names the operator.

    Args:
        operator: the operator's name.

    Raises:
        OperatorFailedError: for any error but those that name an operator already.
    """
    try:
        yield
    except StreamTaskError:
        raise
    except Exception as error:
        raise failure(operator, error) from error


def failure(operator: str, error: BaseException) -> OperatorFailedError:
    """The error that says in which operator a person's function has raised another one.

    Args:
        operator: the operator's name.
        error: what was raised.
    """
    described = "".join(traceback.format_exception_only(error)).strip()
    # In the message, since Spark hands only that of the last error to the driver.
    trace = "".join(traceback.format_exception(type(error), error, _from_person_on(error)))
    return OperatorFailedError(operator, described, trace.strip())


class OpenedFunctions:
    """The functions of one subtask: each is opened once, and closed once if it was opened.

    To be used in a `with`. What `close` of a function raises doesn't keep the others from being
    closed, and never hides what has gone wrong before.
    """

    def __init__(self) -> None:
        self._opened: list[tuple[str, Any]] = []

    def open(self, operator: str, function: Any, context: RuntimeContext) -> None:
        """Opens a function.

        Args:
            operator: the name of its operator.
            function: a person's function; opened only if it has such a method.
            context: tells it where it runs.

        Raises:
            OperatorFailedError: when it raises.
        """
        if not _has_life(function):
            return
        self._opened.append((operator, function))
        if callable(getattr(function, "open", None)):
            with failing_as(operator):
                function.open(context)

    def __enter__(self) -> OpenedFunctions:
        return self

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        first: BaseException | None = None
        while self._opened:
            operator, function = self._opened.pop()
            if not callable(getattr(function, "close", None)):
                continue
            try:
                with failing_as(operator):
                    function.close()
            except BaseException as raised:
                first = first or raised
        if first is None:
            return
        if error is None or isinstance(error, GeneratorExit):
            raise first
        add_note(error, f"Then, at its end: {first}")


def _from_person_on(error: BaseException) -> TracebackType | None:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OWN_FILES):
        trace = trace.tb_next
    # Raised by no function, such as for a result that can't be iterated over.
    return trace or error.__traceback__


def _has_life(function: Any) -> bool:
    if isinstance(function, Function):
        return True
    # Classes are called to make records, and their methods open and close those.
    return not isinstance(function, type) and (
        callable(getattr(function, "open", None)) or callable(getattr(function, "close", None))
    )
