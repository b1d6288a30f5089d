"""Every error names the thing, and survives pickling."""

from __future__ import annotations

import copy
import inspect
import json
import pickle

import pytest

from holdfast import errors
from holdfast.errors import (
    ConfigurationError,
    HoldfastError,
    StreamTaskError,
    TaskExecutorError,
    UnsupportedTypeError,
)

ERRORS = {
    name: member
    for name, member in inspect.getmembers(errors, inspect.isclass)
    if issubclass(member, BaseException)
    and member not in (HoldfastError, StreamTaskError, TaskExecutorError)
}
# What is given for parameters of a type.
VALUES: dict[str, object] = {"int": 3, "tuple[str, ...]": ("ab12", "cd34"), "object": "x"}


@pytest.mark.parametrize("name", ERRORS)
def test_a_message_names_the_thing(name: str) -> None:
    cls = ERRORS[name]
    assert issubclass(cls, HoldfastError)
    parameters = [*inspect.signature(cls.__init__).parameters.values()][1:]
    arguments = [VALUES.get(each.annotation, f"a {each.name}") for each in parameters]
    error = cls(*arguments)
    for part in (each for each in arguments if isinstance(each, str)):
        assert part in str(error)
    made = [pickle.loads(pickle.dumps(error)), copy.copy(error)]
    if isinstance(error, TaskExecutorError):
        # It comes over the network as JSON.
        made.append(type(error)(**json.loads(json.dumps(vars(error)))))
    for again in made:
        assert (type(again), str(again), vars(again)) == (type(error), str(error), vars(error))


def test_python_s_own_errors_stand_above_some() -> None:
    assert issubclass(ConfigurationError, ValueError)
    assert issubclass(UnsupportedTypeError, TypeError)
