"""Feeds functions: by name where they are installed, by code and all it refers to where not."""

from __future__ import annotations

import functools
import sys
import types
from types import CodeType, FunctionType, ModuleType
from typing import Any, cast

from holdfast.plan.class_encoder import ClassEncoder
from holdfast.plan.code_scan import CodeScan, Use, constants_of, scan_code
from holdfast.plan.module_origin import PYTHON
from holdfast.plan.outside_world import by_methods, outside
from holdfast.plan.reference_encoder import ABSENT, Feeder, look_up
from holdfast.plan.value_digest import Manner

_LRU_CACHE = type(functools.lru_cache(len))


class FunctionEncoder(ClassEncoder):
    """Digests functions, methods and built-in functions."""

    def __init__(self) -> None:
        super().__init__()
        self._functions: dict[int, FunctionType] = {}
        self._tables.append(self._functions)
        # Those that code may get hold of as values, and so ask for what they are called.
        self._observed: dict[int, FunctionType] = {}
        self._shown: dict[tuple[str, ...], None] = {}
        self._tables += [self._observed, self._shown]
        self._writes_globals = self._formats = False

    def _feeder(self, kind: type) -> Feeder | None:
        if kind is FunctionType:
            return self._function
        if kind is CodeType:
            return self._code
        if kind is types.CellType:
            return self._cell
        if kind is functools.partial:
            return self._partial
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
        is_called = Manner.CALLED in self._manner
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
        # Libraries make functions too; what these see is the library's affair.
        trusted = isinstance(home, str) and self._identity(home) is not None
        scan = self._scan(code, trusted)
        self._defaults(function)
        for name, cell in zip(code.co_freevars, function.__closure__ or (), strict=True):
            self._path.append(f"closure {name!r}")
            self._variable(scan, name, cell, trusted)
            self._path.pop()
        self._globals(function, scan, trusted)
        self._imports(scan, function.__globals__, trusted)
        attributes = vars(function)
        self._open("function dict", len(attributes))
        for name, value in attributes.items():
            self.visit(name)
            wraps = is_called and name == "__wrapped__"
            self._visit_as(Manner.CALLED if wraps else Manner.HELD, value)

    def _scan(self, code: CodeType, trusted: bool) -> CodeScan:
        scan = scan_code(code)
        if scan.queries:
            self.fail("a query text with '@' may refer to any global variable")
        self._names |= scan.names
        self._writes_globals = self._writes_globals or scan.writes_globals
        if trusted:
            return scan
        why = by_methods(scan.methods)
        if why is not None:
            self.fail(why)
        self._attribute_names |= scan.attributes
        self._strings |= scan.strings
        self._shown[scan.shown] = None
        self._formats = self._formats or scan.formats
        return scan

    def _defaults(self, function: FunctionType) -> None:
        self._path.append("a default")
        self.visit(function.__defaults__)
        self._pairs("kwdefaults", sorted((function.__kwdefaults__ or {}).items()))
        self._path.pop()

    def _globals(self, function: FunctionType, scan: CodeScan, trusted: bool) -> None:
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
                self._variable(scan, name, value, trusted)
            self._path.pop()

    def _variable(self, scan: CodeScan, name: str, holder: Any, trusted: bool) -> None:
        """Feeds what a variable holds, in the light of what code does with it."""
        value = holder
        if type(holder) is types.CellType:
            value = _content(holder)
        uses = scan.uses_of(name)
        manner = Manner.CALLED if all(use.is_mere_call for use in uses) else Manner.HELD
        if trusted:
            manner |= Manner.JUDGED
        elif isinstance(value, ModuleType):
            self._judge_uses(value, uses)
            manner |= Manner.JUDGED
        elif isinstance(value, str):
            self._strings.add(value)
        elif manner and all(self._is_harmless_call(value, use) for use in uses):
            manner |= Manner.JUDGED
        self._visit_as(manner, holder)

    def _is_harmless_call(self, value: Any, use: Use) -> bool:
        module = getattr(value, "__module__", None)
        name = getattr(value, "__qualname__", None)
        if not isinstance(module, str) or not isinstance(name, str):
            return False
        return outside(module, name.split("."), use.call) is None

    def _observe(self, value: Any) -> None:
        super()._observe(value)
        while True:
            kind = type(value)
            if kind is FunctionType:
                if id(value) in self._observed:
                    return
                self._observed[id(value)] = value
                value = vars(value).get("__wrapped__")
            elif kind is types.CellType:
                value = _content(value)
            elif kind is functools.partial:
                value = value.func
            elif kind is types.MethodType:
                value = value.__func__
            elif kind is _LRU_CACHE:
                value = value.__wrapped__
            else:
                return

    def _code(self, code: CodeType) -> None:
        self._open("code")
        for part in (
            PYTHON,
            code.co_code,
            # Before Python 3.11 it is a part of the code itself.
            getattr(code, "co_exceptiontable", b""),
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
        self._sequence("constants", constants_of(code))

    def _cell(self, cell: types.CellType) -> None:
        manner = self._manner
        self._number(cell)
        content = _content(cell)
        if content is ABSENT:
            self._open("empty cell")
            return
        self._open("cell")
        self._visit_as(manner, content)

    def _method(self, method: types.MethodType) -> None:
        self._open("method")
        self._visit_as(self._manner & Manner.CALLED, method.__func__)
        self.visit(method.__self__)

    def _partial(self, partial: functools.partial[Any]) -> None:
        called = self._manner & Manner.CALLED
        self._number(partial)
        self._open("partial")
        self._visit_as(called, partial.func)
        self.visit(partial.args)
        self._pairs("keywords", partial.keywords.items())
        self._pairs("attributes", vars(partial).items())

    def _method_wrapper(self, wrapper: types.MethodWrapperType) -> None:
        self._attribute_names.add(wrapper.__name__)
        self._parts("method wrapper", wrapper.__self__, wrapper.__name__)

    def _builtin(self, value: Any) -> None:
        owner = value.__self__
        if owner is not None and not isinstance(owner, ModuleType):
            self._attribute_names.add(value.__name__)
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
        called = self._manner & Manner.CALLED
        if self._reference(value):
            return
        self._number(value)
        if (
            value.__module__ != "__main__"
            and look_up(value.__module__, value.__qualname__) is value
        ):
            self._file(value.__module__)
        self._open("lru_cache")
        self._visit_as(called, value.__wrapped__)
        self._parts("parameters", value.cache_parameters())
        own = [
            (name, part)
            for name, part in vars(value).items()
            # It is called like what it wraps, which tells what that is called where it counts.
            if name != "__wrapped__" and part is not getattr(value.__wrapped__, name, ABSENT)
        ]
        self._pairs("attributes", own)


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        return ABSENT
