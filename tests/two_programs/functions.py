"""Programs with functions, and what each is changed to: texts, as a notebook has them.

Each text makes `df` of `spark`, a DataFrame `rows` and a directory `home`. A change is a text and
what takes its place, in the program or in a module of its own.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field


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


def _of(
    kind: str, text: str, *changes: tuple[str, str], is_varying: bool = False, **modules: str
) -> Program:
    return Program(f"{text}\n{_KINDS[kind]}", changes, modules, is_varying=is_varying)


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
_HELPER = {
    "helpers": "K = 1\nclass Base:\n    n = 2\n    def g(self, x): return x + self.n\n"
    "def g(x): return x + K\ndef deep(x): return g(x) * 2\n"
}

PYTHON = {
    "body": _of("udf", "def f(x): return str(x + 1)", ("x + 1", "x + 2"), ("x + 1", "x - 1")),
    "lambda": _of("udf", "f = lambda x: str(x * 2)", ("* 2", "* 3")),
    "constant": _of(
        "udf", "def f(x): return ('a', 1.0)[x % 2 == 0]", ("1.0", "1.5"), ("'a'", "'A'")
    ),
    "constants of other types": _of(
        "udf", "def f(x): return repr(1)", ("(1)", "(1.0)"), ("(1)", "(True)"), ("(1)", "('1')")
    ),
    "negative zero": _of("udf", "def f(x): return repr(0.0)", ("0.0", "-0.0")),
    "attribute": _of(
        "udf", "def f(x): return str(x).upper() + 'a'.upper()", ("'a'.upper", "'a'.lower")
    ),
    "closure": _of(
        "udf",
        "def made(k):\n    return lambda x: str(x + k)\nf = made(1)",
        ("made(1)", "made(2)"),
        ("x + k", "x * k"),
    ),
    "closure of a function": _of(
        "udf",
        "def made(g):\n    return lambda x: g(x)\nf = made(lambda y: str(y + 1))",
        ("y + 1", "y + 2"),
    ),
    "default": _of("udf", "def f(x, y=1): return str(x + y)", ("y=1", "y=2")),
    "default by name": _of("udf", "def f(x, *, y=1): return str(x + y)", ("y=1", "y=2")),
    "default that is a list": _of(
        "udf", "def f(x, y=[1, 2]): return str(y[x % 2])", ("[1, 2]", "[2, 1]")
    ),
    "global": _of(
        "udf", "k = 1\ndef f(x): return str(x + k)", ("k = 1", "k = 2"), ("k = 1", "k = 1.0")
    ),
    "global of a global": _of(
        "udf",
        "k = 1\ndef g(x): return x + k\ndef f(x): return str(g(x))",
        ("k = 1", "k = 2"),
        ("x + k", "x - k"),
    ),
    "global in a comprehension": _of(
        "udf", "k = 1\ndef f(x): return str([y + k for y in range(3)])", ("k = 1", "k = 2")
    ),
    "global that is set later": _of(
        "udf", "k = 1\ndef f(x): return str(x + k)\nu = F.udf(f)\nk = 3", ("k = 3", "k = 4")
    ),
    "global that changes after": Program(
        "k = 1\ndef f(x): return str(x + k)\ndf = rows.select('id', F.udf(f)('id').alias('r'))\nk = 3",
        (("k = 1", "k = 2"),),
    ),
    "list that grows": _of(
        "udf", "k = [1]\ndef f(x): return str(len(k))\nk.append(2)", ("append(2)", "extend([2, 3])")
    ),
    "dictionary": _of(
        "udf", "k = {0: 'a', 1: 'b'}\ndef f(x): return k.get(x % 3)", ("'b'", "'c'"), ("1:", "2:")
    ),
    "order of a dictionary": _of(
        "udf",
        "k = {'a': 1, 'b': 2}\ndef f(x): return str(list(k))",
        ("'a': 1, 'b': 2", "'b': 2, 'a': 1"),
    ),
    "set": _of("udf", "k = {1, 2, 3}\ndef f(x): return str(x in k)", ("{1, 2, 3}", "{1, 2, 4}")),
    "numpy": _of(
        "udf",
        "k = np.arange(8)\ndef f(x): return str(k[x % 8])",
        ("arange(8)", "arange(8)[::-1]"),
        ("arange(8)", "arange(8, dtype='float32')"),
    ),
    "numpy of objects": _of(
        "udf",
        "k = np.array([1, 'a', None], dtype=object)\ndef f(x): return str(k[x % 3])",
        ("'a'", "'b'"),
    ),
    "numpy, ordered otherwise": _of(
        "udf",
        "k = np.array([[1, 2], [3, 4]])\ndef f(x): return str(k.ravel(order='K').tolist())",
        ("k = np.array([[1, 2], [3, 4]])", "k = np.asfortranarray([[1, 2], [3, 4]])"),
    ),
    "numpy, masked": _of(
        "udf",
        "k = np.ma.array([1, 2], mask=[0, 1])\ndef f(x): return str(k[x % 2])",
        ("[0, 1]", "[1, 0]"),
    ),
    "structured numpy": _of(
        "udf",
        "k = np.array([(1, 2)], dtype=[('a', 'i4'), ('b', 'i4')])\ndef f(x): return str(k['a'][0])",
        ("('a', 'i4'), ('b', 'i4')", "('b', 'i4'), ('a', 'i4')"),
    ),
    "frame": _of(
        "udf",
        "k = pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})\ndef f(x): return str(k.b[x % 2])",
        ("'y'", "'z'"),
        ("'x', 'y'", "'y', 'x'"),
    ),
    "index of a frame": _of(
        "udf",
        "k = pd.DataFrame({'a': [1, 2]}, index=[0, 1])\ndef f(x): return str(k.a.loc[x % 2])",
        ("[0, 1]", "[1, 0]"),
    ),
    "attributes of a frame": _of(
        "udf",
        "k = pd.DataFrame({'a': [1, 2]})\nk.attrs['n'] = 1\ndef f(x): return str(k.attrs)",
        ("= 1\n", "= 2\n"),
    ),
    "categories": _of(
        "udf",
        "k = pd.Series(pd.Categorical(['a'], categories=['a', 'b']))\ndef f(x): return str(list(k.cat.categories))",
        ("categories=['a', 'b']", "categories=['b', 'a']"),
    ),
    "table of Arrow": _of(
        "udf",
        "k = pa.table({'a': [1, 2]})\ndef f(x): return str(k['a'][x % 2])",
        ("[1, 2]", "[2, 1]"),
    ),
    "enum": _of(
        "udf",
        "class E(enum.Enum):\n    A = 1\n    B = 2\ndef f(x): return str(E.A.value)",
        ("A = 1", "A = 3"),
    ),
    "enum's member": _of(
        "udf",
        "class E(enum.Enum):\n    A = 1\n    B = 2\nk = E.A\ndef f(x): return k.name",
        ("k = E.A", "k = E.B"),
    ),
    "pattern": _of(
        "udf",
        "k = re.compile('1')\ndef f(x): return str(bool(k.search(str(x))))",
        ("'1'", "'2'"),
        ("'1'", "'1', re.X"),
    ),
    "pattern's flags": _of(
        "udf",
        "k = re.compile('A')\ndef f(x): return str(bool(k.search('a')))",
        ("'A'", "'A', re.I"),
    ),
    "decimal": _of(
        "udf", "k = decimal.Decimal('1.0')\ndef f(x): return str(k)", ("'1.0'", "'1.00'")
    ),
    "date": _of(
        "udf", "k = datetime.date(2020, 1, 1)\ndef f(x): return str(k)", ("1, 1)", "1, 2)")
    ),
    "fold of a time": _of(
        "udf",
        "k = datetime.datetime(2020, 1, 1)\ndef f(x): return str(k.fold)",
        ("1, 1)", "1, 1, fold=1)"),
    ),
    "class": _of(
        "udf",
        "class A:\n    n = 1\n    def g(self, x): return str(x + self.n)\ndef f(x): return A().g(x)",
        ("n = 1", "n = 2"),
        ("x + self.n", "x - self.n"),
    ),
    "inherited": _of(
        "udf",
        "class A:\n    n = 1\n    def g(self, x): return str(x + self.n)\nclass B(A): pass\ndef f(x): return B().g(x)",
        ("n = 1", "n = 2"),
        ("x + self.n", "x - self.n"),
        ("class B(A): pass", "class B(A):\n    n = 7"),
    ),
    "order of bases": _of(
        "udf",
        "class A:\n    n = 1\nclass B:\n    n = 2\nclass C(A, B): pass\ndef f(x): return str(C.n)",
        ("C(A, B)", "C(B, A)"),
    ),
    "metaclass": _of(
        "udf",
        "class M(type):\n    def __call__(cls, *a): return 1\nclass A(metaclass=M): pass\ndef f(x): return str(A())",
        ("return 1", "return 2"),
    ),
    "instance": _of(
        "udf",
        "class A:\n    def __init__(self, n): self.n = n\n    def g(self, x): return str(x + self.n)\na = A(1)\ndef f(x): return a.g(x)",
        ("A(1)", "A(2)"),
    ),
    "bound method": _of(
        "udf",
        "class A:\n    def __init__(self, n): self.n = n\n    def g(self, x): return str(x + self.n)\nf = A(1).g",
        ("A(1)", "A(2)"),
        ("x + self", "x - self"),
    ),
    "class method": _of(
        "udf",
        "class A:\n    n = 1\n    @classmethod\n    def g(cls, x): return str(x + cls.n)\nclass B(A): n = 1\nf = B.g",
        ("B(A): n = 1", "B(A): n = 2"),
    ),
    "static method": _of(
        "udf",
        "class A:\n    @staticmethod\n    def g(x): return str(x + 1)\nf = A.g",
        ("x + 1", "x + 2"),
    ),
    "property": _of(
        "udf",
        "class A:\n    @property\n    def p(self): return 1\nf = lambda x: str(A().p)",
        ("return 1", "return 2"),
    ),
    "callable": _of(
        "udf",
        "class A:\n    def __init__(self, n): self.n = n\n    def __call__(self, x): return str(x + self.n)\nf = A(1)",
        ("A(1)", "A(2)"),
        ("x + self", "x - self"),
    ),
    "slots": _of(
        "udf",
        "class A:\n    __slots__ = ('n',)\n    def __init__(self, n): self.n = n\na = A(1)\ndef f(x): return str(a.n)",
        ("A(1)", "A(2)"),
    ),
    "reduced": _of(
        "udf",
        "class A:\n    def __init__(self, n): self.n = n\n    def __reduce__(self): return A, (self.n + 1,)\na = A(1)\ndef f(x): return str(a.n)",
        ("A(1)", "A(2)"),
        ("n + 1,", "n + 2,"),
    ),
    "state": _of(
        "udf",
        "class A:\n    def __init__(self, n): self.n = n\n    def __getstate__(self): return {'n': 5}\n    def __setstate__(self, s): self.n = s['n']\na = A(1)\ndef f(x): return str(a.n)",
        ("'n': 5", "'n': 6"),
        ("= s['n']", "= s['n'] + 1"),
    ),
    "partial": _of(
        "udf",
        "def g(k, x, *, m=0): return str(x + k + m)\nf = functools.partial(g, 1, m=1)",
        ("g, 1", "g, 2"),
        ("m=1", "m=2"),
    ),
    "partial of a partial": _of(
        "udf",
        "def g(k, l, x): return str(x + k - l)\nf = functools.partial(functools.partial(g, 1), 3)",
        ("g, 1", "g, 2"),
        (", 3", ", 4"),
    ),
    "wrapped": _of(
        "udf",
        "def d(g):\n    @functools.wraps(g)\n    def inner(x): return g(x) + '!'\n    return inner\n@d\ndef f(x): return str(x)",
        ("'!'", "'?'"),
        ("str(x)", "repr(x * 2)"),
    ),
    "decorator with arguments": _of(
        "udf",
        "def d(n):\n    def outer(g):\n        def inner(x): return g(x) * n\n        return inner\n    return outer\n@d(2)\ndef f(x): return str(x)",
        ("@d(2)", "@d(3)"),
    ),
    "decorators in order": _of(
        "udf",
        "def d(g): return lambda x: g(x) + 'd'\ndef e(g): return lambda x: g(x) + 'e'\n@d\n@e\ndef f(x): return str(x)",
        ("@d\n@e", "@e\n@d"),
    ),
    "lru_cache": _of(
        "udf",
        "from stored import g\ndef f(x): return str(g(x))",
        ("% 5", "% 6"),
        stored="import functools\n@functools.lru_cache\ndef g(x): return x % 5\n",
    ),
    "single dispatch": _of(
        "udf",
        "from chosen import g\ndef f(x): return g(x)",
        ("'i'", "'j'"),
        chosen="import functools\n@functools.singledispatch\ndef g(x): return 'o'\n"
        "@g.register\ndef _(x: int): return 'i'\n",
    ),
    "dataclass": _of(
        "udf",
        "@dataclasses.dataclass\nclass A:\n    n: int = 1\n    m: list = dataclasses.field(default_factory=list)\na = A(2)\ndef f(x): return str(a)",
        ("A(2)", "A(3)"),
        ("n: int = 1", "o: int = 1"),
    ),
    "dataclass's default": _of(
        "udf",
        "@dataclasses.dataclass(frozen=True)\nclass A:\n    n: int = 1\ndef f(x): return str(A().n)",
        ("= 1", "= 2"),
    ),
    "dataclass's order": _of(
        "udf",
        "@dataclasses.dataclass(order=True)\nclass A:\n    n: int = 1\n    m: int = 2\ndef f(x): return str(A(1, 5) < A(2, 3))",
        (
            "n: int = 1\n    m: int = 2",
            "m: int = 1\n    n: int = 2",
        ),
    ),
    "named tuple": _of(
        "udf",
        "A = collections.namedtuple('A', 'p q')\nk = A(1, 2)\ndef f(x): return str(k.p)",
        ("'p q'", "'q p'"),
        ("(1, 2)", "(2, 1)"),
    ),
    "generator": _of(
        "udf",
        "def g(n):\n    for i in range(n):\n        yield i\ndef f(x): return str(sum(g(x % 5)))",
        ("yield i", "yield i * 2"),
    ),
    "nested functions": _of(
        "udf",
        "def f(x):\n    def g(y):\n        def h(z): return z + 1\n        return h(y)\n    return str(g(x))",
        ("z + 1", "z + 2"),
    ),
    "try": _of(
        "udf",
        "def f(x):\n    try: return str(1 // (x % 2))\n    except ZeroDivisionError: return 'zero'",
        ("'zero'", "'none'"),
        ("ZeroDivisionError", "ArithmeticError"),
    ),
    "match": _of(
        "udf",
        "def f(x):\n    match x % 3:\n        case 0: return 'a'\n        case _: return 'b'",
        ("case 0", "case 1"),
    ),
    "string formatting": _of("udf", "def f(x): return f'{x:>5}'", (">5", ">6"), (">5", "<5")),
    "global statement": _of(
        "udf",
        "n = 0\ndef f(x):\n    global n\n    n = 0\n    return str(n)",
        ("    n = 0", "    n = 1"),
    ),
    "counter": _of(
        "udf",
        "n = 0\ndef f(x):\n    global n\n    n += 1\n    return str(n)",
        ("+= 1", "+= 2"),
        is_varying=True,
    ),
    "counter in a list": _of(
        "udf",
        "n = [0]\ndef f(x):\n    n[0] += 1\n    return str(n[0])",
        ("+= 1", "+= 2"),
        is_varying=True,
    ),
    "counter in an attribute": _of(
        "udf", "def f(x):\n    f.n = getattr(f, 'n', 0) + 1\n    return str(f.n)", is_varying=True
    ),
    "counter in a default": _of(
        "udf", "def f(x, n=[]):\n    n.append(x)\n    return str(len(n))", is_varying=True
    ),
    "count": _of(
        "udf",
        "n = itertools.count()\ndef f(x): return str(next(n))",
        ("count()", "count(5)"),
        is_varying=True,
    ),
    "random": _of("udf", "import random\ndef f(x): return str(random.random())", is_varying=True),
    "random with a seed": _of(
        "udf",
        "import random\ndef f(x): return str(random.Random(x).random())",
        ("Random(x)", "Random(x + 1)"),
    ),
    "random of numpy": _of("udf", "def f(x): return str(np.random.rand())", is_varying=True),
    "random of numpy with a seed": _of(
        "udf", "def f(x): return str(np.random.default_rng(x).random())", ("rng(x)", "rng(x + 1)")
    ),
    "time": _of("udf", "import time\ndef f(x): return str(time.time())", is_varying=True),
    "now": _of("udf", "def f(x): return str(datetime.datetime.now())", is_varying=True),
    "environ": _of("udf", "import os\ndef f(x): return os.environ.get('HOME')", is_varying=True),
    "getpid": _of("udf", "import os\ndef f(x): return str(os.getpid())", is_varying=True),
    "file": _of("udf", "def f(x): return open('/etc/hostname').read()", is_varying=True),
    "path": _of(
        "udf",
        "import pathlib\ndef f(x): return pathlib.Path('/etc/hostname').read_text()",
        is_varying=True,
    ),
    "uuid": _of("udf", "import uuid\ndef f(x): return str(uuid.uuid4())", is_varying=True),
    "uuid of a name": _of(
        "udf",
        "import uuid\ndef f(x): return str(uuid.uuid5(uuid.NAMESPACE_DNS, str(x)))",
        ("NAMESPACE_DNS", "NAMESPACE_URL"),
    ),
    "hash of a text": _of(
        "udf", "def f(x): return str(hash(str(x)))", ("str(x)))", "str(x + 1)))")
    ),
    "id": _of("udf", "k = []\ndef f(x): return str(id(k))", is_varying=True),
    "task context": _of(
        "udf",
        "from pyspark import TaskContext\ndef f(x): return str(TaskContext.get().partitionId())",
        is_varying=True,
    ),
    "files of Spark's": _of(
        "udf",
        "from pyspark import SparkFiles\ndef f(x): return SparkFiles.getRootDirectory()",
        is_varying=True,
    ),
    "logger": _of(
        "udf",
        "import logging\nlog = logging.getLogger('a')\ndef f(x):\n    log.debug('x %s', x)\n    return str(x)",
        ("str(x)", "str(x + 1)"),
    ),
    "print": _of(
        "udf",
        "def f(x):\n    if x < 0: print(x)\n    return str(x)",
        ("return str(x)", "return str(x + 1)"),
    ),
    "lock": _of(
        "udf",
        "import threading\ndef f(x):\n    with threading.Lock():\n        return str(x)",
        ("str(x)", "str(x + 1)"),
    ),
    "warnings": _of(
        "udf",
        "import warnings\ndef f(x):\n    with warnings.catch_warnings():\n        warnings.simplefilter('ignore')\n        return str(x)",
        ("str(x)", "str(x + 1)"),
    ),
    "json": _of(
        "udf",
        "import json\ndef f(x): return json.dumps({'b': x, 'a': 1}, sort_keys=True)",
        ("sort_keys=True", "sort_keys=False"),
    ),
    "hashlib": _of(
        "udf",
        "import hashlib\ndef f(x): return hashlib.md5(str(x).encode()).hexdigest()",
        ("md5", "sha1"),
    ),
    "zone": _of(
        "udf",
        "import zoneinfo\nk = zoneinfo.ZoneInfo('UTC')\ndef f(x): return str(datetime.datetime.fromtimestamp(x, k))",
        ("'UTC'", "'Asia/Tokyo'"),
    ),
    "local time": _of(
        "udf", "def f(x): return str(datetime.datetime.fromtimestamp(x))", is_varying=False
    ),
    "eval": _of("udf", "def f(x): return str(eval('x + 1'))", ("x + 1", "x + 2")),
    "exec": _of(
        "udf",
        "space = {}\nexec('def g(x): return str(x + 1)', space)\nf = space['g']",
        ("x + 1", "x + 2"),
    ),
    "getattr": _of("udf", "def f(x): return getattr(str(x), 'zfill')(3)", ("'zfill'", "'ljust'")),
    "operator": _of(
        "udf",
        "k = operator.itemgetter(0)\ndef f(x): return str(k((x, -x)))",
        ("getter(0)", "getter(1)"),
    ),
    "method caller": _of(
        "udf", "k = operator.methodcaller('zfill', 3)\ndef f(x): return k(str(x))", ("3)", "4)")
    ),
    "module's function": _of(
        "udf",
        "import helpers\ndef f(x): return str(helpers.g(x))",
        ("x + K", "x - K"),
        ("K = 1", "K = 2"),
        **_HELPER,
    ),
    "module's function by its name": _of(
        "udf",
        "from helpers import deep\ndef f(x): return str(deep(x))",
        ("x + K", "x - K"),
        ("* 2", "* 3"),
        **_HELPER,
    ),
    "module's function itself": _of(
        "udf", "from helpers import deep as f", ("K = 1", "K = 2"), ("* 2", "* 3"), **_HELPER
    ),
    "module inside": _of(
        "udf",
        "def f(x):\n    import helpers as h\n    return str(h.deep(x))",
        ("x + K", "x - K"),
        ("K = 1", "K = 2"),
        **_HELPER,
    ),
    "module's class": _of(
        "udf",
        "import helpers\nclass A(helpers.Base): pass\ndef f(x): return str(A().g(x))",
        ("n = 2", "n = 3"),
        ("x + self", "x - self"),
        **_HELPER,
    ),
    "module's udf": Program(
        "import their\ndf = rows.select('id', their.f('id').alias('r'))",
        (("x + 1", "x + 2"),),
        {
            "their": "from pyspark.sql import functions as F\n@F.udf(returnType='string')\ndef f(x): return str(x + 1)\n"
        },
    ),
    "package": _of(
        "udf",
        "from pack import f",
        ("x + 1", "x + 2"),
        ("K = 5", "K = 6"),
        **{
            "pack.__init__": "from .inner import f\n",
            "pack.inner": "from . import other\ndef f(x): return str(x + 1 + other.K)\n",
            "pack.other": "K = 5\n",
        },
    ),
    "module with state": _of(
        "udf",
        "import counted\ndef f(x): return str(counted.step())",
        counted="n = 0\ndef step():\n    global n\n    n += 1\n    return n\n",
        is_varying=True,
    ),
    "module that is changed": _of(
        "udf",
        "import helpers\nhelpers.K = 9\ndef f(x): return str(helpers.g(x))",
        ("K = 9", "K = 8"),
        **_HELPER,
    ),
    "type of what is given": Program(
        "df = rows.select('id', F.udf(lambda x: x, 'long')('id').alias('r'))",
        (("'long'", "'int'"), ("'long'", "'string'")),
    ),
    "two arguments": Program(
        "df = rows.select(F.udf(lambda x, y: f'{x} {y}', 'string')('id', 'v').alias('r'))",
        (("'id', 'v'", "'v', 'id'"),),
    ),
    "arguments by name": Program(
        "df = rows.select(F.udf(lambda x, y: f'{x} {y}', 'string')(x=F.col('id'), y=F.col('v')).alias('r'))",
        (
            ("x=F.col('id'), y=F.col('v')", "y=F.col('id'), x=F.col('v')"),
            ("y=F.col('v')", "y=F.col('x')"),
        ),
    ),
    "struct": Program(
        "df = rows.select(F.udf(lambda x: (x, str(x)), 'a long, b string')('id').alias('r'))",
        (("a long", "c long"),),
    ),
    "chained": Program(
        "f = F.udf(lambda x: x + 1, 'long')\ng = F.udf(lambda x: x * 2, 'long')\ndf = rows.select(f(g('id')).alias('r'))",
        (("f(g(", "g(f("), ("* 2", "* 3")),
    ),
    "condition": Program(
        "f = F.udf(lambda x: x % 3 == 0, 'boolean')\ndf = rows.where(f('id')).select('id')",
        (("== 0", "== 1"),),
    ),
    "undetermined": Program(
        "df = rows.select('id', F.udf(lambda x: str(x)).asNondeterministic()('id').alias('r'))",
        (("str(x)", "str(-x)"),),
    ),
    "broadcast": Program(
        "k = spark.sparkContext.broadcast({0: 'a'})\ndf = rows.select('id', F.udf(lambda x: k.value.get(x % 2))('id').alias('r'))",
        (("'a'", "'b'"),),
    ),
    "in an aggregate": Program(
        "f = F.udf(lambda x: x % 3, 'long')\ndf = rows.groupBy(f('id').alias('k')).agg(F.count('*').alias('n'))",
        (("% 3", "% 4"),),
    ),
    "in a join": Program(
        "f = F.udf(lambda x: x % 30, 'long')\nother = rows.select(F.col('id').alias('o'))\ndf = rows.join(other, f('id') == F.col('o')).select('id', 'o')",
        (("% 30", "% 40"),),
    ),
    "over a list": Program(
        "df = rows.select(F.udf(lambda xs: sum(xs) + 1, 'long')('a').alias('r'))", (("+ 1", "+ 2"),)
    ),
    "by SQL": _of("sql", "f = lambda x: str(x + 1)", ("x + 1", "x + 2")),
    "in a view": Program(
        "spark.udf.register('named', lambda x: str(x + 1))\nrows.createOrReplaceTempView('v')\nspark.sql('CREATE OR REPLACE TEMPORARY VIEW w AS SELECT named(id) AS r FROM v')\nspark.udf.register('named', lambda x: str(x + 10))\ndf = spark.table('w')",
        (("x + 10", "x + 20"),),
    ),
    "by Arrow": _of("arrow", "f = lambda x: str(x + 1)", ("x + 1", "x + 2")),
    "by Arrow and without": Program(
        "df = rows.select('id', F.udf(lambda x: str(x / 3), 'string', useArrow=False)('id').alias('r'))",
        (("useArrow=False", "useArrow=True"), ("/ 3", "/ 4")),
    ),
    "strings of floats": Program(
        "df = rows.select('id', F.udf(lambda x: x, 'string', useArrow=False)('x').alias('r'))",
        (("useArrow=False", "useArrow=True"),),
    ),
}

BATCHES = {
    "series": _of("series", "def f(s: pd.Series) -> pd.Series: return s + 1", ("s + 1", "s + 2")),
    "series of a batch": _of(
        "series",
        "def f(s: pd.Series) -> pd.Series: return s.astype(float) - s.astype(float).mean()",
        (".mean", ".max"),
    ),
    "series of two": Program(
        "def f(s: pd.Series, t: pd.Series) -> pd.Series: return s - t\ndf = rows.select(F.pandas_udf(f, 'double')('x', 'id').alias('r'))",
        (("'x', 'id'", "'id', 'x'"), ("s - t", "s + t")),
    ),
    "iterator": _of(
        "series",
        "def f(i: Iterator[pd.Series]) -> Iterator[pd.Series]:\n    k = 1\n    for s in i: yield s + k",
        ("k = 1", "k = 2"),
    ),
    "iterator that counts": _of(
        "series",
        "def f(i: Iterator[pd.Series]) -> Iterator[pd.Series]:\n    n = 0\n    for s in i:\n        n += len(s)\n        yield s * 0 + n",
        ("n = 0", "n = 1"),
    ),
    "iterator of two": Program(
        "def f(i: Iterator[Tuple[pd.Series, pd.Series]]) -> Iterator[pd.Series]:\n    for s, t in i: yield s - t\ndf = rows.select(F.pandas_udf(f, 'double')('x', 'id').alias('r'))",
        (("s - t", "s + t"),),
    ),
    "struct": Program(
        "def f(s: pd.Series) -> pd.DataFrame: return pd.DataFrame({'a': s, 'b': s * 2})\ndf = rows.select(F.pandas_udf(f, 'a double, b double')('x').alias('r'))",
        (("* 2", "* 3"), ("'b': s", "'b': -s")),
    ),
    "aggregate": _of(
        "aggregate",
        "def f(s: pd.Series) -> float: return float(s.sum()) + 1",
        ("+ 1", "+ 2"),
        ("s.sum", "s.max"),
    ),
    "aggregate of an order": _of(
        "aggregate",
        "def f(s: pd.Series) -> float: return float(s.iloc[0])",
        ("iloc[0]", "iloc[-1]"),
    ),
    "window": _of(
        "window",
        "def f(s: pd.Series) -> float: return float(s.sum())",
        ("s.sum", "s.max"),
        ("(-2, 0)", "(-3, 0)"),
        ("'id').rows", "F.desc('id')).rows"),
    ),
    "map": _of(
        "map", "def f(i):\n    for d in i: yield pd.DataFrame({'r': d.x + 1})", ("+ 1", "+ 2")
    ),
    "map that counts batches": Program(
        "def f(i):\n    for d in i: yield pd.DataFrame({'r': [float(len(d))]})\ndf = rows.repartition(3).select('id', 'x').mapInPandas(f, 'r double')",
        (("repartition(3)", "repartition(5)"), ("float(len(d))", "-float(len(d))")),
        settings={"spark.sql.execution.arrow.maxRecordsPerBatch": "100"},
        setting_changes=(
            {"spark.sql.execution.arrow.maxRecordsPerBatch": "30"},
            {"spark.sql.execution.arrow.maxBytesPerBatch": "100"},
        ),
    ),
    "map that counts tasks' rows": Program(
        "def f(i): yield pd.DataFrame({'r': [float(sum(map(len, i)))]})\ndf = rows.coalesce(1).select('id', 'x').mapInPandas(f, 'r double')",
        (("coalesce(1)", "repartition(4)"), ("coalesce(1)", "repartition(2, 'v')")),
    ),
    "map over a limit": Program(
        "def f(i): yield pd.DataFrame({'r': [float(sum(map(len, i)))]})\ndf = rows.orderBy('id').limit(9).select('id', 'x').mapInPandas(f, 'r double')",
        (("limit(9)", "limit(8)"),),
    ),
    "map with a barrier": Program(
        "def f(i):\n    for d in i: yield pd.DataFrame({'r': d.x + 1})\ndf = rows.select('x').mapInPandas(f, 'r double', barrier=True)",
        (("+ 1", "+ 2"),),
    ),
    "map arrow": _of(
        "map arrow",
        "import pyarrow.compute as pc\ndef f(i):\n    for b in i: yield pa.RecordBatch.from_arrays([pc.add(b['x'], 1.0)], ['r'])",
        ("1.0", "2.0"),
        ("pc.add", "pc.subtract"),
    ),
    "map arrow that counts": _of(
        "map arrow",
        "def f(i):\n    for b in i: yield pa.RecordBatch.from_arrays([pa.array([float(b.num_rows)])], ['r'])",
        ("float(b", "-float(b"),
    ),
    "apply": _of("apply", "def f(d): return pd.DataFrame({'r': [d.x.sum() + 1]})", ("+ 1", "+ 2")),
    "apply with the key": _of(
        "apply", "def f(k, d): return pd.DataFrame({'r': [float(k[0]) + 1]})", ("+ 1", "+ 2")
    ),
    "apply in an order": _of(
        "apply", "def f(d): return pd.DataFrame({'r': d.x.head(1)})", ("head(1)", "tail(1)")
    ),
    "apply sorted": _of(
        "apply",
        "def f(d): return pd.DataFrame({'r': d.sort_values('id').x.head(1)})",
        ("head(1)", "tail(1)"),
    ),
    "apply to all": Program(
        "def f(d): return pd.DataFrame({'n': [len(d)]})\ndf = rows.groupBy().applyInPandas(f, 'n long')",
        (("len(d)", "-len(d)"),),
    ),
    "apply of an expression": Program(
        "def f(k, d): return pd.DataFrame({'n': [k[0]]})\ndf = rows.groupBy(F.col('v') % 3).applyInPandas(f, 'n int')",
        (("% 3", "% 2"),),
    ),
    "apply arrow": _of(
        "apply arrow",
        "import pyarrow.compute as pc\ndef f(t): return pa.table({'r': [float(pc.sum(t['x']).as_py())]})",
        ("pc.sum", "pc.max"),
    ),
    "apply arrow with the key": _of(
        "apply arrow",
        "def f(k, t): return pa.table({'r': [float(k[0].as_py())]})",
        ("float(k", "-float(k"),
    ),
    "apply arrow, iterator": _of(
        "apply arrow",
        "def f(i: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:\n    n = 0\n    for b in i: n += b.num_rows\n    yield pa.RecordBatch.from_arrays([pa.array([float(n)])], ['r'])",
        ("float(n)", "-float(n)"),
    ),
    "apply in pandas, iterator": _of(
        "apply",
        "def f(i: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:\n    yield pd.DataFrame({'r': [float(sum(map(len, i)))]})",
        ("float(sum", "-float(sum"),
    ),
    "cogroup": _of(
        "cogroup",
        "def f(a, b): return pd.DataFrame({'r': [a.id.sum() - b.x.sum()]})",
        ("- b.x", "+ b.x"),
        ("x > 9", "x > 8"),
    ),
    "cogroup with the key": _of(
        "cogroup", "def f(k, a, b): return pd.DataFrame({'r': [k[0] + 0.5]})", ("0.5", "0.7")
    ),
    "cogroup arrow": _of(
        "cogroup arrow",
        "def f(a, b): return pa.table({'r': [float(a.num_rows - b.num_rows)]})",
        ("a.num_rows - b", "a.num_rows + b"),
    ),
    "arrow udf": _of(
        "arrow udf",
        "import pyarrow.compute as pc\ndef f(a: pa.Array) -> pa.Array: return pc.add(a, 1.0)",
        ("1.0", "2.0"),
    ),
    "arrow udf, iterator": _of(
        "arrow udf",
        "import pyarrow.compute as pc\ndef f(i: Iterator[pa.Array]) -> Iterator[pa.Array]:\n    for a in i: yield pc.add(a, 1.0)",
        ("1.0", "2.0"),
    ),
    "arrow aggregate": _of(
        "arrow aggregate",
        "import pyarrow.compute as pc\ndef f(a: pa.Array) -> float: return pc.sum(a).as_py()",
        ("pc.sum", "pc.max"),
    ),
    "frame as a global": _of(
        "map",
        "k = pd.DataFrame({'id': [1, 2, 3], 'y': [1.0, 2.0, 3.0]})\ndef f(i):\n    for d in i:\n        m = d.merge(k, on='id')\n        yield pd.DataFrame({'r': m.y})",
        ("3.0]", "4.0]"),
    ),
    "pandas-on-Spark, apply": Program(
        "import pyspark.pandas as ps\ndf = rows.select('id', 'v').pandas_api().groupby('v').apply(f).to_spark() if 0 else rows.select('id', 'v').pandas_api().id.apply(lambda x: x + 1).to_frame().to_spark()",
        (("x + 1", "x + 2"),),
    ),
}

_TWO = "@F.udtf(returnType='n long')\nclass f:\n    def eval(self, x):\n        yield (x,)\n        yield (x + 1,)"
_QUERY = "query = 'SELECT * FROM named(TABLE(v) PARTITION BY v ORDER BY id)'"
_COUNTING = (
    "@F.udtf(returnType='k int, n long')\nclass f:\n    def __init__(self): self.n, self.k = 0, None\n"
    "    def eval(self, row):\n        self.n += row['id']\n        self.k = row['v']\n"
    "    def terminate(self): yield (self.k, self.n)\n"
)
_ANALYZED = (
    "from pyspark.sql.udtf import *\nfrom pyspark.sql.types import *\n@F.udtf\nclass f:\n"
    "    @staticmethod\n    def analyze(x: AnalyzeArgument) -> AnalyzeResult:\n"
    "        return AnalyzeResult(StructType().add('n', LongType()))\n"
    "    def eval(self, x): yield (x + 1,)\n"
)
_PARTITIONED = (
    "from pyspark.sql.udtf import *\nfrom pyspark.sql.types import *\n@F.udtf\nclass f:\n"
    "    def __init__(self): self.n, self.k = 0, None\n"
    "    @staticmethod\n    def analyze(x: AnalyzeArgument) -> AnalyzeResult:\n"
    "        return AnalyzeResult(StructType().add('k', IntegerType()).add('n', LongType()),\n"
    "          partitionBy=[PartitioningColumn('v')], orderBy=[OrderingColumn('id')])\n"
    "    def eval(self, row):\n        self.n = row['id'] - self.n\n        self.k = row['v']\n"
    "    def terminate(self): yield (self.k, self.n)\n"
)

TABLES = {
    "eval": _of("table", _TWO, ("x + 1", "x + 2"), ("n long", "n int")),
    "undetermined": Program(
        _TWO + "\ndf = spark.range(5).lateralJoin(f(F.col('id').outer()))", (("x + 1", "x + 2"),)
    ),
    "of constants": _of(
        "table sql",
        _TWO + "\nquery = 'SELECT * FROM named(3)'",
        ("x + 1", "x + 2"),
        ("named(3)", "named(4)"),
    ),
    "handler's class": _of(
        "table",
        "class A:\n    def one(self, x): return x\nclass B(A):\n    def eval(self, x): yield (self.one(x),)\nf = F.udtf(B, returnType='n long')",
        ("return x", "return x + 1"),
    ),
    "terminate": _of(
        "table",
        "@F.udtf(returnType='n long')\nclass f:\n    def eval(self, x): self.x = x\n    def terminate(self): yield (self.x + 1,)",
        ("+ 1", "+ 2"),
    ),
    "a table": _of(
        "table sql",
        _COUNTING + _QUERY,
        ("+= row", "-= row"),
        ("ORDER BY id", "ORDER BY id DESC"),
        ("PARTITION BY v", "WITH SINGLE PARTITION"),
    ),
    "a table in an order": _of(
        "table sql",
        _COUNTING.replace("self.n += row['id']", "self.n = row['id'] - self.n") + _QUERY,
        ("ORDER BY id", "ORDER BY id DESC"),
        ("- self.n", "+ self.n"),
    ),
    "a table in no order": _of(
        "table sql",
        _COUNTING + "query = 'SELECT * FROM named(TABLE(v) PARTITION BY v)'",
        ("+= row", "-= row"),
    ),
    "analyze": _of(
        "table", _ANALYZED, ("LongType()", "IntegerType()"), ("x + 1", "x + 2"), ("'n'", "'m'")
    ),
    "analyze with partitions": _of(
        "table sql",
        _PARTITIONED + "query = 'SELECT * FROM named(TABLE(v))'",
        ("Column('id')", "Column('id', ascending=False)"),
        ("- self.n", "+ self.n"),
    ),
    "by Arrow": _of(
        "table",
        _TWO.replace("returnType='n long'", "returnType='n long', useArrow=True"),
        ("x + 1", "x + 2"),
    ),
    "global": _of("table", "k = 1\n" + _TWO.replace("+ 1", "+ k"), ("k = 1", "k = 2")),
    "kept arguments": Program(
        "@F.udtf(returnType='n string')\nclass f:\n    def eval(self, a, b=5): yield (f'{a} {b}',)\nspark.udtf.register('named', f.asDeterministic())\ndf = spark.sql('SELECT * FROM named(b => 1, a => 2)')",
        (("b => 1, a => 2", "a => 1, b => 2"), ("b => 1, ", "")),
    ),
    "random": _of(
        "table",
        "import random\n@F.udtf(returnType='n double')\nclass f:\n    def eval(self, x): yield (random.random(),)",
        is_varying=True,
    ),
}

MODELS = {
    "VectorAssembler": Program(
        _DATA + "df = data.select('id', 'f')", (("'id', 'x', 'v'], ", "'x', 'id', 'v'], "),)
    ),
    "StandardScaler": _of(
        "model",
        _DATA + "model = StandardScaler(inputCol='f', outputCol='o')",
        ("outputCol='o')", "outputCol='o', withMean=True)"),
    ),
    "MinMaxScaler": _of(
        "model",
        _DATA + "model = MinMaxScaler(inputCol='f', outputCol='o')",
        ("outputCol='o')", "outputCol='o', max=2.0)"),
    ),
    "MaxAbsScaler": _of(
        "model",
        _DATA + "model = MaxAbsScaler(inputCol='f', outputCol='o')\n#\n",
        ("#", "data = data.where('id < 50')"),
    ),
    "RobustScaler": _of(
        "model",
        _DATA + "model = RobustScaler(inputCol='f', outputCol='o')",
        ("outputCol='o')", "outputCol='o', upper=0.8)"),
    ),
    "StringIndexer": _of(
        "model",
        _DATA + "model = StringIndexer(inputCol='t', outputCol='o')",
        ("outputCol='o')", "outputCol='o', stringOrderType='alphabetDesc')"),
    ),
    "OneHotEncoder": _of(
        "model",
        _DATA + "model = OneHotEncoder(inputCol='v', outputCol='o')",
        ("outputCol='o')", "outputCol='o', dropLast=False)"),
    ),
    "PCA": _of("model", _DATA + "model = PCA(k=2, inputCol='f', outputCol='o')", ("k=2", "k=1")),
    "Bucketizer": Program(
        _DATA
        + "df = Bucketizer(splits=[-1.0, 9.0, 1e9], inputCol='x', outputCol='o').transform(data).select('id', 'o')",
        (("9.0", "8.0"),),
    ),
    "QuantileDiscretizer": _of(
        "model",
        _DATA + "model = QuantileDiscretizer(numBuckets=3, inputCol='x', outputCol='o')",
        ("=3", "=4"),
    ),
    "Imputer": Program(
        _DATA
        + "data = data.withColumn('y', F.when(F.col('id') > 5, F.col('x')))\ndf = Imputer(inputCols=['y'], outputCols=['o']).fit(data).transform(data).select('id', 'o')",
        (("> 5", "> 6"),),
    ),
    "CountVectorizer": _of(
        "model",
        _WORDS + "model = CountVectorizer(inputCol='w', outputCol='o', vocabSize=9)",
        ("=9", "=8"),
    ),
    "IDF": _of(
        "model",
        _WORDS
        + "data = HashingTF(inputCol='w', outputCol='h', numFeatures=32).transform(data)\nmodel = IDF(inputCol='h', outputCol='o')",
        ("outputCol='o')", "outputCol='o', minDocFreq=9)"),
        ("=32", "=16"),
    ),
    "Word2Vec": _of(
        "model",
        _WORDS + "model = Word2Vec(inputCol='w', outputCol='o', vectorSize=3, seed=1, minCount=0)",
        ("seed=1", "seed=2"),
    ),
    "SQLTransformer": Program(
        _DATA
        + "df = SQLTransformer(statement='SELECT id, x + 1 AS o FROM __THIS__').transform(data)",
        (("x + 1", "x + 2"),),
    ),
    "Tokenizer": Program(
        _DATA
        + "df = RegexTokenizer(inputCol='t', outputCol='o', pattern='1').transform(data).select('id', 'o')",
        (("'1'", "'2'"),),
    ),
    "NGram": Program(
        _WORDS + "df = NGram(n=2, inputCol='w', outputCol='o').transform(data).select('id', 'o')",
        (("n=2", "n=3"),),
    ),
    "Normalizer": Program(
        _DATA
        + "df = Normalizer(p=1.0, inputCol='f', outputCol='o').transform(data).select('id', 'o')",
        (("p=1.0", "p=2.0"),),
    ),
    "PolynomialExpansion": Program(
        _DATA
        + "df = PolynomialExpansion(degree=2, inputCol='f', outputCol='o').transform(data).select('id', 'o')",
        (("=2", "=3"),),
    ),
    "VectorSlicer": Program(
        _DATA
        + "df = VectorSlicer(indices=[0], inputCol='f', outputCol='o').transform(data).select('id', 'o')",
        (("[0]", "[1]"),),
    ),
    "ElementwiseProduct": Program(
        _DATA
        + "from pyspark.ml.linalg import Vectors\ndf = ElementwiseProduct(scalingVec=Vectors.dense([1, 2, 3]), inputCol='f', outputCol='o').transform(data).select('id', 'o')",
        (("1, 2, 3", "1, 2, 4"),),
    ),
    "FeatureHasher": Program(
        _DATA
        + "df = FeatureHasher(numFeatures=16, inputCols=['t'], outputCol='o').transform(data).select('id', 'o')",
        (("=16", "=32"),),
    ),
    "StopWordsRemover": Program(
        _WORDS
        + "df = StopWordsRemover(stopWords=['1'], inputCol='w', outputCol='o').transform(data).select('id', 'o')",
        (("['1']", "['2']"),),
    ),
    "Binarizer": Program(
        _DATA
        + "df = Binarizer(threshold=0.5, inputCol='label', outputCol='o').transform(data).select('id', 'o')",
        (("0.5", "1.5"),),
    ),
    "DCT": Program(
        _DATA
        + "df = DCT(inverse=False, inputCol='f', outputCol='o').transform(data).select('id', 'o')",
        (("False", "True"),),
    ),
    "KMeans": _of(
        "predict", _DATA + "model = KMeans(k=2, seed=1, featuresCol='f')", ("k=2", "k=3")
    ),
    "LogisticRegression": _of(
        "predict",
        _DATA + "model = LogisticRegression(featuresCol='f', maxIter=3)",
        ("maxIter=3", "maxIter=3, threshold=0.1"),
    ),
    "probabilities": Program(
        _DATA
        + "df = LogisticRegression(featuresCol='f', maxIter=3).fit(data).transform(data).select('id', 'probability')",
        (("maxIter=3", "maxIter=3, regParam=0.5"),),
    ),
    "LinearRegression": _of(
        "predict",
        _DATA + "model = LinearRegression(featuresCol='f', maxIter=3)",
        ("maxIter=3", "maxIter=3, regParam=0.5"),
    ),
    "DecisionTree": _of(
        "predict",
        _DATA + "model = DecisionTreeClassifier(featuresCol='f', maxDepth=3)",
        ("maxDepth=3", "maxDepth=1"),
    ),
    "RandomForest": _of(
        "predict",
        _DATA + "model = RandomForestRegressor(featuresCol='f', numTrees=2, seed=1)",
        ("seed=1", "seed=2"),
        ("=2", "=3"),
    ),
    "GBT": _of(
        "predict",
        _DATA + "model = GBTRegressor(featuresCol='f', maxIter=2, seed=1)",
        ("maxIter=2", "maxIter=3"),
    ),
    "NaiveBayes": _of(
        "predict", _DATA + "model = NaiveBayes(featuresCol='f', smoothing=1.0)", ("=1.0", "=900.0")
    ),
    "Pipeline": _of(
        "predict",
        _DATA
        + "model = Pipeline(stages=[StandardScaler(inputCol='f', outputCol='g'), LinearRegression(featuresCol='g', maxIter=2)])",
        ("outputCol='g'", "outputCol='g', withStd=False"),
        ("maxIter=2", "maxIter=2, regParam=0.5"),
    ),
    "vector_to_array": Program(
        _DATA
        + "from pyspark.ml.functions import *\ndf = data.select('id', vector_to_array('f', 'float64').alias('r'))",
        (("float64", "float32"),),
    ),
    "array_to_vector": Program(
        _DATA
        + "from pyspark.ml.functions import *\ndf = data.select('id', array_to_vector(F.array('x', 'label')).alias('r'))",
        (("'x', 'label'", "'label', 'x'"),),
    ),
    "predict_batch_udf": Program(
        _DATA
        + "from pyspark.ml.functions import predict_batch_udf\ndef made():\n    k = 1\n    return lambda inputs: inputs + k\nf = predict_batch_udf(made, return_type=__import__('pyspark').sql.types.DoubleType(), batch_size=10)\ndf = data.select('id', f('x').alias('r'))",
        (("k = 1", "k = 2"),),
    ),
}


_NUMBERS = itertools.count()


def _sql(
    *texts: str, changes: tuple[tuple[str, str], ...] = (), is_varying: bool = False
) -> Program:
    """Statements, of which the last one is the query; its functions are its own."""
    number = next(_NUMBERS)

    def own(text: str) -> str:
        return re.sub(r"\b([gh])\b", rf"\g<1>{number}", text)

    view = "CREATE OR REPLACE TEMPORARY VIEW v AS SELECT * FROM parquet.`{home}/parquet`"
    lines = [
        f"df = spark.sql('''{own(each)}'''.replace('{{home}}', home))" for each in (view, *texts)
    ]
    return Program(
        "\n".join(lines), tuple((own(old), own(new)) for old, new in changes), is_varying=is_varying
    )


SQL = {
    "scalar": _sql(
        "CREATE OR REPLACE TEMPORARY FUNCTION g(x BIGINT) RETURNS BIGINT RETURN x + 1",
        "SELECT g(id) AS r FROM v",
        changes=(("x + 1", "x + 2"), ("RETURNS BIGINT", "RETURNS INT")),
    ),
    "permanent": _sql(
        "CREATE OR REPLACE FUNCTION g(x BIGINT) RETURNS BIGINT RETURN x + 1",
        "SELECT g(id) AS r FROM v",
        changes=(("x + 1", "x + 2"), ("x BIGINT", "x DOUBLE")),
    ),
    "defaults": _sql(
        "CREATE OR REPLACE FUNCTION g(x BIGINT, y BIGINT DEFAULT 1) RETURNS BIGINT RETURN x + y",
        "SELECT g(id) AS r FROM v",
        changes=(("DEFAULT 1", "DEFAULT 2"),),
    ),
    "nested": _sql(
        "CREATE OR REPLACE FUNCTION h(x BIGINT) RETURNS BIGINT RETURN x + 1",
        "CREATE OR REPLACE FUNCTION g(x BIGINT) RETURNS BIGINT RETURN h(x) * 2",
        "SELECT g(id) AS r FROM v",
        changes=(("x + 1", "x + 2"), ("* 2", "* 3")),
    ),
    "that reads": _sql(
        "CREATE OR REPLACE FUNCTION g(x BIGINT) RETURNS BIGINT RETURN (SELECT max(id) FROM flat WHERE flat.v = x)",
        "SELECT g(v) AS r FROM v",
        changes=(("max(id)", "min(id)"),),
    ),
    "of a view": _sql(
        "CREATE OR REPLACE VIEW few AS SELECT id, v FROM flat WHERE id < 9",
        "CREATE OR REPLACE FUNCTION g() RETURNS BIGINT RETURN (SELECT max(id) FROM few)",
        "SELECT g() + id AS r FROM v",
        changes=(("id < 9", "id < 8"),),
    ),
    "table": _sql(
        "CREATE OR REPLACE FUNCTION g(n INT) RETURNS TABLE (id BIGINT) RETURN SELECT id FROM flat WHERE id < g.n",
        "SELECT * FROM g(5)",
        changes=(("g(5)", "g(6)"), ("id < g.n", "id <= g.n")),
    ),
    "table, temporary": _sql(
        "CREATE OR REPLACE TEMPORARY FUNCTION g(n INT) RETURNS TABLE (id BIGINT) RETURN SELECT id FROM flat WHERE id < g.n",
        "SELECT * FROM g(5)",
        changes=(("SELECT id FROM flat", "SELECT -id FROM flat"),),
    ),
    "table, lateral": _sql(
        "CREATE OR REPLACE FUNCTION g(n BIGINT) RETURNS TABLE (m BIGINT) RETURN SELECT id FROM flat WHERE id < g.n",
        "SELECT v.id, m FROM v, LATERAL g(id % 4)",
        changes=(("id < g.n", "id <= g.n"), ("% 4", "% 5")),
    ),
    "named arguments": _sql(
        "CREATE OR REPLACE FUNCTION g(a BIGINT, b BIGINT) RETURNS BIGINT RETURN a - b",
        "SELECT g(a => id, b => v) AS r FROM v",
        changes=(("a => id, b => v", "b => id, a => v"),),
    ),
    "in a condition": _sql(
        "CREATE OR REPLACE FUNCTION g(x BIGINT) RETURNS BOOLEAN RETURN x % 2 = 0",
        "SELECT id FROM v WHERE g(id)",
        changes=(("= 0", "= 1"),),
    ),
    "in an aggregate": _sql(
        "CREATE OR REPLACE FUNCTION g(x BIGINT) RETURNS BIGINT RETURN x % 2",
        "SELECT g(id) AS k, sum(g(v)) AS s FROM v GROUP BY g(id)",
        changes=(("% 2", "% 3"),),
    ),
    "aggregate inside": _sql(
        "CREATE OR REPLACE FUNCTION g(x ARRAY<BIGINT>) RETURNS BIGINT RETURN aggregate(x, 0L, (a, b) -> a + b)",
        "SELECT g(a) AS r FROM v",
        changes=(("a + b", "a - b"),),
    ),
    "of a Python function": Program(
        "spark.udf.register('named', lambda x: x + 1, 'long')\nrows.createOrReplaceTempView('v')\nspark.sql('CREATE OR REPLACE TEMPORARY FUNCTION g(x BIGINT) RETURNS BIGINT RETURN named(x)')\ndf = spark.sql('SELECT g(id) AS r FROM v')",
        (("x + 1", "x + 2"),),
    ),
    "random": _sql(
        "CREATE OR REPLACE FUNCTION g() RETURNS DOUBLE RETURN rand()",
        "SELECT id, g() AS r FROM v",
        is_varying=True,
    ),
    "moment": _sql(
        "CREATE OR REPLACE FUNCTION g() RETURNS DATE RETURN current_date()",
        "SELECT id, g() AS r FROM v",
    ),
    "user": _sql(
        "CREATE OR REPLACE FUNCTION g() RETURNS STRING RETURN current_schema()",
        "SELECT id, g() AS r FROM v",
    ),
    "variable": _sql(
        "DECLARE OR REPLACE VARIABLE k INT DEFAULT 1",
        "SELECT id + k AS r FROM v",
        changes=(("DEFAULT 1", "DEFAULT 2"), ("INT", "BIGINT")),
    ),
    "variable that is set": _sql(
        "DECLARE OR REPLACE VARIABLE k INT",
        "SET VAR k = (SELECT max(v) FROM v)",
        "SELECT id + k AS r FROM v",
        changes=(("max(v)", "min(v)"),),
    ),
    "variable in a function": _sql(
        "DECLARE OR REPLACE VARIABLE k INT DEFAULT 1",
        "CREATE OR REPLACE TEMPORARY FUNCTION g(x BIGINT) RETURNS BIGINT RETURN x + k",
        "SELECT g(id) AS r FROM v",
        changes=(("DEFAULT 1", "DEFAULT 2"),),
    ),
    "variable of an array": _sql(
        "DECLARE OR REPLACE VARIABLE k ARRAY<INT> DEFAULT array(1, 2)",
        "SELECT k[id % 2] AS r FROM v",
        changes=(("array(1, 2)", "array(2, 1)"),),
    ),
    "variable of a map": _sql(
        "DECLARE OR REPLACE VARIABLE k MAP<STRING, INT> DEFAULT map('a', 1)",
        "SELECT id, k['a'] AS r FROM v",
        changes=(("'a', 1", "'a', 2"),),
    ),
    "variable of a view": _sql(
        "DECLARE OR REPLACE VARIABLE k INT DEFAULT 1",
        "CREATE OR REPLACE TEMPORARY VIEW w AS SELECT id + k AS r FROM v",
        "SET VAR k = 5",
        "SELECT * FROM w",
        changes=(("k = 5", "k = 8"),),
    ),
    "text that is executed": _sql(
        "EXECUTE IMMEDIATE 'SELECT id + ? AS r FROM v' USING 1", changes=(("USING 1", "USING 2"),)
    ),
    "higher order": _sql(
        "SELECT transform(a, x -> x + 1) AS r FROM v", changes=(("x + 1", "x + 2"),)
    ),
    "names of parameters": _sql(
        "CREATE OR REPLACE FUNCTION g(id BIGINT, v BIGINT) RETURNS BIGINT RETURN 3 * id - v",
        "SELECT g(v, id) AS r FROM v",
        changes=(("g(id BIGINT, v BIGINT)", "g(v BIGINT, id BIGINT)"),),
    ),
}

PROGRAMS = {
    f"{section}: {name}": program
    for section, programs in (
        ("Python", PYTHON),
        ("batches", BATCHES),
        ("tables", TABLES),
        ("models", MODELS),
        ("SQL", SQL),
    )
    for name, program in programs.items()
}
"""By names."""
