"""KeyedProcessFunction: a ProcessFunction with keyed state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

from holdfast.functions.function import Function
from holdfast.functions.process_function import ProcessFunction

__all__ = ["KeyedProcessFunction"]


class KeyedProcessFunction(Function, ABC):
    """Maps each record to any number of records, with keyed state.

    All records of a key are processed one after the other. State comes from the runtime context
    that `open` gets.

    Source: PyFlink, `pyflink.datastream.functions.KeyedProcessFunction`.

    >>> from holdfast.functions import ValueStateDescriptor
    >>> class Numbered(KeyedProcessFunction):
    ...     def open(self, runtime_context):
    ...         self.count = runtime_context.get_state(ValueStateDescriptor("count"))
    ...
    ...     def process_element(self, value, ctx):
    ...         count = (self.count.value() or 0) + 1
    ...         self.count.update(count)
    ...         yield ctx.get_current_key(), count, value
    """

    class Context(ProcessFunction.Context):
        """The context of the current record."""

        @abstractmethod
        def get_current_key(self) -> Any:
            """The record's key."""

    @abstractmethod
    def process_element(
        self, value: Any, ctx: KeyedProcessFunction.Context
    ) -> Iterable[Any] | None:
        """Processes a record.

        Args:
            value: a record.
            ctx: the context of the record.

        Returns:
            records, each as it is for the main output or as `tag, record` for a side output; None
            for none of them. A generator runs only as far as its records are taken. A record
            travels with others, so it must not be changed once it has been given.
        """
