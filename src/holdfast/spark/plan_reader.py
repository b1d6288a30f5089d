"""Brings an analyzed Catalyst plan over from the JVM, whole and in one call.

Catalyst's own `toJSON` leaves out what it can't print (whether a cast is `try_cast`, ANSI modes,
maps, file listings, Python functions), and whatever a digest doesn't see makes a wrong hit some
day. The reader walks the constructor arguments of every node instead, inside the JVM, and names
what it can't see into, so that the caller can doubt it. `holdfast.plan.document` describes what
comes back.
"""

from __future__ import annotations

import json
import threading
import uuid
from dataclasses import dataclass
from typing import Any

from pyspark.sql import SparkSession

from holdfast.plan.document import NAMED_INPUT_OPERATORS, OUTPUT_FROM_FIELDS, OperatorDocument
from holdfast.spark.method_handles import OBJECT, STRING, MethodHandles
from holdfast.spark.per_context import PerContext

_CATALYST = "org.apache.spark.sql.catalyst"
_EXPRESSIONS = f"{_CATALYST}.expressions"
_TREE_NODE = f"{_CATALYST}.trees.TreeNode"
_EXPRESSION = f"{_EXPRESSIONS}.Expression"
_LOGICAL_PLAN = f"{_CATALYST}.plans.logical.LogicalPlan"
_QUERY_PLAN = f"{_CATALYST}.plans.QueryPlan"
_DATA_TYPE = "org.apache.spark.sql.types.DataType"
_SEQ = "scala.collection.immutable.Seq"
_ITERATOR = "scala.collection.Iterator"
_BUFFER = "scala.collection.mutable.ArrayBuffer"

# A longer answer is written in several pieces, and TCP's delayed acknowledgement costs 40 ms then.
_PIECE = 8000


@dataclass(frozen=True, slots=True)
class PlanReading:
    """An analyzed plan as Python values, with the way back to its nodes in the JVM.

    Attributes:
        operators: the plan's operators in pre-order, subqueries nested inside expressions.
        inline_name: what the text of an inline table ends with, see `OperatorDocument`.
    """

    operators: list[OperatorDocument]
    inline_name: str
    _nodes: Any

    def node(self, handle: int) -> Any:
        """The JVM's `LogicalPlan` that the operator with this handle was read from."""
        return self._nodes.apply(handle)

    def each(self, function: Any) -> str:
        """What a function of the JVM says of each node, by handle and separated by commas.

        Args:
            function: a `scala.Function1` from a `LogicalPlan` to a text without commas.
        """
        return str(self._nodes.map(function).mkString(","))


class PlanReader:
    """Reads analyzed plans of one JVM. Safe for use by several threads.

    Args:
        spark: a classic session in the JVM to read from.
    """

    def __init__(self, spark: SparkSession) -> None:
        self._lock = threading.Lock()
        self._inline_name = f"holdfast_{uuid.uuid4().hex}"
        self._java = MethodHandles(spark)
        jvm = self._java.jvm
        self.salt_tag = jvm.org.apache.spark.sql.catalyst.trees.TreeNodeTag("holdfast.salt")
        self._nodes: Any = jvm.scala.collection.mutable.ArrayBuffer()
        self._read: Any = self._compose()

    @staticmethod
    def of(spark: SparkSession) -> PlanReader:
        """The reader of `spark`'s JVM; they are shared, as composing one takes a while."""
        return _readers.of(spark)

    def read(self, plan: Any) -> PlanReading:
        """Reads `plan`, a resolved `LogicalPlan` in the JVM."""
        with self._lock:
            self._nodes.clear()
            text = self._read.apply(plan)
            nodes = self._nodes.toVector()
        length = text.length()
        pieces = [
            text.substring(start, min(length, start + _PIECE)) for start in range(0, length, _PIECE)
        ]
        return PlanReading(json.loads("".join(pieces)), self._inline_name, nodes)

    def salt(self, node: Any) -> str:
        """A text that tells `node` from every other node, the same each time it is asked for.

        Spark's node tags stay with a node when a plan is copied around it, and only then.
        """
        with self._lock:
            found = node.getTagValue(self.salt_tag)
            if found.isDefined():
                return str(found.get())
            salt = uuid.uuid4().hex
            node.setTagValue(self.salt_tag, salt)
            return salt

    # -- composition ------------------------------------------------------------------------------

    def _compose(self) -> Any:
        java = self._java
        value, value_site = java.recursive()
        field, field_site = java.recursive()
        operators = self._operators(field)
        subquery = java.concat('{"plan":', operators, "}")
        value_site.setTarget(self._dispatch(value, value, subquery))
        field_site.setTarget(self._dispatch(field, value, java.constant('{"child":true}')))
        builder = java.cast(java.constructor("java.lang.StringBuilder", STRING), OBJECT, STRING)
        return java.scala_function(java.then(operators, builder))

    def _quote(self) -> Any:
        """String -> String, with what JSON wants escaped."""
        java = self._java
        encoder = "com.fasterxml.jackson.core.io.JsonStringEncoder"
        instance = java.jvm.com.fasterxml.jackson.core.io.JsonStringEncoder.getInstance()
        quote = java.bind(java.method(encoder, "quoteAsString", "char[]", STRING), 0, instance)
        return java.then(quote, java.static(STRING, "valueOf", STRING, "char[]"))

    def _quoted_text(self) -> Any:
        java = self._java
        text = java.static(STRING, "valueOf", STRING, OBJECT)
        return java.concat('"', java.then(text, self._quote()), '"')

    def _joined(self, each: Any) -> tuple[Any, Any]:
        """`each` over the elements, separated by commas: of an iterator, and of any collection."""
        java = self._java
        mapped = java.bind(
            java.method(_ITERATOR, "map", _ITERATOR, "scala.Function1"),
            1,
            java.scala_function(each),
        )
        text = java.method("scala.collection.IterableOnceOps", "mkString", STRING, STRING)
        of_iterator = java.then(mapped, java.cast(java.bind(text, 1, ","), STRING, _ITERATOR))
        iterator = java.method("scala.collection.IterableOnce", "iterator", _ITERATOR)
        return of_iterator, java.to_string(java.then(iterator, of_iterator))

    def _class_name(self) -> Any:
        java = self._java
        get_class = java.method(OBJECT, "getClass", "java.lang.Class")
        return java.to_string(
            java.then(get_class, java.method("java.lang.Class", "getName", STRING))
        )

    def _arguments(self, each: Any) -> Any:
        """`"f":[…]`, the arguments of a node's constructor, and `"o":[…]`, of its further lists."""
        java = self._java
        of_iterator, of_collection = self._joined(each)
        first = java.to_string(
            java.then(java.method("scala.Product", "productIterator", _ITERATOR), of_iterator)
        )
        other = java.to_string(
            java.then(
                java.method(_TREE_NODE, "otherCopyArgs", _SEQ),
                java.cast(of_collection, STRING, _SEQ),
            )
        )
        return java.concat('"f":[', first, '],"o":[', other, "]")

    def _operators(self, field: Any) -> Any:
        """A `LogicalPlan` -> the JSON list of its operators in pre-order."""
        java = self._java
        mapped = java.bind(
            java.method(_TREE_NODE, "map", _SEQ, "scala.Function1"),
            1,
            java.scala_function(self._operator(field)),
        )
        text = java.method("scala.collection.IterableOnceOps", "mkString", STRING, STRING)
        joined = java.then(mapped, java.cast(java.bind(text, 1, ","), STRING, _SEQ))
        return java.concat("[", java.to_string(joined), "]")

    def _operator(self, field: Any) -> Any:
        java = self._java
        number = java.static(STRING, "valueOf", STRING, "int")
        count = java.then(java.bind(java.method(_BUFFER, "size", "int"), 0, self._nodes), number)
        add = java.cast(
            java.bind(java.method(_BUFFER, "addOne", _BUFFER, OBJECT), 0, self._nodes),
            OBJECT,
            OBJECT,
        )
        # The handle is taken before the node is added, so it counts from 0.
        handle = java.concat(
            java.ignoring(count, OBJECT), java.to_string(java.then(add, java.constant("")))
        )
        children = java.to_string(
            java.then(
                java.method(_TREE_NODE, "children", _SEQ),
                java.cast(java.method("scala.collection.SeqOps", "size", "int"), "int", _SEQ),
                number,
            )
        )
        tag = java.to_string(
            java.then(
                java.bind(
                    java.method(
                        _TREE_NODE,
                        "getTagValue",
                        "scala.Option",
                        f"{_CATALYST}.trees.TreeNodeTag",
                    ),
                    1,
                    self.salt_tag,
                ),
                java.cast(field, STRING, "scala.Option"),
            )
        )
        head = java.concat(
            '{"i":', handle, ',"c":"', self._class_name(), '","n":', children, ',"t":', tag, ","
        )
        plain = java.concat(head, self._arguments(field), "}")
        known = self._name_is_one_of(OUTPUT_FROM_FIELDS)
        observing = self._name_is_one_of(NAMED_INPUT_OPERATORS)
        described = java.concat(
            head, self._arguments(field), ',"s":', self._schema(), ',"out":', self._output(), "}"
        )
        watched = java.concat(
            head,
            self._arguments(field),
            ',"s":',
            self._schema(),
            ',"out":',
            self._output(),
            ',"inputs":',
            self._child_schemas(),
            "}",
        )
        inline = java.concat(
            head,
            '"f":[],"o":[],"s":',
            self._schema(),
            ',"out":',
            self._output(),
            ',"sql":',
            self._inline_table(),
            "}",
        )
        local = java.is_instance(f"{_CATALYST}.plans.logical.LocalRelation")
        return java.choose(
            known,
            plain,
            java.choose(local, inline, java.choose(observing, watched, described)),
        )

    def _name_is_one_of(self, names: frozenset[str]) -> Any:
        java = self._java
        wanted = java.jvm.java.util.HashSet()
        for name in names:
            wanted.add(name)
        contains = java.bind(
            java.method("java.util.HashSet", "contains", "boolean", OBJECT), 0, wanted
        )
        return java.cast(
            java.then(self._class_name(), java.cast(contains, "boolean", STRING)),
            "boolean",
            OBJECT,
        )

    def _schema(self) -> Any:
        java = self._java
        struct = "org.apache.spark.sql.types.StructType"
        schema = java.method(_QUERY_PLAN, "schema", struct)
        json_of = java.cast(java.method(_DATA_TYPE, "json", STRING), STRING, struct)
        return java.to_string(java.then(schema, json_of))

    def _child_schemas(self) -> Any:
        java = self._java
        _, of_collection = self._joined(self._schema())
        children = java.method(_TREE_NODE, "children", _SEQ)
        joined = java.then(children, java.cast(of_collection, STRING, _SEQ))
        return java.concat("[", java.to_string(joined), "]")

    def _output(self) -> Any:
        java = self._java
        _, of_collection = self._joined(self._expression_id(f"{_EXPRESSIONS}.NamedExpression"))
        output = java.method(_QUERY_PLAN, "output", _SEQ)
        joined = java.then(output, java.cast(of_collection, STRING, _SEQ))
        return java.concat("[", java.to_string(joined), "]")

    def _expression_id(self, owner: str) -> Any:
        java = self._java
        return java.to_string(
            java.then(
                java.method(owner, "exprId", f"{_EXPRESSIONS}.ExprId"),
                java.method(f"{_EXPRESSIONS}.ExprId", "id", "long"),
                java.static(STRING, "valueOf", STRING, "long"),
            )
        )

    def _inline_table(self) -> Any:
        """The rows of a `LocalRelation` as typed literals; null where it has none."""
        java = self._java
        local = f"{_CATALYST}.plans.logical.LocalRelation"
        data = java.method(local, "data", _SEQ)
        empty = java.cast(
            java.then(
                data,
                java.cast(
                    java.method("scala.collection.SeqOps", "isEmpty", "boolean"), "boolean", _SEQ
                ),
            ),
            "boolean",
            OBJECT,
        )
        text = java.bind(java.method(local, "toSQL", STRING, STRING), 1, self._inline_name)
        quoted = java.concat('"', java.to_string(java.then(text, self._quote())), '"')
        return java.choose(empty, java.constant("null"), quoted)

    def _file_listing(self, value: Any) -> Any:
        java = self._java
        index = "org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex"
        files = java.method(index, "allFiles", _SEQ)
        listing = java.to_string(java.then(files, java.cast(value, STRING, _SEQ)))
        spec = "org.apache.spark.sql.execution.datasources.PartitionSpec"
        partitions = java.to_string(
            java.then(
                java.method(index, "partitionSpec", spec),
                java.cast(self._quoted_text(), STRING, spec),
            )
        )
        return java.concat(
            '{"index":"',
            self._class_name(),
            '","files":',
            listing,
            ',"partitions":',
            partitions,
            "}",
        )

    def _file_status(self) -> Any:
        java = self._java
        status, path = "org.apache.hadoop.fs.FileStatus", "org.apache.hadoop.fs.Path"
        number = java.static(STRING, "valueOf", STRING, "long")
        where = java.then(
            java.method(status, "getPath", path), java.cast(self._quoted_text(), STRING, path)
        )
        length = java.then(java.method(status, "getLen", "long"), number)
        modified = java.then(java.method(status, "getModificationTime", "long"), number)
        return java.concat(
            "[",
            java.to_string(where),
            ",",
            java.to_string(length),
            ",",
            java.to_string(modified),
            "]",
        )

    def _python_function(self) -> Any:
        java = self._java
        function = "org.apache.spark.api.python.PythonFunction"
        command = java.method(function, "command", _SEQ)
        to_array = java.bind(
            java.method(
                "scala.collection.IterableOnceOps", "toArray", OBJECT, "scala.reflect.ClassTag"
            ),
            1,
            java.jvm.scala.reflect.ClassTag.Byte(),
        )
        encode = java.bind(
            java.method("java.util.Base64$Encoder", "encodeToString", STRING, "byte[]"),
            0,
            java.jvm.java.util.Base64.getEncoder(),
        )
        pickled = java.to_string(
            java.then(command, java.cast(to_array, OBJECT, _SEQ), java.cast(encode, STRING, OBJECT))
        )
        version = java.to_string(
            java.then(java.method(function, "pythonVer", STRING), self._quote())
        )
        return java.concat('{"python":"', pickled, '","version":"', version, '"}')

    def _dispatch(self, this: Any, value: Any, on_plan: Any) -> Any:
        """One object to JSON, by its class; `this` is what nested collections and products use."""
        java = self._java
        text = java.static(STRING, "valueOf", STRING, OBJECT)
        quoted = self._quoted_text()
        _, of_collection = self._joined(this)
        collection = java.concat("[", of_collection, "]")
        name = self._class_name()

        plain_id = java.to_string(
            java.then(
                java.method(f"{_EXPRESSIONS}.ExprId", "id", "long"),
                java.static(STRING, "valueOf", STRING, "long"),
            )
        )
        deterministic = java.cast(
            java.method(_EXPRESSION, "deterministic", "boolean"), "boolean", OBJECT
        )
        volatile = java.choose(deterministic, java.constant(""), java.constant(',"volatile":true'))
        expression = java.concat('{"c":"', name, '",', self._arguments(value), volatile, "}")
        attribute = java.concat(
            '{"a":', self._expression_id(f"{_EXPRESSIONS}.AttributeReference"), "}"
        )
        alias_child = java.to_string(
            java.then(
                java.method(f"{_EXPRESSIONS}.Alias", "child", _EXPRESSION),
                java.cast(value, STRING, _EXPRESSION),
            )
        )
        alias = java.concat(
            '{"alias":', self._expression_id(f"{_EXPRESSIONS}.Alias"), ',"of":', alias_child, "}"
        )
        option = java.choose(
            java.cast(java.method("scala.Option", "isEmpty", "boolean"), "boolean", OBJECT),
            java.constant("null"),
            java.to_string(java.then(java.method("scala.Option", "get", OBJECT), this)),
        )
        of_iterator, _ = self._joined(this)
        fields = java.to_string(
            java.then(java.method("scala.Product", "productIterator", _ITERATOR), of_iterator)
        )
        encode = java.bind(
            java.method("java.util.Base64$Encoder", "encodeToString", STRING, "byte[]"),
            0,
            java.jvm.java.util.Base64.getEncoder(),
        )
        opaque = java.concat('{"opaque":"', name, '"}')
        data_type = java.concat(
            '{"type":', java.to_string(java.method(_DATA_TYPE, "json", STRING)), "}"
        )
        metadata = "org.apache.spark.sql.types.Metadata"
        enum = java.concat('{"enum":"', name, '","v":', quoted, "}")
        number = java.concat('{"number":"', name, '","v":', quoted, "}")
        rdd = "org.apache.spark.rdd.RDD"
        rdd_id = java.to_string(
            java.then(java.method(rdd, "id", "int"), java.static(STRING, "valueOf", STRING, "int"))
        )
        java_class = java.to_string(java.method("java.lang.Class", "getName", STRING))
        cases: list[tuple[str, Any]] = [
            (f"{_EXPRESSIONS}.AttributeReference", attribute),
            (f"{_EXPRESSIONS}.Alias", alias),
            (_EXPRESSION, expression),
            (STRING, quoted),
            (f"{_EXPRESSIONS}.ExprId", java.concat('{"id":', plain_id, "}")),
            ("scala.Option", option),
            (_DATA_TYPE, data_type),
            ("java.lang.Boolean", text),
            ("java.lang.Integer", text),
            ("java.lang.Long", text),
            ("org.apache.spark.unsafe.types.UTF8String", quoted),
            (_LOGICAL_PLAN, on_plan),
            ("scala.collection.Iterable", collection),
            ("scala.Enumeration$Value", enum),
            ("java.lang.Number", number),
            ("java.lang.Character", number),
            ("org.apache.spark.sql.types.Decimal", number),
            (
                metadata,
                java.concat(
                    '{"metadata":', java.to_string(java.method(metadata, "json", STRING)), "}"
                ),
            ),
            ("byte[]", java.concat('{"bytes":"', java.cast(encode, STRING, OBJECT), '"}')),
            ("java.lang.Enum", enum),
            ("org.apache.spark.api.python.PythonFunction", self._python_function()),
            ("org.apache.hadoop.fs.FileStatus", self._file_status()),
            (
                "org.apache.spark.sql.execution.datasources.PartitioningAwareFileIndex",
                self._file_listing(value),
            ),
            (rdd, java.concat('{"rdd":', rdd_id, "}")),
            ("java.lang.Class", java.concat('{"class":"', java_class, '"}')),
            # Catalog entries carry creation times, owners and statistics, which no row depends on.
            (f"{_CATALYST}.catalog.CatalogTable", opaque),
            ("scala.Product", java.concat('{"c":"', name, '","f":[', fields, "]}")),
        ]
        chosen = opaque
        for owner, handle in reversed(cases):
            chosen = java.choose(java.is_instance(owner), java.cast(handle, STRING, OBJECT), chosen)
        is_null = java.static("java.util.Objects", "isNull", "boolean", OBJECT)
        return java.choose(is_null, java.constant("null"), chosen)


_readers = PerContext(PlanReader)
