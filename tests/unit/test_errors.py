from __future__ import annotations

import copy
import inspect
import pickle

import pytest

from holdfast import errors
from holdfast.errors import (
    ConfigurationError,
    EnvironmentClosedError,
    HoldfastError,
    KeptPartitionLostError,
    StorageError,
    UnsupportedPlanError,
    UnsupportedSessionError,
    UnsupportedTypeError,
)

EXAMPLES = [
    (ConfigurationError("a.key", "x", "expected a number"), ["a.key", "'x'", "expected a number"]),
    (UnsupportedTypeError("when", "INTERVAL"), ["'when'", "INTERVAL", "Cast the column"]),
    (UnsupportedPlanError("cache()", "the table streams"), ["cache()", "the table streams"]),
    (UnsupportedSessionError("a remote session"), ["a remote session", "classic Spark session"]),
    (EnvironmentClosedError("count()"), ["count()", "closed", "new Environment"]),
    (StorageError("/kept", "belongs to another user"), ["/kept", "belongs to another user"]),
    (KeptPartitionLostError(("ab12", "cd34"), "a file is gone"), ["ab12", "cd34", "run the job"]),
]


@pytest.mark.parametrize(("error", "parts"), EXAMPLES, ids=lambda value: type(value).__name__)
def test_a_message_names_the_thing_and_what_to_do(error: HoldfastError, parts: list[str]) -> None:
    for part in parts:
        assert part in str(error)


@pytest.mark.parametrize("error", [error for error, _ in EXAMPLES], ids=lambda e: type(e).__name__)
def test_an_error_survives_pickling_and_copying(error: HoldfastError) -> None:
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is type(error)
        assert str(again) == str(error)
        assert vars(again) == vars(error)


def test_every_error_is_holdfast_s_and_has_an_example_here() -> None:
    defined = {
        member
        for _, member in inspect.getmembers(errors, inspect.isclass)
        if issubclass(member, BaseException)
    }
    assert all(issubclass(member, HoldfastError) for member in defined)
    assert defined == {HoldfastError, *(type(error) for error, _ in EXAMPLES)}


def test_errors_are_also_what_python_calls_them() -> None:
    assert issubclass(ConfigurationError, ValueError)
    assert issubclass(UnsupportedTypeError, TypeError)
