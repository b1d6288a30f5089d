"""Feeds functions: by name where they are installed, by code and all it refers to where not."""

from __future__ import annotations

import functools
import sys
import types
from types import CodeType, FunctionType, ModuleType
from typing import Any, cast

from holdfast.plan.class_encoder import ClassEncoder
from holdfast.plan.code_scan import CodeScan, scan_code
from holdfast.plan.module_origin import PYTHON
from holdfast.plan.reference_encoder import ABSENT, Feeder, look_up

_LRU_CACHE = type(functools.lru_cache(len))


class FunctionEncoder(ClassEncoder):
    """Digests functions, methods and built-in functions."""

    def __init__(self) -> None:
        super().__init__()
        self._functions: dict[int, FunctionType] = {}
        self._tables.append(self._functions)
        self._writes_globals = False

    def _feeder(self, kind: type) -> Feeder | None:
        if kind is FunctionType:
            return self._function
        if kind is CodeType:
            return self._code
        if kind is types.CellType:
            return self._cell
        if kind is types.MethodType:
            return self._method
        if kind is types.BuiltinFunctionType:
            return self._builtin
        if kind is types.MethodWrapperType:
            return self._method_wrapper
        if kind is _LRU_CACHE:
            return self._cached_function
        return super()._feeder(kind)

    def _function(self, function: FunctionType) -> None:
        home = function.__globals__.get("__name__")
        by_name = look_up(function.__module__, function.__qualname__) is function
        # A monkey patch may bear the name of what it replaces, but has other globals.
        if (
            by_name
            and isinstance(home, str)
            and getattr(sys.modules.get(home), "__dict__", None) is function.__globals__
            and self._identity(home) is not None
            and self._reference(function)
        ):
            return
        self._number(function)
        self._functions[id(function)] = function
        self._open("function")
        if by_name and function.__module__ != "__main__":
            # Workers import it anew, and the file may have changed since it was imported here.
            self._file(function.__module__)
            # The code of a decorator's wrapper is in the file of the decorator.
            if isinstance(home, str) and home in sys.modules and home != "__main__":
                self._file(home)
        code = function.__code__
        self._code(code)
        scan = scan_code(code)
        self._names |= scan.names
        self._writes_globals = self._writes_globals or scan.writes_globals
        if scan.queries:
            self.fail("a query text with '@' may refer to any global variable")
        self._defaults(function)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            self._path.append(f"closure {name!r}")
            self.visit(cell)
            self._path.pop()
        self._globals(function, scan)
        self._imports(scan.imports, function.__globals__)
        self._pairs("function dict", vars(function).items())

    def _defaults(self, function: FunctionType) -> None:
        self._path.append("a default")
        self.visit(function.__defaults__)
        self._pairs("kwdefaults", sorted((function.__kwdefaults__ or {}).items()))
        self._path.pop()

    def _globals(self, function: FunctionType, scan: CodeScan) -> None:
        variables = function.__globals__
        own_builtins: Any = cast(Any, function).__builtins__
        self._open("globals", len(scan.global_names))
        for name in sorted(scan.global_names):
            self._path.append(f"global {name!r}")
            self.visit(name)
            value = variables.get(name, ABSENT)
            if value is ABSENT:
                value = own_builtins.get(name, ABSENT)
            if value is ABSENT:
                self._open("missing")
            else:
                self.visit(value)
            self._path.pop()

    def _code(self, code: CodeType) -> None:
        self._open("code")
        for part in (
            PYTHON,
            code.co_code,
            code.co_exceptiontable,
            code.co_flags,
            code.co_argcount,
            code.co_posonlyargcount,
            code.co_kwonlyargcount,
            code.co_names,
            code.co_varnames,
            code.co_freevars,
            code.co_cellvars,
        ):
            self.visit(part)
        self._sequence("constants", code.co_consts)

    def _cell(self, cell: types.CellType) -> None:
        self._number(cell)
        try:
            content = cell.cell_contents
        except ValueError:
            self._open("empty cell")
            return
        self._open("cell")
        self.visit(content)

    def _method(self, method: types.MethodType) -> None:
        self._parts("method", method.__func__, method.__self__)

    def _method_wrapper(self, wrapper: types.MethodWrapperType) -> None:
        self._parts("method wrapper", wrapper.__self__, wrapper.__name__)

    def _builtin(self, value: Any) -> None:
        owner = value.__self__
        if owner is not None and not isinstance(owner, ModuleType):
            self._parts("builtin method", owner, value.__name__)
            return
        module = value.__module__ or (owner.__name__ if owner is not None else None)
        if not isinstance(module, str):
            self.fail(f"builtin function {value.__qualname__!r} of no module")
        if self._named(module, value.__qualname__):
            return
        if module not in sys.modules:
            self.fail(f"builtin function {value.__qualname__!r} of an unknown module")
        self._open("user builtin")
        self._file(module)
        self.visit(value.__qualname__)

    def _cached_function(self, value: Any) -> None:
        if self._reference(value):
            return
        self._number(value)
        if (
            value.__module__ != "__main__"
            and look_up(value.__module__, value.__qualname__) is value
        ):
            self._file(value.__module__)
        self._parts("lru_cache", value.__wrapped__, value.cache_parameters(), vars(value))
