"""The calls that a task executor takes over the network: the methods of the gateway, as JSON."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_type_hints

from pydantic import BaseModel, ConfigDict, TypeAdapter, ValidationError, create_model
from pydantic_core import PydanticSerializationError

from holdfast.errors import MalformedRequestError
from holdfast.taskexecutor.calls.gateway import TaskExecutorGateway

CONTROL_PREFIX = "/control/v1/"
REQUEST_LIMIT = 16 * 1024 * 1024
"""How many bytes a request's body may have: enough for the manifest of 100,000 partitions."""


class Message(BaseModel):
    """The base of all messages: what is unknown or of another type is refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


@dataclass(frozen=True, slots=True)
class ControlCall:
    """A call: what is sent is an object of the method's arguments, and what it returns.

    Attributes:
        name: the method's name, and the end of the call's path.
        question: what it is asked with.
        answer: what it answers.
    """

    name: str
    question: type[Message]
    answer: TypeAdapter[Any]

    @classmethod
    def of(cls, method: Callable[..., Any]) -> ControlCall:
        """The call of a method of the gateway."""
        hints = get_type_hints(method, include_extras=True)
        arguments: dict[str, Any] = {
            name: (hints[name], ... if each.default is each.empty else each.default)
            for name, each in inspect.signature(method).parameters.items()
            if name != "self"
        }
        question = create_model(method.__name__, __base__=Message, **arguments)
        return cls(method.__name__, question, TypeAdapter(hints["return"]))

    @property
    def path(self) -> str:
        """Where it is sent to."""
        return f"{CONTROL_PREFIX}{self.name}"

    def asked(self, *args: object, **more: object) -> bytes:
        """What is sent for a call of the method.

        Args:
            args: the arguments, in order.
            more: those that are given by name.

        Raises:
            MalformedRequestError: when they aren't such as the method takes.
        """
        named = dict(zip(self.question.model_fields, args, strict=False))
        try:
            return self.question(**named, **more).model_dump_json().encode()
        except ValidationError as error:
            raise MalformedRequestError(self.name, what_is_wrong(error)) from None
        except PydanticSerializationError as error:
            raise MalformedRequestError(self.name, str(error)) from None

    def answered(self, executor: TaskExecutorGateway, body: bytes) -> bytes:
        """What is sent back for what was sent.

        Args:
            executor: which is asked.
            body: what was sent.

        Raises:
            MalformedRequestError: when that isn't what the call is asked with.
            HoldfastError: when the executor refuses it.
        """
        try:
            asked = self.question.model_validate_json(body)
        except ValidationError as error:
            raise MalformedRequestError(self.name, what_is_wrong(error)) from None
        arguments = {name: getattr(asked, name) for name in self.question.model_fields}
        return self.answer.dump_json(getattr(executor, self.name)(**arguments))


def what_is_wrong(error: ValidationError) -> str:
    """What is wrong with a message, in a sentence; what was sent is not repeated."""
    first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    where = ".".join(str(each) for each in first["loc"])
    return f"{where}: {first['msg']}" if where else str(first["msg"])


CALLS = {
    name: ControlCall.of(method)
    for name, method in vars(TaskExecutorGateway).items()
    if inspect.isfunction(method) and not name.startswith("_")
}
"""Every call that there is, by its name."""
