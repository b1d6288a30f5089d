"""Small functions inside the JVM, put together from Python out of `java.lang.invoke` handles.

A Py4J call costs a tenth of a millisecond or more, so whatever has to touch every node of a plan
must run inside the JVM. Java's method handles compose existing methods into new functions at run
time, which takes neither a line of Java nor a jar to ship.
"""

from __future__ import annotations

from typing import Any, cast

from pyspark.sql import SparkSession

OBJECT = "java.lang.Object"
STRING = "java.lang.String"

_PRIMITIVES = {"int": "Integer", "long": "Long", "boolean": "Boolean", "void": "Void"}
_ARRAYS = {"byte[]": "[B", "char[]": "[C"}


class MethodHandles:
    """Builds composite functions; every function handled here maps one object to one string.

    Args:
        spark: a classic (not Connect) session, whose JVM the functions live in.
    """

    def __init__(self, spark: SparkSession) -> None:
        self.jvm = cast(Any, spark.sparkContext._jvm)
        self._gateway: Any = spark.sparkContext._gateway
        self._handles: Any = self.jvm.java.lang.invoke.MethodHandles
        self._types = self.jvm.java.lang.invoke.MethodType
        self._lookup = self._handles.publicLookup()
        self._loader = self.jvm.java.lang.Thread.currentThread().getContextClassLoader()
        self._classes: dict[str, Any] = {}

    def class_of(self, name: str) -> Any:
        """The `java.lang.Class` called `name`; primitives and `byte[]`, `char[]` by those names."""
        if name not in self._classes:
            if name in _PRIMITIVES:
                self._classes[name] = getattr(self.jvm.java.lang, _PRIMITIVES[name]).TYPE
            else:
                self._classes[name] = self.jvm.java.lang.Class.forName(
                    _ARRAYS.get(name, name), True, self._loader
                )
        return self._classes[name]

    def _array(self, element: Any, items: list[Any]) -> Any:
        array = self._gateway.new_array(element, len(items))
        for index, item in enumerate(items):
            array[index] = item
        return array

    def _type(self, returns: str, *takes: str) -> Any:
        classes = [self.class_of(name) for name in takes]
        return self._types.methodType(
            self.class_of(returns), self._array(self.jvm.java.lang.Class, classes)
        )

    def method(self, owner: str, name: str, returns: str, *takes: str) -> Any:
        """The public instance method `owner.name(takes) -> returns`; the receiver is argument 0."""
        return self._lookup.findVirtual(self.class_of(owner), name, self._type(returns, *takes))

    def static(self, owner: str, name: str, returns: str, *takes: str) -> Any:
        """The public static method `owner.name(takes) -> returns`."""
        return self._lookup.findStatic(self.class_of(owner), name, self._type(returns, *takes))

    def constructor(self, owner: str, *takes: str) -> Any:
        """The public constructor `owner(takes)`."""
        return self._lookup.findConstructor(self.class_of(owner), self._type("void", *takes))

    def bind(self, handle: Any, position: int, *values: Any) -> Any:
        """`handle` with its arguments from `position` on fixed to `values`."""
        return self._handles.insertArguments(
            handle, position, self._array(self.jvm.java.lang.Object, list(values))
        )

    def ignoring(self, handle: Any, *takes: str) -> Any:
        """`handle` behind leading arguments of the types `takes`, which it does not look at."""
        classes = [self.class_of(name) for name in takes]
        return self._handles.dropArguments(
            handle, 0, self._array(self.jvm.java.lang.Class, classes)
        )

    def cast(self, handle: Any, returns: str, *takes: str) -> Any:
        """`handle` with other static types, converted at the call."""
        return handle.asType(self._type(returns, *takes))

    def then(self, handle: Any, *following: Any) -> Any:
        """Each of `following` applied to what the one before it returned."""
        for after in following:
            handle = self._handles.filterReturnValue(handle, after)
        return handle

    def to_string(self, handle: Any) -> Any:
        """`handle` typed as a function from any object to a string."""
        return self.cast(handle, STRING, OBJECT)

    def constant(self, text: str) -> Any:
        """The function that answers `text` whatever it is given."""
        return self.ignoring(self._handles.constant(self.class_of(STRING), text), OBJECT)

    def is_instance(self, owner: str) -> Any:
        """The test whether an object is of class `owner`."""
        test = self.method("java.lang.Class", "isInstance", "boolean", OBJECT)
        return self.cast(self.bind(test, 0, self.class_of(owner)), "boolean", OBJECT)

    def choose(self, test: Any, when_true: Any, when_false: Any) -> Any:
        """`when_true` where `test` holds of the argument, else `when_false`."""
        return self._handles.guardWithTest(test, when_true, when_false)

    def concat(self, *parts: Any) -> Any:
        """What `parts` make of one and the same object, joined; strings stand for themselves."""
        concat = self.method(STRING, "concat", STRING, STRING)
        joined: Any = None
        for part in parts:
            if joined is None:
                joined = self.constant(part) if isinstance(part, str) else part
            elif isinstance(part, str):
                joined = self.then(joined, self.bind(concat, 1, part))
            else:
                both = self._handles.filterArguments(
                    concat, 0, self._array(self.jvm.java.lang.invoke.MethodHandle, [joined, part])
                )
                joined = self._handles.permuteArguments(
                    both, self._type(STRING, OBJECT), self._array(self.jvm.int, [0, 0])
                )
        return joined

    def recursive(self) -> tuple[Any, Any]:
        """A function that can be used before it is written.

        Returns:
            the function, and the call site whose `setTarget` writes it.
        """
        site = self.jvm.java.lang.invoke.MutableCallSite(self._type(STRING, OBJECT))
        return site.dynamicInvoker(), site

    def scala_function(self, handle: Any) -> Any:
        """`handle` as a `scala.Function1`, to be handed to Scala's collections."""
        return self.jvm.java.lang.invoke.MethodHandleProxies.asInterfaceInstance(
            self.class_of("scala.Function1"), self.cast(handle, OBJECT, OBJECT)
        )
