"""Function: the base class of functions on streams."""

from __future__ import annotations

from holdfast.functions.runtime_context import RuntimeContext

__all__ = ["Function"]


class Function:
    """The base class of all functions on streams.

    Each subtask has its own copy. `open` is called once, before the first record; `close` once,
    after the last record or after a failure, if `open` was called.

    Source: PyFlink, `pyflink.datastream.functions.Function`.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        """Initializes the function.

        Args:
            runtime_context: describes the subtask, and gives access to keyed state.
        """

    def close(self) -> None:
        """Releases resources of `open`."""
