"""Keys of records, and clear errors about what is none."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from typing import Any

from holdfast.errors import InvalidKeyError
from holdfast.streaming.key_hash import UnstableKeyError, target_of

__all__ = ["check_key", "targets_of"]


def targets_of(keys: Iterable[Any], targets: int, operator: str) -> list[int]:
    """Which target each key belongs to.

    Args:
        keys: the keys.
        targets: how many targets there are.
        operator: the name of the operator that works by them.

    Raises:
        InvalidKeyError: when a key can't be hashed, or not alike in all processes.
    """
    found = []
    key = None
    try:
        for key in keys:
            found.append(target_of(key, targets))
    except UnstableKeyError as error:
        raise InvalidKeyError(operator, reprlib.repr(key), str(error)) from None
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise InvalidKeyError(operator, reprlib.repr(key), why) from error
    return found


def check_key(key: Any, operator: str) -> None:
    """Makes sure that a key can be hashed.

    Args:
        key: what a key selector gave.
        operator: the name of the operator that works by it.

    Raises:
        InvalidKeyError: when it can't.
    """
    try:
        hash(key)
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise InvalidKeyError(operator, reprlib.repr(key), why) from error
