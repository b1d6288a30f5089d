"""Where in a program a result was asked for, and what the program calls it."""

from __future__ import annotations

import ast
import linecache
import os
import re
import sys
import threading
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import py4j
import pyspark

_PACKAGES = tuple(
    f"{home}{os.sep}"
    for home in (
        Path(__file__).parents[1],
        Path(pyspark.__file__).parent,
        Path(py4j.__file__).parent,
    )
)
_METHODS = frozenset({"cache", "persist"})
_parsing = threading.RLock()
_CELL = re.compile(r"[/\\]ipykernel_\d+[/\\]|^<ipython-input-")


@dataclass(frozen=True, slots=True)
class CallSite:
    """A line of a program.

    Attributes:
        place: the file and the line, or the notebook's cell and the line; None where the program
            has neither.
        name: the variable whose DataFrame is cached there, or that the cached one is bound to.
    """

    place: str | None
    name: str | None


def call_site() -> CallSite:
    """The line of the program from which this package was called.

    Source: Spark's CallSite, which its UI shows for each job.

    Example:
        >>> call_site().name is None
        True
    """
    frame: FrameType | None = sys._getframe()
    while frame is not None and _is_ours(frame.f_code.co_filename):
        frame = frame.f_back
    if frame is None:
        return CallSite(None, None)
    file, line = frame.f_code.co_filename, frame.f_lineno
    source = "".join(linecache.getlines(file, frame.f_globals))
    return CallSite(_place(file, line, frame), cached_name(source, line) if source else None)


def cached_name(source: str, line: int) -> str | None:
    """What the statement at a line calls the DataFrame that it caches.

    Args:
        source: the whole file.
        line: the one that calls `cache` or `persist`, from 1.

    Returns:
        the variable that the cached DataFrame is bound to, or else the one that is cached.

    Example:
        >>> cached_name("by_day = (\\n    visits.groupBy('day')\\n    .count().cache()\\n)", 3)
        'by_day'
        >>> cached_name("n = visits.cache().count(); print(n)", 1)
        'visits'
    """
    try:
        # Python's parser counts its depth for all threads at once, and gives up where that is odd.
        with _parsing:
            tree = ast.parse(source)
    except (SyntaxError, ValueError, RecursionError, SystemError):
        # A notebook's cell may have magics.
        return None
    around = [
        each
        for each in ast.walk(tree)
        if isinstance(each, ast.stmt) and each.lineno <= line <= (each.end_lineno or each.lineno)
    ]
    # One line may have several statements, and a statement others inside.
    caching = [each for each in around if any(map(_caches, ast.walk(each)))]
    if not caching:
        return None
    statement = max(caching, key=lambda each: (each.lineno, each.col_offset))
    if isinstance(statement, (ast.Assign, ast.AnnAssign)) and _caches(statement.value):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        names = [each.id for each in targets if isinstance(each, ast.Name)]
        if names:
            return names[0]
    for each in ast.walk(statement):
        if (
            isinstance(each, ast.Call)
            and _caches(each)
            and isinstance(each.func, ast.Attribute)
            and isinstance(each.func.value, ast.Name)
        ):
            return each.func.value.id
    return None


def _caches(value: ast.AST | None) -> bool:
    function = value.func if isinstance(value, ast.Call) else None
    return isinstance(function, ast.Attribute) and function.attr in _METHODS


def _is_ours(file: str) -> bool:
    return file.startswith(_PACKAGES)


def _place(file: str, line: int, frame: FrameType) -> str | None:
    if _CELL.search(file):
        shell = frame.f_globals.get("get_ipython")
        number = getattr(shell() if callable(shell) else None, "execution_count", None)
        return f"line {line} of a cell" if number is None else f"cell {number}, line {line}"
    return None if file.startswith("<") else f"{os.path.basename(file)}:{line}"
