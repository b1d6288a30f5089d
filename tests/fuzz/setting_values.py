"""Settings of Spark, and values that they can have."""

from __future__ import annotations

from pathlib import Path
from random import Random

from tests.fuzz.node import listed

_SQL = "spark.sql."
_ON, _OFF = Path(__file__).with_name("boolean_settings.txt").read_text().split("\n\n")
BOOLEANS = tuple(
    (_SQL + key, default)
    for key, default in sorted(
        [(key, "true") for key in _ON.split()] + [(key, "false") for key in _OFF.split()]
    )
)
"""All settings of queries that are true or false, with their defaults: as Spark 4.3 lists them."""

_ZONES = ("UTC", "Europe/Berlin", "Asia/Tokyo", "America/Los_Angeles")
_MODES = ("EXCEPTION", "CORRECTED", "LEGACY")
OTHERS: dict[str, tuple[str | None, ...]] = {
    "session.timeZone": _ZONES,
    "timestampType": ("TIMESTAMP_LTZ", "TIMESTAMP_NTZ"),
    "mapKeyDedupPolicy": ("EXCEPTION", "LAST_WIN"),
    "legacy.timeParserPolicy": _MODES,
    "legacy.ctePrecedencePolicy": _MODES,
    "legacy.nullInEmptyListBehavior": (None, "true", "false"),
    "legacy.csv.enableDateTimeParsingFallback": (None, "true", "false"),
    "legacy.json.enableDateTimeParsingFallback": (None, "true", "false"),
    "parquet.datetimeRebaseModeInRead": _MODES,
    "parquet.datetimeRebaseModeInWrite": _MODES,
    "parquet.int96RebaseModeInRead": _MODES,
    "parquet.outputTimestampType": ("INT96", "TIMESTAMP_MICROS", "TIMESTAMP_MILLIS"),
    "parquet.pushdown.inFilterThreshold": ("10", "1", "0"),
    "storeAssignmentPolicy": ("ANSI", "LEGACY", "STRICT"),
    "columnNameOfCorruptRecord": ("_corrupt_record", "c"),
    "binaryOutputStyle": (None, "UTF-8", "BASE64", "HEX_DISCRETE"),
    "execution.pandas.structHandlingMode": ("legacy", "row", "dict"),
    "files.maxPartitionBytes": ("128MB", "200", "1000"),
    "files.openCostInBytes": ("4MB", "1", "100"),
    "files.minPartitionNum": (None, "1", "7"),
    "files.maxPartitionNum": (None, "1", "3"),
    "leafNodeDefaultParallelism": (None, "1", "5"),
    "shuffle.partitions": ("2", "5", "1"),
    "limit.initialNumPartitions": ("1", "4"),
    "optimizer.excludedRules": (
        None,
        "org.apache.spark.sql.catalyst.optimizer.ConvertToLocalRelation",
        "org.apache.spark.sql.catalyst.optimizer.NormalizeFloatingNumbers",
        "org.apache.spark.sql.catalyst.optimizer.ConstantFolding",
    ),
    "adaptive.optimizer.excludedRules": (
        None,
        "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation",
    ),
    "optimizer.inSetConversionThreshold": ("10", "0", "1"),
    "optimizer.inSetSwitchThreshold": ("400", "0"),
    "autoBroadcastJoinThreshold": ("10MB", "-1"),
    "execution.arrow.maxRecordsPerBatch": ("10000", "1", "3"),
    "execution.python.udf.maxRecordsPerBatch": ("100", "1"),
    "parquet.columnarReaderBatchSize": ("4096", "2"),
    "inMemoryColumnarStorage.batchSize": ("10000", "2"),
    "sources.default": ("parquet", "orc"),
    "sources.useV1SourceList": ("avro,csv,json,kafka,orc,parquet,text", ""),
    "defaultCatalog": ("spark_catalog", None),
    "codegen.factoryMode": ("NO_CODEGEN", "CODEGEN_ONLY", "FALLBACK"),
    "codegen.maxFields": ("100", "1"),
    "objectHashAggregate.sortBased.fallbackThreshold": ("128", "1"),
    "windowExec.buffer.in.memory.threshold": ("4096", "1"),
    "variant.shredding.maxSchemaDepth": ("50", "1"),
    "pivotMaxValues": ("10000", "3"),
    "analyzer.maxIterations": ("100", "50"),
    "functionResolution.sessionOrder": ("second", "first", "last"),
    "files.ignoredPathSegmentRegex": ("^[._]", "^part"),
}
"""The others that rows might depend on, with values."""

Change = tuple[str, str | None, str | None]
"""A setting, and two values of it; None leaves it to Spark."""

_DEFAULTS = dict(BOOLEANS)
# Those by which rows are known to change; what is searched for is what is done with them.
_WEIGHTY = listed(r"""
ansi.enabled ~ caseSensitive ~ jsonGenerator.ignoreNullFields ~ groupByOrdinal
jsonGenerator.writeNullIfWithDefaultValue ~ legacy.sizeOfNull ~ function.eltOutputAsString
function.concatBinaryAsString ~ decimalOperations.allowPrecisionLoss ~ groupByAliases
legacy.castComplexTypesToString.enabled ~ parser.escapedStringLiterals ~ orderByOrdinal
parser.quotedRegexColumnNames ~ legacy.parseNullPartitionSpecAsStringLiteral
legacy.allowNegativeScaleOfDecimal ~ legacy.integerGroupingId ~ constraintPropagation.enabled
legacy.statisticalAggregate ~ legacy.literal.pickMinimumPrecision ~ readSideCharPadding
legacy.csv.enableDateTimeParsingFallback ~ csv.parser.columnPruning.enabled
legacy.disableMapKeyNormalization ~ legacy.percentileDiscCalculation
""")


def any_setting(rng: Random) -> Change:
    """Any setting of queries."""
    chance = rng.random()
    if chance < 0.6:
        return weighty_setting(rng)
    return _turned(rng, rng.choice(list(_DEFAULTS)))


def weighty_setting(rng: Random) -> Change:
    """A setting by which rows are known to change, or one that isn't just on or off."""
    if rng.random() < 0.5:
        key = rng.choice(list(OTHERS))
        one, other = rng.sample(OTHERS[key], 2)
        return _SQL + key, one, other
    return _turned(rng, rng.choice([_SQL + key for key in _WEIGHTY if _SQL + key in _DEFAULTS]))


def _turned(rng: Random, key: str) -> Change:
    one: str | None
    other: str | None
    one, other = rng.sample(["true", "false"], 2)
    if rng.random() < 0.3:
        # Not set at all is the default, however that is.
        one, other = (None, other) if _DEFAULTS[key] == one else (one, None)
    return key, one, other
