"""The digest of a Python function: what it computes, told from its code and all that it refers to.

Two functions with the same digest compute the same results. What can't be known for sure raises
`Undigestible`; a digest may differ between functions that do compute the same.
"""

from __future__ import annotations

import abc
import builtins
import dis
import enum
import functools
import hashlib
import importlib
import operator
import sys
import types
import typing
from collections.abc import Callable, Iterator
from importlib.util import resolve_name
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple, cast

from holdfast.plan.module_origin import (
    PYTHON,
    SourceUnavailableError,
    find_spec,
    is_module,
    origin_of,
    refresh,
    source_of,
)
from holdfast.plan.value_digest import Undigestible, ValueEncoder

__all__ = ["Undigestible", "digest_function", "digest_value"]


def digest_function(func: Callable[..., object]) -> str:
    """The digest of what a function computes.

    Names, file names, line numbers and annotations of functions don't count; bytecode, constants,
    defaults, closures and everything the code refers to do, recursively. Functions of the standard
    library and of installed distributions count by name and version.

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


def digest_value(value: object) -> str:
    """The digest of a value: of its types and its content, at any depth.

    Args:
        value: any object. Functions in it count as for `digest_function`.

    Returns:
        64 hexadecimal digits, the same in every process.

    Raises:
        Undigestible: when its content can't be known for sure.

    >>> digest_value({"a": [1, {2, 3}]}) == digest_value({"a": [1, {3, 2}]})
    True
    >>> digest_value(1) == digest_value(1.0)
    False
    """
    return _digest("value", value)


def _digest(kind: str, value: object) -> str:
    encoder = _FunctionEncoder()
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


_ANYTHING_BY_NAME: dict[int, str] = {
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
_ANYTHING_NAMES = frozenset({"eval", "exec", "__import__", "import_module"})
# Their results hold file names, line numbers, addresses or anything that is loaded.
_REVEALING_MODULES = frozenset(
    {"builtins", "dis", "gc", "inspect", "linecache", "pkgutil", "runpy", "traceback"}
)
_REVEALING_ATTRIBUTES = {
    "importlib": frozenset({"import_module", "__import__", "reload"}),
    "sys": frozenset({"modules", "_getframe", "_current_frames", "exc_info"}),
}
_REVEALING_NAMES = frozenset(
    {
        "__builtins__",
        "__globals__",
        "__subclasses__",
        "__traceback__",
        "co_filename",
        "co_firstlineno",
        "co_lines",
        "co_linetable",
        "co_positions",
        "f_back",
        "f_builtins",
        "f_globals",
        "f_lineno",
        "f_locals",
        "tb_frame",
        "tb_lineno",
    }
)
_READING_NAMES = frozenset(
    {
        "__annotations__",
        "__code__",
        "__doc__",
        "__module__",
        "__name__",
        "__qualname__",
        "co_name",
        "co_qualname",
        "get_type_hints",
        "getdoc",
    }
)
# What reaches attributes whose names stand nowhere in the code.
_ATTRIBUTE_BY_NAME_IDS = frozenset(
    id(function)
    for function in (
        builtins.getattr,
        builtins.dir,
        builtins.hasattr,
        operator.attrgetter,
        operator.methodcaller,
    )
)
_ATTRIBUTE_BY_NAME = frozenset({"__dict__", "__getattribute__", "attrgetter", "methodcaller"})
_GLOBAL_READS = frozenset(
    {"LOAD_NAME", "LOAD_FROM_DICT_OR_GLOBALS", "LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL"}
)
_GLOBAL_WRITES = frozenset({"STORE_GLOBAL", "DELETE_GLOBAL"})
_CLASS_NAMES_LEFT_OUT = frozenset(
    {
        "__dict__",
        "__weakref__",
        "__module__",
        "__doc__",
        "__firstlineno__",
        "__static_attributes__",
        "__slotnames__",
        "__abstractmethods__",
        "_abc_cache",
        "_abc_impl",
        "_abc_negative_cache",
        "_abc_negative_cache_version",
        "_abc_registry",
    }
)
# What the metaclass makes of the members, which are fed by themselves.
_ENUM_NAMES_LEFT_OUT = frozenset(
    {
        "_generate_next_value_",
        "_hashable_values_",
        "_inverted_",
        "_member_map_",
        "_member_names_",
        "_member_type_",
        "_new_member_",
        "_unhashable_values_",
        "_unhashable_values_map_",
        "_use_args_",
        "_value2member_map_",
        "__new__",
    }
)
_ENUM_MEMBER_NAMES_LEFT_OUT = frozenset(
    {"_value_", "_name_", "__objclass__", "_sort_order_", "_inverted_"}
)
_TYPES_BY_NAME: dict[type, str] = {
    value: name for name, value in sorted(vars(types).items()) if isinstance(value, type)
}
_HEAP_TYPE = 1 << 9
_LRU_CACHE = type(functools.lru_cache(len))
_C_DESCRIPTORS = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)
_ABSENT = object()


class _Import(NamedTuple):
    name: str
    level: int
    names: tuple[str, ...]


class _Scan(NamedTuple):
    """What a code object refers to by name, nested code included."""

    global_names: frozenset[str]
    names: frozenset[str]
    imports: tuple[_Import, ...]
    writes_globals: bool
    queries: bool


class _FunctionEncoder(ValueEncoder):
    """Digests values together with the functions, classes and modules that they lead to."""

    def __init__(self) -> None:
        super().__init__()
        self._functions: dict[int, FunctionType] = {}
        self._classes: dict[int, type] = {}
        self._files: dict[str, int] = {}
        self._user_modules: dict[str, ModuleType] = {}
        self._unloaded: dict[str, None] = {}
        self._names: set[str] = set()
        self._known_modules: set[str] = set()
        self._writes_globals = False
        self._finds_attributes = False

    def digest(self, kind: str, value: object) -> str:
        """The digest of one value and everything that it leads to."""
        self._open(kind)
        self.visit(value)
        self._finish()
        return self.hexdigest()

    def _mark(self) -> Any:
        return (
            *super()._mark(),
            len(self._functions),
            len(self._classes),
            len(self._files),
            len(self._user_modules),
            len(self._unloaded),
        )

    def _roll_back(self, mark: Any) -> None:
        super()._roll_back(mark[:3])
        tables: tuple[dict[Any, Any], ...] = (
            self._functions,
            self._classes,
            self._files,
            self._user_modules,
            self._unloaded,
        )
        for table, size in zip(tables, mark[3:], strict=True):
            while len(table) > size:
                table.popitem()

    def _finish(self) -> None:
        """Feeds what depends on everything that has been reached."""
        done: set[tuple[str, str]] = set()
        described = 0
        while True:
            progress = False
            for name, module in list(self._user_modules.items()):
                hooks = {"__getattr__"} & vars(module).keys()
                for attribute in sorted(hooks | (self._names & vars(module).keys())):
                    if (name, attribute) not in done:
                        done.add((name, attribute))
                        progress = True
                        self._attribute_of_module(module, attribute)
            if self._names & _READING_NAMES:
                functions = list(self._functions.values())
                while described < len(functions):
                    self._describe(functions[described])
                    described += 1
                    progress = True
            if not progress:
                break
        self._check_names()
        if self._names & _READING_NAMES:
            for cls in self._classes.values():
                self.visit(cls.__dict__.get("__doc__") if "__doc__" in cls.__dict__ else None)
        if self._writes_globals:
            # Whether two functions see each other's writes.
            order: dict[int, int] = {}
            for function in self._functions.values():
                self.visit(order.setdefault(id(function.__globals__), len(order)))

    def _attribute_of_module(self, module: ModuleType, attribute: str) -> None:
        self._path.append(f"attribute {attribute!r} of module {module.__name__!r}")
        self._open("attribute")
        self.visit(attribute)
        self.visit(vars(module)[attribute])
        self._path.pop()

    def _describe(self, function: FunctionType) -> None:
        self._path.append(f"function {function.__qualname__!r}")
        self._open("described")
        self.visit(function.__name__)
        self.visit(function.__qualname__)
        self.visit(function.__module__)
        self.visit(function.__doc__ if isinstance(function.__doc__, str) else None)
        self._open("annotations")
        if "__annotations__" in self._names or "get_type_hints" in self._names:
            self.visit(dict(function.__annotations__))
        self._path.pop()

    def _check_names(self) -> None:
        revealing = self._names & _REVEALING_NAMES
        if revealing:
            self.fail(f"{min(revealing)!r} reaches what no digest covers")
        for module, attributes in sorted(_REVEALING_ATTRIBUTES.items()):
            found = self._names & attributes
            if module in self._known_modules and found:
                self.fail(f"{module}.{min(found)} reaches anything by name")
        if self._user_modules and (self._finds_attributes or self._names & _ATTRIBUTE_BY_NAME):
            self.fail(f"module {min(self._user_modules)!r} may be asked for attributes by name")

    # -- what there is besides plain values ---------------------------------------------------

    def _special(self, value: Any) -> bool:
        kind = type(value)
        if id(value) in _ANYTHING_BY_NAME:
            self.fail(f"{_ANYTHING_BY_NAME[id(value)]} reaches anything by name")
        if id(value) in _ATTRIBUTE_BY_NAME_IDS:
            self._finds_attributes = True
        if issubclass(kind, type):
            self._class(value)
        elif kind is FunctionType:
            self._function(value)
        elif kind is types.CodeType:
            self._code(value)
        elif kind is types.CellType:
            self._number(value)
            self._cell(value)
        elif kind is types.MethodType:
            self._parts("method", value.__func__, value.__self__)
        elif kind is types.BuiltinFunctionType:
            self._builtin(value)
        elif kind is types.MethodWrapperType:
            self._parts("method wrapper", value.__self__, value.__name__)
        elif kind in _C_DESCRIPTORS:
            self._parts(kind.__name__, value.__objclass__, value.__name__)
        elif issubclass(kind, ModuleType):
            self._module(value)
        elif kind is staticmethod or kind is classmethod:
            self._number(value)
            self._parts(kind.__name__, value.__func__)
        elif kind is property:
            self._number(value)
            self._parts("property", value.fget, value.fset, value.fdel)
        elif kind is functools.cached_property:
            self._number(value)
            self._parts("cached_property", value.func, value.attrname)
        elif kind is _LRU_CACHE:
            self._cached_function(value)
        elif kind is types.MappingProxyType:
            self._parts("mappingproxy", dict(value))
        elif kind is typing.TypeVar:
            self._number(value)
            self._type_variable(value)
        elif issubclass(kind, enum.Enum):
            self._enum_member(value)
        elif kind.__module__.startswith("pyspark.") and kind.__name__ in _SPARK_SPECIALS:
            _SPARK_SPECIALS[kind.__name__](self, value)
        else:
            return False
        return True

    def _parts(self, kind: str, *parts: object) -> None:
        self._open(kind, len(parts))
        for part in parts:
            self.visit(part)

    def _cell(self, cell: types.CellType) -> None:
        try:
            content = cell.cell_contents
        except ValueError:
            self._open("empty cell")
            return
        self._open("cell")
        self.visit(content)

    def _cached_function(self, value: Any) -> None:
        if self._reference(value):
            return
        self._number(value)
        if (
            value.__module__ != "__main__"
            and _look_up(value.__module__, value.__qualname__) is value
        ):
            self._file(value.__module__)
        self._parts("lru_cache", value.__wrapped__, value.cache_parameters(), vars(value))

    def _type_variable(self, value: Any) -> None:
        if self._reference(value):
            return
        self._parts(
            "TypeVar",
            value.__name__,
            value.__bound__,
            value.__constraints__,
            value.__covariant__,
            value.__contravariant__,
        )

    def _enum_member(self, value: enum.Enum) -> None:
        # Members are singletons, and a combination of flags is known by its value.
        self._parts("enum member", type(value), value._name_, value._value_)

    def _broadcast(self, value: Any) -> None:
        # Its copy is an id that says nothing outside of this application, so the value is read.
        self._number(value)
        session = vars(value).get("_sc")
        if session is not None and session._encryption_enabled:
            self.fail("the value of an encrypted broadcast variable")
        try:
            content = value.load_from_path(value._path)
        except Exception:
            self.fail("the value of a broadcast variable can't be read")
        self._parts("broadcast", content)

    def _accumulator(self, value: object) -> None:
        self.fail("an accumulator: using kept results would not add to it")

    # -- what is known by its name ------------------------------------------------------------

    def _identity(self, name: object) -> str | None:
        """What pins down a module that is not the user's."""
        if not isinstance(name, str):
            return None
        origin = origin_of(name)
        if origin is not None:
            self._known_modules.add(name)
            if name.partition(".")[0] in _REVEALING_MODULES - {"builtins"}:
                self.fail(f"module {name!r} shows more than results depend on")
        return origin

    def _reference(self, value: Any) -> bool:
        """Feeds module, name and version of what an installed module holds under its name."""
        module = getattr(value, "__module__", None)
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
        if not isinstance(module, str) or not isinstance(name, str):
            return False
        if _look_up(module, name) is not value:
            return False
        origin = self._identity(module)
        if origin is None:
            return False
        self._parts("reference", module, name, origin)
        return True

    def _is_settled_by_name(self, cls: type) -> bool:
        return origin_of(cls.__module__) is not None and _is_found(cls)

    def _by_name(self, value: Any, name: str) -> None:
        modules = [getattr(value, "__module__", None), type(value).__module__]
        modules.append(type(value).__module__.partition(".")[0])
        for module in modules:
            if isinstance(module, str) and _look_up(module, name) is value:
                origin = self._identity(module)
                if origin is not None:
                    self._parts("reference", module, name, origin)
                    return
        # Such as the universal functions of SciPy, which don't know their module.
        for module in sorted(sys.modules, key=lambda known: (known.count("."), known)):
            known = sys.modules.get(module)
            if getattr(known, "__dict__", {}).get(name, _ABSENT) is value:
                origin = self._identity(module)
                if origin is not None:
                    self._parts("reference", module, name, origin)
                    return
        self.fail(f"{name!r} is known by a name only")

    def _builtin(self, value: Any) -> None:
        owner = value.__self__
        if owner is not None and not isinstance(owner, ModuleType):
            self._parts("builtin method", owner, value.__name__)
            return
        module = value.__module__ or (owner.__name__ if owner is not None else None)
        if not isinstance(module, str):
            self.fail(f"builtin function {value.__qualname__!r} of no module")
        origin = self._identity(module)
        if origin is None:
            if module not in sys.modules:
                self.fail(f"builtin function {value.__qualname__!r} of an unknown module")
            self._open("user builtin")
            self._file(module)
            self.visit(value.__qualname__)
        else:
            self._parts("reference", module, value.__qualname__, origin)

    # -- modules ------------------------------------------------------------------------------

    def _module(self, module: ModuleType) -> None:
        name = module.__name__
        if name == "__main__":
            self.fail("module '__main__' as a whole")
        if is_module(module):
            if name in _REVEALING_MODULES:
                self.fail(f"module {name!r} shows more than results depend on")
            origin = self._identity(name)
            if origin is not None:
                self._parts("module", name, origin)
                return
        self._number(module)
        self._open("user module")
        self.visit(name)
        if is_module(module):
            self._file(name)
        key = name if is_module(module) else f"{name} #{len(self._user_modules)}"
        self._user_modules[key] = module

    def _file(self, name: str) -> None:
        """Feeds the source of a user's module, from which workers import it."""
        if name in self._files:
            self._open("file seen", self._files[name])
            return
        self._files[name] = len(self._files)
        self._source(name)

    def _source(self, name: str) -> bytes | None:
        try:
            source = source_of(name)
        except SourceUnavailableError as error:
            self.fail(str(error))
        if source is None:
            self._open("no file")
        else:
            self._open("file")
            self.visit(hashlib.sha256(source).digest())
        return source

    def _imports(self, imports: tuple[_Import, ...], variables: dict[str, Any]) -> None:
        for name, level, names in imports:
            if level:
                package = variables.get("__package__")
                if not isinstance(package, str) or not package:
                    self.fail(f"relative import of {name!r} outside of a package")
                name = resolve_name("." * level + name, package)
            self._import(name, names)

    def _import(self, name: str, names: tuple[str, ...]) -> None:
        parts = name.split(".")
        for end in range(1, len(parts) + 1):
            self._imported(".".join(parts[:end]))
        module = sys.modules.get(name)
        for attribute in names:
            if attribute == "*":
                self.fail(f"everything is imported from module {name!r}")
            if module is None or not hasattr(module, attribute):
                submodule = f"{name}.{attribute}"
                if submodule in sys.modules or find_spec(submodule) is not None:
                    self._imported(submodule)

    def _imported(self, name: str) -> None:
        self._path.append(f"import of {name!r}")
        self._open("import")
        self.visit(name)
        module = sys.modules.get(name)
        if module is not None:
            self.visit(module)
        elif name in self._unloaded:
            self._open("seen")
        else:
            self._unloaded[name] = None
            self._unloaded_module(name)
        self._path.pop()

    def _unloaded_module(self, name: str) -> None:
        spec = find_spec(name)
        if spec is None:
            self._open("no such module")
            return
        origin = self._identity(name)
        if name in _REVEALING_MODULES:
            self.fail(f"module {name!r} shows more than results depend on")
        if origin is not None:
            self._parts("module", name, origin)
            return
        source = self._source(name)
        if source is None or not (spec.origin or "").endswith(".py"):
            return
        try:
            code = compile(source, "", "exec", dont_inherit=True)
        except (SyntaxError, ValueError):
            self.fail("its source can't be compiled")
        scan = _scan(code)
        # There is no object to look at, hence only what the file says counts.
        if scan.names & _ANYTHING_NAMES:
            self.fail(f"{min(scan.names & _ANYTHING_NAMES)!r} reaches anything by name")
        self._names |= scan.names
        package = name if spec.submodule_search_locations is not None else spec.parent
        self._imports(scan.imports, {"__package__": package})

    # -- functions ----------------------------------------------------------------------------

    def _function(self, function: FunctionType) -> None:
        home = function.__globals__.get("__name__")
        by_name = _look_up(function.__module__, function.__qualname__) is function
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
        scan = _scan(code)
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

    def _globals(self, function: FunctionType, scan: _Scan) -> None:
        variables = function.__globals__
        own_builtins: Any = cast(Any, function).__builtins__
        self._open("globals", len(scan.global_names))
        for name in sorted(scan.global_names):
            self._path.append(f"global {name!r}")
            self.visit(name)
            value = variables.get(name, _ABSENT)
            if value is _ABSENT:
                value = own_builtins.get(name, _ABSENT)
            if value is _ABSENT:
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

    # -- classes ------------------------------------------------------------------------------

    def _class(self, cls: type) -> None:
        if self._known_class(cls):
            return
        self._path.append(f"class {cls.__qualname__!r}")
        self._number(cls)
        self._classes[id(cls)] = cls
        self._open("class")
        self.visit(cls.__name__)
        self.visit(cls.__qualname__)
        self.visit(cls.__module__)
        if cls.__module__ != "__main__" and _is_found(cls):
            self._file(cls.__module__)
        self.visit(type(cls))
        self.visit(cls.__bases__)
        self._abstract(cls)
        if issubclass(cls, enum.Enum):
            self._enum(cls)
        else:
            self._attributes(cls, _CLASS_NAMES_LEFT_OUT)
        self._path.pop()

    def _known_class(self, cls: type) -> bool:
        if cls in _TYPES_BY_NAME and cls.__module__ == "builtins":
            origin = self._identity("types")
            self._parts("reference", "types", _TYPES_BY_NAME[cls], origin)
            return True
        if self._reference(cls):
            return True
        if not cls.__flags__ & _HEAP_TYPE:
            # A type made by C code, which modules need not show.
            origin = self._identity(cls.__module__)
            if origin is not None:
                self._parts("static type", cls.__module__, cls.__qualname__, origin)
                return True
        return False

    def _abstract(self, cls: type) -> None:
        if not isinstance(cls, abc.ABCMeta):
            return
        self.visit(getattr(cls, "__abstractmethods__", None))
        dump: Any = getattr(abc, "_get_dump", None)
        registry = dump(cls)[0] if dump is not None else ()
        if any(reference() is not None for reference in registry):
            self.fail("other classes are registered as its subclasses")

    def _attributes(self, cls: type, left_out: frozenset[str]) -> None:
        attributes = {name: value for name, value in vars(cls).items() if name not in left_out}
        self._open("attributes", len(attributes))
        for name in sorted(attributes):
            self._path.append(f"attribute {name!r}")
            self.visit(name)
            value = attributes[name]
            if type(value) in _C_DESCRIPTORS and value.__objclass__ is cls:
                self._open("own slot")
            else:
                self.visit(value)
            self._path.pop()

    def _enum(self, cls: type[enum.Enum]) -> None:
        members = cls.__members__
        self._open("members", len(members))
        for name, member in members.items():
            self._parts("member", name, member._name_, member._value_)
            own = {
                key: value
                for key, value in vars(member).items()
                if key not in _ENUM_MEMBER_NAMES_LEFT_OUT
            }
            self._pairs("own attributes", sorted(own.items()))
        self._attributes(cls, _CLASS_NAMES_LEFT_OUT | _ENUM_NAMES_LEFT_OUT | members.keys())


_SPARK_SPECIALS: dict[str, Callable[[_FunctionEncoder, Any], None]] = {
    "Broadcast": _FunctionEncoder._broadcast,
    "Accumulator": _FunctionEncoder._accumulator,
}


def _look_up(module: str | None, name: str) -> object:
    """What a loaded module holds under a dotted name."""
    if module is None or "<" in name:
        return _ABSENT
    found: Any = sys.modules.get(module, _ABSENT)
    for part in name.split("."):
        if found is _ABSENT:
            return _ABSENT
        found = getattr(found, part, _ABSENT)
    return found


def _is_found(cls: type) -> bool:
    return _look_up(cls.__module__, cls.__qualname__) is cls


def _instructions(code: CodeType) -> Iterator[tuple[str, int]]:
    extended = 0
    data = code.co_code
    for at in range(0, len(data), 2):
        operation = dis.opname[data[at]]
        argument = data[at + 1] | extended
        extended = argument << 8 if operation == "EXTENDED_ARG" else 0
        if operation not in ("CACHE", "EXTENDED_ARG"):
            yield operation, argument


def _scan(code: CodeType) -> _Scan:
    global_names: set[str] = set()
    names: set[str] = set()
    imports: list[_Import] = []
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
    return _Scan(frozenset(global_names), frozenset(names), tuple(imports), writes, queries)


def _import_of(code: CodeType, argument: int, previous: list[tuple[str, int]]) -> _Import:
    name = code.co_names[argument]
    if [operation for operation, _ in previous] != ["LOAD_CONST", "LOAD_CONST"]:
        raise Undigestible(f"import of {name!r}: in bytecode of an unknown form")
    level, names = (code.co_consts[index] for _, index in previous)
    return _Import(name, level, tuple(names or ()))
