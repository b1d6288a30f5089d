"""What the user's modules do while they are imported, told from their sources alone.

Workers import these modules anew. So what a module computes then counts, with all that it imports.
"""

from __future__ import annotations

import ast
import functools
from collections.abc import Callable, Iterator
from types import CodeType
from typing import NamedTuple

from holdfast.plan.code_scan import Binding, CodeScan, Import, scan_code
from holdfast.plan.outside_world import by_methods, by_names, is_mixed, outside
from holdfast.plan.revealing_names import ANYTHING_NAMES

_OPTIMIZED = 1  # the flag that classes' and modules' code lacks


class _Piece(NamedTuple):
    """The code of a function, of a class's body or of a module's top level.

    Attributes:
        scan: what it refers to, without what stands inside of it.
        name: what it is called.
        outer: the index of the piece that it stands in; None for the module.
        is_function: whether it runs when it is called.
    """

    scan: CodeScan
    name: str
    outer: int | None
    is_function: bool


class SourceError(Exception):
    """What is no source of Python's."""


class ImportTime:
    """Finds out which code of the user's modules runs when they are imported."""

    def __init__(self) -> None:
        self._sources: list[tuple[str, tuple[_Piece, ...]]] = []
        self._running: set[tuple[int, int]] = set()
        self._called: set[str] = set()
        self._bindings: dict[str, list[tuple[str, Binding]]] = {}
        self._defined: set[str] = set()

    def add(self, package: str, source: bytes, everything: bool = False) -> None:
        """Takes a module in.

        Args:
            package: what its relative imports are relative to.
            source: its text.
            everything: whether all of its functions may be called, too.

        Raises:
            SourceError: when it can't be compiled.
        """
        pieces = _pieces(source, everything)
        index = len(self._sources)
        self._sources.append((package, pieces))
        self._defined.update(piece.name for piece in pieces if piece.outer is not None)
        if everything:
            for at in range(len(pieces)):
                self._run(index, at)

    def imports(self) -> Iterator[tuple[str, Import]]:
        """Goes through what newly found code imports, with the package that it stands in."""
        progress = True
        while progress:
            progress = False
            for index, (package, pieces) in enumerate(self._sources):
                for at, piece in enumerate(pieces):
                    if (index, at) not in self._running and self._runs(index, at, piece, pieces):
                        progress = True
                        self._run(index, at)
                        for found in piece.scan.imports:
                            yield package, found

    def _runs(self, index: int, at: int, piece: _Piece, pieces: tuple[_Piece, ...]) -> bool:
        if piece.outer is None:
            return True
        outer = pieces[piece.outer]
        outer_runs = (index, piece.outer) in self._running
        if not piece.is_function or piece.name.startswith("<"):
            return outer_runs
        if piece.name.startswith("__") and not outer.is_function:
            return outer.name in self._called
        return piece.name in self._called

    def _run(self, index: int, at: int) -> None:
        package, pieces = self._sources[index]
        scan = pieces[at].scan
        self._running.add((index, at))
        for binding in scan.bindings:
            if binding.variable is not None:
                self._bindings.setdefault(binding.variable, []).append((package, binding))
        waiting = [*scan.uses, *scan.attributes - {found.attribute for found in scan.bindings}]
        while waiting:
            name = waiting.pop()
            self._called.add(name)
            waiting += [
                binding.attribute
                for _, binding in self._bindings.get(name, ())
                if binding.attribute is not None and binding.attribute not in self._called
            ]

    def why_unknown(self, is_installed: Callable[[str], bool]) -> str | None:
        """Why what the code does can't be known; None where nothing speaks against it.

        Args:
            is_installed: whether a module counts by its version.
        """
        scans = [
            (package, pieces[at].scan)
            for index, (package, pieces) in enumerate(self._sources)
            for at in range(len(pieces))
            if (index, at) in self._running
        ]
        attributes = frozenset[str]().union(*(scan.attributes for _, scan in scans))
        strings = frozenset[str]().union(*(scan.strings for _, scan in scans))
        reached: set[str] = set()
        for _, scan in scans:
            if scan.looked_up & ANYTHING_NAMES:
                return f"{min(scan.looked_up & ANYTHING_NAMES)!r} reaches anything by name"
            why = by_methods(scan.methods) or self._why(scan, reached, is_installed)
            if why is not None:
                return why
        return by_names(reached, attributes, strings)

    def _why(
        self, scan: CodeScan, reached: set[str], is_installed: Callable[[str], bool]
    ) -> str | None:
        for binding in scan.bindings:
            if binding.attribute == "*" and not binding.level and is_installed(binding.module):
                why = outside(binding.module, ())
                if why is not None or is_mixed(binding.module):
                    return why or f"everything is imported from module {binding.module!r}"
        for name, uses in scan.uses.items():
            bindings = self._bindings.get(name, ())
            if not bindings and name not in self._defined:
                for use in uses:
                    why = outside("builtins", (name,), use.call if use.is_called else None)
                    if why is not None:
                        return why
            for _, binding in bindings:
                if binding.level or not is_installed(binding.module):
                    continue
                taken = () if binding.attribute is None else (binding.attribute,)
                for use in uses:
                    whole = taken + use.attributes
                    why = outside(binding.module, whole, use.call if use.is_called else None)
                    if why is not None:
                        return why
                    reached.add(".".join((binding.module, *whole[:1])))
        return None


@functools.lru_cache(maxsize=256)
def _pieces(source: bytes, everything: bool) -> tuple[_Piece, ...]:
    try:
        tree = ast.parse(source)
        if not everything:
            tree = ast.fix_missing_locations(_WhatRuns().visit(tree))
        code = compile(tree, "", "exec", dont_inherit=True)
    except (SyntaxError, ValueError, RecursionError) as error:
        raise SourceError("its source can't be compiled") from error
    pieces: list[_Piece] = []
    waiting: list[tuple[CodeType, int | None]] = [(code, None)]
    while waiting:
        current, outer = waiting.pop()
        is_function = bool(current.co_flags & _OPTIMIZED)
        pieces.append(_Piece(scan_code(current, inner=False), current.co_name, outer, is_function))
        at = len(pieces) - 1
        waiting += [(part, at) for part in current.co_consts if isinstance(part, CodeType)]
    return tuple(pieces)


class _WhatRuns(ast.NodeTransformer):
    """Takes out what an import doesn't run."""

    def generic_visit(self, node: ast.AST) -> ast.AST:
        """Leaves out the bodies of functions that are put into a container."""
        if isinstance(node, (ast.List, ast.Tuple, ast.Set, ast.Dict)):
            for part in ast.iter_child_nodes(node):
                if isinstance(part, ast.Lambda):
                    part.body = ast.Constant(None)
        return super().generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | list[ast.stmt]:
        """Leaves out the body of `if __name__ == "__main__"` and of `if TYPE_CHECKING`."""
        self.generic_visit(node)
        match node.test:
            case ast.Compare(
                left=ast.Name(id="__name__"),
                ops=[ast.Eq()],
                comparators=[ast.Constant(value="__main__")],
            ):
                pass
            case ast.Name(id="TYPE_CHECKING") | ast.Attribute(attr="TYPE_CHECKING"):
                pass
            case _:
                return node
        return node.orelse or ast.copy_location(ast.Pass(), node)
