"""What of the process around a query its rows may depend on, beside plan and settings.

In doubt they do: what is known not to is listed.
"""

from __future__ import annotations

import re
from enum import Enum
from functools import cache

from holdfast.plan.determinism import is_known_aggregate
from holdfast.plan.document import EXECUTION, EXPRESSIONS


class Observed(Enum):
    """Something that programs may differ in, and that rows may depend on or not."""

    LOCALE = "Java's default locale and character set"
    ZONE = "the session's time zone, Java's default one, and the rules of zones"
    CLASSES = "the classes that were added to Spark's own"


EVERYTHING = frozenset(Observed)
"""What is counted in doubt."""

_NOTHING: frozenset[Observed] = frozenset()
_OF_SPARK = re.compile(r"(org\.apache\.spark|java|scala|holdfast)\..*")
_OBJECTS = EXPRESSIONS + "objects."
_OWN_TYPES = re.compile(r"""['"]udt['"]""")
_TIMES = re.compile(r"""['"](date|time[^'"]*|variant)['"]""")
_WORDED = re.compile(r"""['"](binary|[^'"]*interval[^'"]*)['"]""")
_CSV = EXECUTION + "datasources.csv.CSVFileFormat"
_COLLATED = re.compile(r"collat", re.IGNORECASE)
# They read neither texts that they would have to take apart, nor by other rules than their own.
_BLIND_READERS = frozenset(
    {
        "holdfast.KeptFormat",
        "org.apache.spark.sql.hive.orc.OrcFileFormat",
        *(
            f"{EXECUTION}datasources.{name}FileFormat"
            for name in (
                "binaryfile.Binary",
                "csv.CSV",
                "json.Json",
                "orc.Orc",
                "parquet.Parquet",
                "text.Text",
            )
        ),
    }
)
_AGGREGATES = EXPRESSIONS + "aggregate."
_PYTHON = re.compile(r"Python(UDF|UDAF|UDTF)")
_WORDS = re.compile(r"Upper|Lower|InitCap|Format(Number|String)|To(Character|Number)|Hex|Unhex")
# What changes the case of letters, writes numbers, dates or intervals, or takes XML apart,
# goes by the default locale, or may.
_BLIND = re.compile(
    # what expressions are made of
    r"Literal|Cast|SortOrder|OuterReference|With|CommonExpression(Def|Ref)|Between"
    r"|LambdaFunction|NamedLambdaVariable|UnresolvedNamedLambdaVariable"
    r"|ScalarSubquery|Exists|ListQuery|InSubquery|LateralSubquery|KnownNotNull|KnownNullable"
    # conditions
    r"|And|Or|Not|EqualTo|EqualNullSafe|(Less|Greater)Than(OrEqual|)|In|InSet|Is(Not|)Null|IsNaN"
    r"|NaNvl|Coalesce|If|CaseWhen|NullIf|Nvl2?|IfNull|Greatest|Least|AtLeastNNonNulls"
    # numbers
    r"|Add|Subtract|Multiply|Divide|IntegralDivide|Remainder|Pmod|Unary(Minus|Positive)|Abs"
    r"|Try(Add|Subtract|Multiply|Divide|Mod)|Bitwise(And|Or|Xor|Not|Count)|BitLength|OctetLength"
    r"|Shift(Left|Right|RightUnsigned)|Round|BRound|Floor|Ceil|Round(Floor|Ceil)|Rint|Signum|Sqrt"
    r"|Cbrt|Pow|Exp|Expm1|Log|Log10|Log1p|Log2|Logarithm|Sin|Cos|Tan|Asin|Acos|Atan2?|Sinh|Cosh"
    r"|Tanh|Hypot|ToDegrees|ToRadians|Pi|EulerNumber|Factorial|CheckOverflow\w*|MakeDecimal"
    r"|UnscaledValue|PromotePrecision|WidthBucket|Rand|Randn|NormalizeNaNAndZero"
    r"|Murmur3Hash|XxHash64|Md5|Sha[12]|Crc32"
    # days and moments, whose zone counts where they have one
    r"|Year|Quarter|Month|DayOf(Month|Week|Year)|WeekDay|WeekOfYear|YearOfWeek|LastDay|Hour|Minute"
    r"|Second(WithFraction|)|Date(Add|Sub|Diff)|AddMonths|MonthsBetween|TruncDate|TruncTimestamp"
    r"|SecondsToTimestamp|MillisToTimestamp|MicrosToTimestamp|Unix(Seconds|Millis|Micros|Date)"
    r"|DateFromUnixDate|MakeDate|TimeWindow|PreciseTimestampConversion|TimestampAdd|TimestampDiff"
    # texts, as they are
    r"|Concat|ConcatWs|Substring|SubstringIndex|Left|Right|Length|Contains|StartsWith|EndsWith"
    r"|Like|RLike|RegExp(Replace|Extract|ExtractAll|Count|InStr|SubStr)|StringTrim(Both|Left|Right|)"
    r"|StringInstr|StringLocate|StringRepeat|StringReplace|StringLPad|StringRPad|StringSpace"
    r"|StringSplit|StringTranslate|SplitPart|Reverse|Ascii|Chr|Overlay|UnBase64|Base64|Encode|Decode"
    # arrays, maps and structs
    r"|Create(Array|Map|NamedStruct)|MapFrom(Arrays|Entries)|GetStructField|GetArrayStructFields"
    r"|GetArrayItem|GetMapValue|ElementAt|Get|Size|Cardinality|Array(Contains|Distinct|Except"
    r"|Intersect|Join|Max|Min|Position|Remove|Repeat|Sort|Transform|Filter|Exists|ForAll|Aggregate"
    r"|Append|Prepend|Insert|Compact|Size|sOverlap|sZip|Union)|SortArray|Slice|Flatten|Sequence"
    r"|Map(Concat|ContainsKey|Entries|Filter|Keys|Values|ZipWith)|Transform(Keys|Values)|ZipWith"
    r"|Explode|PosExplode|Inline|Stack|GeneratorOuter"
    # windows
    r"|WindowExpression|WindowSpecDefinition|SpecifiedWindowFrame|RowNumber|Rank|DenseRank"
    r"|PercentRank|CumeDist|NTile|Lag|Lead|NthValue|Grouping(ID|)"
    # of the process of Python
    r"|Python(UDF|UDAF|UDTF)|InputFile(BlockLength|BlockStart|Name)|MonotonicallyIncreasingID"
    r"|SparkPartitionID"
)


@cache
def of_expression(name: str, *, zoned: bool = False, worded: bool = False) -> frozenset[Observed]:
    """What an expression may see, beside its operands.

    Args:
        name: its class.
        zoned: whether its value may be another one in another time zone.
        worded: whether it is a cast of words of a language, such as an interval's.

    >>> [each.name for each in of_expression(EXPRESSIONS + "Upper")]
    ['LOCALE']
    >>> of_expression(EXPRESSIONS + "Add")
    frozenset()
    """
    short = name.removeprefix(EXPRESSIONS)
    if not name.startswith(EXPRESSIONS) or name.startswith(_OBJECTS):
        return EVERYTHING
    zone = frozenset({Observed.ZONE}) if zoned or _PYTHON.fullmatch(short) else _NOTHING
    if name.startswith(_AGGREGATES):
        return zone if is_known_aggregate(name) else EVERYTHING
    if _BLIND.fullmatch(short):
        return zone | {Observed.LOCALE} if worded else zone
    # Some have a zone as an argument, and go by the rules that Java has for it.
    return zone | {Observed.LOCALE} | (_NOTHING if _WORDS.fullmatch(short) else {Observed.ZONE})


def of_class(name: str) -> frozenset[Observed]:
    """What is seen by naming a class.

    Args:
        name: the class's.
    """
    return _NOTHING if _OF_SPARK.fullmatch(name) else frozenset({Observed.CLASSES})


def of_type(text: str) -> frozenset[Observed]:
    """What values of a type may be read by.

    Args:
        text: the type, or types, as Spark's JSON has them.
    """
    classes = {Observed.CLASSES} if _OWN_TYPES.search(text) else _NOTHING
    return frozenset(classes | ({Observed.LOCALE} if _COLLATED.search(text) else _NOTHING))


def of_schema(text: str) -> frozenset[Observed]:
    """What a source's columns may be read by.

    Args:
        text: their types, as Spark's JSON has them.
    """
    found = of_type(text)
    return found | {Observed.ZONE} if _TIMES.search(text) else found


def of_reader(name: str, schema: str) -> frozenset[Observed]:
    """What a reader of files may see.

    Args:
        name: of its class.
        schema: of the files, and how they are read.
    """
    if not _OF_SPARK.fullmatch(name):
        return EVERYTHING
    seen = of_schema(schema)
    # CSV has bytes in the default character set.
    blind = name in _BLIND_READERS and not (name == _CSV and _WORDED.search(schema))
    return seen if blind else seen | {Observed.LOCALE, Observed.ZONE}
