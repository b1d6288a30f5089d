"""What a case may change beside its plans: settings, files, modules, Spark's own cache."""

from __future__ import annotations

import importlib
import os
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

_EPOCH = 1_600_000_000
_PYTHON_PATH = "PYTHONPATH"


class World:
    """The surroundings of a session, which are as they were when a case is over.

    Args:
        spark: the session.
        home: a directory for what cases write.
    """

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self.spark = spark
        self._root = home
        self._cases = 0
        self._settings: dict[str, str | None] = {}
        self._only: dict[str, str | None] = {}
        self._modules: set[str] = set()
        self._held: list[DataFrame] = []
        self._tables = self._named()
        self.home = home / "case-0"
        self.home.mkdir(parents=True)

    def setting(self, key: str, value: str | None) -> None:
        """Sets a setting of the session; None takes it away."""
        before = self._set(key)
        conf = self.spark.conf
        conf.unset(key) if value is None else conf.set(key, value)
        # Spark refuses to set some.
        self._settings.setdefault(key, before)

    def only(self, values: dict[str, str | None]) -> None:
        """Sets these settings, and those that this has set before back to what they were."""
        while self._only:
            self.setting(*self._only.popitem())
        for key, value in values.items():
            before = self._set(key)
            self.setting(key, value)
            self._only[key] = before

    def _set(self, key: str) -> str | None:
        conf = self.spark.conf
        return conf.get(key) if conf._jconf.contains(key) else None

    def parquet(self, name: str, rows: list[dict[str, Any]], stamp: int = 0) -> str:
        """Writes a Parquet file, or another one in its place; gives the path of its directory.

        Args:
            name: below the case's directory; a file name, or the directory of `part-0.parquet`.
            rows: with the same keys each.
            stamp: its modification time, in seconds since all files' beginning.
        """
        path = self._file(name, "parquet")
        pq.write_table(pa.Table.from_pylist(rows), path)
        return self._stamped(path, stamp)

    def text(self, name: str, content: str | bytes, stamp: int = 0) -> str:
        """Writes a file of any other format, see `parquet`."""
        path = self._file(name, "txt")
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return self._stamped(path, stamp)

    def remove(self, name: str) -> None:
        """Removes a file or a directory of the case."""
        path = self.home / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

    def hold(self, df: DataFrame) -> DataFrame:
        """Has Spark itself cache a DataFrame."""
        self._held.append(df.cache())
        df.count()
        return df

    def release(self) -> None:
        """Has Spark forget what it holds: to clear its cache would end what others have cached."""
        while self._held:
            self._held.pop().unpersist(blocking=True)

    def module(self, name: str, text: str, reload: bool = True) -> None:
        """Writes a module, and has workers import all modules of the case anew.

        Args:
            name: of the module.
            text: of it.
            reload: the driver imports them anew as well.
        """
        folder = self.home / "modules"
        if not folder.exists():
            folder.mkdir()
            sys.path.insert(0, str(folder))
            self.spark.sparkContext.environment[_PYTHON_PATH] = str(folder)
        (folder / f"{name}.py").write_text(text)
        self._modules.add(name)
        shutil.rmtree(folder / "__pycache__", ignore_errors=True)
        if reload:
            self._forget_modules()
        self.fresh_workers()

    def _forget_modules(self) -> None:
        importlib.invalidate_caches()
        for name in self._modules:
            sys.modules.pop(name, None)

    def fresh_workers(self) -> None:
        """Ends the Python workers that wait, as they remember the modules that they have imported.

        A program that is started anew has others, too.
        """
        jvm: Any = self.spark.sparkContext._jvm
        class_of = jvm.java.lang.Class.forName
        # Its methods can't be listed: some are of classes that PySpark comes without.
        environment = _private(class_of("org.apache.spark.SparkEnv$"), "env", None)
        factories = _private(class_of("org.apache.spark.SparkEnv"), "pythonWorkers", environment)
        waiting = factories.values().iterator()
        while waiting.hasNext():
            waiting.next().stop()
        factories.clear()

    @contextmanager
    def case(self) -> Iterator[dict[str, Any]]:
        """The names that a case's statements may use; all is undone at its end."""
        self._cases += 1
        self.home = self._root / f"case-{self._cases}"
        self.home.mkdir()
        try:
            yield self.names()
        finally:
            self._undo()

    def names(self) -> dict[str, Any]:
        """What the statements of a case find."""
        helpers = (
            self.setting,
            self.only,
            self.parquet,
            self.text,
            self.remove,
            self.hold,
            self.release,
        )
        return {
            "__name__": "__main__",
            "spark": self.spark,
            "home": str(self.home),
            **{helper.__name__: helper for helper in (*helpers, self.module)},
        }

    def _named(self) -> set[str]:
        """The names of all tables and views."""
        catalog = self.spark._jsparkSession.sessionState().catalog()
        return set(catalog.listTables("default").mkString("\n").splitlines())

    def _undo(self) -> None:
        for key, value in self._settings.items():
            self.spark.conf.unset(key) if value is None else self.spark.conf.set(key, value)
        self._settings.clear()
        self._only.clear()
        self.release()
        for name in self._named() - self._tables:
            self.spark.sql(f"DROP {'TABLE' if '.' in name else 'VIEW'} {name}")
        folder = str(self.home / "modules")
        if folder in sys.path:
            self._forget_modules()
            self.fresh_workers()
            sys.path.remove(folder)
            self.spark.sparkContext.environment.pop(_PYTHON_PATH, None)
            self._modules.clear()
        shutil.rmtree(self.home)

    def _file(self, name: str, ending: str) -> Path:
        path = self.home / name
        if not path.suffix:
            path = path / f"part-0.{ending}"
        path.parent.mkdir(parents=True, exist_ok=True)
        return path

    def _stamped(self, path: Path, stamp: int) -> str:
        os.utime(path, (_EPOCH + stamp, _EPOCH + stamp))
        # Hadoop's check sums would be those of the file before.
        return str(path)


def _private(of_class: Any, name: str, instance: Any) -> Any:
    field = of_class.getDeclaredField(name)
    field.setAccessible(True)
    if instance is None:
        instance = of_class.getField("MODULE$").get(None)
    return field.get(instance)
