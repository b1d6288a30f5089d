"""Reads kept partitions in place of the computation that they came from."""

from __future__ import annotations

import json
from collections import OrderedDict
from dataclasses import dataclass
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
# A file's rows are read by one task, in their order.
_WHOLE_FILE = str(1 << 40)
_SETTINGS_OF_WHOLE_FILES = {
    "spark.sql.files.maxPartitionBytes": _WHOLE_FILE,
    "spark.sql.files.openCostInBytes": _WHOLE_FILE,
}
# A huge batch is read nearly alone.
_SETTINGS_OF_BATCHES = _SETTINGS_OF_WHOLE_FILES | {"spark.sql.parquet.columnarReaderBatchSize": "4"}
_REMEMBERED = 256

# By its short name it could be the second version of it, whose plans have another form.
PARQUET = "org.apache.spark.sql.execution.datasources.parquet.ParquetFileFormat"

# A result that has no order by its plan is still shown as Spark shows it, while it is small.
_SMALL = 4 << 20
# A file that one task alone reads; most have one group of rows, which no two tasks could share.
_READ_WHOLE = 32 << 20
# Reading one file after the other keeps the order of rows, at the price of a longer plan.
_FILES_IN_A_ROW = 16


_SEAL_ALONE = frozenset({SEAL})


@dataclass(frozen=True, slots=True)
class _Output:
    """An attribute that the replaced node put out, by its position."""

    name: str
    is_plain: bool
    """It has no metadata, but for ours, which no reader looks at."""


class PartitionReader:
    """Makes plans that read kept datasets. Safe for use by several threads.

    Args:
        spark: the session that reads.
        session: the JVM's session for the scans of one plan; that of `spark` unless told.
    """

    def __init__(self, spark: SparkSession, session: Any = None) -> None:
        self._spark = spark
        self._own_session = session
        self._jvm = JvmMembers.of(spark)
        self._relations: OrderedDict[Any, Any] = OrderedDict()
        self._readers: OrderedDict[Any, Any] = OrderedDict()
        self._lock = RLock()
        self._session_of_batches: Any = None
        self._whole_files = False

    def of_whole_files(self) -> PartitionReader:
        """A reader whose tasks each read one partition, all of it; this one, where it is made for
        one plan alone."""
        if self._own_session is None:
            return PartitionReader(self._spark, reading_session(self._spark)).of_whole_files()
        for key, value in _SETTINGS_OF_WHOLE_FILES.items():
            self._own_session.conf().set(key, value)
        self._whole_files = True
        return self

    def plan(
        self,
        kept: KeptDataSet,
        node: Any,
        ids: tuple[int, ...],
        identities: tuple[str, ...],
        *,
        one_scan: bool = False,
    ) -> Any:
        """A plan that puts out what `node` does: the same attributes and the same rows.

        Where the computation fixes the order of its rows, so does the plan.

        Args:
            kept: the dataset that `node` computes.
            node: the JVM's plan to be replaced.
            ids: the ids of its output's attributes.
            identities: what each of them is of the dataset's rows.
            one_scan: all files are read in one scan, for plans that Spark can't run over a union.
        """
        attributes = node.output()
        places = _places(kept, identities)
        schema = json.loads(node.schema().json())
        outputs = [
            _Output(field["name"], field["metadata"].keys() <= _SEAL_ALONE)
            for field in schema["fields"]
        ]
        if self._can_take_over(kept, outputs, ids, places):
            return self._ordered(kept, attributes, one_scan)
        return self._renamed(kept, attributes, places, one_scan)

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

    def _renamed(
        self, kept: KeptDataSet, attributes: Any, places: list[int], one_scan: bool
    ) -> Any:
        # Two calls for all columns: a result may have hundreds.
        in_jvm = _kept_columns.of(self._spark)
        output = self._fresh_output(kept)
        if kept.manifest.dataset.filler_column is not None:
            read = self._jvm.to_seq([output.apply(0)])
            return self._jvm.project(self._jvm.to_seq([]), self._ordered(kept, read, one_scan))
        at = "\n".join(map(str, places))
        types = "\n".join(
            "" if each.kept_type == each.type else json.dumps(each.kept_type)
            for each in kept.manifest.dataset.columns
        )
        read = in_jvm.read(output, attributes, at, types)
        return in_jvm.renamed(read, attributes, at, types, self._ordered(kept, read, one_scan))

    def _fresh_output(self, kept: KeptDataSet) -> Any:
        """The files' columns, under ids of their own."""
        in_order = self._is_read_in_order(kept)
        relation = self._in_order(kept) if in_order else self._relation(kept, kept.directories)
        return relation.newInstance().output()

    def _ordered(self, kept: KeptDataSet, attributes: Any, one_scan: bool) -> Any:
        """Reads `attributes`, in the order of the kept rows where that has been promised."""
        partitions = kept.manifest.partitions
        if self._is_read_in_order(kept):
            return self._logical_relation(self._in_order(kept).relation(), attributes)
        promised = kept.manifest.dataset.position_column is not None
        if promised and not one_scan and 1 < len(partitions) <= _FILES_IN_A_ROW:
            return self._one_after_the_other(kept, attributes)
        if promised and len(partitions) > 1:
            return self._sorted(kept, attributes)
        relation = self._relation(kept, kept.directories)
        return self._logical_relation(relation.relation(), attributes)

    def _is_read_in_order(self, kept: KeptDataSet) -> bool:
        """Whether one scan reads the files in their order, none of them by several tasks."""
        dataset, partitions = kept.manifest.dataset, kept.manifest.partitions
        if len(partitions) < 2:
            return False
        if self._whole_files or dataset.seal is not None:
            return True
        if dataset.position_column is not None:
            return max(each.bytes for each in partitions) <= _READ_WHOLE
        return kept.bytes <= _SMALL

    def _in_order(self, kept: KeptDataSet) -> Any:
        """Spark's relation over the files in their order, see `java/FilesInOrder.java`."""
        key = (kept.directories, "in order")
        with self._lock:
            if key in self._relations:
                self._relations.move_to_end(key)
                return self._relations[key]
        columns = file_schema(kept.manifest.dataset, with_position=False)
        relation = _files_in_order.of(self._spark).relation(
            self._session(kept),
            self._jvm.type_from_json(columns).asNullable(),
            "\n".join(map(hadoop_path, kept.directories)),
            "\n".join(map(hadoop_path, kept.locations)),
        )
        self._remember(self._relations, key, relation)
        return relation

    def _one_after_the_other(self, kept: KeptDataSet, attributes: Any) -> Any:
        reads: list[Any] = []
        for location in kept.locations:
            relation = self._relation(kept, (location,))
            read = self._logical_relation(relation.relation(), attributes)
            reads.append(read if not reads else read.newInstance())
        return self._jvm.union(self._jvm.to_seq(reads), False, False)

    def _sorted(self, kept: KeptDataSet, attributes: Any) -> Any:
        relation = self._relation(kept, kept.directories, with_position=True)
        position = relation.newInstance().output().last()
        order = self._jvm.sort_order(
            position, self._jvm.ascending, self._jvm.nulls_first, self._jvm.to_seq([])
        )
        read = self._logical_relation(relation.relation(), attributes.appended(position))
        ordered = self._jvm.sort(self._jvm.to_seq([order]), True, read, self._jvm.none)
        columns = [attributes.apply(index) for index in range(attributes.size())]
        return self._jvm.project(self._jvm.to_seq(columns), ordered)

    def _relation(
        self, kept: KeptDataSet, places: tuple[str, ...], *, with_position: bool = False
    ) -> Any:
        """Spark's relation over kept directories or files; listing them once is enough."""
        key = (places, with_position)
        with self._lock:
            if key in self._relations:
                self._relations.move_to_end(key)
                return self._relations[key]
        paths = self._jvm.to_seq([hadoop_path(place) for place in places])
        reader = self._file_reader(kept, with_position)
        relation = self._exact(reader.load(paths).queryExecution().analyzed())
        self._remember(self._relations, key, relation)
        return relation

    def _exact(self, relation: Any) -> Any:
        """The relation with a reader that no setting has give other rows."""
        files = relation.relation()
        exact = self._jvm.file_relation(
            files.location(),
            files.partitionSchema(),
            files.dataSchema(),
            files.bucketSpec(),
            exact_format(self._spark),
            files.options(),
            files.sparkSession(),
        )
        return self._logical_relation(exact, relation.output())

    def _remember(self, made: OrderedDict[Any, Any], key: object, what: Any) -> None:
        with self._lock:
            put(made, key, what, _REMEMBERED)

    def _file_reader(self, kept: KeptDataSet, with_position: bool) -> Any:
        """Spark's reader of files with these columns; it is asked for their places alone."""
        schema = file_schema(kept.manifest.dataset, with_position=with_position)
        key = (schema, kept.manifest.dataset.seal is not None)
        with self._lock:
            reader = self._readers.get(key)
        if reader is None:
            reader = self._session(kept).read().format(PARQUET)
            reader = reader.schema(self._jvm.type_from_json(schema))
            for option, value in READ_OPTIONS.items():
                reader = reader.option(option, value)
            self._remember(self._readers, key, reader)
        return reader

    def _session(self, kept: KeptDataSet) -> Any:
        """The session whose settings say how files are read."""
        session = self._own_session or self._spark._jsparkSession
        if kept.manifest.dataset.seal is None:
            return session
        if self._session_of_batches is None:
            of_batches = session.cloneSession()
            for key, value in _SETTINGS_OF_BATCHES.items():
                of_batches.conf().set(key, value)
            with self._lock:
                self._session_of_batches = self._session_of_batches or of_batches
        return self._session_of_batches

    def _logical_relation(self, relation: Any, attributes: Any) -> Any:
        none = self._jvm.none
        return self._jvm.logical_relation(relation, attributes, none, False, none)


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
    return new_object(spark, "FilesInOrder", new_object(spark, "KeptFormat", False), options)


_files_in_order: PerContext[Any] = PerContext(_made)


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


def file_schema(dataset: DataSetDescription, *, with_position: bool = True) -> str:
    """The columns of a dataset's files, as Spark's JSON.

    Args:
        dataset: how it is kept.
        with_position: with the column of each row's place, where there is one; Spark wants every
            column that is asked for among the attributes of a read.
    """
    fields = [_field(column.kept_as, column.kept_type) for column in dataset.columns]
    if dataset.filler_column is not None:
        fields.append(_field(dataset.filler_column, "boolean"))
    if with_position and dataset.position_column is not None:
        fields.append(_field(dataset.position_column, "long"))
    return json.dumps({"type": "struct", "fields": fields})


def _field(name: str, data_type: Any) -> dict[str, Any]:
    return {"name": name, "type": data_type, "nullable": True, "metadata": {}}
