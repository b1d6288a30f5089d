"""Feeds classes: by name where they are installed, by all that they hold where they are not."""

from __future__ import annotations

import abc
import enum
import functools
import types
import typing
from typing import Any

from holdfast.plan.module_encoder import ModuleEncoder
from holdfast.plan.reference_encoder import Feeder, is_found

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
_C_DESCRIPTORS = (
    types.MethodDescriptorType,
    types.WrapperDescriptorType,
    types.ClassMethodDescriptorType,
    types.GetSetDescriptorType,
    types.MemberDescriptorType,
)


class ClassEncoder(ModuleEncoder):
    """Digests classes, what their attributes are made of, and members of enumerations."""

    def __init__(self) -> None:
        super().__init__()
        self._classes: dict[int, type] = {}
        self._tables.append(self._classes)

    def _feeder(self, kind: type) -> Feeder | None:
        if issubclass(kind, type):
            return self._class
        if kind in _C_DESCRIPTORS:
            return self._c_descriptor
        if kind is staticmethod or kind is classmethod:
            return self._wrapped_method
        if kind is property:
            return self._property
        if kind is functools.cached_property:
            return self._cached_property
        if kind is types.MappingProxyType:
            return self._mapping_proxy
        if kind is typing.TypeVar:
            return self._type_variable
        if issubclass(kind, enum.Enum):
            return self._enum_member
        return super()._feeder(kind)

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
        if cls.__module__ != "__main__" and is_found(cls):
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

    def _enum_member(self, value: enum.Enum) -> None:
        # Members are singletons, and a combination of flags is known by its value.
        self._parts("enum member", type(value), value._name_, value._value_)

    def _c_descriptor(self, value: Any) -> None:
        self._attribute_names.add(value.__name__)
        self._parts(type(value).__name__, value.__objclass__, value.__name__)

    def _wrapped_method(self, value: Any) -> None:
        self._number(value)
        self._parts(type(value).__name__, value.__func__)

    def _property(self, value: property) -> None:
        self._number(value)
        self._parts("property", value.fget, value.fset, value.fdel)

    def _cached_property(self, value: Any) -> None:
        self._number(value)
        self._parts("cached_property", value.func, value.attrname)

    def _mapping_proxy(self, value: types.MappingProxyType[Any, Any]) -> None:
        self._parts("mappingproxy", dict(value))

    def _type_variable(self, value: Any) -> None:
        self._number(value)
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
