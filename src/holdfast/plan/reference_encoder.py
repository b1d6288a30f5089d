"""Feeds what is known by its name: contents of the standard library and of distributions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import Any

from holdfast.plan.code_scan import Call
from holdfast.plan.module_origin import origin_of
from holdfast.plan.outside_world import has_state, outside
from holdfast.plan.revealing_names import REVEALING_MODULES
from holdfast.plan.value_digest import Manner, ValueEncoder

Feeder = Callable[[Any], None]

ABSENT = object()
"""Stands for what isn't there, as None may be there."""


def look_up(module: str | None, name: str) -> object:
    """What a loaded module holds under a dotted name."""
    if module is None or "<" in name:
        return ABSENT
    found: Any = sys.modules.get(module, ABSENT)
    for part in name.split("."):
        if found is ABSENT:
            return ABSENT
        found = getattr(found, part, ABSENT)
    return found


def is_found(cls: type) -> bool:
    """Whether the class's module holds it under its name."""
    return look_up(cls.__module__, cls.__qualname__) is cls


class ReferenceEncoder(ValueEncoder):
    """Digests by module, name and version what an installed module holds under its name."""

    def __init__(self) -> None:
        super().__init__()
        self._known_modules: set[str] = set()
        # Modules and, behind a dot, what of them is referred to.
        self._reached: set[str] = set()

    def _special(self, value: Any) -> bool:
        feed = self._feeder(type(value))
        if feed is None:
            return False
        feed(value)
        return True

    def _feeder(self, kind: type) -> Feeder | None:
        """What feeds values of a type that has something special; None for other types."""
        return None

    def _identity(self, name: object) -> str | None:
        """What pins down a module that is not the user's."""
        if not isinstance(name, str):
            return None
        origin = origin_of(name)
        if origin is not None:
            self._known_modules.add(name)
            self._reached.add(name)
            if name.partition(".")[0] in REVEALING_MODULES - {"builtins"}:
                self.fail(f"module {name!r} shows more than results depend on")
        return origin

    def _reference(self, value: Any) -> bool:
        """Feeds module, name and version of what an installed module holds under its name."""
        module = getattr(value, "__module__", None)
        name = getattr(value, "__qualname__", None) or getattr(value, "__name__", None)
        if not isinstance(module, str) or not isinstance(name, str):
            return False
        return look_up(module, name) is value and self._named(module, name)

    def _named(self, module: str, name: str) -> bool:
        """Feeds a name of an installed module; False if the module is the user's."""
        origin = self._identity(module)
        if origin is None:
            return False
        made = Manner.MADE in self._manner and has_state(module, name)
        if Manner.JUDGED not in self._manner and not made:
            self._judge(module, name.split("."), None)
        self._reached.add(f"{module}.{name}")
        self._parts("reference", module, name, origin)
        return True

    def _judge(self, module: str, attributes: Sequence[str], call: Call | None) -> None:
        """Gives up if what is taken from an installed module shows the outside world."""
        why = outside(module, attributes, call)
        if why is not None:
            self.fail(why)
        self._reached.add(".".join([module, *attributes[:1]]))

    def _is_settled_by_name(self, cls: type) -> bool:
        # Where instances tell their module by a slot, the class itself tells none.
        module = cls.__module__
        return isinstance(module, str) and origin_of(module) is not None and is_found(cls)

    def _by_name(self, value: Any, name: str) -> None:
        modules = [getattr(value, "__module__", None), str(type(value).__module__)]
        modules.append(str(modules[-1]).partition(".")[0])
        for module in modules:
            if not isinstance(module, str) or look_up(module, name) is not value:
                continue
            if self._named(module, name):
                return
        # Such as the universal functions of SciPy, which don't know their module.
        for module in sorted(sys.modules, key=lambda known: (known.count("."), known)):
            known = sys.modules.get(module)
            holds = getattr(known, "__dict__", {}).get(name, ABSENT) is value
            if holds and self._named(module, name):
                return
        self.fail(f"{name!r} is known by a name only")
