"""Programs with functions, and what each is changed to: texts, as a notebook has them.

Each text makes `df` of `spark`, a DataFrame `rows` and a directory `home`. They stand in
`functions.txt`: below `## name | kind`, and then what one version after the other has in the place
of something else, once: `old -> new`, in the program or in another module (`### name`). There may
be `varying`, `helpers` for a module that several have, and `with` and `or` for settings.
"""

from __future__ import annotations

import ast
import itertools
import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Program:
    """A program, and others that differ from it by one thing.

    Attributes:
        text: the program.
        changes: a text of it, and what takes its place in another program with other rows.
        modules: the user's own, texts by names.
        settings: of the session.
        setting_changes: other settings, in programs that are otherwise the same.
        is_varying: plain Spark has other rows each time.
    """

    text: str
    changes: tuple[tuple[str, str], ...] = ()
    modules: Mapping[str, str] = field(default_factory=dict)
    settings: Mapping[str, str] = field(default_factory=dict)
    setting_changes: tuple[Mapping[str, str], ...] = ()
    is_varying: bool = False

    def versions(self) -> Iterator[Program]:
        """The program itself, and each that differs from it.

        Raises:
            ValueError: when a change names a text that isn't there.
        """
        yield self
        for old, new in self.changes:
            texts = {"": self.text, **self.modules}
            if not any(old in text for text in texts.values()):
                raise ValueError(f"there is no {old!r}")
            changed = {name: text.replace(old, new, 1) for name, text in texts.items()}
            yield Program(changed.pop(""), (), changed, self.settings, is_varying=self.is_varying)
        for settings in self.setting_changes:
            yield Program(self.text, (), self.modules, settings, is_varying=self.is_varying)


_KINDS = {
    "udf": "df = rows.select('id', F.udf(f, 'string')('id').alias('r'))",
    "arrow": "df = rows.select('id', F.udf(f, 'string', useArrow=True)('id').alias('r'))",
    "sql": "spark.udf.register('named', f, 'string')\n"
    "rows.createOrReplaceTempView('v')\ndf = spark.sql('SELECT id, named(id) AS r FROM v')",
    "series": "df = rows.select('id', F.pandas_udf(f, 'double')('x').alias('r'))",
    "aggregate": "df = rows.groupBy('v').agg(F.pandas_udf(f, 'double')('x').alias('r'))",
    "window": "df = rows.select('id', F.pandas_udf(f, 'double')('x').over(\n"
    "  Window.partitionBy('v').orderBy('id').rowsBetween(-2, 0)).alias('r'))",
    "map": "df = rows.select('id', 'x').mapInPandas(f, 'r double')",
    "map arrow": "df = rows.select('id', 'x').mapInArrow(f, 'r double')",
    "apply": "df = rows.select('id', 'v', 'x').groupBy('v').applyInPandas(f, 'r double')",
    "apply arrow": "df = rows.select('id', 'v', 'x').groupBy('v').applyInArrow(f, 'r double')",
    "cogroup": "df = rows.select('id', 'v').groupBy('v').cogroup(\n"
    "  rows.select('x', 'v').where('x > 9').groupBy('v')).applyInPandas(f, 'r double')",
    "cogroup arrow": "df = rows.select('id', 'v').groupBy('v').cogroup(\n"
    "  rows.select('x', 'v').where('x > 9').groupBy('v')).applyInArrow(f, 'r double')",
    "arrow udf": "df = rows.select('id', F.arrow_udf(f, 'double')('x').alias('r'))",
    "arrow aggregate": "df = rows.groupBy('v').agg(F.arrow_udf(f, 'double')('x').alias('r'))",
    "table": "df = spark.range(5).lateralJoin(f.asDeterministic()(F.col('id').outer()))",
    "table sql": "rows.select('id', 'v').createOrReplaceTempView('v')\n"
    "spark.udtf.register('named', f.asDeterministic())\ndf = spark.sql(query)",
    "model": "df = model.fit(data).transform(data).select('id', model.getOutputCol())",
    "predict": "df = model.fit(data).transform(data).select('id', 'prediction')",
}

_DATA = (
    "from pyspark.ml import *\nfrom pyspark.ml.feature import *\n"
    "from pyspark.ml.clustering import *\nfrom pyspark.ml.classification import *\n"
    "from pyspark.ml.regression import *\n"
    "data = VectorAssembler(inputCols=['id', 'x', 'v'], outputCol='f').transform(\n"
    "  rows.select('id', 'x', 'v', 't', (F.col('id') % 2).cast('double').alias('label')))\n"
)
_WORDS = _DATA + "data = data.withColumn('w', F.split(F.concat_ws(' ', 't', 'v', 'label'), ' '))\n"
_HELPERS = {
    "helpers": "K = 1\nclass Base:\n    n = 2\n    def g(self, x): return x + self.n\n"
    "def g(x): return x + K\ndef deep(x): return g(x) * 2\n"
}

_VIEW = "CREATE OR REPLACE TEMPORARY VIEW v AS SELECT * FROM parquet.`{home}/parquet`"
_NUMBERS = itertools.count()


def _programs(text: str) -> Iterator[tuple[str, Program]]:
    for section in re.split(r"^# ", text, flags=re.MULTILINE)[1:]:
        title, *programs = re.split(r"^## ", section, flags=re.MULTILINE)
        for each in programs:
            header, _, body = each.partition("\n")
            name, kind, *parts = header.split(" | ")
            yield f"{title.strip()}: {name}", _program(kind, parts, body)


def _program(kind: str, parts: list[str], body: str) -> Program:
    body, *modules = re.split(r"^### ", body, flags=re.MULTILINE)
    sources = dict(each.split("\n", 1) for each in modules)
    texts = [part.split(" -> ") for part in parts if " -> " in part]
    changes = [(_literal(old), _literal(new)) for old, new in texts]
    settings = [json.loads(part.split(" ", 1)[1]) for part in parts if part.endswith("}")]
    body = body.removesuffix("\n")
    if kind == "statements":
        body, changes = _statements(body, changes)
    else:
        prefix, _, rest = kind.rpartition(" ")
        made = _KINDS.get(kind, _KINDS.get(rest))
        before = {"data": _DATA, "words": _WORDS}.get(kind if made is None else prefix, "")
        body = before + body + ("" if made is None else f"\n{made}")
    return Program(
        body,
        tuple(changes),
        _HELPERS if "helpers" in parts else sources,
        settings[0] if settings else {},
        tuple(settings[1:]),
        "varying" in parts,
    )


def _statements(body: str, changes: list[tuple[str, str]]) -> tuple[str, list[tuple[str, str]]]:
    """Statements of SQL, of which the last one is the query; their functions are their own."""
    number = next(_NUMBERS)

    def own(text: str) -> str:
        return re.sub(r"\b([gh])\b", rf"\g<1>{number}", text)

    lines = [
        f"df = spark.sql('''{own(each)}'''.replace('{{home}}', home))"
        for each in (_VIEW, *body.split("\n"))
    ]
    return "\n".join(lines), [(own(old), own(new)) for old, new in changes]


def _literal(text: str) -> str:
    """A text, which is quoted where it has what stands between texts, or blanks around it."""
    return str(ast.literal_eval(text)) if text[0] == text[-1] and text[0] in "'\"" else text


PROGRAMS = dict(_programs(Path(__file__).with_suffix(".txt").read_text(encoding="utf-8")))
"""By names."""


def with_modules(program: Program, directory: Path, number: int) -> Program:
    """The program with its modules written to a directory, under names that end in a number."""
    text = program.text
    for module, source in program.modules.items():
        top, *rest = module.split(".")
        text = re.sub(rf"\b{top}\b", f"{top}_{number}", text)
        file = directory.joinpath(f"{top}_{number}", *rest).with_suffix(".py")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(source, encoding="utf-8")
    return Program(text, settings=program.settings)
