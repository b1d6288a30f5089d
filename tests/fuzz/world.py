"""What a case may change beside its plans: settings, files, modules, Spark's own cache."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.orc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

_EPOCH = 1_600_000_000


class World:
    """The surroundings of a session, which are as they were when a case is over."""

    def __init__(self, spark: SparkSession, home: Path) -> None:
        self.spark = spark
        self._root = home
        self._cases = 0
        self._settings: dict[str, str | None] = {}
        self._only: dict[str, str | None] = {}
        self._tables = self._named()
        self._alone = spark
        self.home = home / "case-0"
        self.home.mkdir(parents=True, exist_ok=True)

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
        """Writes a Parquet file, or another one in its place; gives its path.

        The name is a file's, or that of the directory of `part-0.parquet`; the stamp is its
        modification time, in seconds since all files' beginning.
        """
        path = self._file(name, "parquet")
        pq.write_table(pa.Table.from_pylist(rows), path)
        return self._stamped(path, stamp)

    def text(self, name: str, content: str | bytes, stamp: int = 0) -> str:
        """Writes a file of any other format, see `parquet`."""
        path = self._file(name, "txt")
        path.write_bytes(content.encode() if isinstance(content, str) else content)
        return self._stamped(path, stamp)

    def part(self, name: str, kind: str, ids: list[int], stamp: int = 0) -> str:
        """Writes the file of a partition, of the columns `id BIGINT, v INT`, see `parquet`."""
        values = pa.array([each % 3 for each in ids], pa.int32())
        rows = pa.table({"id": pa.array(ids, pa.int64()), "v": values})
        path = self._file(name, kind)
        match kind:
            case "parquet":
                pq.write_table(rows, path)
            case "orc":
                pyarrow.orc.write_table(rows, path)
            case "json":
                path.write_text("".join(f'{{"id": {i}, "v": {i % 3}}}\n' for i in ids))
            case _:
                between = "," if kind == "csv" else "\1"
                path.write_text("".join(f"{i}{between}{i % 3}\n" for i in ids))
        return self._stamped(path, stamp)

    def elsewhere(self, *statements: str) -> None:
        """Executes SQL in a program that ends then."""
        session = self.spark.newSession()
        for each in (f"USE {self._database}", *statements):
            session.sql(each)

    def stored_as(self, table: str, value: str, kind: str) -> None:
        """What Hive's `ALTER TABLE … PARTITION (p = …) SET FILEFORMAT` does, which Spark has not."""
        jvm: Any = self.spark.sparkContext._jvm
        catalog = self.spark._jsparkSession.sharedState().externalCatalog()
        spec = jvm.PythonUtils.toScalaMap({"p": value})
        partition = catalog.getPartition(self._database, table, spec)
        serde = jvm.org.apache.spark.sql.internal.HiveSerDe.sourceToSerDe(kind).get()
        old = partition.storage()
        copied = {"inputFormat": serde, "outputFormat": serde, "serde": serde}
        names = [old.productElementName(each) for each in range(old.productArity())]
        storage = old.copy(*(getattr(copied.get(name, old), name)() for name in names))
        names = [partition.productElementName(each) for each in range(partition.productArity())]
        changed = partition.copy(
            *(storage if name == "storage" else getattr(partition, name)() for name in names)
        )
        catalog.alterPartitions(self._database, table, jvm.PythonUtils.toSeq([changed]))

    def begin(self, session: SparkSession) -> dict[str, Any]:
        """Another program begins, with a session of its own; gives its statements' names."""
        self._undo_settings()
        self.spark = session
        path = self.home / "database"
        session.sql(f"CREATE DATABASE IF NOT EXISTS {self._database} LOCATION '{path}'")
        session.sql(f"USE {self._database}")
        return self.names()

    @property
    def _database(self) -> str:
        return self.home.name.replace("-", "_")

    def remove(self, name: str) -> None:
        """Removes a file or a directory of the case."""
        path = self.home / name
        shutil.rmtree(path) if path.is_dir() else path.unlink()

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
        helpers = "setting only parquet text part elsewhere stored_as remove"
        return {
            "__name__": "__main__",
            "spark": self.spark,
            "home": str(self.home),
            **{name: getattr(self, name) for name in helpers.split()},
        }

    def _named(self) -> set[str]:
        """The names of all tables and views."""
        catalog = self.spark._jsparkSession.sessionState().catalog()
        return set(catalog.listTables("default").mkString("\n").splitlines())

    def _undo_settings(self) -> None:
        for key, value in self._settings.items():
            self.spark.conf.unset(key) if value is None else self.spark.conf.set(key, value)
        self._settings.clear()
        self._only.clear()

    def _undo(self) -> None:
        self._undo_settings()
        if self.spark is not self._alone:
            self.spark = self._alone
            self.spark.sql(f"DROP DATABASE IF EXISTS {self._database} CASCADE")
        for name in self._named() - self._tables:
            self.spark.sql(f"DROP {'TABLE' if '.' in name else 'VIEW'} {name}")
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
