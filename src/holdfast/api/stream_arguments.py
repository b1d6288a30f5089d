"""Early checks of the arguments of stream methods, before a job would fail."""

from __future__ import annotations

from typing import Any

from holdfast.errors import InvalidStreamArgumentError


def check_function(method: str, function: Any, interface: type) -> None:
    """Raises unless it is an instance of the interface, or a callable.

    Args:
        method: The method.
        function: The argument.
        interface: MapFunction and the like.

    Raises:
        InvalidStreamArgumentError: It is neither. A class of the interface is not an instance of
            it, although it is callable.
    """
    expected = f"a callable, or an instance of a subclass of {interface.__name__}"
    if isinstance(function, type) and issubclass(function, interface):
        raise InvalidStreamArgumentError(
            method, function, f"{expected}, not the class itself: {function.__name__}()"
        )
    if not isinstance(function, interface) and not callable(function):
        raise InvalidStreamArgumentError(method, function, expected)


def check_process_function(method: str, function: Any, interface: type) -> None:
    """Raises unless it is an instance of the interface.

    Args:
        method: The method.
        function: The argument.
        interface: ProcessFunction or KeyedProcessFunction.

    Raises:
        InvalidStreamArgumentError: It is none.
    """
    if not isinstance(function, interface):
        raise InvalidStreamArgumentError(
            method, function, f"an instance of a subclass of {interface.__name__}"
        )


def check_same_environment(method: str, stream: object, found: object, expected: object) -> None:
    """Raises unless a stream belongs to an environment.

    Args:
        method: The method.
        stream: The stream.
        found: The stream's context.
        expected: The environment's.

    Raises:
        InvalidStreamArgumentError: They are not the same.
    """
    if found is not expected:
        raise InvalidStreamArgumentError(
            method, stream, "a stream of this environment; this one belongs to another environment"
        )


def check_text(method: str, text: Any) -> str:
    """Returns the text; raises unless it is a non-empty string.

    Args:
        method: The method.
        text: The argument.

    Raises:
        InvalidStreamArgumentError: It is none.
    """
    if not isinstance(text, str) or not text:
        raise InvalidStreamArgumentError(method, text, "a non-empty string")
    return text


def check_count(method: str, count: Any) -> None:
    """Raises unless it is an integer of at least 1.

    Args:
        method: The method.
        count: The argument.

    Raises:
        InvalidStreamArgumentError: It is none.
    """
    if type(count) is not int or count < 1:
        raise InvalidStreamArgumentError(method, count, "an integer >= 1")


def check_field(method: str, field: Any) -> None:
    """Raises unless it is the position or the name of a field.

    Args:
        method: The method.
        field: The argument.

    Raises:
        InvalidStreamArgumentError: It is neither.
    """
    if not isinstance(field, str) and (type(field) is not int or field < 0):
        raise InvalidStreamArgumentError(
            method, field, "a field's position from 0, its name, or a dict key"
        )
