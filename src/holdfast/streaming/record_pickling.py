"""Pickles of records, and clear errors about those that have none."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from typing import Any

from pyspark import cloudpickle

from holdfast.errors import RecordNotSerializableError

__all__ = ["RecordPickler", "unpickled"]

_PROTOCOL = 5
# What an Arrow binary column and an array of the JVM can hold, with some room.
_LARGEST = 2**31 - 2**16

unpickled = pickle.loads
"""The records of a payload. Only of what this application has pickled."""


class RecordPickler:
    """Pickles lists of records.

    Args:
        operator: the name of the operator that the records come out of.
        largest: how many bytes one payload may have.
    """

    def __init__(self, operator: str, largest: int = _LARGEST) -> None:
        self._operator = operator
        self._largest = largest
        self._by_value = False

    def payloads(self, records: list[Any]) -> Iterator[tuple[list[Any], bytes]]:
        """Payloads that together hold the records; nearly always a single one.

        Args:
            records: at least one.

        Yields:
            records, and their payload.

        Raises:
            RecordNotSerializableError: when a record can't be pickled, or is too large.
        """
        payload = self._dumps(records)
        if payload is None or len(payload) > self._largest:
            if len(records) > 1:
                # Each half tells by itself, down to the record that it is about.
                middle = len(records) // 2
                yield from self.payloads(records[:middle])
                yield from self.payloads(records[middle:])
                return
            payload = self._single(records[0])
        yield records, payload

    def keyed_payloads(self, keys: list[Any], values: list[Any]) -> Iterator[tuple[int, bytes]]:
        """Payloads that together hold values and their keys; nearly always a single one.

        Args:
            keys: at least one.
            values: one for each key.

        Yields:
            how many values are in a payload, and the payload.

        Raises:
            RecordNotSerializableError: when a key or value can't be pickled, or is too large.
        """
        payload = self._dumps([keys, values])
        if payload is None or len(payload) > self._largest:
            if len(keys) == 1:
                self._single(keys[0])
                self._single(values[0])
                raise self._error(values[0], "it is too large together with its key")
            middle = len(keys) // 2
            yield from self.keyed_payloads(keys[:middle], values[:middle])
            yield from self.keyed_payloads(keys[middle:], values[middle:])
        else:
            yield len(keys), payload

    def _dumps(self, records: list[Any]) -> bytes | None:
        if not self._by_value:
            try:
                return pickle.dumps(records, _PROTOCOL)
            except Exception:
                # Classes and functions of a program's main module are pickled by their content.
                pass
        try:
            payload: bytes = cloudpickle.dumps(records, _PROTOCOL)
        except Exception:
            return None
        self._by_value = True
        return payload

    def _single(self, record: Any) -> bytes:
        try:
            payload: bytes = cloudpickle.dumps([record], _PROTOCOL)
        except Exception as error:
            raise self._error(record, f"{type(error).__name__}: {error}") from error
        if len(payload) > self._largest:
            raise self._error(record, f"its pickle has {len(payload)} bytes")
        return payload

    def _error(self, record: object, why: str) -> RecordNotSerializableError:
        kind = type(record)
        return RecordNotSerializableError(
            self._operator, f"{kind.__module__}.{kind.__qualname__}", why
        )
