"""What can be told of sealed batches from outside, without the key that they are sealed with."""

from __future__ import annotations

from collections.abc import Mapping

from holdfast.storage.column_statistics import ColumnStatistics

RECORDS = "records"
"""The column that tells how many records a batch holds."""

OWN_CLASSES = 1 << 30
"""Added to that number where the pickle holds classes themselves instead of their names. Another
program has others of the same content, of which no such record is an instance."""


def is_for_one_program(statistics: Mapping[str, ColumnStatistics]) -> bool:
    """Whether records mean something in the program alone that has kept them, or may do so.

    Args:
        statistics: of the columns of all partitions.

    >>> of_names = ColumnStatistics("1", "400", 0)
    >>> is_for_one_program({RECORDS: of_names}), is_for_one_program({})
    (False, True)
    >>> is_for_one_program({RECORDS: ColumnStatistics("1", str(OWN_CLASSES + 400), 0)})
    True
    """
    found = statistics.get(RECORDS)
    return found is None or found.greatest is None or int(found.greatest) >= OWN_CLASSES
