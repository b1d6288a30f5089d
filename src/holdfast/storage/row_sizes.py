"""The size in memory of a Parquet file's rows, from its footer."""

from __future__ import annotations

from typing import Any

# Spark counts a few bytes for each row, and for each value of variable length.
_ROW, _REFERENCE = 8, 12
_WIDTHS = {0: 1, 1: 4, 2: 8, 3: 12, 4: 4, 5: 8}
_BYTE_ARRAY, _FIXED_LENGTH = 6, 7

Struct = dict[int, Any]


def bytes_in_memory(footer: bytes) -> int | None:
    """The size of a file's rows in memory: rows times the width of their columns.

    Neither dictionaries nor compression count.

    Args:
        footer: the file's `FileMetaData`.

    Returns:
        None where the footer doesn't say: it has texts in a dictionary, and not their size.

    Source: Apache Parquet, "Size statistics", `unencoded_byte_array_data_bytes`.
    """
    try:
        metadata = _Reader(footer).struct()
        widths = [
            each.get(2, 0) if each[1] == _FIXED_LENGTH else _WIDTHS.get(each[1])
            for each in metadata[2]
            if 1 in each
        ]
        total = metadata[3] * _ROW
        for group in metadata[4]:
            for width, chunk in zip(widths, group[1], strict=True):
                column = chunk[3]
                size = _unencoded(column) if width is None else 0
                if size is None:
                    return None
                total += size + column[5] * (_REFERENCE if width is None else width)
    except (IndexError, KeyError, TypeError, ValueError):
        return None
    return int(total)


def _unencoded(column: Struct) -> int | None:
    """The bytes of all values of a column chunk."""
    size: int | None = column.get(16, {}).get(1)
    if size is None and 11 not in column:
        # Without a dictionary, each value is there in full.
        return int(column[6])
    return size


class _Reader:
    """Reads Thrift's compact protocol, in which footers are written; texts are skipped."""

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def struct(self) -> Struct:
        found: Struct = {}
        data, field = self._data, 0
        while True:
            head = data[self._at]
            self._at += 1
            if head == 0:
                return found
            kind = head & 15
            field = field + (head >> 4) if head >> 4 else self._signed()
            found[field] = kind == 1 if kind < 3 else self._value(kind)

    def _value(self, kind: int) -> Any:
        if kind in (4, 5, 6):
            return self._signed()
        if kind == 8:
            length = self._unsigned()
            self._at += length
            return None
        if kind == 12:
            return self.struct()
        if kind in (9, 10):
            return self._list()
        if kind == 3:
            self._at += 1
            return None
        if kind == 7:
            self._at += 8
            return None
        raise ValueError(f"expected a type of Thrift's compact protocol, got {kind}")

    def _list(self) -> list[Any]:
        head = self._data[self._at]
        self._at += 1
        size, kind = head >> 4, head & 15
        if size == 15:
            size = self._unsigned()
        if kind < 3:
            self._at += size
            return []
        return [self._value(kind) for _ in range(size)]

    def _signed(self) -> int:
        number = self._unsigned()
        return (number >> 1) ^ -(number & 1)

    def _unsigned(self) -> int:
        data, at = self._data, self._at
        byte = data[at]
        at += 1
        number, shift = byte & 127, 7
        while byte > 127:
            byte = data[at]
            at += 1
            number |= (byte & 127) << shift
            shift += 7
        self._at = at
        return number
