"""Looks into the Python functions of a plan, which Spark carries as pickles."""

from __future__ import annotations

import base64
import io
import logging
import os
import pickle
import subprocess
import sys
import time
from functools import lru_cache
from typing import Any, NoReturn, cast

from pyspark import SparkContext

from holdfast.plan.function_digest import Undigestible, digest_value
from holdfast.plan.hashing import hash_parts

logger = logging.getLogger(__name__)

# Workers live on from task to task, with the modules that they have imported.
_first_sources: dict[str, bytes] = {}
_SPARKS_HASH_SEED = "0"
# In each winter and summer since 1901.
_MOMENTS = range(-(2**31), 2**31, 182 * 86_400)
_SECONDS = 60
_ASKS_FOR_PACKAGES = """
import importlib.metadata, sys
print(sys.prefix)
print(sys.version, *sorted({f"{d.name} {d.version}" for d in importlib.metadata.distributions()}))
"""


def pickled_function_digest(command: str) -> str:
    """The digest of a Python function that stands in a plan.

    The bytes of a pickle differ from process to process, so it is the code that is digested.
    Nothing foreign is unpickled: the pickle was made by this application's own session.

    Args:
        command: what Spark sends to its Python workers, in base64.

    Returns:
        64 hexadecimal digits.

    Raises:
        Undigestible: when the function's content can't be known.
    """
    try:
        # A function with the types that PySpark pickles beside it.
        command_parts = _Unpickler(io.BytesIO(base64.b64decode(command))).load()
        digest = digest_value(command_parts, _first_sources)
        return hash_parts("python", digest, *_of_workers(), _local_offsets())
    except Undigestible:
        raise
    except Exception as error:
        # The user's own classes may run any code while they are unpickled.
        raise Undigestible(f"it can't be unpickled: {error!r}") from error


def _of_workers() -> tuple[str | None, ...]:
    """The seed of hashes; the time zone and the packages of workers, where these have their own."""
    context = SparkContext._active_spark_context
    said = {} if context is None else context.environment
    seed = said.get("PYTHONHASHSEED", os.environ.get("PYTHONHASHSEED", _SPARKS_HASH_SEED))
    return seed, said.get("TZ"), None if context is None else _workers_packages(context.pythonExec)


def _local_offsets() -> tuple[int, ...]:
    """How far Python's local time is from UTC, in seconds, throughout the years.

    Workers hand functions moments in local time, whatever zone a session or Java has.
    """
    return tuple(time.localtime(moment).tm_gmtoff for moment in _MOMENTS)


@lru_cache(maxsize=64)
def passes_on(command: str) -> bool:
    """Whether a Python function gives the rows that it gets.

    PySpark has the rows of a table that a program makes run through one, which changes the size of
    their batches.

    Args:
        command: what Spark sends to its Python workers, in base64.
    """
    context = cast(Any, SparkContext._active_spark_context)
    try:
        function, profiler, *_ = _Unpickler(io.BytesIO(base64.b64decode(command))).load()
        of_sparks = context.parallelize([], 1)._pickled().func
        return profiler is None and digest_value(function) == digest_value(of_sparks)
    except Exception:
        logger.debug("a table made by the program counts as itself", exc_info=True)
        return False


@lru_cache(maxsize=64)
def _workers_packages(python: str) -> str | None:
    """What is installed where workers run; None where that is this program's own environment.

    Args:
        python: the interpreter that Spark starts for them, as it is called there.
    """
    if python == sys.executable:
        return None
    try:
        asked = [python, "-c", _ASKS_FOR_PACKAGES]
        said = subprocess.run(asked, capture_output=True, text=True, timeout=_SECONDS, check=True)
        prefix, _, packages = said.stdout.partition("\n")
    except (OSError, subprocess.SubprocessError):
        # It may be on other machines only.
        return python
    return None if prefix == sys.prefix else packages


class _Unpickler(pickle.Unpickler):
    """Makes copies of classes that were pickled by value.

    In the process that pickled them, cloudpickle would take the living classes instead and set
    their attributes back to what they were then.
    """

    def find_class(self, module_name: str, global_name: str) -> Any:
        if (module_name, global_name) == _BROADCAST:
            return _UnseenBroadcast
        found = super().find_class(module_name, global_name)
        if global_name not in _CLASS_MAKERS or not module_name.endswith("cloudpickle.cloudpickle"):
            return found
        return lambda *arguments: found(*arguments[:-2], None, arguments[-1])


class _UnseenBroadcast:
    """A broadcast variable, of which the pickle holds an id that says nothing of its value.

    Args:
        broadcast_id: Spark's number of it.
    """

    def __init__(self, broadcast_id: int) -> None:
        self.broadcast_id = broadcast_id

    def __holdfast_digest__(self) -> NoReturn:
        """Nothing stands for it."""
        raise Undigestible("a broadcast variable")


_BROADCAST = ("pyspark.core.broadcast", "_from_id")
# Their last arguments are the id under which a class is remembered, and what is left for later.
_CLASS_MAKERS = frozenset({"_make_skeleton_class", "_make_skeleton_enum"})
