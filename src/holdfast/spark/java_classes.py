"""Classes of ours inside the JVM, compiled there from the Java sources in `java`.

A Py4J call costs a tenth of a millisecond or more, so whatever has to touch every node of a plan,
or every file of a listing, must run inside the JVM. Spark compiles the code that it generates with
Janino, which compiles these sources in a few dozen milliseconds as well: there is no jar to ship,
and none to be put on the class path of a session that others have started. Janino reads Java
without lambdas, and generic types as raw ones.
"""

from __future__ import annotations

import uuid
from importlib.resources import files
from typing import Any, cast

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from holdfast.errors import UnsupportedSparkError
from holdfast.spark.failures import reason

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
    source = files(__package__).joinpath("java").joinpath(f"{name}.java")
    return object_of(spark, name, source.read_text(encoding="utf-8"), *arguments)


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
    jvm = cast(Any, spark.sparkContext._jvm)
    gateway = cast(Any, spark.sparkContext._gateway)
    # Py4J remembers methods by their class's name, and would call those of an earlier context.
    package = f"{_PACKAGE}.made_{uuid.uuid4().hex}"
    try:
        compiler = jvm.org.codehaus.janino.SimpleCompiler()
        # This one finds Spark, whichever loader Janino comes from.
        compiler.setParentClassLoader(jvm.java.lang.Thread.currentThread().getContextClassLoader())
        compiler.cook(f"{name}.java", source.replace(_IN_PACKAGE, f"package {package};", 1))
        compiled = compiler.getClassLoader().loadClass(f"{package}.{name}")
        array = gateway.new_array(jvm.java.lang.Object, len(arguments))
        for index, argument in enumerate(arguments):
            array[index] = argument
        return compiled.getConstructors()[0].newInstance(array)
    # A name that the JVM has no class for is a package to Py4J, which can't be called.
    except (Py4JError, TypeError) as error:
        raise UnsupportedSparkError(name, reason(error)) from error
