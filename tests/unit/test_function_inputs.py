"""What a function calls itself, and what it can see of its machine, counts or can't be known."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.plan.function_digest import Undigestible, digest_function, digest_value
from tests.unit.user_code import assert_all_differ, define, digests, pickled

# -- names -----------------------------------------------------------------------------------------

# A function whose name is §, and a use of it.
MAKE = "def make(g): return lambda x: {}\ndef §(x): return x\nf = make(§)"
ASKED = "def §(x): return x\n{}"
NAMES_COUNT = {
    "getattr": MAKE.format("getattr(g, '__name__')"),
    "computed": MAKE.format("getattr(g, '__' + x + '__')"),
    "repr": MAKE.format("repr(g)"),
    "str": MAKE.format("str(g)"),
    "format": MAKE.format("'{0.__name__}'.format(g)"),
    "given format": MAKE.format("x.format(g)"),
    "f-string": MAKE.format("f'{g}'"),
    "percent": MAKE.format("'%s' % g"),
    "passed on": "def show(g): return str(g)\n" + MAKE.format("show(g)"),
    "default": ASKED.format("def f(x, g=§): return str(g)"),
    "keyword default": ASKED.format("def f(x, *, g=§): return str(g)"),
    "global": ASKED.format("g = §\ndef f(x): return str(g)"),
    "called as well": ASKED.format("g = §\ndef f(x): return g(x), str(g)"),
    "in a list": ASKED.format("k = [§]\ndef f(x): return str(k[0])"),
    "in a dict": ASKED.format("k = {'a': §}\ndef f(x): return str(k['a'])"),
    "in a tuple": ASKED.format("k = (§,)\ndef f(x): return str(k)"),
    "in a set": ASKED.format("k = {§}\ndef f(x): return str(k)"),
    "in an instance": ASKED.format("class A: pass\na = A(); a.g = §\ndef f(x): return str(a.g)"),
    "in a class": ASKED.format("class A: g = §\ndef f(x): return str(A.g)"),
    "static method": ASKED.format("class A: g = staticmethod(§)\ndef f(x): return str(A.g)"),
    "property": ASKED.format("class A: p = property(§)\ndef f(x): return A.p.fget"),
    "partial": ASKED.format(
        "import functools\nk = functools.partial(§)\ndef f(x): return str(k.func)"
    ),
    "argument of a partial": ASKED.format(
        "import functools\ndef g(h, x): return str(h)\nf = functools.partial(g, §)"
    ),
    "attribute": ASKED.format("def f(x): return str(f.g)\nf.g = §"),
    "wrapped": ASKED.format(
        "import functools\n@functools.wraps(§)\ndef g(x): return x\n"
        "g.__name__ = g.__qualname__ = 'g'\ndef f(x): return str(g.__wrapped__)"
    ),
    "bound method": ASKED.format(
        "import types\nm = types.MethodType(§, 1)\ndef f(x): return str(m.__func__)"
    ),
    "cached": ASKED.format("import functools\nk = functools.lru_cache(§)\ndef f(x): return str(k)"),
    "pandas": ASKED.format(
        "import pandas as pd\ndef f(x): return pd.DataFrame({'a': [1]}).agg([§]).index[0]"
    ),
    "helper": ASKED.format("def show(g): return repr(g)\ndef f(x): return show(§)"),
    "made inside": (
        "def make():\n    def §(x):\n        def inner(): pass\n        return str(inner)\n"
        "    return §\nf = make()"
    ),
    "qualified": "def §(x):\n    def inner(): pass\n    return inner.__qualname__\nf = §",
    "own": "def §(x): return §.__name__\ng = §\ndef f(x): return g(x)",
    "class": "class §: pass\nA = §\ndef f(x): return str(A)",
    "class of an instance": "class §: pass\na = §()\ndef f(x): return type(a).__name__",
    "enumeration": "import enum\nclass §(enum.Enum): A = 1\nE = §\ndef f(x): return str(E.A)",
}


@pytest.mark.parametrize("source", NAMES_COUNT.values(), ids=NAMES_COUNT.keys())
def test_names_count_where_code_may_ask_for_them(source: str) -> None:
    assert_all_differ(source.replace("§", "first"), source.replace("§", "second"))


NAMES_DO_NOT_COUNT = {
    "its own": "def §(x): return x\nf = §",
    "called": MAKE.format("g(x)"),
    "called with a star": MAKE.format("g(*x)"),
    "partial": ASKED.format("import functools\nf = functools.partial(§)"),
    "called partial": ASKED.format(
        "import functools\ng = functools.partial(§)\ndef f(x): return g(x)"
    ),
    "cached": ASKED.format("import functools\nf = functools.lru_cache(§)"),
    "called method": ASKED.format("import types\nm = types.MethodType(§, 1)\ndef f(x): return m()"),
    "lambdas inside": "def §(x): return sorted(x, key=lambda v: -v)\nf = §",
    "called inside": "def §(x):\n    def inner(y): return y + 1\n    return str(inner(x))\nf = §",
    "comprehension": "def §(x): return ','.join(str(v) for v in x)\nf = §",
    "wrapped": ASKED.format("import functools\n@functools.wraps(§)\ndef f(x): return 1"),
}


@pytest.mark.parametrize("source", NAMES_DO_NOT_COUNT.values(), ids=NAMES_DO_NOT_COUNT.keys())
def test_names_do_not_count_where_functions_are_merely_called(source: str) -> None:
    assert digests(source.replace("§", "first")) == digests(source.replace("§", "second"))


WHAT_ELSE = {
    "doc": "def g(x): return x\ng.__doc__ = §\ndef f(x, h=g): return getattr(h, x)",
    "doc by format": "def g(x): return x\ng.__doc__ = §\ndef f(x, h=g): return x.format(h)",
    "annotations": "def g(x: §): return x\ndef f(x, h=g): return h.__annotations__",
    "annotations by name": "def g(x: §): pass\ndef f(x, h=g): return getattr(h, '__annotations__')",
    "module": "def g(x): return x\ng.__module__ = §\ndef f(x, h=g): return h.__module__",
    "module by name": "def g(x): return x\ng.__module__ = §\ndef f(x, h=g): return getattr(h, x)",
    "class's doc": "class A: __doc__ = §\ndef f(x): return getattr(A, x)",
    "class's module": "class A: __module__ = §\ndef f(x): return str(A)",
}


@pytest.mark.parametrize("source", WHAT_ELSE.values(), ids=WHAT_ELSE.keys())
def test_what_else_code_may_ask_for(source: str) -> None:
    assert_all_differ(source.replace("§", "'a'"), source.replace("§", "'b'"))


# -- the outside world -----------------------------------------------------------------------------

NAMED = {
    "np": "import numpy as np",
    "pd": "import pandas as pd",
    "pa": "import pyarrow as pa",
    "pc": "import pyarrow.compute as pc",
    "ET": "import xml.etree.ElementTree as ET",
    "Path": "from pathlib import Path",
    "PurePosixPath": "from pathlib import PurePosixPath",
    "date": "from datetime import date",
    "Decimal": "from decimal import Decimal",
    "T": "from pyspark.sql import types as T",
    "TaskContext": "from pyspark import TaskContext",
    "SparkFiles": "from pyspark import SparkFiles",
    "SparkSession": "from pyspark.sql import SparkSession",
    "__main__": "import __main__",
}


def function_of(expression: str) -> str:
    """A function that returns an expression of `x`, with what that needs imported."""
    tree = ast.parse(expression)
    names = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
    modules = {f"import {ast.unparse(each)}" for each in ast.walk(tree) if _is_submodule(each)}
    imports = modules | {
        NAMED.get(each, f"import {each}")
        for each in names
        if each in NAMED or each in sys.stdlib_module_names
    }
    return "\n".join([*sorted(imports), f"def f(x): return {expression}"])


def _is_submodule(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and ast.unparse(node) in SUBMODULES


SUBMODULES = ("urllib.request", "urllib.parse", "http.client", "importlib.metadata", "os.path")
OUTSIDE = [
    *("open(x).read()", "open(x, 'rb')", "open(x, 'a+').read()", "open(x, x)", "io.open(x)"),
    *("io.FileIO(x)", "os.open(x, 0)", "codecs.open(x)", "os.environ['A']", "os.environ.get(x)"),
    *("os.getenv(x)", "getattr(os, x)", "getattr(os, 'getenv')(x)", "shutil.os.getenv(x)"),
    *("os.path.exists(x)", "os.path.abspath(x)", "os.path.expanduser(x)", "os.listdir(x)"),
    *("os.walk(x)", "os.stat(x).st_size", "os.getpid()", "os.getcwd()", "os.urandom(4)"),
    *("os.cpu_count()", "os.popen(x).read()", "os.uname().nodename", "glob.glob(x)"),
    *("shutil.which(x)", "tempfile.mkdtemp()", "pathlib.Path(x).read_text()", "Path(x).exists()"),
    *("(Path('a') / x).is_file()", "str(Path.cwd())", "Path(x).open().read()", "time.time()"),
    *("time.perf_counter()", "time.monotonic_ns()", "time.localtime()", "time.strftime('%Y')"),
    *("datetime.datetime.now()", "datetime.datetime.now(datetime.timezone.utc)", "date.today()"),
    *("datetime.datetime.utcnow()", "(x.today() - x).days", "pd.Timestamp.now()"),
    *("pd.Timestamp('now')", "np.datetime64('today')", "random.random()"),
    *("random.Random().random()", "random.Random(None).random()", "random.SystemRandom().random()"),
    *("np.random.rand()", "np.random.default_rng().random()", "np.random.RandomState().rand()"),
    *("x.sample(3)", "x.groupby('a').sample(n=1, weights='b')", "x.rvs(size=3)", "x.sample(*x)"),
    *("str(uuid.uuid4())", "uuid.uuid1()", "secrets.token_hex()", "socket.gethostname()"),
    *("subprocess.check_output(x)", "platform.node()", "locale.getlocale()", "getpass.getuser()"),
    *("threading.get_ident()", "multiprocessing.cpu_count()", "ctypes.CDLL(None).getpid()"),
    *("sqlite3.connect(x)", "urllib.request.urlopen(x).read()", "http.client.HTTPConnection(x)"),
    *("sys.argv[0]", "sys.path[0]", "sys.executable", "sys.stdin.read()", "sys.getrefcount(x)"),
    *("sys.exception()", "id(x)", "sorted(x, key=id)", "__file__", "__spec__", "json.__file__"),
    *("getattr(json, '__file__')", "json.__spec__.origin", "(v for v in x).gi_frame.f_lineno"),
    *("importlib.metadata.version('numpy')", "np.load(x)", "np.loadtxt(x)", "np.fromfile(x)"),
    *("np.fromregex(x, '(a)', 'S1')", "np.memmap(x)", "pd.read_csv(x)", "pd.read_sql(x, x)"),
    *("pd.io.common.get_handle(x, 'r')", "pa.memory_map(x)", "pc.random(len(x))"),
    *("pc.call_function('random', [])", "pickle.loads(x)", "TaskContext.get().partitionId()"),
    *("TaskContext.get().getLocalProperty('a')", "SparkFiles.get(x)"),
    *("SparkSession.getActiveSession()", "eval(x)", "exec(x)", "globals()[x]", "locals()"),
    *("vars(x)", "__import__(x)", "importlib.import_module(x)", "builtins.eval(x)"),
    *("sys.modules[x]", "sys._getframe()", "inspect.stack()", "__main__.k"),
]


def assert_unknown(source: str) -> None:
    f = define(source)
    with pytest.raises(Undigestible):
        digest_function(f)
    with pytest.raises(Undigestible):
        digest_value((pickled(f), "bigint"))


@pytest.mark.parametrize("expression", OUTSIDE)
def test_what_sees_the_outside_world_cannot_be_known(expression: str) -> None:
    assert_unknown(function_of(expression))


# By which ways a function may come by what sees the outside world.
WAYS = {
    "alias": "g = open\ndef f(x): return g(x).read()",
    "container": "k = [open]\ndef f(x): return k[0](x).read()",
    "closure": "def make(g): return lambda x: g(x)\nf = make(open)",
    "partial": "import functools\nf = functools.partial(open, '/etc/hostname')",
    "renamed": "from os import environ as e\ndef f(x): return e[x]",
    "renamed inside": "def f(x):\n    from os import getenv as e\n    return e(x)",
    "inside": "def f(x):\n    import os as o\n    return o.getenv(x)",
    "inside inside": "def f(x):\n    import os\n    def g(): return os.getenv(x)\n    return g()",
    "submodule inside": "def f(x):\n    from urllib.request import urlopen\n    return urlopen(x)",
    "renamed submodule": "import pyarrow.parquet as q\ndef f(x): return q.read_table(x)",
    "numpy inside": "def f(x):\n    from numpy import random as r\n    return r.normal()",
    "spark inside": "def f(x):\n    import pyspark\n    return open(pyspark.SparkFiles.get(x))",
    "task context": "import pyspark.taskcontext as t\ndef f(x): return t.TaskContext.get()",
    "variable": "import os\ndef f(x):\n    o = os\n    return o.getenv(x)",
    "argument": "import os\ndef g(o, x): return o.getenv(x)\ndef f(x): return g(os, x)",
    "module in a container": "import os\nk = {'os': os}\ndef f(x): return k['os'].getenv(x)",
    "in an instance": "import os\nclass A: pass\na = A(); a.os = os\nf = lambda x: a.os.getenv(x)",
    "in a class body": "def f(x):\n    class A:\n        import os\n    return A.os.getenv(x)",
    "closed over": "def make():\n    import os\n    return lambda x: os.getenv(x)\nf = make()",
    "attrgetter": "import os, operator\nk = operator.attrgetter('environ')\nf = lambda x: k(os)",
    "path": "from pathlib import Path\nk = Path('a')\ndef f(x): return (k / x).read_bytes()",
    "class method": "import datetime\nk = datetime.date(2020, 1, 1)\ndef f(x): return k.today()",
    "aliased method": "from datetime import datetime\nnow = datetime.now\ndef f(x): return now()",
    "generator": "import numpy as np\ng = np.random.default_rng\ndef f(x): return g().random()",
    "factory": "import collections as c, uuid\nk = c.defaultdict(uuid.uuid4)\nf = lambda x: k[x]",
    "field": (
        "import dataclasses as d, uuid\n@d.dataclass\nclass A:\n"
        "    p: object = d.field(default_factory=uuid.uuid4)\ndef f(x): return A().p"
    ),
    "code by name": (
        "def g(x): return x\n"
        "def f(x, h=g): return getattr(getattr(h, '__code__'), 'co_firstlineno')"
    ),
    "code by format": "def g(x): pass\ndef f(x, h=g): return '{0.__code__.co_filename}'.format(h)",
    "helper": "import os\ndef g(x): return os.getenv(x)\ndef f(x): return g(x)",
    "method": "import os\nclass A:\n    def g(self, x): return os.getpid()\nf = lambda x: A().g(x)",
    "unpickled": (
        "import os\nclass A:\n    def __init__(self): self.p = os.getenv('A')\n"
        "    def __reduce__(self): return (A, ())\na = A()\ndef f(x): return a.p"
    ),
    "decorator": (
        "import os, functools\ndef d(g):\n    @functools.wraps(g)\n"
        "    def wrapper(x): return os.getenv(g(x))\n    return wrapper\n@d\ndef f(x): return x"
    ),
    "lambda": "import os\ndef f(x, g=lambda: os.getenv('A')): return g()",
    "property": "import os\nclass A: p = property(lambda s: os.getpid())\nf = lambda x: A().p",
    "metaclass": (
        "import os\nclass M(type):\n    def __call__(cls): return os.getpid()\n"
        "class A(metaclass=M): pass\ndef f(x): return A()"
    ),
    "yielded": "import time\ndef f(x):\n    for v in x: yield time.time()",
    "coroutine": "import time\nasync def f(x): return time.time()",
    "match": "import os\ndef f(x):\n    match x:\n        case 1: return os.getenv('A')",
    "subclass": "import random\nclass A(random.Random): pass\ndef f(x): return A().random()",
}


@pytest.mark.parametrize("source", WAYS.values(), ids=WAYS.keys())
def test_what_comes_by_the_outside_world_cannot_be_known(source: str) -> None:
    assert_unknown(source)


@pytest.mark.soak
def test_modules_that_are_loaded_when_they_are_asked_for_count_before(tmp_path: Path) -> None:
    """NumPy loads `numpy.random` then, which nothing else may have done in a program."""
    program = tmp_path / "program.py"
    program.write_text(
        "import numpy as np\n"
        "from holdfast.plan.function_digest import Undigestible, digest_function\n"
        "held = {'n': np}\n"
        "for f in (lambda x: np.random.rand(), lambda x: held['n'].random.rand()):\n"
        "    try: print(digest_function(f))\n"
        "    except Undigestible as why: print(why)\n"
    )
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, check=True)
    assert done.stdout.count("'numpy.random.rand' may give something else") == 2


HARMLESS = [
    *("math.sqrt(x)", "re.compile('a').match(x).group(), re.sub('a', 'b', x)"),
    *("json.dumps(json.loads(x))", "datetime.datetime.fromtimestamp(x)", "time.sleep(0)"),
    "datetime.datetime.combine(date(2020, 1, 1), x) - datetime.timedelta(days=1)",
    *("time.strftime('%Y', time.gmtime(x))", "np.where(np.isnan(x), 0, x).sum()"),
    *("np.random.default_rng(42).normal(size=3)", "np.random.RandomState(seed=42).rand()"),
    *("random.Random(42).random()", "pd.concat([x, pd.DataFrame({'a': [1]})]).groupby('a')"),
    *("x.sample(3, random_state=1)", "pa.array([1])", "collections.Counter(x).most_common(1)"),
    *("functools.reduce(max, itertools.chain(x))", "hashlib.sha256(x).hexdigest()"),
    *("uuid.uuid5(uuid.NAMESPACE_DNS, x).hex", "os.path.join(os.path.basename(x), os.sep)"),
    *("PurePosixPath(x).suffix", "pathlib.Path(x).with_suffix('.a').name", "x.replace('a', 'b')"),
    *("io.BytesIO(x).read() + io.StringIO('a').read()", "urllib.parse.urlparse(x).netloc"),
    *("sys.maxsize, sys.float_info.max", "Decimal(x).quantize(Decimal('0.1'))"),
    *("gzip.decompress(x), zlib.crc32(x)", "textwrap.dedent(x), string.digits"),
    *("unicodedata.normalize('NFC', x)", "ET.fromstring(x).find('a')", "getattr(x, 'a')"),
    *("x.now, x.open, x.time, x['environ'], x.read_text", "T.Row(a=x), T.LongType()"),
]
HARMLESS_SOURCES = {
    "closed over": "import random\nk = random.Random(1)\ndef f(x): return k.random()",
    "factory": "import collections as c\nk = c.defaultdict(list)\ndef f(x): return k",
    "numpy inside": "def f(x):\n    import numpy as np\n    return np.linalg.norm(x)",
    "texts inside": "def f(x):\n    import os\n    x.remove(1)\n    return os.path.splitext(x)",
    "texts by name": "from os.path import basename as b\ndef f(x): return b(x)",
    "log file": "def f(x):\n    with open('/dev/null', 'a') as log: log.write(x)\n    return x",
    "named file": "def f(x, at='a'):\n    with open(f'{at}{x}', mode='wb') as log: log.write(x)",
    "log": "import logging\nk = logging.getLogger('a')\ndef f(x):\n    k.info(x)\n    return x",
    "own methods": (
        "class A:\n    def open(self): return 1\n    def exists(self): return 2\n"
        "def f(x): return A().open() + A().exists()"
    ),
    "own global": "today = 3\ndef f(x): return x + today",
    "dataclass": (
        "import dataclasses as d\n@d.dataclass\nclass A:\n    p: int = 1\n"
        "def f(x): return d.asdict(A(x))"
    ),
    "cached": "import functools\n@functools.lru_cache\ndef g(x): return x\ndef f(x): return g(x)",
    "dispatch": "k = {int: lambda v: v + 1, str: lambda v: v + 'a'}\nf = lambda x: k[type(x)](x)",
}


@pytest.mark.parametrize("source", [*map(function_of, HARMLESS), *HARMLESS_SOURCES.values()])
def test_harmless_libraries_raise_no_doubt(source: str) -> None:
    assert digests(source) == digests(source)


def test_the_reason_names_what_is_seen() -> None:
    source = "import os\ndef g(x): return os.environ[x]\ndef f(x): return g(x)"
    with pytest.raises(Undigestible, match=r"global 'g': global 'os': 'os\.environ'"):
        digest_function(define(source))


def test_the_time_zone_counts_where_local_times_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    local, plain = "datetime.datetime.fromtimestamp(x)", "datetime.datetime(2020, 1, 1)"
    before = [digests(function_of(each)) for each in (local, plain)]
    monkeypatch.setattr("time.tzname", ("XYZ", "XYZ"))
    assert digests(function_of(local)) != before[0]
    assert digests(function_of(plain)) == before[1]


NAMES = st.sampled_from(["os", "h", "x1", "k", "y"])
CHAINS = st.sampled_from(["environ", "getenv", "path.join", "sep", "path.exists", "replace"])


@given(NAMES, CHAINS, st.booleans(), st.sampled_from(["{}", "[{}]", "({})(x)", "g({})", "{} + 1"]))
def test_a_module_under_any_name(name: str, chain: str, inside: bool, around: str) -> None:
    used = around.format(f"{name}.{chain}")
    bound = f"import os as {name}"
    source = f"def g(v): return v\n{bound}\ndef f(x): return {used}"
    if inside:
        source = f"def f(x, *more):\n    {bound}\n    return {used}"
    if chain in ("path.join", "sep"):
        assert digests(source) == digests(source)
    else:
        assert_unknown(source)
