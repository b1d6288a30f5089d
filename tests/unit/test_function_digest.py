"""The same digest means the same results, in whichever process."""

from __future__ import annotations

import json
import math
import os
import pickle
import socket
import subprocess
import sys
import textwrap
import threading
import types
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.accumulators import Accumulator, AddingAccumulatorParam
from pyspark.core.broadcast import Broadcast

from holdfast.plan import function_encoder, reference_encoder
from holdfast.plan.function_digest import Undigestible, digest_function, digest_value
from tests.unit.user_code import assert_all_differ, define, digests, pickled, round_trip

# -- what is the same ------------------------------------------------------------------------------

STABLE = {
    "constant": "def f(x): return 1",
    "lambda": "f = lambda x: x * 2",
    "global": "k = 3\ndef f(x): return x + k",
    "helper": "def g(x): return x + 1\ndef f(x): return g(x)",
    "recursive": "def f(x): return f(x - 1) if x else 0",
    "closure": "def make(k):\n    def f(x): return x + k\n    return f\nf = make(3)",
    "nested": "k = 2\ndef f(x):\n    def g(y): return [z + k for z in y]\n    return g(x)",
    "class": "class A:\n    n = 1\n    def g(self): return self.n\ndef f(x): return A().g()",
    "slots": "class A: __slots__ = ('n',)\na = A(); a.n = 1\ndef f(x): return a.n",
    "enum": "import enum\nclass E(enum.Enum): A = 1; B = 2\ndef f(x): return E.A",
    "partial": "import functools\ndef g(x, y): return x\nf = functools.partial(g, 1, y=2)",
    "bound method": "class A:\n    def g(self, x): return x\nf = A().g",
    "attributes": "def f(x): return x\nf.tag = {'a': 1}",
    "containers": "k = {'a': [1, 2.0, (3, None)], 'b': {'x', 'y', 1, None}}\ndef f(x): return k[x]",
    "sets": "k = {frozenset('ab'), frozenset('cd'), ('e', 1)}\ndef f(x): return k",
    "two recursive": "def g(x): return x == 0 or f(x - 1)\ndef f(x): return x != 0 and g(x - 1)",
    "set closure": "make = lambda k: lambda x: x in k\nf = make({'p', 'q', 'r', 's'})",
    "empty cell": "def make():\n    def f(x): return k\n    if 0: k = 1\n    return f\nf = make()",
    "generator": "def f(x):\n    yield from (i for i in range(x))",
    "defaults": "def f(x, y=(1, 'a'), *, z={'k': 1}): return x",
    "imports": "def f(x):\n    import json\n    from os.path import join\n    return json, join",
    "numpy": "import numpy as np\nk = np.arange(6).reshape(2, 3)\ndef f(x): return np.add(x, k)",
    "pandas": "import pandas as pd\nk = pd.DataFrame({'a': [1]})\ndef f(x): return k.merge(x)",
    "dataclass": "import dataclasses as d\n@d.dataclass\nclass A:\n    n: int = 1\n"
    "    m: list = d.field(default_factory=list)\na = A()\ndef f(x): return a",
    "tuple": "from typing import *\nclass A(NamedTuple): p: int = 1\na = A()\ndef f(x): return a",
    "abstract": "import abc\nclass A(abc.ABC):\n    @abc.abstractmethod\n    def g(self): ...\n"
    "class B(A):\n    def g(self): return super().g()\ndef f(x): return B().g()",
    "descriptors": "class A:\n    @property\n    def p(self): return 1\n    @classmethod\n"
    "    def c(cls): return cls\n    @staticmethod\n    def s(): return A\ndef f(x): return A",
    "generic": "from typing import *\nT = TypeVar('T')\nclass A(Generic[T]): pass\n"
    "def f(x): return A[int]",
    "wraps": "import functools\ndef g(x): return x\n@functools.wraps(g)\ndef f(x): return g(x)",
    "callable": "class A:\n    def __call__(self, x): return x\nf = A()",
    "set class": "class S(set): pass\nk = S('abcdef')\ndef f(x): return k",
    "builtin": "f = len",
    "method descriptor": "f = str.upper",
    "values": "import datetime as d, decimal, fractions, pathlib, re, uuid, zoneinfo\n"
    "k = [d.datetime(2020, 1, 2, tzinfo=zoneinfo.ZoneInfo('UTC')), d.timezone.utc, 1j, slice(1),\n"
    "  decimal.Decimal('1.0'), fractions.Fraction(1, 3), pathlib.PurePath('a'), re.compile('a'),\n"
    "  uuid.UUID(int=1), range(3), ..., bytearray(b'a'), d.timedelta(1)]\ndef f(x): return k",
    "cycle": "k = []\nk.append(k)\ndef f(x): return k",
    "sentinel": "missing = object()\ndef f(x=missing): return x is missing",
}  # fmt: skip


@pytest.mark.parametrize("source", STABLE.values(), ids=STABLE.keys())
def test_the_same_source_elsewhere_and_out_of_pickles_matches(source: str) -> None:
    f = define(source)
    digest = digest_function(f)
    assert digest == digest_function(f), "digesting must not change what is digested"
    assert digest == digest_function(define(source))
    once = round_trip(f)
    assert digest == digest_function(once) == digest_function(round_trip(once))


@pytest.mark.soak
def test_another_process_agrees() -> None:
    program = textwrap.dedent(
        """
        import json, sys
        from holdfast.plan.function_digest import digest_function
        from tests.unit.user_code import define, round_trip
        sources = json.load(sys.stdin)
        print(json.dumps({k: digest_function(round_trip(define(v))) for k, v in sources.items()}))
        """
    )
    ran = subprocess.run(
        [sys.executable, "-c", program],
        input=json.dumps(STABLE),
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
    )
    expected = {name: digest_function(define(source)) for name, source in STABLE.items()}
    assert json.loads(ran.stdout) == expected


EQUIVALENT = {
    "name": ("def f(x): return x", "def g(x): return x\nf = g"),
    "annotations": ("def f(x): return x", "def f(x: int) -> str: return x"),
    "lines": ("def f(x):\n    return x + 1", "def f(x):\n\n    # why\n\n    return x + 1"),
    "unused global": ("def f(x): return x", "k = 5\ndef f(x): return x"),
    "helper's annotations": (
        "def g(x): return x\ndef f(x): return g(x)",
        "def g(x: int): return x\ndef f(x): return g(x)",
    ),
    "class documentation": ("class A: pass\nf = lambda x: A", "class A: 'text'\nf = lambda x: A"),
    "order of a set": ("k = {8}; k.add(0)\nf = lambda x: k", "k = {0}; k.add(8)\nf = lambda x: k"),
}


@pytest.mark.parametrize(("one", "other"), EQUIVALENT.values(), ids=EQUIVALENT.keys())
def test_what_does_not_count(one: str, other: str) -> None:
    assert digests(one) == digests(other)


# -- what differs ----------------------------------------------------------------------------------

# In each source § is in turn 1 and 2.
ONE_OR_TWO = {
    "helper's helper": "def h(x): return §\ndef g(x): return h(x)\ndef f(x): return g(x)",
    "swapped helpers": "def g(): return §\ndef h(): return 3 - §\ndef f(x): return g() - h()",
    "wrapped": "import functools\ndef g(x): return §\n@functools.wraps(g)\ndef f(x): return x",
    "own attribute": "def f(x): return f.n\nf.n = §",
    "method": "class A:\n    def g(self): return §\ndef f(x): return A().g()",
    "base's method": "class A:\n    def g(self): return §\nclass B(A): pass\ndef f(x): return B",
    "metaclass": "class M(type): n = §\nclass A(metaclass=M): pass\nf = lambda x: A",
    "property's body": "class A:\n    p = property(lambda self: §)\ndef f(x): return A().p",
    "cached property": "import functools as t\nclass A: p = t.cached_property(lambda s: §)\n"
    "f = lambda x: A().p",
    "instance's class": "class A:\n    def g(self): return §\na = A()\ndef f(x): return a.g()",
    "set's attribute": "class S(set): pass\nk = S(); k.n = §\ndef f(x): return k",
    "enum method": "import enum\nclass E(enum.Enum):\n    A = 1\n    def g(self): return §\n"
    "def f(x): return E.A.g()",
    "cached": "import functools\n@functools.lru_cache\ndef f(x): return §",
    "cache size": "import functools\n@functools.lru_cache(§)\ndef g(x): return x\n"
    "f = lambda x: g(x)",
    "own reduction": "class A:\n    def __reduce__(self): return (A, (), {'n': §})\nk = A()\n"
    "f = lambda x: k",
    "reduced argument": "class A:\n    def __init__(self, n): self.n = n\n"
    "    def __reduce__(self): return (A, (self.n,))\nk = A(§)\n"
    "f = lambda x: k.n",
    "what a state becomes": "class A:\n    def __getstate__(self): return {}\n"
    "    def __setstate__(self, s): self.n = §\nk = A()\n"
    "f = lambda x: k.n",
}  # fmt: skip
# Here it is in turn what follows it.
DIFFERENT = {
    "operator": ("def f(x): return x § 1", *"+ - * < <= == in".split()),
    "constant": ("def f(x): return §", *"1 1.0 True '1' b'1' 0.0 -0.0 0j -0j".split()),
    "set": ("f = lambda x: x in {§}", "1, 2", "1, 3", "1.0, 2", "True, 2", "0.0, 5", "-0.0, 5"),
    "nested constant": ("def f(x):\n    return lambda: §", "1", "2", "True"),
    "attribute": ("def f(x): return x.§", "a", "b"),
    "called": ("def f(x): return §(x)", "len", "abs", "str"),
    "missing global": ("§def f(x): return k", "", "k = None\n"),
    "nested global": ("§def f(x): return lambda: k", "", "k = None\n", "k = 1\n"),
    "name of a global": ("n = 1\nm = 1\nf = lambda x: §", "n", "m"),
    "shadowed": ("§\ndef f(x): return len(x)", "", "def len(x): return 1", "len = max"),
    "arguments": ("def f(§): return 1", "x", "y", "x, y", "*x", "**x", "*, x"),
    "kind of argument": ("def f(x, §y): return x", "", "/, ", "*, ", "*", "**"),
    "local": ("def f(x):\n    § = x\n    return §", "a", "b"),
    "flags": ("§", "def f(x): return x", "async def f(x): return x", "def f(x): yield x"),
    "async generator": ("§ f(x): yield x", "def", "async def"),
    "what is tried": (
        "def f(x):\n    §\n    except E: b = 1\n    return b",
        "try:\n        a = x.p\n        b = x.q", "a = x.p\n    try:\n        b = x.q",
    ),
    "default": ("def f(x§): return x", "", "=None", "=1", "=1.0"),
    "shared default": ("k = []\ndef f(x=§, y=§): return x", "k", "[]"),
    "keyword default": ("def f(*, x§, y=1): return x", "", "=1", "=2"),
    "name of a keyword": ("def f(*, §): return 1", "x=1, y", "x, y=1"),
    "order of keywords": ("f = lambda x: dict(§)", "a=1, b=2", "b=2, a=1"),
    "cell": (
        "def make(k):\n    return lambda x: k\n    k = 1\n§", "f = make(1)", "f = make(2)",
        "f = make(None)",
    ),
    "free variable": ("def make(§): return lambda x: §\nf = make(1)", "k", "j"),
    "nonlocal": (
        "def make(n):\n    def f(x):\n        nonlocal n\n        n += 1\n        return n\n"
        "    return f\nf = make(§)", "0", "1",
    ),
    "shared cell": (
        "def make(n, m):\n    def g():\n        nonlocal §\n        § += 1\n    def f(x):\n"
        "        g()\n        return n\n    return f\nf = make(0, 0)", "n", "m",
    ),
    "helper": ("def g(x): return x § 1\ndef f(x): return g(x)", "+", "-"),
    "recursion": (
        "§", "def f(x): return f(x - 1) if x else 0",
        "def g(x): return f(x - 1) if x else 0\ndef f(x): return g(x - 1) if x else 0",
        "def f(x): return f(x - 1) if x else 0\nf.__wrapped__ = f",
    ),
    "which recursive": ("def g(x): return §(x)\ndef f(x): return g(x) if x else 1", "f", "g"),
    "shared globals": (
        "import types\nn = 0\ndef g():\n    global n; n += 1\n§\ndef f(x):\n    g()\n    return n",
        "", "g = types.FunctionType(g.__code__, {'n': 0, '__name__': '__main__'})",
    ),
    "own name": ("def §(x): return g.__name__\ng = f = §", "g", "h"),
    "shown name": (
        "def §(): return lambda x: x\nmake = §\ndef f(x): return make().__repr__()", "a", "b",
    ),
    "own documentation": ("def f(x): return f.__doc__\nf.__doc__ = §", "None", "'text'"),
    "class documentation": ("class A: §\ndef f(x): return A.__doc__", "pass", "'text'"),
    "own annotations": ("def f(x: §): return f.__annotations__", "int", "str"),
    "order of attributes": ("def f(x): return f\n§", "f.a = 1; f.b = 2", "f.b = 2; f.a = 1"),
    "import": ("def f(x):\n    import § as m\n    return m.a", "json", "re", "no_such"),
    "import from": ("def f(x):\n    from json import §", "load", "dump"),
    "module": ("import § as m\ndef f(x): return m.dumps(x)", "json", "pickle"),
    "sentinel": ("k = object()\ndef f(x=§): return x is k", "k", "object()"),
    "bases": (
        "class A: pass\nclass B: pass\nclass C(§): pass\ndef f(x): return C", "", "A", "B", "A, B",
        "B, A", "Exception",
    ),
    "class name": ("class §: pass\nA = §\ndef f(x): return A", "P", "Q"),
    "class attribute": ("class A: § = 1\ndef f(x): return A", "p", "q"),
    "slots": (
        "class A: §\ndef f(x): return A.__dict__", "pass", "__slots__ = ('a', 'b')",
        "__slots__ = ('b', 'a')",
    ),
    "slot": ("class A: __slots__ = ('a', 'b')\na = A(); a.§\nf = lambda x: a", "a=1", "b=1", "a=2"),
    "property": (
        "class A:\n    §\n    def p(self): return 1\ndef f(x): return A().p", "@property",
        "@staticmethod", "@classmethod", "",
    ),
    "instance": ("class A: pass\na = A()\na.§\ndef f(x): return a", "p = 1", "p = 2", "q = 1"),
    "bound method": (
        "class A:\n    def __init__(self, n): self.n = n\n    def g(self): return self.n\n"
        "    def h(self): return -self.n\nf = A(§", "1).g", "2).g", "1).h",
    ),
    "subclasses": (
        "class I(int): pass\nclass S(set): pass\nclass L(list): pass\nclass D(dict): pass\n"
        "k = §\ndef f(x): return k",
        *"I(1) I(2) 1 S([1]) S([2]) S() {1} L([1]) [1] D({1:2}) {1:2}".split(),
    ),
    "set of instances": (
        "class A:\n    def __init__(self, n): self.n = n\nk = {A(1), A(§)}\nf = lambda x: k", "2",
        "3",
    ),
    "shared in a set": ("def g(): return 1\ng.k = []\nk = {g}, [§]\nf = lambda x: k", "g.k", "[]"),
    "enum": (
        "import enum\nclass E(enum.Enum): §\ndef f(x): return E.A", "A = 1; B = 2", "A = 2; B = 1",
        "B = 2; A = 1", "A = 1", "A = 1; B = 1", "A = 1.0; B = 2",
    ),
    "enum member": (
        "import enum\nclass E(enum.IntFlag): A = 1; B = 2\nk = §\ndef f(x): return k", "E.A", "E.B",
        "E.A | E.B", "1",
    ),
    "enum kind": (
        "import enum\nclass E(enum.§): A = 1\ndef f(x): return E.A", "Enum", "IntEnum", "Flag",
        "IntFlag",
    ),
    "dataclass field": (
        "import dataclasses as d\n@d.dataclass\nclass A:\n    §\ndef f(x): return A", "p: int = 1",
        "p: int = 2", "q: int = 1", "p: str = 1", "p: int", "p: int; q: int", "q: int; p: int",
    ),
    "dataclass options": (
        "import dataclasses as d\n@d.dataclass(§)\nclass A:\n    p: int = 1\ndef f(x): return A",
        "", "frozen=True", "order=True", "eq=False", "slots=True",
    ),
    "partial": (
        "import functools\ndef g(x, y=0): return x § y\nf = functools.partial(g, 1)", "+", "-",
    ),
    "cycles": (
        "k = []\n§\ndef f(x): return k", "k.append(k)", "k.append([k])", "k.append((k,))",
        "k.append([]); k[0].append(k[0])",
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", [*ONE_OR_TWO, *DIFFERENT])
def test_what_counts(what: str) -> None:
    template, *fillings = DIFFERENT.get(what) or (ONE_OR_TWO[what], "1", "2")
    assert_all_differ(*(template.replace("§", each) for each in fillings))


def test_all_sources_have_different_digests() -> None:
    assert len({digest_function(define(source)) for source in STABLE.values()}) == len(STABLE)


def test_versions_of_python_and_of_distributions_count(monkeypatch: pytest.MonkeyPatch) -> None:
    f = define("import numpy as np\ndef f(x): return np.mean(x)")
    seen = [digest_function(f)]
    monkeypatch.setattr(reference_encoder, "origin_of", lambda name: "numpy 0.0")
    seen.append(digest_function(f))
    monkeypatch.setattr(function_encoder, "PYTHON", "cpython 3.0")
    seen.append(digest_function(f))
    assert len({*seen}) == 3


# -- values ----------------------------------------------------------------------------------------

IMPORTS = """
import collections, datetime, decimal, fractions, functools, io, json, logging, operator
import os, pathlib, re, struct, types, typing, uuid, zoneinfo
import numpy as np, pandas as pd
from pyspark.sql import types as T
"""
VALUES = (
    "1", "2", "1.0", "True", "'1'", "b'1'", "bytearray(b'1')", "None", "...", "NotImplemented",
    "0", "False", "0.0", "-0.0", "float('nan')", "float('inf')", "1j", "-0.0j", "complex(-0.0, 0)",
    "''", "b''", "()", "[]", "{}", "set()", "frozenset()", "(1,)", "[1]", "{1}", "frozenset({1})",
    "{1: 1}", "{1: 1.0}", "{1.0: 1}", "{1: None}", "{1: 2, 2: 1}", "{2: 1, 1: 2}", "(1, 2)",
    "(2, 1)", "((1,), 2)", "((1, 2),)", "[[1], 2]", "[[1, 2]]", "'a\\x00b'", "('a', 'b')",
    "('ab', '')", "('', 'ab')", "('ab',)", "('asb', 'c')", "('a', 'bsc')", "(b'abb', b'c')",
    "(b'a', b'bbc')", "('as:b', 'c')", "('a', 'bs:c')", "range(3)", "range(0, 3, 2)", "range(4)",
    "slice(3)", "slice(0, 3)", "[(1,), 2, 3, (4, 5, 6)]", "[(1, 2), 3, (4, 5), 6]",
    "[{1}, 2, 3, {4, 5, 6}]", "[{1, 2}, 3, {4, 5}, 6]", "[[]] * 2", "[[], []]", "10**30",
    "10**30 + 1", "-1", "'\\ud800'",
    "datetime.date(2020, 1, 1)", "datetime.datetime(2020, 1, 1)",
    "datetime.datetime(2020, 1, 1, fold=1)",
    "datetime.datetime(2020, 1, 1, tzinfo=datetime.timezone.utc)",
    "datetime.datetime(2020, 1, 1, tzinfo=zoneinfo.ZoneInfo('UTC'))",
    "datetime.datetime(2020, 1, 1, tzinfo=zoneinfo.ZoneInfo('Europe/Berlin'))",
    "datetime.time(1)", "datetime.timedelta(1)", "datetime.timedelta(2)",
    "decimal.Decimal('1')", "decimal.Decimal('1.0')", "fractions.Fraction(1)",
    "fractions.Fraction(1, 2)", "uuid.UUID(int=1)", "uuid.UUID(int=2)", "re.compile('a')",
    "re.compile('a', re.I)", "re.compile('b')", "re.compile(b'a')", "pathlib.PurePosixPath('a')",
    "pathlib.PurePosixPath('b')", "pathlib.PureWindowsPath('a')", "len", "max", "str.upper",
    "str.lower", "bytes.upper", "[].append", "[1].append", "(1).__add__", "int.__add__", "int",
    "bool", "type(None)", "dict.fromkeys", "json", "os.path", "json.dumps", "json.dump",
    "collections.OrderedDict(a=1)", "collections.Counter('a')", "collections.deque([1])",
    "collections.deque([1], 2)", "collections.defaultdict(list)", "collections.defaultdict(int)",
    "functools.partial(max)", "functools.partial(max, 1)", "functools.partial(max, 1.0)",
    "functools.partial(min, 1)", "functools.partial(max, key=1)", "functools.lru_cache(len)",
    "functools.lru_cache(maxsize=3)(len)", "operator.itemgetter(1)", "operator.itemgetter(2)",
    "operator.add", "operator.sub", "list[int]", "list[str]", "int | str", "int | None",
    "types.SimpleNamespace(a=1)", "types.SimpleNamespace(a=2)", "types.MappingProxyType({1: 2})",
    "property(len)", "property(None, len)", "staticmethod(len)", "classmethod(len)",
    "ValueError('a')", "ValueError('b')", "TypeError('a')", "object()", "iter([1])", "iter([2])",
    "io.BytesIO(b'a')", "io.BytesIO(b'b')", "logging.getLogger('a')", "logging.getLogger('b')",
    "np", "pd", "np.add", "np.subtract", "np.mean", "np.int64", "np.float64(1)", "np.float32(1)",
    "np.int64(1)", "np.dtype('i4')", "np.dtype('i8')", "np.dtype('>i4')", "np.array([1])",
    "np.array([2])", "np.array([1.0])", "np.array([[1]])", "np.array([1], 'i4')",
    "np.zeros((2, 3))", "np.zeros((3, 2))", "np.array([[1, 2], [3, 4]])",
    "np.array([[1, 2], [3, 4]]).T", "np.array(['a'], object)", "np.array(['b'], object)",
    "np.array([1], [('a', 'i8')])", "np.random.default_rng(1)", "np.random.default_rng(2)",
    "pd.NA", "pd.NaT", "pd.Timestamp(1)", "pd.Timestamp(2)", "pd.Timedelta(1)", "pd.Series([1])",
    "pd.Series([2])", "pd.Series([1], name='a')", "pd.Series([1], index=[5])",
    "pd.DataFrame({'a': [1]})", "pd.DataFrame({'b': [1]})", "pd.DataFrame({'a': ['x']})",
    "pd.DataFrame({'a': ['y']})", "pd.Index([1])", "pd.Index([1], name='a')",
    "pd.Categorical(['a'])", "pd.Categorical(['a'], ['a', 'b'])", "pd.CategoricalDtype(['a'])",
    "pd.Int64Dtype()", "pd.array([1, None], 'Int64')", "pd.isna",
    "T.IntegerType()", "T.LongType()", "T.DecimalType(1, 0)", "T.DecimalType(2, 0)",
    "T.ArrayType(T.LongType())", "T.ArrayType(T.LongType(), False)",
    "T.StructType([T.StructField('a', T.LongType())])",
    "T.StructType([T.StructField('b', T.LongType())])", "T.Row(a=1)", "T.Row(a=2)", "T.Row(b=1)",
    "pd.DataFrame({'a': [1]}, [1])", "pd.DataFrame({'a': [1], 'b': [1]})", "np.array([0.0])",
    "pd.DataFrame({'b': [1], 'a': [1]})", "np.array([-0.0])", "'\\ud801'", "'\\ufffd'", "'?'",
    "struct.unpack('<d', bytes.fromhex('010000000000f87f'))", "[*range(9_999), 0]",
    "struct.unpack('<d', bytes.fromhex('020000000000f87f'))", "[*range(9_999), 1]",
    "collections.namedtuple('A', 'p q')(1, 2)", "collections.namedtuple('A', 'p r')(1, 2)",
    "collections.namedtuple('A', 'p q')", "typing.TypeVar('T')", "typing.TypeVar('U')",
    "typing.TypeVar('T', bound=int)", "typing.TypeVar('T', int, str)",
    "typing.TypeVar('T', covariant=True)",
)  # fmt: skip


@pytest.mark.parametrize(
    "template",
    [
        "k = §\ndef f(x): return k",
        "def make(k): return lambda x: k\nf = make(§)",
        "def f(x=§): return x",
        "class A: pass\na = A()\na.tag = §\ndef f(x): return a",
    ],
    ids=["global", "closure", "default", "instance"],
)
def test_no_two_values_match(template: str) -> None:
    seen: dict[str, str] = {}
    for value in VALUES:
        digest = digest_function(define(IMPORTS + template.replace("§", value)))
        assert digest not in seen, f"{value} matches {seen[digest]}"
        seen[digest] = value


def test_values_match_themselves() -> None:
    for value in VALUES:
        one, other = (define(f"{IMPORTS}f = {value}") for _ in range(2))
        assert digest_value(one) == digest_value(other) == digest_value(pickled(other)), value


LEAVES = st.integers() | st.sampled_from(
    [None, True, False, 0, 1, 0.0, -0.0, 1.0, math.nan, 0j, 1 + 0j, "", "a", b"", b"a", int, len]
)
HASHABLE = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=4,
)
NESTED = st.recursive(
    HASHABLE,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(HASHABLE, inner, max_size=3)
        | st.sets(HASHABLE, max_size=3)
    ),
    max_leaves=6,
)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, types included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (float, complex)):
        return repr(one) == repr(other)
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, (set, frozenset)):
        return len(one) == len(other) and all(any(same(a, b) for b in other) for a in one)
    return bool(one == other)


def rebuilt(value: Any) -> Any:
    """An equal value that shares no container, with sets filled in the opposite order."""
    if isinstance(value, (set, frozenset)):
        return type(value)([rebuilt(item) for item in reversed(list(value))])
    if isinstance(value, (list, tuple)):
        return type(value)([rebuilt(item) for item in value])
    if isinstance(value, dict):
        return {rebuilt(key): rebuilt(item) for key, item in value.items()}
    return value


@given(NESTED, NESTED)
def test_digests_are_equal_where_values_are(one: Any, other: Any) -> None:
    # Nothing may be shared between or within the two but by accident.
    one, other = rebuilt(one), rebuilt(other)
    assert (digest_value(one) == digest_value(other)) == same(one, other)
    assert digest_value(one) == digest_value(rebuilt(one)) == digest_value(round_trip(one))


@given(st.lists(HASHABLE, max_size=4), st.lists(HASHABLE, max_size=4))
def test_digests_of_constants(one: list[Any], other: list[Any]) -> None:
    def with_constants(constants: list[Any]) -> Any:
        code = (lambda x: x).__code__.replace(co_consts=(None, *constants))
        return types.FunctionType(code, {})

    matches = digest_function(with_constants(one)) == digest_function(with_constants(other))
    assert matches == same(one, other)


# -- what can't be known ---------------------------------------------------------------------------

UNDIGESTIBLE = {
    "aliased eval": "run = eval\ndef f(x): return run(x)",
    "nested eval": "def f(x): return lambda: eval(x)",
    "helper's eval": "def g(x): return eval(x)\ndef f(x): return g(x)",
    "import_module by name": "from importlib import import_module as g\ndef f(x): return g(x)",
    "import_module inside": "def f(x):\n    import importlib as i\n    return i.import_module(x)",
    "traceback": "def f(x):\n    import traceback\n    return traceback.format_exc()",
    "function's globals": "def g(): pass\ndef f(x): return g.__globals__[x]",
    "line number": "def f(x):\n    try: x()\n    except E as e: return e.__traceback__.tb_lineno",
    "query of globals": "k = 1\ndef f(x): return x.query('a > @k')",
    "relative import": "def f(x):\n    from . import g\n    return g",
    "generator": "k = (i for i in [])\ndef f(x): return k",
    "lock": "import threading\nk = threading.Lock()\ndef f(x): return k",
    "closed lock": "import threading\nmake = lambda k: lambda x: k\nf = make(threading.RLock())",
    "lock in a class": "import threading\nclass A: k = threading.Lock()\ndef f(x): return A",
    "file": "import os\nk = open(os.devnull)\ndef f(x): return k",
    "thread": "import threading\nk = threading.Thread()\ndef f(x): return k",
    "set of twins": "class A: pass\nk = {A(), A()}\ndef f(x): return k",
    "set in itself": "class A: pass\na = A(); a.k = frozenset({a})\nk = a.k\ndef f(x): return k",
    "failing reduction": "class A:\n    def __reduce__(self): 1 / 0\nk = A()\nf = lambda x: k",
    "strange reduction": "class A:\n    def __reduce__(self): return ()\nk = A()\nf = lambda x: k",
    "endless": "class A:\n    def __reduce__(self): return A, (A(),)\nk = A()\nf = lambda x: k",
    "by its name": "class A:\n    def __reduce__(self): return 'k'\nk = A()\nf = lambda x: k",
    "user's ufunc": "import numpy\nk = numpy.frompyfunc(lambda x: x, 1, 1)\ndef f(x): return k",
    "registered": "import abc\nclass A(abc.ABC): pass\nA.register(int)\nf = lambda x: A",
    "depth": "k = []\nfor _ in range(10_000): k = [k]\ndef f(x): return k",
    "no function": "f = 3",
}  # fmt: skip


@pytest.mark.parametrize("source", UNDIGESTIBLE.values(), ids=UNDIGESTIBLE.keys())
def test_what_cannot_be_known(source: str) -> None:
    with pytest.raises(Undigestible):
        digest_function(define(source))


@pytest.mark.parametrize(
    "make",
    [
        threading.Event,
        lambda: weakref.WeakValueDictionary({1: threading.Thread()}),
        lambda: memoryview(b""),
        lambda: sys._getframe(),
        lambda: Accumulator(0, 0, AddingAccumulatorParam(0)),
    ],
)
def test_values_that_cannot_be_known(make: Callable[[], object]) -> None:
    with pytest.raises(Undigestible):
        digest_value([make()])


def test_the_reason_names_the_place() -> None:
    source = "import threading\nk = threading.Lock()\ndef g(x): return k\ndef f(x): return g(x)"
    with pytest.raises(Undigestible, match="global 'g': global 'k': .*lock"):
        digest_function(define(source))


def test_no_walk_ends_in_a_recursion_error() -> None:
    deep: Any = None
    for _ in range(sys.getrecursionlimit() * 3):
        deep = [deep]
    for value in (deep, {"a": (deep,)}, lambda: deep):
        with pytest.raises(Undigestible, match="too deeply"):
            digest_value(value)
    helpers = "".join(f"def g{n}(x): return g{n - 1}(x)\n" for n in range(1, 3000))
    with pytest.raises(Undigestible, match="too deeply"):
        digest_function(define(f"def g0(x): return x\n{helpers}f = g2999"))


# -- values that say what counts of them -----------------------------------------------------------


class Sealed:
    """Holds something that no result depends on, and something that every result does."""

    def __init__(self, secret: str, content: object) -> None:
        self.secret = secret
        self.content = content

    def __holdfast_digest__(self) -> object:
        return self.content


def test_an_object_counts_as_what_it_says_it_does() -> None:
    assert digest_value([Sealed("a", 1)]) == digest_value([Sealed("b", 1)])
    assert len({*map(digest_value, (Sealed("a", 1), Sealed("a", 2), 1))}) == 3
    shared, one = Sealed("a", []), Sealed("a", [])
    assert digest_value([shared, shared]) != digest_value([shared, one])
    with pytest.raises(Undigestible, match="Sealed"), socket.socket() as unknown:
        digest_value(Sealed("a", unknown))


def test_broadcast_variables_count_by_value(tmp_path: Path) -> None:
    digests = []
    for value in ([1], [2], [1]):
        path = tmp_path / str(len(digests))
        path.write_bytes(pickle.dumps(value))
        digests.append(digest_value(Broadcast(path=str(path))))
    assert digests[0] == digests[2] != digests[1]
