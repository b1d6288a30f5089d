"""Feeds a value and, at the end, what counts because of all the names that it leads to."""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import Any

from holdfast.plan.function_encoder import FunctionEncoder
from holdfast.plan.module_origin import is_module, origin_of
from holdfast.plan.outside_world import (
    HIDDEN_GENERATORS,
    by_name_in,
    by_names,
    is_mixed,
    is_of_local_time,
)
from holdfast.plan.reference_encoder import Feeder
from holdfast.plan.revealing_names import (
    ANYTHING_BY_NAME,
    ATTRIBUTE_BY_NAME,
    ATTRIBUTE_BY_NAME_IDS,
    revealing,
)
from holdfast.plan.value_digest import Manner

# Where one of these is read somewhere, what functions and classes are called counts too.
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
# What may reach those by a name that stands nowhere.
_BY_TEXT = ATTRIBUTE_BY_NAME | {"format", "format_map"}
_WORDS = re.compile(r"\w+")


class ReachEncoder(FunctionEncoder):
    """Digests values together with the functions, classes and modules that they lead to."""

    def __init__(self, first_sources: dict[str, bytes] | None = None) -> None:
        super().__init__()
        self._finds_attributes = False
        self._first_sources = first_sources

    def digest(self, kind: str, value: object) -> str:
        """The digest of one value and everything that it leads to."""
        self._open(kind)
        if type(value) is tuple:
            # What Spark sends to its workers: a function, which it calls, and beside it a type.
            self._open("command", len(value))
            for part in value:
                self._visit_as(Manner.CALLED, part)
        else:
            self._visit_as(Manner.CALLED, value)
        self._finish()
        return self.hexdigest()

    def _special(self, value: Any) -> bool:
        if id(value) in ANYTHING_BY_NAME:
            self.fail(f"{ANYTHING_BY_NAME[id(value)]} reaches anything by name")
        if any(id(value) == id(hidden) for hidden in _hidden_generators()):
            self.fail("random numbers without a seed")
        if id(value) in ATTRIBUTE_BY_NAME_IDS:
            self._finds_attributes = True
        return super()._special(value)

    def _feeder(self, kind: type) -> Feeder | None:
        feeder = super()._feeder(kind)
        # Some of Cython's types have a descriptor there.
        if feeder is None and str(kind.__module__).startswith("pyspark."):
            # Known by name, so that Spark needs not be imported for it.
            if kind.__name__ == "Broadcast":
                return self._broadcast
            if kind.__name__ == "Accumulator":
                return self._accumulator
        return feeder

    def _accumulator(self, value: object) -> None:
        self.fail("an accumulator: using kept results would not add to it")

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

    def _finish(self) -> None:
        """Feeds what depends on everything that has been reached."""
        done: set[tuple[str, str]] = set()
        named: set[int] = set()
        progress = True
        while progress:
            progress = self._feed_import_time()
            for key, module in list(self._user_modules.items()):
                hooks = {"__getattr__"} & vars(module).keys()
                for attribute in sorted(hooks | (self._names & vars(module).keys())):
                    if (key, attribute) not in done:
                        done.add((key, attribute))
                        progress = True
                        self._attribute_of_module(key, module, attribute)
            for number, function in list(self._functions.items()):
                if number not in named and (self._reads_names() or number in self._observed):
                    named.add(number)
                    progress = True
                    self._describe(function)
        self._check_names()
        if self._looks_closely():
            self._describe_closely()
        if self._formats or self._reads_names():
            # Functions that are made by others are called after them.
            self.visit(list(self._shown))
        if self._writes_globals:
            # Whether two functions see each other's writes.
            order: dict[int, int] = {}
            for function in self._functions.values():
                self.visit(order.setdefault(id(function.__globals__), len(order)))
        if is_of_local_time(self._attribute_names | self._names):
            self.visit((time.timezone, time.tzname))

    def _words(self) -> set[str]:
        """The names in the code, and the words in its texts, which may be names."""
        return self._names | {word for text in self._strings for word in _WORDS.findall(text)}

    def _reads_names(self) -> bool:
        return not _READING_NAMES.isdisjoint(self._words())

    def _looks_closely(self) -> bool:
        return self._finds_attributes or bool(self._names & _BY_TEXT) or self._reads_names()

    def _attribute_of_module(self, key: str, module: ModuleType, attribute: str) -> None:
        self._path.append(f"attribute {attribute!r} of module {module.__name__!r}")
        self._open("attribute")
        self.visit(attribute)
        value = vars(module)[attribute]
        if isinstance(value, ModuleType) and key not in self._held_modules:
            self._judge_uses(
                value,
                [
                    use._replace(attributes=use.attributes[1:])
                    for use in self._used_attributes.get(id(module), ())
                    if use.attributes[0] == attribute
                ],
            )
            self._visit_as(Manner.JUDGED, value)
        else:
            self.visit(value)
        self._path.pop()

    def _describe(self, function: FunctionType) -> None:
        self._open("described", self._numbers[id(function)])
        self.visit(function.__name__)
        self.visit(function.__qualname__)
        self.visit(function.__module__)

    def _describe_closely(self) -> None:
        everything = self._reads_names()
        for number, function in list(self._functions.items()):
            if everything or number in self._observed:
                self._path.append(f"function {function.__qualname__!r}")
                self._open("described closely", self._numbers[number])
                self.visit(function.__doc__ if isinstance(function.__doc__, str) else None)
                self.visit(dict(function.__annotations__))
                self._path.pop()
        for cls in self._classes.values():
            self.visit(cls.__dict__.get("__doc__") if "__doc__" in cls.__dict__ else None)

    def _check_names(self) -> None:
        by_text = self._finds_attributes or bool(self._names & _BY_TEXT)
        names = self._words() if by_text else self._names
        why = (
            revealing(names, self._known_modules)
            or by_names(self._reached, self._attribute_names, self._strings)
            or self._why_held()
        )
        if why is not None:
            self.fail(why)
        if self._finds_attributes or self._names & ATTRIBUTE_BY_NAME:
            asked = [
                name
                for name, module in self._held_modules.items()
                if name in self._user_modules or is_mixed(module.__name__)
            ]
            if asked:
                self.fail(f"module {min(asked)!r} may be asked for attributes by name")
        self._check_import_time()

    def _why_held(self) -> str | None:
        for module in self._held_modules.values():
            if origin_of(module.__name__) is not None or not is_module(module):
                why = by_name_in(module, self._attribute_names)
                if why is not None:
                    return why
        return None


def _hidden_generators() -> Iterator[object]:
    for module, name in HIDDEN_GENERATORS:
        loaded = sys.modules.get(module)
        if loaded is not None:
            yield getattr(loaded, name, None)
