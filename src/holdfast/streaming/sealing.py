"""Sealed batches: kept records that are only unpickled if this application wrote them."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import pyarrow as pa

from holdfast.errors import BatchSealBrokenError
from holdfast.storage.sealed_batches import OWN_CLASSES, RECORDS
from holdfast.streaming.batches import Batch, binary_column, grouped, rows_of
from holdfast.streaming.fragments import fragmented, whole

__all__ = ["SEALED_SCHEMA", "Seal", "SealKey"]

SEALED_SCHEMA = pa.schema([(RECORDS, pa.int32()), ("batch", pa.binary()), ("mac", pa.binary())])
"""The columns in which records are kept: a row is a batch, or a fragment of one; `mac` its seal."""

_KEY_BYTES = 32
# What pickles call to make a class out of what it holds.
_MAKES_CLASS = b"_make_skeleton_"


class SealKey:
    """The key that batches are sealed with: unknown to whoever can write where they are kept.

    It is pickled for workers as it is, shows itself nowhere, and counts for no digest.

    Args:
        secret: the key's bytes.

    >>> SealKey(b"secret")
    SealKey(...)
    """

    __slots__ = ("_secret",)

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    @classmethod
    def new(cls) -> SealKey:
        """A key that nobody else has."""
        return cls(secrets.token_bytes(_KEY_BYTES))

    def sign(self, message: bytes) -> bytes:
        """The message's authentication code.

        Args:
            message: any bytes.
        """
        return hmac.digest(self._secret, message, "sha256")

    def __holdfast_digest__(self) -> object:
        """What counts for a digest instead of the key: which key it is changes no result."""
        return None

    def __reduce__(self) -> tuple[Callable[[bytes], SealKey], tuple[bytes]]:
        return SealKey, (self._secret,)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SealKey) and hmac.compare_digest(self._secret, other._secret)

    def __hash__(self) -> int:
        return hash(SealKey)

    def __repr__(self) -> str:
        return "SealKey(...)"


class _SealedRow(NamedTuple):
    """A row of `SEALED_SCHEMA`.

    Attributes:
        records: how many records the batch holds, and whether they bring classes of their own, see
            `holdfast.storage.sealed_batches`; negative in a fragment that doesn't end it.
        payload: their pickle, or a part of it.
        mac: the batch's seal; empty in a fragment that doesn't end it.
    """

    records: int
    payload: Any
    mac: bytes


@dataclass(frozen=True, slots=True)
class Seal:
    """Seals batches and opens them.

    Args:
        label: what the batches belong to; a batch of another label does not open.
        key: who seals.
        made_from: what their content was made from, likewise. It counts for no digest: the plan
            that they are the result of says so.

    >>> seal = Seal("clicks", SealKey.new())
    >>> seal.verify(2, b"payload", seal.mac(2, b"payload"))
    >>> seal.verify(2, b"another", seal.mac(2, b"payload"))
    Traceback (most recent call last):
    ...
    holdfast.errors.BatchSealBrokenError: [holdfast-seal-broken] [clicks] kept records ...
    """

    label: str
    key: SealKey
    made_from: str = ""

    def __holdfast_digest__(self) -> object:
        """What counts for a digest instead of the seal."""
        return self.label

    def mac(self, records: int, payload: Any) -> bytes:
        """The seal of a batch.

        Args:
            records: how many records it holds.
            payload: their pickle: bytes, or a buffer of them.
        """
        # Hashed first, for a huge payload would have to be copied behind the label.
        content = hashlib.sha256(payload).digest()
        about = f"{self.label}/{self.made_from}".encode()
        return self.key.sign(b"%d:" % records + content + about)

    def verify(self, records: int, payload: Any, mac: Any) -> None:
        """Checks the seal of a batch.

        Args:
            records: how many records it is said to hold.
            payload: their pickle: bytes, or a buffer of them.
            mac: its seal.

        Raises:
            BatchSealBrokenError: when anything of it isn't as it was sealed.
        """
        if not hmac.compare_digest(self.mac(records, payload), bytes(mac)):
            raise BatchSealBrokenError(self.label)

    def to_arrow(
        self, batches: Iterable[Batch], one_by_one: bool = False
    ) -> Iterator[pa.RecordBatch]:
        """Makes Arrow record batches of sealed batches.

        Args:
            batches: taken one by one.
            one_by_one: a record batch for each, at once, instead of for some MiB of them.
        """
        for group in grouped(self._sealed(batches), one_by_one):
            yield pa.RecordBatch.from_arrays(
                [
                    pa.array([row.records for row in group], pa.int32()),
                    binary_column(tuple(row.payload for row in group)),
                    pa.array([row.mac for row in group], pa.binary()),
                ],
                schema=SEALED_SCHEMA,
            )

    def _sealed(self, batches: Iterable[Batch]) -> Iterator[_SealedRow]:
        for batch in batches:
            records = batch.records
            if _MAKES_CLASS in batch.payload:
                records |= OWN_CLASSES
            mac = self.mac(records, batch.payload)
            for row in fragmented((_SealedRow(records, batch.payload, b""),)):
                # The seal of a batch is in the row that ends it.
                yield row if row.records < 0 else row._replace(mac=mac)

    def opened(self, frames: Iterable[pa.RecordBatch]) -> Iterator[Any]:
        """The payloads of sealed batches, each after its check.

        Args:
            frames: record batches of `SEALED_SCHEMA`, taken one by one.

        Raises:
            BatchSealBrokenError: when anything isn't as it was sealed.
        """
        try:
            for records, payload, mac in whole(self._rows(frames)):
                self.verify(records, payload, mac)
                yield payload
        except ValueError as error:
            raise BatchSealBrokenError(self.label) from error

    def _rows(self, frames: Iterable[pa.RecordBatch]) -> Iterator[tuple[Any, ...]]:
        for frame in frames:
            try:
                rows = list(rows_of(frame, RECORDS, "batch", "mac"))
            except Exception as error:
                raise BatchSealBrokenError(self.label) from error
            for row in rows:
                if any(value is None for value in row):
                    raise BatchSealBrokenError(self.label)
                yield row
