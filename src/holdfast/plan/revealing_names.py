"""Names behind which lies more than a digest can cover."""

from __future__ import annotations

import builtins
import importlib
import operator
import sys
from collections.abc import Set

ANYTHING_BY_NAME: dict[int, str] = {
    id(function): f"{function.__module__}.{function.__qualname__}"
    for function in (
        builtins.eval,
        builtins.exec,
        builtins.compile,
        builtins.globals,
        builtins.locals,
        builtins.vars,
        builtins.__import__,
        builtins.input,
        builtins.breakpoint,
        importlib.import_module,
        importlib.__import__,
        importlib.reload,
        sys._getframe,
        sys._current_frames,
    )
}
ANYTHING_NAMES = frozenset({"eval", "exec", "__import__", "import_module"})
# Their results hold file names, line numbers, addresses or anything that is loaded.
REVEALING_MODULES = frozenset(
    {"builtins", "dis", "gc", "inspect", "linecache", "pkgutil", "runpy", "traceback"}
)
_REVEALING_ATTRIBUTES = {
    "importlib": frozenset({"import_module", "__import__", "reload"}),
    "sys": frozenset({"modules", "_getframe", "_current_frames", "exc_info", "exception"}),
}
_REVEALING_NAMES = frozenset(
    {
        "__builtins__",
        "__cached__",
        "__file__",
        "__firstlineno__",
        "__globals__",
        "__loader__",
        "__spec__",
        "__subclasses__",
        "__traceback__",
        "co_filename",
        "co_firstlineno",
        "co_lines",
        "co_linetable",
        "co_positions",
        "cr_frame",
        "f_back",
        "f_builtins",
        "f_globals",
        "f_lineno",
        "f_locals",
        "gi_frame",
        "tb_frame",
        "tb_lineno",
    }
)
# What reaches attributes whose names stand nowhere in the code.
ATTRIBUTE_BY_NAME_IDS = frozenset(
    id(function)
    for function in (
        builtins.getattr,
        builtins.dir,
        builtins.hasattr,
        operator.attrgetter,
        operator.methodcaller,
    )
)
ATTRIBUTE_BY_NAME = frozenset({"__dict__", "__getattribute__", "attrgetter", "methodcaller"})


def revealing(names: Set[str], modules: Set[str]) -> str | None:
    """Why code with these names can't be digested; None where nothing is in the way.

    Args:
        names: all attributes and globals that the code mentions.
        modules: names of the installed modules that it reaches.

    >>> revealing({"f_back"}, set())
    "'f_back' reaches what no digest covers"
    >>> revealing({"modules"}, {"sys"})
    'sys.modules reaches anything by name'
    >>> revealing({"modules"}, {"json"}) is None
    True
    """
    found = names & _REVEALING_NAMES
    if found:
        return f"{min(found)!r} reaches what no digest covers"
    for module, attributes in sorted(_REVEALING_ATTRIBUTES.items()):
        found = names & attributes
        if module in modules and found:
            return f"{module}.{min(found)} reaches anything by name"
    return None
