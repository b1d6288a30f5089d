"""Everything that Holdfast raises on its own account.

Each error names the thing, says what was expected, and what to do.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self


class HoldfastError(Exception):
    """The base of all errors of Holdfast's own. Each can be pickled and copied."""

    def __reduce__(self) -> tuple[Callable[..., Self], tuple[Any, ...], dict[str, Any]]:
        # By default an exception is made again from its message, which no subclass takes.
        return type(self)._restored, self.args, self.__dict__

    @classmethod
    def _restored(cls, *args: Any) -> Self:
        return cls.__new__(cls, *args)


class ConfigurationError(HoldfastError, ValueError):
    """A configuration key is unknown, or its value is not of the key's type.

    Args:
        key: the key as it was given.
        value: its value.
        expected: what is expected instead.
    """

    def __init__(self, key: str, value: object, expected: str) -> None:
        super().__init__(f"configuration key {key!r} with value {value!r}: {expected}")
        self.key = key
        self.value = value
        self.expected = expected


class UnsupportedTypeError(HoldfastError, TypeError):
    """A table with a column that Parquet can't hold was to be cached.

    Args:
        column: the column's name.
        data_type: its type, as SQL writes it.
    """

    def __init__(self, column: str, data_type: str) -> None:
        super().__init__(
            f"column {column!r} of type {data_type} can't be kept: Spark can't write this type to "
            "Parquet. Cast the column, or drop it, before cache()."
        )
        self.column = column
        self.data_type = data_type


class UnsupportedPlanError(HoldfastError):
    """Something was asked of a plan that is not possible with it.

    Args:
        what: the plan or the operation.
        why: what stands against it, and what to do.
    """

    def __init__(self, what: str, why: str) -> None:
        super().__init__(f"{what}: {why}")
        self.what = what
        self.why = why


class UnsupportedSessionError(HoldfastError):
    """An environment was to be made over a session that is not a classic Spark session.

    Args:
        found: what was given instead.
    """

    def __init__(self, found: str) -> None:
        super().__init__(
            f"expected a classic Spark session in this process, found {found}. Holdfast rewrites "
            "plans in the driver, which Spark Connect keeps out of reach: use "
            "SparkSession.builder.master(...).getOrCreate()."
        )
        self.found = found


class EnvironmentClosedError(HoldfastError):
    """A job was started in an environment that has been closed.

    Args:
        what: what was to be done.
    """

    def __init__(self, what: str) -> None:
        super().__init__(
            f"{what}: the environment has been closed and what it kept is gone. Make a new "
            "Environment, or use to_dataframe() before closing."
        )
        self.what = what


class StorageError(HoldfastError):
    """Results can't be kept where they were to be kept.

    Args:
        where: the directory.
        why: what went wrong.
    """

    def __init__(self, where: str, why: str) -> None:
        super().__init__(f"{where}: {why}")
        self.where = where
        self.why = why


class KeptPartitionLostError(HoldfastError):
    """Kept data was lost while rows of it had been handed out already.

    Args:
        dataset_ids: the datasets, which have been invalidated.
        why: what is wrong with them.
    """

    def __init__(self, dataset_ids: tuple[str, ...], why: str) -> None:
        super().__init__(
            f"kept data of {', '.join(dataset_ids)} was lost after the first rows had been handed "
            f"out ({why}). It has been invalidated: run the job again, and it computes them again."
        )
        self.dataset_ids = dataset_ids
        self.why = why
