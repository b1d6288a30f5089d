"""Reads kept partitions in place of the computation that they came from."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass
from enum import Enum
from threading import RLock
from typing import Any

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from holdfast.last_used import put
from holdfast.spark.failures import reason
from holdfast.spark.java_classes import new_object
from holdfast.spark.jvm_members import JvmMembers
from holdfast.spark.keepable_types import is_plain
from holdfast.spark.per_context import PerContext
from holdfast.spark.seal_label import SEAL
from holdfast.storage.kept_dataset import DataSetDescription, KeptDataSet

# A session that says otherwise must not make a kept partition's loss look like fewer rows.
READ_OPTIONS = {
    "globPaths": "false",
    "ignoreCorruptFiles": "false",
    "ignoreMissingFiles": "false",
    "mergeSchema": "false",
    "datetimeRebaseMode": "CORRECTED",
    "int96RebaseMode": "CORRECTED",
    "parquet.page.verify-checksum.enabled": "true",
    # A task executor that is cut off must not hold up a job that can do without it.
    "dfs.webhdfs.socket.connect-timeout": "5s",
    "dfs.webhdfs.socket.read-timeout": "30s",
}
# A huge batch is read nearly alone.
_BATCH_SIZE = ("spark.sql.parquet.columnarReaderBatchSize", "4")
_REMEMBERED = 256

# By its short name it could be the second version of it, whose plans have another form.
PARQUET = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"

# A result that has no order by its plan is still shown as Spark shows it, while it is small.
_SMALL = 4 << 20

_SEAL_ALONE = frozenset({SEAL})


@dataclass(frozen=True, slots=True)
class _Output:
    """An attribute that the replaced node put out, by its position."""

    name: str
    is_plain: bool
    """It has no metadata, but for ours, which no reader looks at."""


class _Sharing(Enum):
    """Which tasks read which files, as `java/KeptFiles.java` calls it."""

    EACH = "each"
    ORDERED = "ordered"
    BY_SIZE = "by size"


class PartitionReader:
    """Makes plans that read kept datasets. Safe for use by several threads.

    Args:
        spark: the session that reads.
        session: the JVM's session for the scans of one plan; that of `spark` by default.
    """

    def __init__(self, spark: SparkSession, session: Any = None) -> None:
        self._spark = spark
        self._own_session = session
        self._jvm = JvmMembers.of(spark)
        self._relations: OrderedDict[Any, Any] = OrderedDict()
        self._lock = RLock()
        self._session_of_batches: Any = None

    def plan(
        self,
        kept: KeptDataSet,
        node: Any,
        ids: tuple[int, ...],
        identities: tuple[str, ...],
        *,
        as_partitioned: bool = False,
    ) -> Any:
        """A plan that puts out what `node` does: the same attributes and the same rows.

        Where the computation fixes the order of its rows, so does the plan.

        Args:
            kept: the dataset that `node` computes.
            node: the JVM's plan to be replaced.
            ids: the ids of its output's attributes.
            identities: what each of them is of the dataset's rows.
            as_partitioned: each kept partition is one of the plan's, in their order.
        """
        attributes = node.output()
        places = _places(kept, identities)
        schema = json.loads(node.schema().json())
        outputs = [
            _Output(field["name"], field["metadata"].keys() <= _SEAL_ALONE)
            for field in schema["fields"]
        ]
        relation = self._relation(kept, _sharing(kept, as_partitioned))
        if self._can_take_over(kept, outputs, ids, places):
            return self._logical_relation(relation.relation(), attributes)
        return self._renamed(kept, relation, attributes, places)

    @staticmethod
    def _can_take_over(
        kept: KeptDataSet, outputs: list[_Output], ids: tuple[int, ...], places: list[int]
    ) -> bool:
        """Whether the files' columns can be called by the replaced attributes themselves."""
        columns = kept.manifest.dataset.columns
        return (
            bool(columns)
            and places == list(range(len(columns)))
            and len(set(ids)) == len(ids)
            and all(
                output.name == column.kept_as
                and output.is_plain
                and column.kept_type == column.type
                for output, column in zip(outputs, columns, strict=True)
            )
        )

    def _renamed(self, kept: KeptDataSet, relation: Any, attributes: Any, places: list[int]) -> Any:
        # Two calls for all columns: a result may have hundreds.
        dataset = kept.manifest.dataset
        in_jvm = _kept_columns.of(self._spark)
        relation = relation.newInstance()
        if dataset.filler_column is not None:
            return self._jvm.project(self._jvm.to_seq([]), relation)
        at = "\n".join(map(str, places))
        types = "\n".join(
            "" if each.kept_type == each.type else json.dumps(each.kept_type)
            for each in dataset.columns
        )
        read = in_jvm.read(relation.output(), attributes, at, types)
        scan = self._logical_relation(relation.relation(), read)
        return in_jvm.renamed(read, attributes, at, types, scan)

    def _relation(self, kept: KeptDataSet, sharing: _Sharing) -> Any:
        """Spark's relation over kept files; listing them once is enough."""
        key = (kept.directories, sharing)
        with self._lock:
            if key in self._relations:
                self._relations.move_to_end(key)
                return self._relations[key]
        files = kept.locations
        if sharing is not _Sharing.EACH:
            # Opening those without rows takes time.
            rows = [partition.rows for partition in kept.manifest.partitions]
            files = tuple(file for file, count in zip(files, rows, strict=True) if count) or files
        schema = file_schema(kept.manifest.dataset)
        relation = _kept_files.of(self._spark).relation(
            self._session(kept),
            self._jvm.type_from_json(schema).asNullable(),
            "\n".join(map(hadoop_path, kept.directories)),
            "\n".join(map(hadoop_path, files)),
            sharing.value,
            -1 if kept.memory is None else kept.memory,
        )
        with self._lock:
            put(self._relations, key, relation, _REMEMBERED)
        return relation

    def _session(self, kept: KeptDataSet) -> Any:
        """The session whose settings say how files are read."""
        session = self._own_session or self._spark._jsparkSession
        if kept.manifest.dataset.seal is None:
            return session
        if self._session_of_batches is None:
            of_batches = session.cloneSession()
            of_batches.conf().set(*_BATCH_SIZE)
            with self._lock:
                self._session_of_batches = self._session_of_batches or of_batches
        return self._session_of_batches

    def _logical_relation(self, relation: Any, attributes: Any) -> Any:
        none = self._jvm.none
        return self._jvm.logical_relation(relation, attributes, none, False, none)


def _sharing(kept: KeptDataSet, as_partitioned: bool) -> _Sharing:
    dataset = kept.manifest.dataset
    if as_partitioned or dataset.seal is not None:
        return _Sharing.EACH
    in_order = dataset.is_ordered or kept.bytes <= _SMALL
    several = len(kept.manifest.partitions) > 1
    return _Sharing.ORDERED if in_order and several else _Sharing.BY_SIZE


_NO_FILES = "UNABLE_TO_INFER_SCHEMA"


def why_unreadable(
    spark: SparkSession, session: Any, location: str, dataset: DataSetDescription
) -> str | None:
    """Why files that have just been written can't be kept; None where they come back as they were.

    Args:
        spark: a session of the context.
        session: the JVM's session that reads.
        location: the files' directory.
        dataset: how they are kept.
    """
    odd = [each.kept_as for each in dataset.columns if not is_plain(each.kept_type)]
    if not odd:
        return None
    reader = session.read().format(PARQUET)
    for option, value in READ_OPTIONS.items():
        reader = reader.option(option, value)
    try:
        files = reader.load(hadoop_path(location))
        files.limit(1).queryExecution().toRdd().count()
    except (Py4JError, PySparkException) as error:
        if isinstance(error, PySparkException) and error.getCondition() == _NO_FILES:
            return None
        return f"what was written can't be read: {reason(error)}"
    written = JvmMembers.of(spark).type_from_json(file_schema(dataset))
    types = [
        {each["name"]: each["type"] for each in json.loads(schema.asNullable().json())["fields"]}
        for schema in (written, files.schema())
    ]
    for name in odd:
        if types[0][name] != types[1].get(name):
            return f"a column that was written as {types[0][name]} is read as {types[1].get(name)}"
    return None


def exact_format(spark: SparkSession) -> Any:
    """Reads kept files whatever settings say, see `java/KeptFormat.java`."""
    return _formats.of(spark)


_formats: PerContext[Any] = PerContext(lambda spark: new_object(spark, "KeptFormat", True))
_kept_columns: PerContext[Any] = PerContext(lambda spark: new_object(spark, "KeptColumns"))


def _made(spark: SparkSession) -> Any:
    options = JvmMembers.of(spark).to_scala_map(READ_OPTIONS)
    whole = new_object(spark, "KeptFormat", False)
    return new_object(spark, "KeptFiles", exact_format(spark), whole, options)


_kept_files: PerContext[Any] = PerContext(_made)


def reading_session(spark: SparkSession) -> Any:
    """A session of the JVM for the scans of one plan, with the settings of this moment.

    Args:
        spark: whose settings they are.
    """
    return spark._jsparkSession.cloneSession()


def _places(kept: KeptDataSet, identities: tuple[str, ...]) -> list[int]:
    """For each column that is asked for its place among those of the files."""
    columns = kept.manifest.dataset.columns
    place_of = {column.identity: place for place, column in enumerate(columns)}
    if None in place_of:
        return list(range(len(columns)))
    return [place_of[identity] for identity in identities]


def hadoop_path(place: str) -> str:
    """A path of this machine as Hadoop takes it: no URL, so that nothing in it is escaped."""
    return f"file:{place}" if place.startswith("/") else place


def file_schema(dataset: DataSetDescription) -> str:
    """The columns of a dataset's files, as Spark's JSON.

    Args:
        dataset: how it is kept.
    """
    fields = [_field(column.kept_as, column.kept_type) for column in dataset.columns]
    if dataset.filler_column is not None:
        fields.append(_field(dataset.filler_column, "boolean"))
    return json.dumps({"type": "struct", "fields": fields})


def _field(name: str, data_type: Any) -> dict[str, Any]:
    return {"name": name, "type": data_type, "nullable": True, "metadata": {}}
