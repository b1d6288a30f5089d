"""What our Java classes were compiled to, kept for the next program, as Python keeps its own.

Most of what a first query takes longer than later ones is the compilation of our classes. Their
byte code lies where Python has that of its modules, in a jar for each class, which is named by all
that it was made from. Where nobody may write there, or Python is told not to
(`PYTHONDONTWRITEBYTECODE`), each program compiles for itself.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sys
import uuid
import zipfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any, cast
from urllib.parse import unquote, urlsplit

from py4j.protocol import Py4JError
from pyspark.sql import SparkSession

from holdfast.spark.per_context import PerContext

logger = logging.getLogger(__name__)

_SUFFIX = ".class"


@dataclass(frozen=True, slots=True)
class KeptByteCode:
    """Where the byte code of a class is, or is to be.

    Attributes:
        jar: the file.
        digest: of what it is made from, in hexadecimal digits.
    """

    jar: Path
    digest: str

    @classmethod
    def of(cls, spark: SparkSession, java: Path, source: str) -> KeptByteCode | None:
        """Where that of a class is; None where none is kept.

        Args:
            spark: a classic session in the JVM.
            java: the file of the class's source.
            source: what is compiled.
        """
        compiler = _compiler.of(spark)
        if compiler is None:
            return None
        digest = hashlib.sha256(f"{compiler}\n{source}".encode()).hexdigest()[:32]
        directory = Path(cache_from_source(str(java.parent.with_suffix(".py")))).parent
        return cls(directory / f"{java.stem}.{digest}.jar", digest)

    def is_first_in(self, spark: SparkSession) -> bool:
        """Whether nobody has asked for this class in the session's JVM before.

        No two classes of a JVM may have the name that the kept one has.

        Args:
            spark: a classic session in the JVM.
        """
        properties = cast(Any, spark.sparkContext._jvm).java.lang.System.getProperties()
        return properties.putIfAbsent(f"holdfast.{self.jar.name}", "") is None

    def loaded(self, spark: SparkSession, name: str) -> Any | None:
        """The class; None where the file has none.

        Args:
            spark: a classic session in the JVM.
            name: the class's full name.
        """
        jvm = cast(Any, spark.sparkContext._jvm)
        gateway = cast(Any, spark.sparkContext._gateway)
        try:
            jars = gateway.new_array(jvm.java.net.URL, 1)
            jars[0] = jvm.java.io.File(str(self.jar)).toURI().toURL()
            # This one finds Spark.
            parent = jvm.java.lang.Thread.currentThread().getContextClassLoader()
            return jvm.java.net.URLClassLoader(jars, parent).loadClass(name)
        except (Py4JError, TypeError):
            logger.debug("can't load %s", self.jar, exc_info=True)
            # It may be damaged: the next program is to have another one.
            with suppress(OSError):
                self.jar.unlink()
            return None

    def read(self) -> dict[str, bytes]:
        """The byte code of the class and of those inside of it, by their names.

        Raises:
            OSError: when it can't be read.
        """
        with zipfile.ZipFile(self.jar) as archive:
            return {
                each.removesuffix(_SUFFIX).replace("/", "."): archive.read(each)
                for each in archive.namelist()
            }

    def write(self, code: Callable[[], Mapping[str, bytes]]) -> None:
        """Keeps byte code, where that can be.

        Args:
            code: gives that of the class and of those inside of it, by their names; it is not
                asked where nothing may be written, as that takes a call to the JVM for each.
        """
        if sys.dont_write_bytecode:
            return
        made = self.jar.with_name(f"{uuid.uuid4().hex}.new")
        try:
            self.jar.parent.mkdir(parents=True, exist_ok=True)
            made.touch()
            write_jar(made, code())
            made.replace(self.jar)
        except OSError:
            logger.debug("can't write %s", self.jar, exc_info=True)
            with suppress(OSError):
                made.unlink()


def write_jar(jar: Path, code: Mapping[str, bytes]) -> None:
    """Writes a jar.

    Args:
        jar: the file.
        code: classes' byte code by their names.

    Raises:
        OSError: when it can't be written.
    """
    with zipfile.ZipFile(jar, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, each in code.items():
            archive.writestr(f"{name.replace('.', '/')}{_SUFFIX}", each)


def _compiler_of(spark: SparkSession) -> str | None:
    """All that the byte code of a source depends on; None where that isn't known."""
    jvm = cast(Any, spark.sparkContext._jvm)
    try:
        domain = spark._jsparkSession.getClass().getProtectionDomain()
        location = urlsplit(domain.getCodeSource().getLocation().toString())
        jar = Path(unquote(location.path))
        versions = [
            # Any jar beside Spark's that is another one has been written since, or is a new name.
            (str(each), stat.st_size, stat.st_mtime_ns)
            for each in (jar, jar.parent)
            for stat in [os.stat(each)]
        ]
        java = jvm.java.lang.System.getProperty("java.vm.version")
        return f"{spark.version} {java} {versions}"
    except (Py4JError, AttributeError, OSError):
        logger.debug("can't tell by which Spark classes are compiled", exc_info=True)
        return None


_compiler: PerContext[str | None] = PerContext(_compiler_of)
