"""ProcessFunction: records for the main output and for side outputs from each record."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any, NoReturn

from holdfast.functions.function import Function

__all__ = ["ProcessFunction"]


class ProcessFunction(Function, ABC):
    """Maps each record to any number of records, for the main output and for side outputs.

    Source: PyFlink, `pyflink.datastream.functions.ProcessFunction`.

    >>> from holdfast.functions import OutputTag
    >>> ODD = OutputTag("odd")
    >>> class Halves(ProcessFunction):
    ...     def process_element(self, value, ctx):
    ...         if value % 2:
    ...             yield ODD, value
    ...         else:
    ...             yield value // 2
    >>> list(Halves().process_element(4, None))
    [2]
    """

    class Context(ABC):
        """The context of the current record."""

        @abstractmethod
        def timestamp(self) -> int | None:
            """The record's timestamp in milliseconds. Always None here."""

        @abstractmethod
        def timer_service(self) -> NoReturn:
            """Not supported: there are no timers here.

            Raises:
                UnsupportedFeatureError: always.
            """

    @abstractmethod
    def process_element(self, value: Any, ctx: ProcessFunction.Context) -> Iterable[Any] | None:
        """Processes a record.

        Args:
            value: a record.
            ctx: the context of the record.

        Returns:
            records, each as it is for the main output or as `tag, record` for a side output; None
            for none of them. A generator runs only as far as its records are taken. A record
            travels with others, so it must not be changed once it has been given.
        """
