"""Brings an analyzed Catalyst plan over from the JVM, whole.

Catalyst's own `toJSON` leaves out what it can't print (whether a cast is `try_cast`, ANSI modes,
maps, file listings, Python functions), and whatever a digest doesn't see makes a wrong hit some
day. The reader walks the constructor arguments of every node instead, inside the JVM
(`java/PlanReader.java`), and names what it can't see into, so that the caller can doubt it.
`holdfast.plan.document` describes what comes back.
"""

from __future__ import annotations

import json
import uuid
from collections.abc import Collection
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import SparkSession
from pyspark.sql.classic.dataframe import DataFrame

from holdfast.plan.document import (
    NAMED_INPUT_OPERATORS,
    OUTPUT_FROM_FIELDS,
    OperatorDocument,
    nested,
)
from holdfast.spark.cache_entries import reached_partitions
from holdfast.spark.java_classes import new_object
from holdfast.spark.per_context import PerContext
from holdfast.spark.source_versions import file_versions, written_tables

# A longer answer is written in several pieces, and TCP's delayed acknowledgement costs 40 ms then.
_PIECE = 8000
# No text of a user has it: there, quotation marks are escaped.
_PYTHON = '{"python":"'


@dataclass(frozen=True, slots=True)
class PlanReading:
    """An analyzed plan as Python values, with the way back to its nodes in the JVM.

    Attributes:
        operators: the plan's operators in pre-order, subqueries nested inside expressions.
        says_all: what is made of them follows from them alone; not so where there are Python
            functions in them, which may refer to modules that change.
    """

    operators: list[OperatorDocument]
    says_all: bool
    _reading: Any
    _nodes: dict[int, Any] = field(default_factory=dict, compare=False, repr=False)

    def node(self, handle: int) -> Any:
        """The JVM's `LogicalPlan` that the operator with this handle was read from.

        Tables of a catalog that Spark lists when a query runs have the files that were listed for
        the reading.
        """
        node = self._nodes.get(handle)
        if node is None:
            node = self._nodes[handle] = self._reading.node(handle)
        return node

    def original(self, handle: int) -> Any:
        """The JVM's `LogicalPlan` as it was written, see `node`."""
        return self._reading.original(handle)

    @property
    def listed(self) -> Any:
        """The JVM's map from tables whose files were listed to what lists them when it is run."""
        return self._reading.listed()

    @property
    def is_as_written(self) -> bool:
        """Whether no node is another than its original."""
        return bool(self._reading.isAsWritten())

    def each(self, function: Any) -> str:
        """What a function of the JVM says of each node, by handle and separated by commas.

        It is given the nodes of the plan as it was written, which Spark's own cache knows.

        Args:
            function: a `scala.Function1` from a `LogicalPlan` to a text without commas.
        """
        return str(self._reading.each(function))


class PlanReader:
    """Reads analyzed plans of one JVM. Safe for use by several threads.

    Args:
        spark: a classic session in the JVM to read from.

    Raises:
        UnsupportedSparkError: when the JVM's Spark isn't one whose plans can be read.
    """

    def __init__(self, spark: SparkSession) -> None:
        jvm: Any = spark.sparkContext._jvm
        self._session = spark._jsparkSession
        self.salt_tag = jvm.org.apache.spark.sql.catalyst.trees.TreeNodeTag("holdfast.salt")
        self._reader = new_object(
            spark,
            "PlanReader",
            self.salt_tag,
            ",".join(sorted(OUTPUT_FROM_FIELDS)),
            ",".join(sorted(NAMED_INPUT_OPERATORS)),
            file_versions(spark),
            written_tables(spark),
            new_object(spark, "KnownContent"),
            reached_partitions(spark),
        )

    @staticmethod
    def of(spark: SparkSession) -> PlanReader:
        """The reader of `spark`'s JVM; they are shared, as compiling one takes a while."""
        return _readers.of(spark)

    def read(self, plan: Any, session: Any = None) -> PlanReading:
        """Reads a plan as it is run in a session.

        Args:
            plan: a resolved `LogicalPlan` in the JVM.
            session: the JVM's; that which the reader was made for by default.
        """
        return _taken(self._reader.read(plan, session or self._session))

    def read_of(self, dataframe: DataFrame) -> PlanReading:
        """Reads the analyzed plan of a DataFrame."""
        return _taken(self._reader.readDataset(dataframe._jdf))

    def is_still(self, reading: PlanReading) -> bool:
        """Whether a plan that has been read would be read the same again.

        Args:
            reading: of the plan.
        """
        return bool(self._reader.isStill(reading._reading))

    def inputs(self, session: Any, known: Collection[str]) -> tuple[str, list[dict[str, str]]]:
        """What a session's queries depend on beside their plans.

        Args:
            session: the JVM's.
            known: digests that have been returned before.

        Returns:
            the digest of this; and unless that is known, what is set, what is in effect whether
            set or not, what this program has set for Hadoop, but for its file systems, and what
            its process has by default.
        """
        digest, _, text = str(self._reader.inputs(session, " ".join(known))).partition(" ")
        return digest, json.loads(text) if text else []

    @property
    def settings(self) -> Any:
        """The JVM's function from a session to the digest that `inputs` gives."""
        return self._reader

    def texts(self, texts: Any) -> dict[str, str]:
        """The texts of a Scala map from texts to texts."""
        found: dict[str, str] = json.loads(self._reader.texts(texts))
        return found

    def salt(self, reading: PlanReading, handle: int) -> str:
        """A text that distinguishes a node from every other node, the same each time.

        Spark's node tags stay with a node when a plan is copied around it, and only then.

        Args:
            reading: of the node's plan.
            handle: the node's.
        """
        return str(self._reader.salt(reading._reading, handle, uuid.uuid4().hex))


def _taken(reading: Any) -> PlanReading:
    pieces: list[str] = []
    while not pieces or pieces[-1][0] == "+":
        pieces.append(str(reading.take(_PIECE)))
    text = "".join(piece[1:] for piece in pieces)
    return PlanReading(nested(json.loads(text)), _PYTHON not in text, reading)


_readers = PerContext(PlanReader)
