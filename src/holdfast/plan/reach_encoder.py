"""Feeds a value and, at the end, what counts because of all the names that it leads to."""

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import Any

from holdfast.plan.function_encoder import FunctionEncoder
from holdfast.plan.reference_encoder import Feeder
from holdfast.plan.revealing_names import (
    ANYTHING_BY_NAME,
    ATTRIBUTE_BY_NAME,
    ATTRIBUTE_BY_NAME_IDS,
    revealing,
)

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


class ReachEncoder(FunctionEncoder):
    """Digests values together with the functions, classes and modules that they lead to."""

    def __init__(self) -> None:
        super().__init__()
        self._finds_attributes = False

    def digest(self, kind: str, value: object) -> str:
        """The digest of one value and everything that it leads to."""
        self._open(kind)
        self.visit(value)
        self._finish()
        return self.hexdigest()

    def _special(self, value: Any) -> bool:
        if id(value) in ANYTHING_BY_NAME:
            self.fail(f"{ANYTHING_BY_NAME[id(value)]} reaches anything by name")
        if id(value) in ATTRIBUTE_BY_NAME_IDS:
            self._finds_attributes = True
        return super()._special(value)

    def _feeder(self, kind: type) -> Feeder | None:
        feeder = super()._feeder(kind)
        if feeder is None and kind.__module__.startswith("pyspark."):
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
        why = revealing(self._names, self._known_modules)
        if why is not None:
            self.fail(why)
        if self._user_modules and (self._finds_attributes or self._names & ATTRIBUTE_BY_NAME):
            self.fail(f"module {min(self._user_modules)!r} may be asked for attributes by name")
