"""What a code object refers to by name: globals, attributes and imports."""

from __future__ import annotations

import dis
from collections.abc import Iterator
from types import CodeType
from typing import NamedTuple

from holdfast.plan.value_digest import Undigestible

_GLOBAL_READS = frozenset(
    {"LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL"}
)
_GLOBAL_WRITES = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})


class Import(NamedTuple):
    """One import inside of a function: `from ..name import names`, with a dot for each level."""

    name: str
    level: int
    names: tuple[str, ...]


class CodeScan(NamedTuple):
    """What a code object refers to by name, nested code included.

    Attributes:
        global_names: what it looks up in its globals.
        names: those, all attributes and what it imports.
        imports: what it imports when it runs.
        writes_globals: it assigns or deletes some global.
        queries: it may hand over a query text that refers to variables as `@name`.
    """

    global_names: frozenset[str]
    names: frozenset[str]
    imports: tuple[Import, ...]
    writes_globals: bool
    queries: bool


def scan_code(code: CodeType) -> CodeScan:
    """Finds what a code object refers to.

    Args:
        code: of a function or a module.

    Raises:
        Undigestible: when the bytecode is of an unknown form.

    >>> found = scan_code(compile("import os; f = lambda x: x.real + k", "", "exec"))
    >>> sorted(found.global_names), sorted(found.names)
    (['k'], ['f', 'k', 'os', 'real'])
    >>> found.imports
    (Import(name='os', level=0, names=()),)
    """
    global_names: set[str] = set()
    names: set[str] = set()
    imports: list[Import] = []
    writes = queries = False
    waiting = [code]
    while waiting:
        current = waiting.pop()
        names.update(current.co_names)
        previous: list[tuple[str, int]] = []
        for operation, argument in _instructions(current):
            if operation in _GLOBAL_READS:
                index = argument >> 1 if operation == "LOAD_GLOBAL" else argument
                global_names.add(current.co_names[index])
                writes = writes or operation in _GLOBAL_WRITES
            elif operation == "IMPORT_NAME":
                imports.append(_import_of(current, argument, previous))
            previous = [*previous[-1:], (operation, argument)]
        if not {"query", "eval"}.isdisjoint(current.co_names):
            queries = queries or any(
                isinstance(part, str) and "@" in part for part in current.co_consts
            )
        waiting.extend(part for part in current.co_consts if isinstance(part, CodeType))
    return CodeScan(frozenset(global_names), frozenset(names), tuple(imports), writes, queries)


def _instructions(code: CodeType) -> Iterator[tuple[str, int]]:
    extended = 0
    data = code.co_code
    for at in range(0, len(data), 2):
        operation = dis.opname[data[at]]
        argument = data[at + 1] | extended
        extended = argument << 8 if operation == "EXTENDED_ARG" else 0
        if operation not in ("CACHE", "EXTENDED_ARG"):
            yield operation, argument


def _import_of(code: CodeType, argument: int, previous: list[tuple[str, int]]) -> Import:
    name = code.co_names[argument]
    if [operation for operation, _ in previous] != ["LOAD_CONST", "LOAD_CONST"]:
        raise Undigestible(f"import of {name!r}: in bytecode of an unknown form")
    level, names = (code.co_consts[index] for _, index in previous)
    return Import(name, level, tuple(names or ()))
