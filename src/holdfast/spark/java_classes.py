"""Classes of ours inside the JVM, compiled there from the Java sources in `java`.

A Py4J call costs a tenth of a millisecond or more, so whatever has to touch every node of a plan,
or every file of a listing, must run inside the JVM. Spark compiles the code that it generates with
Janino, which compiles these sources in a few dozen milliseconds as well: there is no jar to ship,
and none to be put on the class path of a session that others have started. Janino reads Java
without lambdas, and generic types as raw ones. What it has compiled is kept for later programs.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.resources import files
from pathlib import Path
from typing import Any, cast

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from holdfast.errors import UnsupportedSparkError
from holdfast.spark.failures import reason
from holdfast.spark.kept_byte_code import KeptByteCode
from holdfast.spark.per_context import PerContext
from holdfast.spark.versions import NEEDED_FOR, adapted

_PACKAGE = "holdfast"
_IN_PACKAGE = f"package {_PACKAGE};"


def new_object(spark: SparkSession, name: str, *arguments: Any) -> Any:
    """A new object of one of our classes, which is compiled for it: hold on to what this gives.

    Args:
        spark: a classic session in the JVM.
        name: the class's name, which is also that of its source.
        *arguments: what its constructor takes: texts, and objects of the JVM.

    Raises:
        UnsupportedSparkError: when the JVM doesn't compile the class, or doesn't run it.
    """
    return _object(spark, name, compiled(spark, name), arguments)


def compiled(spark: SparkSession, name: str) -> Any:
    """One of our classes, as the JVM's Spark has compiled it; once for each context.

    Args:
        spark: a classic session in the JVM.
        name: the class's name, which is also that of its source.

    Raises:
        UnsupportedSparkError: when the JVM doesn't compile it.
    """
    return _COMPILED[name].of(spark).java_class


def byte_code(spark: SparkSession, name: str) -> dict[str, bytes]:
    """What one of our classes was compiled to, with those inside of it, by their names.

    Args:
        spark: a classic session in the JVM.
        name: the class's name, which is also that of its source.

    Raises:
        UnsupportedSparkError: when the JVM doesn't compile it.
    """
    return _COMPILED[name].of(spark).byte_code()


@dataclass(frozen=True, slots=True)
class _Compiled:
    """A class in the JVM, and what tells its byte code."""

    java_class: Any
    byte_code: Callable[[], dict[str, bytes]]


def _of_ours(name: str, spark: SparkSession) -> _Compiled:
    java = files(__package__).joinpath("java").joinpath(f"{name}.java")
    source = adapted(name, java.read_text(encoding="utf-8"), spark.version)
    kept = KeptByteCode.of(spark, java, source) if isinstance(java, Path) else None
    if kept is None or not kept.is_first_in(spark):
        return _class(spark, name, source, uuid.uuid4().hex)
    if kept.jar.is_file():
        java_class = kept.loaded(spark, _full_name(kept.digest, name))
        if java_class is not None:
            return _Compiled(java_class, kept.read)
        return _class(spark, name, source, uuid.uuid4().hex)
    made = _class(spark, name, source, kept.digest)
    kept.write(made.byte_code)
    return made


def _none_yet() -> Mapping[str, PerContext[_Compiled]]:
    return {name: PerContext(partial(_of_ours, name)) for name in NEEDED_FOR}


# Compiled twice, it is two classes: tasks would be sent objects of one, and the code of the other.
_COMPILED = _none_yet()


def object_of(spark: SparkSession, name: str, source: str, *arguments: Any) -> Any:
    """A new object of a class, which is compiled from its source.

    Args:
        spark: a classic session in the JVM.
        name: the class's name, without that of our package.
        source: a Java source of our package that has this one class, public and with one public
            constructor.
        *arguments: what the constructor takes.

    Raises:
        UnsupportedSparkError: when the JVM doesn't compile the class, or doesn't run it.
    """
    made = _class(spark, name, source, uuid.uuid4().hex)
    return _object(spark, name, made.java_class, arguments)


def _full_name(unique: str, name: str) -> str:
    # Py4J remembers methods by their class's name, and would call those of an earlier context.
    return f"{_PACKAGE}.made_{unique}.{name}"


def _class(spark: SparkSession, name: str, source: str, unique: str) -> _Compiled:
    jvm = cast(Any, spark.sparkContext._jvm)
    full_name = _full_name(unique, name)
    package = full_name.rpartition(".")[0]
    try:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        # This one finds Spark, whichever loader Janino comes from.
        compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(f"{name}.java", source.replace(_IN_PACKAGE, f"package {package};", 1))
        java_class = compiler.getClassLoader().loadClass(full_name)
        return _Compiled(java_class, partial(_byte_code_of, compiler))
    # A name that the JVM has no class for is a package to Py4J, which can't be called.
    except (Py4JError, TypeError) as error:
        raise UnsupportedSparkError(name, reason(error)) from error


def _byte_code_of(compiler: Any) -> dict[str, bytes]:
    found = compiler.getBytecodes()
    return {str(each): bytes(found.get(each)) for each in found.keySet().toArray()}


def _object(spark: SparkSession, name: str, java_class: Any, arguments: Sequence[Any]) -> Any:
    jvm = cast(Any, spark.sparkContext._jvm)
    gateway = cast(Any, spark.sparkContext._gateway)
    try:
        array = gateway.new_array(jvm.java.lang.Object, len(arguments))
        for index, argument in enumerate(arguments):
            array[index] = argument
        return java_class.getConstructors()[0].newInstance(array)
    except Py4JError as error:
        raise UnsupportedSparkError(name, reason(error)) from error
