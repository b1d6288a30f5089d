"""The digest of a Python function: what it computes, told from its code and all that it refers to.

Two functions with the same digest compute the same results. What can't be known for sure raises
`Undigestible`; a digest may differ between functions that do compute the same.
"""

from __future__ import annotations

from collections.abc import Callable

from holdfast.plan.module_origin import refresh
from holdfast.plan.reach_encoder import ReachEncoder
from holdfast.plan.value_digest import Undigestible

__all__ = ["Undigestible", "digest_function", "digest_value"]


def digest_function(func: Callable[..., object]) -> str:
    """The digest of what a function computes.

    File names and line numbers don't count; bytecode, constants, defaults, closures and everything
    the code refers to do, recursively. What functions are called counts where code gets hold of
    them as values, and their annotations and documentation where it may ask for these. Functions of
    the standard library and of installed distributions count by name and version; those that see
    the machine, the moment or chance can't be known.

    Args:
        func: any callable, live or come out of a pickle.

    Returns:
        64 hexadecimal digits, the same in every process.

    Raises:
        Undigestible: when something that it refers to can't be known for sure.

    >>> digest_function(lambda x: x + 1) == digest_function(lambda x: x + 1)
    True
    >>> digest_function(lambda x: x + 1) == digest_function(lambda x: x + 2)
    False
    >>> digest_function(lambda text: eval(text))
    Traceback (most recent call last):
    ...
    holdfast.plan.value_digest.Undigestible: global 'eval': builtins.eval reaches anything by name
    """
    if not callable(func):
        raise Undigestible(f"{type(func).__name__} is not callable")
    return _digest("function", func)


def digest_value(value: object, first_sources: dict[str, bytes] | None = None) -> str:
    """The digest of a value: of its types and its content, at any depth.

    An object whose class has a method `__holdfast_digest__` counts as what that returns.

    Args:
        value: any object. Functions in it count as for `digest_function`.
        first_sources: digests of the sources of the user's modules when they were first seen, and
            to be filled; then what leads to a module that was edited since can't be known.

    Returns:
        64 hexadecimal digits, the same in every process.

    Raises:
        Undigestible: when its content can't be known for sure.

    >>> digest_value({"a": [1, {2, 3}]}) == digest_value({"a": [1, {3, 2}]})
    True
    >>> digest_value(1) == digest_value(1.0)
    False
    """
    return _digest("value", value, first_sources)


def _digest(kind: str, value: object, first_sources: dict[str, bytes] | None = None) -> str:
    encoder = ReachEncoder(first_sources)
    try:
        refresh()
        return encoder.digest(kind, value)
    except Undigestible:
        raise
    except RecursionError:
        raise Undigestible(f"{type(value).__name__}: nested too deeply") from None
    except Exception as error:
        # Descriptors, metaclasses and module hooks of the user's may raise anything.
        raise Undigestible(f"{type(value).__name__}: {error!r}") from error
