"""How Holdfast treats each member of PySpark's classes, and the wrappers for that.

The tables below are complete: a public member of PySpark that is in none of them fails a test, so
that a new PySpark can't slip in a member that runs a job behind Holdfast's back.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from enum import Enum
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, TypeVar, cast

from pyspark.sql.classic.dataframe import DataFrame

P = ParamSpec("P")
R = TypeVar("R")

if TYPE_CHECKING:
    from holdfast.api.context import TableContext
    from holdfast.api.table import Table

    def transformation(
        method: Callable[Concatenate[Any, P], Any],
    ) -> Callable[Concatenate[Any, P], Table]: ...


Method = TypeVar("Method", bound=Callable[..., Any])


class MemberKind(Enum):
    """What Holdfast does with a member of one of PySpark's classes."""

    TRANSFORMATION = "builds a plan, runs nothing; PySpark's own, which gives Tables"
    EAGER_TRANSFORMATION = "computes its result at once; a job, whose result becomes a Table"
    ACTION = "runs Spark; a job"
    STREAMING_ACTION = "runs Spark and gives the rows one by one; a job"
    HAND_OUT = "gives the plan away to where its jobs aren't seen; reads what is kept"
    CONFIGURATION = "sets something and gives the same object back"
    INHERITED = "PySpark's own, on the original plan"
    OVERRIDDEN = "Holdfast's own meaning; see its docstring"


def _classified(**names: str) -> dict[str, MemberKind]:
    members = [(name, MemberKind[kind]) for kind in names for name in names[kind].split()]
    assert len({name for name, _ in members}) == len(members), "a member is classified twice"
    return dict(members)


TABLE_MEMBERS = _classified(
    TRANSFORMATION="""
        agg alias coalesce crossJoin describe distinct drop dropDuplicates
        dropDuplicatesWithinWatermark drop_duplicates dropna exceptAll fillna filter freqItems
        hint intersect intersectAll join lateralJoin limit mapInArrow
        mapInPandas melt nearestByJoin observe offset orderBy randomSplit repartition
        repartitionById repartitionByRange replace sampleBy select selectExpr sort
        sortWithinPartitions subtract summary to toDF transform union unionAll unionByName unpivot
        where withColumn withColumnRenamed withColumns withColumnsRenamed withMetadata
        withWatermark zip zipWithIndex _joinAsOf
    """,
    EAGER_TRANSFORMATION="crosstab transpose",
    ACTION="""
        approxQuantile collect corr count cov first foreach foreachPartition head isEmpty show tail
        take toArrow toPandas _collect_as_arrow _show_string _to_pandas
    """,
    STREAMING_ACTION="toLocalIterator",
    HAND_OUT="pandas_api rdd",
    # A plot and an Arrow stream call members of this very table, which run as jobs by themselves.
    INHERITED="""
        asTable colRegex columns createGlobalTempView createOrReplaceGlobalTempView
        createOrReplaceTempView createTempView dtypes executionInfo exists inputFiles isLocal
        isStreaming metadataColumn na plot printSchema registerTempTable sameSemantics scalar
        schema semanticHash sparkSession sql_ctx stat
        __arrow_c_stream__ __getattr__ __getitem__ _ipython_key_completions_
    """,
    OVERRIDDEN="""
        cache checkpoint cube explain groupBy groupby groupingSets localCheckpoint mergeInto persist
        rollup sample storageLevel toJSON unpersist write writeStream writeTo
        __dir__ __repr__ _repr_html_
    """,
)

GROUPED_MEMBERS = _classified(
    TRANSFORMATION="""
        agg apply applyInArrow applyInPandas applyInPandasWithState avg cogroup count max mean min
        sum transformWithState transformWithStateInPandas
    """,
    OVERRIDDEN="pivot",
)

COGROUPED_MEMBERS = _classified(TRANSFORMATION="applyInArrow applyInPandas")

NA_MEMBERS = _classified(TRANSFORMATION="drop fill replace")

STAT_MEMBERS = _classified(
    TRANSFORMATION="freqItems sampleBy",
    EAGER_TRANSFORMATION="crosstab",
    ACTION="approxQuantile corr cov",
)

READER_MEMBERS = _classified(
    CONFIGURATION="format option options schema",
    TRANSFORMATION="changes csv jdbc json load orc parquet table text xml",
)

WRITER_MEMBERS = _classified(
    CONFIGURATION="bucketBy clusterBy format mode option options partitionBy sortBy",
    ACTION="csv insertInto jdbc json orc parquet save saveAsTable text xml",
)

WRITER_V2_MEMBERS = _classified(
    CONFIGURATION="clusterBy option options partitionedBy tableProperty using",
    ACTION="append create createOrReplace overwrite overwritePartitions replace",
)

MERGE_WRITER_MEMBERS = _classified(
    CONFIGURATION="whenMatched whenNotMatched whenNotMatchedBySource withSchemaEvolution",
    ACTION="merge",
    INHERITED="WhenMatched WhenNotMatched WhenNotMatchedBySource",
)


SESSION_MEMBERS = _classified(
    TRANSFORMATION="createDataFrame emptyDataFrame range read readStream table tvf",
    INHERITED="""
        Builder active addArtifact addArtifacts addTag builder clearProgressHandlers clearTags
        client conf copyFromLocalToFs dataSource getActiveSession getTags interruptAll
        interruptOperation interruptTag profile registerProgressHandler removeProgressHandler
        removeTag sparkContext streams udf udtf version
    """,
    OVERRIDDEN="catalog newSession sql stop",
)

CATALOG_MEMBERS = _classified(
    TRANSFORMATION="createExternalTable createTable",
    INHERITED="""
        analyzeTable createDatabase currentCatalog currentDatabase databaseExists dropDatabase
        dropGlobalTempView dropTable dropTempView dropView functionExists getCreateTableString
        getDatabase getFunction getTable getTableProperties listCatalogs listColumns listDatabases
        listFunctions listPartitions listTables listViews recoverPartitions refreshByPath
        refreshTable registerFunction setCurrentCatalog setCurrentDatabase tableExists truncateTable
    """,
    OVERRIDDEN="cacheTable clearCache isCached uncacheTable",
)


def members_of(table: dict[str, MemberKind], *kinds: MemberKind) -> frozenset[str]:
    """Returns the names of the members of these kinds.

    Args:
        table: One of the tables of this module.
        kinds: The kinds to look for.

    Example:
        >>> sorted(members_of(TABLE_MEMBERS, MemberKind.EAGER_TRANSFORMATION))
        ['crosstab', 'transpose']
    """
    return frozenset(name for name, kind in table.items() if kind in kinds)


def as_table(context: TableContext, result: Any) -> Table:
    """Returns the table of what a method of PySpark returned.

    Args:
        context: The environment that the table belongs to.
        result: A DataFrame; a Table is given back as it is.
    """
    # A method of PySpark that calls another one on `self` returns that one's Table.
    return context.wrap(result) if type(result) is DataFrame else cast("Table", result)


def eager_transformation(
    method: Callable[Concatenate[Any, P], Any],
) -> Callable[Concatenate[Any, P], Table]:
    """Wraps a method of PySpark that computes a DataFrame at once, so that it does so in a job.

    Args:
        method: The inherited method. It runs on the DataFrame that the job is given.
    """
    run = action(method)

    @functools.wraps(method)
    def transforming(self: Any, /, *args: P.args, **kwargs: P.kwargs) -> Table:
        return as_table(self._holdfast_context, run(self, *args, **kwargs))

    return _documented(transforming, method)


def action(method: Method, *, takes_all_rows: bool = False, is_repeatable: bool = True) -> Method:
    """Wraps a method of PySpark that runs Spark, so that it does so in a job.

    Args:
        method: The inherited method. It runs on the DataFrame that the job is given.
        takes_all_rows: It asks for every row, and leaves nothing behind but what it returns.
        is_repeatable: What it does for some of the rows may be done again, should it fail.
    """
    signature = inspect.signature(method)

    @functools.wraps(method)
    def acting(self: Table, /, *args: Any, **kwargs: Any) -> Any:
        # A misspelt argument shall not cost the computation of everything that is to be kept.
        signature.bind(self, *args, **kwargs)
        return self._holdfast_context.run_action(
            self,
            method.__name__,
            lambda df: method(df, *args, **kwargs),
            takes_all_rows=takes_all_rows,
            is_repeatable=is_repeatable,
        )

    return cast(Method, _documented(acting, method))


def _documented(wrapper: Callable[P, R], method: Callable[..., Any]) -> Callable[P, R]:
    # The classic DataFrame leaves its docstrings to its parent; help() doesn't look there for us.
    wrapper.__doc__ = inspect.getdoc(method)
    return wrapper
