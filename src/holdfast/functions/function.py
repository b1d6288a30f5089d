"""Function: what all functions on streams have in common."""

from __future__ import annotations

from holdfast.functions.runtime_context import RuntimeContext

__all__ = ["Function"]


class Function:
    """The base of all functions on streams.

    Each subtask works with a copy of its own. `open` is called once on it, before the first record;
    `close` once, after the last record or after whatever went wrong, if `open` was called.

    Source: PyFlink, `pyflink.datastream.functions.Function`.
    """

    def open(self, runtime_context: RuntimeContext) -> None:
        """Gets ready for records.

        Args:
            runtime_context: tells where the function runs, and gives keyed state.
        """

    def close(self) -> None:
        """Gives back what `open` took."""
