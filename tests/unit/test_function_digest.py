"""The same digest means the same results, in whichever process."""

from __future__ import annotations

import decimal
import io
import json
import os
import pickle
import re
import socket
import subprocess
import sys
import textwrap
import threading
import time
import types
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

from holdfast.plan import function_encoder, module_origin, reference_encoder
from holdfast.plan.function_digest import Undigestible, digest_function, digest_value
from tests.unit.user_modules import UserModules

_COUNTER = iter(range(10**9))


def define(source: str, name: str = "f") -> Any:
    """What a notebook would have under a name after running a source."""
    # Other lines and another file every time: neither may count.
    number = next(_COUNTER)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    code = compile("\n" * number + textwrap.dedent(source), f"cell {number}", "exec", 0, True)
    exec(code, namespace)
    return namespace[name]


def round_trip(value: Any) -> Any:
    return cloudpickle.loads(cloudpickle.dumps(value))


STABLE = {
    "constant": "def f(x): return 1",
    "lambda": "f = lambda x: x * 2",
    "global": "k = 3\ndef f(x): return x + k",
    "container globals": "k = {'a': [1, 2.0, (3, None)], 'b': {'x', 'y', 1, None}}\n"
    "def f(x): return k[x]",
    "nested set": "k = {frozenset({'a', 'b'}), frozenset({'c', 'd'}), ('e', 1)}\n"
    "def f(x): return k",
    "set constant": "def f(x): return x in {'a', 'b', 'c', 'd'}",
    "helper": "def g(x): return x + 1\ndef f(x): return g(x)",
    "recursive": "def f(x): return f(x - 1) if x else 0",
    "mutually recursive": "def g(x): return x == 0 or f(x - 1)\n"
    "def f(x): return x != 0 and g(x - 1)",
    "closure": "def make(k):\n    def f(x): return x + k\n    return f\nf = make(3)",
    "set closure": "def make(k):\n    return lambda x: x in k\nf = make({'p', 'q', 'r', 's'})",
    "empty cell": "def make():\n    def f(x): return k\n    if 0: k = 1\n    return f\nf = make()",
    "nested": "k = 2\ndef f(x):\n    def g(y): return [z + k for z in y]\n    return g(x)",
    "try": "def f(x):\n    try: return 1 / x\n    except ZeroDivisionError: return None",
    "generator": "def f(x):\n    yield from (i for i in range(x))",
    "defaults": "def f(x, y=(1, 'a'), *, z={'k': 1}): return x",
    "imports": "def f(x):\n    import json\n    from os.path import join\n    return json, join",
    "numpy": "import numpy as np\nk = np.arange(6).reshape(2, 3)\ndef f(x): return np.add(x, k)",
    "pandas": "import pandas as pd\nk = pd.DataFrame({'a': [1], 'b': ['x']})\n"
    "def f(x): return k.merge(x)",
    "pyspark types": "from pyspark.sql.types import *\n"
    "k = StructType([StructField('a', IntegerType())])\ndef f(x): return k",
    "class": "class A:\n    n = 1\n    def g(self): return self.n\ndef f(x): return A().g()",
    "instance": "class A:\n    def __init__(self): self.n = 1\na = A()\ndef f(x): return a.n",
    "slots": "class A:\n    __slots__ = ('n',)\n    def __init__(self): self.n = 1\na = A()\n"
    "def f(x): return a.n",
    "dataclass": "import dataclasses\n@dataclasses.dataclass\nclass A:\n    n: int = 1\n"
    "    m: list = dataclasses.field(default_factory=list)\na = A()\ndef f(x): return a",
    "namedtuple": "import collections\nA = collections.namedtuple('A', 'p q')\na = A(1, 2)\n"
    "def f(x): return a",
    "typed namedtuple": "import typing\nclass A(typing.NamedTuple):\n    p: int = 1\na = A()\n"
    "def f(x): return a",
    "enum": "import enum\nclass E(enum.Enum):\n    A = 1\n    B = 2\ndef f(x): return E.A",
    "flag": "import enum\nclass E(enum.Flag):\n    A = 1\n    B = 2\nk = E.A | E.B\n"
    "def f(x): return k",
    "abstract": "import abc\nclass A(abc.ABC):\n    @abc.abstractmethod\n    def g(self): ...\n"
    "class B(A):\n    def g(self): return super().g()\ndef f(x): return B().g()",
    "descriptors": "class A:\n    @property\n    def p(self): return 1\n    @classmethod\n"
    "    def c(cls): return cls\n    @staticmethod\n    def s(): return A\ndef f(x): return A",
    "generic": "import typing\nT = typing.TypeVar('T')\nclass A(typing.Generic[T]): pass\n"
    "def f(x): return A[int]",
    "wraps": "import functools\ndef g(x): return x\n@functools.wraps(g)\ndef f(x): return g(x)",
    "partial": "import functools\ndef g(x, y): return x\nf = functools.partial(g, 1, y=2)",
    "bound method": "class A:\n    def g(self, x): return x\nf = A().g",
    "callable": "class A:\n    def __call__(self, x): return x\nf = A()",
    "set class": "class S(set): pass\nk = S('abcdef')\ndef f(x): return k",
    "builtin": "f = len",
    "method descriptor": "f = str.upper",
    "values": "import datetime, decimal, fractions, pathlib, re, uuid, zoneinfo\n"
    "k = [datetime.datetime(2020, 1, 2, tzinfo=zoneinfo.ZoneInfo('UTC')), datetime.timezone.utc,\n"
    "  decimal.Decimal('1.0'), fractions.Fraction(1, 3), pathlib.PurePath('a'), re.compile('a'),\n"
    "  uuid.UUID(int=1), range(3), slice(1), ..., 1j, bytearray(b'a'), datetime.timedelta(1)]\n"
    "def f(x): return k",
    "cycle": "k = []\nk.append(k)\ndef f(x): return k",
    "sentinel": "missing = object()\ndef f(x=missing): return x is missing",
    "attributes": "def f(x): return x\nf.tag = {'a': 1}",
}


@pytest.mark.parametrize("source", STABLE.values(), ids=STABLE.keys())
def test_the_same_source_elsewhere_and_out_of_pickles_matches(source: str) -> None:
    f = define(source)
    digest = digest_function(f)
    assert digest == digest_function(f), "digesting must not change what is digested"
    assert digest == digest_function(define(source))
    once = round_trip(f)
    assert digest == digest_function(once)
    assert digest == digest_function(round_trip(once))


def test_all_sources_have_different_digests() -> None:
    assert len({digest_function(define(source)) for source in STABLE.values()}) == len(STABLE)


def test_another_process_agrees() -> None:
    script = textwrap.dedent(
        """
        import json, sys
        from pyspark import cloudpickle
        from holdfast.plan.function_digest import digest_function
        found = {}
        for name, source in json.load(sys.stdin).items():
            namespace = {"__name__": "__main__"}
            exec(compile(source, name, "exec"), namespace)
            f = cloudpickle.loads(cloudpickle.dumps(namespace["f"]))
            found[name] = digest_function(f)
        print(json.dumps(found))
        """
    )
    expected = {name: digest_function(define(source)) for name, source in STABLE.items()}
    for seed in ("1", "2"):
        ran = subprocess.run(
            [sys.executable, "-c", script],
            input=json.dumps(STABLE),
            capture_output=True,
            text=True,
            check=True,
            env={
                **os.environ,
                "PYTHONHASHSEED": seed,
                "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry),
            },
        )
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
    "class documentation": (
        "class A: pass\ndef f(x): return A",
        "class A:\n    'text'\ndef f(x): return A",
    ),
    "set order": (
        "k = set()\nk.add(8), k.add(0)\ndef f(x): return k",
        "k = set()\nk.add(0), k.add(8)\ndef f(x): return k",
    ),
}


@pytest.mark.parametrize(("one", "other"), EQUIVALENT.values(), ids=EQUIVALENT.keys())
def test_what_does_not_count(one: str, other: str) -> None:
    assert digest_function(define(one)) == digest_function(define(other))


def _variants(template: str, *fillings: str) -> list[str]:
    return [template.replace("§", filling) for filling in fillings]


_VALUES = (
    "1", "2", "1.0", "True", "'1'", "b'1'", "bytearray(b'1')", "None", "...", "NotImplemented",
    "0", "False", "0.0", "-0.0", "float('nan')", "float('inf')", "1j", "-0.0j", "complex(-0.0, 0)",
    "''", "b''", "()", "[]", "{}", "set()", "frozenset()", "(1,)", "[1]", "{1}", "frozenset({1})",
    "{1: 1}", "{1: 1.0}", "{1.0: 1}", "{1: None}", "{1: 2, 2: 1}", "{2: 1, 1: 2}", "(1, 2)",
    "(2, 1)", "((1,), 2)", "((1, 2),)", "[[1], 2]", "[[1, 2]]", "'a\\x00b'", "('a', 'b')",
    "('ab', '')", "('', 'ab')", "('ab',)", "range(3)", "range(0, 3, 2)", "range(4)", "slice(3)",
    "slice(0, 3)", "[[]] * 2", "[[], []]", "10**30", "10**30 + 1", "-1", "'\\ud800'",
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
)  # fmt: skip
_IMPORTS = (
    "import collections, datetime, decimal, fractions, functools, io, json, logging, operator\n"
    "import os, pathlib, re, types, uuid, zoneinfo\n"
    "import numpy as np, pandas as pd\nfrom pyspark.sql import types as T\n"
)


@pytest.mark.parametrize(
    "template",
    [
        _IMPORTS + "k = §\ndef f(x): return k",
        _IMPORTS + "def make(k): return lambda x: k\nf = make(§)",
        _IMPORTS + "def f(x=§): return x",
        _IMPORTS + "def f(*, x=§): return x",
        _IMPORTS + "def f(x): return x\nf.tag = §",
        _IMPORTS + "class A:\n    tag = §\ndef f(x): return A",
        _IMPORTS + "class A: pass\na = A()\na.tag = §\ndef f(x): return a",
        _IMPORTS + "def g(x): return k\nk = §\ndef f(x): return g(x)",
    ],
    ids=["global", "closure", "default", "kwdefault", "attribute", "class", "instance", "helper"],
)
def test_no_two_values_match(template: str) -> None:
    seen: dict[str, str] = {}
    for value in _VALUES:
        digest = digest_function(define(template.replace("§", value)))
        assert digest not in seen, f"{value} matches {seen[digest]}"
        seen[digest] = value


@pytest.mark.parametrize("value", _VALUES)
def test_values_match_themselves(value: str) -> None:
    source = f"{_IMPORTS}f = {value}"
    digest = digest_value(define(source))
    assert digest == digest_value(define(source))
    try:
        copy = round_trip(define(source))
    except (TypeError, pickle.PicklingError):
        return
    assert digest == digest_value(copy)


DIFFERENT = {
    "operator": _variants("def f(x): return x § 1", "+", "-", "*", "<", "<=", "==", "in"),
    "constant": _variants("def f(x): return §", "1", "1.0", "True", "'1'", "b'1'", "0.0", "-0.0"),
    "tuple constant": _variants("def f(x): return §", "(1, 2)", "(1, 2.0)", "(True, 2)", "[1, 2]"),
    "set constant": _variants("def f(x): return x in {§}", "1, 2", "1, 3", "1.0, 2"),
    "nested constant": _variants("def f(x):\n    return lambda: §", "1", "2", "True"),
    "attribute name": _variants("def f(x): return x.§", "a", "b"),
    "global name": _variants("def f(x): return §(x)", "len", "abs", "str"),
    "missing global": ["def f(x): return k", "k = None\ndef f(x): return k"],
    "missing nested global": [
        "def f(x): return lambda: k",
        "k = None\ndef f(x): return lambda: k",
        "k = 1\ndef f(x): return lambda: k",
    ],
    "shadowed builtin": [
        "def f(x): return len(x)",
        "def len(x): return 1\ndef f(x): return len(x)",
        "len = max\ndef f(x): return len(x)",
    ],
    "argument names": _variants("def f(§): return 1", "x", "y", "x, y", "*x", "**x", "*, x"),
    "argument kinds": _variants("def f(x, §y): return x", "", "/, ", "*, ", "*", "**"),
    "local names": _variants("def f(x):\n    § = x\n    return §", "a", "b"),
    "flags": ["def f(x):\n    return x", "async def f(x):\n    return x", "def f(x):\n    yield x"],
    "try range": [
        "def f(x):\n    try:\n        a = x.p\n        b = x.q\n    except E: b = 1\n    return b",
        "def f(x):\n    a = x.p\n    try:\n        b = x.q\n    except E: b = 1\n    return b",
    ],
    "defaults": _variants("def f(x§): return x", "", "=None", "=1", "=1.0"),
    "shared default": [
        "k = []\ndef f(x=k, y=k): return x",
        "def f(x=[], y=[]): return x",
    ],
    "keyword defaults": _variants("def f(*, x§, y=1): return x", "", "=1", "=2"),
    "keyword default's name": ["def f(*, x=1, y): return 1", "def f(*, x, y=1): return 1"],
    "cells": [
        "def make(k):\n    return lambda x: k\nf = make(1)",
        "def make(k):\n    return lambda x: k\nf = make(2)",
        "def make(k):\n    return lambda x: k\n    k = 1\nf = make(None)",
        "def make():\n    return lambda x: k\n    k = 1\nf = make()",
    ],
    "free variable's name": [
        "def make(k): return lambda x: k\nf = make(1)",
        "def make(j): return lambda x: j\nf = make(1)",
    ],
    "helper": _variants("def g(x): return x § 1\ndef f(x): return g(x)", "+", "-"),
    "helper's helper": _variants(
        "def h(x): return §\ndef g(x): return h(x)\ndef f(x): return g(x)", "1", "2"
    ),
    "swapped helpers": [
        "def g(): return 1\ndef h(): return 2\ndef f(x): return g() - h()",
        "def h(): return 1\ndef g(): return 2\ndef f(x): return g() - h()",
    ],
    "recursion": [
        "def f(x): return f(x - 1) if x else 0",
        "def g(x): return f(x - 1) if x else 0\ndef f(x): return g(x - 1) if x else 0",
        "def f(x): return f(x - 1) if x else 0\nf.__wrapped__ = f",
    ],
    "shared globals": [
        "n = 0\ndef g():\n    global n\n    n += 1\ndef f(x):\n    g()\n    return n",
        "import types\nn = 0\ndef g():\n    global n\n    n += 1\n"
        "g = types.FunctionType(g.__code__, {'n': 0, '__name__': '__main__'})\n"
        "def f(x):\n    g()\n    return n",
    ],
    "wrapped": [
        "import functools\ndef g(x): return 1\n@functools.wraps(g)\ndef f(x): return x",
        "import functools\ndef g(x): return 2\n@functools.wraps(g)\ndef f(x): return x",
        "def f(x): return x",
    ],
    "own name": [
        "def g(x): return g.__name__\nf = g",
        "def h(x): return g.__name__\ng = f = h",
    ],
    "own documentation": [
        "def f(x): return f.__doc__",
        "def f(x): return f.__doc__\nf.__doc__ = 'text'",
        "class A: pass\ndef f(x): return A.__doc__",
        "class A: 'text'\ndef f(x): return A.__doc__",
    ],
    "own annotations": _variants("def f(x: §): return f.__annotations__", "int", "str"),
    "import": _variants("def f(x):\n    import § as m\n    return m.a", "json", "re", "no_such"),
    "import from": _variants("def f(x):\n    from json import §", "load", "dump"),
    "module global": _variants("import § as m\ndef f(x): return m.dumps(x)", "json", "pickle"),
    "sentinel": [
        "k = object()\ndef f(x=k): return x is k",
        "k = object()\ndef f(x=object()): return x is k",
    ],
    "method": _variants("class A:\n    def g(self): return §\ndef f(x): return A().g()", "1", "2"),
    "bases": _variants(
        "class A: pass\nclass B: pass\nclass C(§): pass\ndef f(x): return C",
        *("", "A", "B", "A, B", "B, A", "Exception"),
    ),
    "base's method": _variants(
        "class A:\n    def g(self): return §\nclass B(A): pass\ndef f(x): return B", "1", "2"
    ),
    "metaclass": _variants(
        "class M(type):\n    n = §\nclass A(metaclass=M): pass\ndef f(x): return A", "1", "2"
    ),
    "class name": _variants("class §: pass\nA = §\ndef f(x): return A", "P", "Q"),
    "class attribute's name": _variants("class A:\n    § = 1\ndef f(x): return A", "p", "q"),
    "slots": _variants("class A:\n    §\ndef f(x): return A", "pass", "__slots__ = ('a',)"),
    "property": _variants(
        "class A:\n    §\n    def p(self): return 1\ndef f(x): return A().p",
        *("@property", "@staticmethod", "@classmethod", ""),
    ),
    "property's body": _variants(
        "class A:\n    p = property(lambda self: §)\ndef f(x): return A().p", "1", "2"
    ),
    "cached property": _variants(
        "import functools\nclass A:\n    p = functools.cached_property(lambda self: §)\n"
        "def f(x): return A().p",
        *("1", "2"),
    ),
    "instance attribute": _variants(
        "class A: pass\na = A()\na.§\ndef f(x): return a", "p = 1", "p = 2", "q = 1"
    ),
    "instance's class": _variants(
        "class A:\n    def g(self): return §\na = A()\ndef f(x): return a.g()", "1", "2"
    ),
    "bound method": _variants(
        "class A:\n    def __init__(self, n): self.n = n\n    def g(self): return self.n\n"
        "    def h(self): return self.n\nf = A(§",
        *("1).g", "2).g", "1).h"),
    ),
    "slot value": _variants(
        "class A:\n    __slots__ = ('a', 'b')\na = A()\na.§\ndef f(x): return a",
        *("a = 1", "b = 1", "a = 2"),
    ),
    "subclasses of builtins": _variants(
        "class I(int): pass\nclass S(set): pass\nclass L(list): pass\nclass D(dict): pass\n"
        "k = §\ndef f(x): return k",
        *("I(1)", "I(2)", "1", "S([1])", "S([2])", "S()", "{1}", "L([1])", "[1]", "D({1: 2})"),
    ),
    "set attributes": _variants(
        "class S(set): pass\nk = S()\nk.n = §\ndef f(x): return k", "1", "2"
    ),
    "enum": _variants("import enum\nclass E(enum.Enum):\n    §\ndef f(x): return E.A",
        "A = 1; B = 2", "A = 2; B = 1", "B = 2; A = 1", "A = 1", "A = 1; B = 1", "A = 1.0; B = 2"),
    "enum member": _variants(
        "import enum\nclass E(enum.IntFlag):\n    A = 1\n    B = 2\nk = §\ndef f(x): return k",
        *("E.A", "E.B", "E.A | E.B", "1"),
    ),
    "enum kind": _variants(
        "import enum\nclass E(enum.§):\n    A = 1\ndef f(x): return E.A",
        *("Enum", "IntEnum", "Flag", "IntFlag"),
    ),
    "enum method": _variants(
        "import enum\nclass E(enum.Enum):\n    A = 1\n    def g(self): return §\n"
        "def f(x): return E.A.g()",
        *("1", "2"),
    ),
    "dataclass field": _variants(
        "import dataclasses\n@dataclasses.dataclass\nclass A:\n    §\ndef f(x): return A",
        *("p: int = 1", "p: int = 2", "q: int = 1", "p: str = 1", "p: int"),
    ),
    "dataclass options": _variants(
        "import dataclasses\n@dataclasses.dataclass(§)\nclass A:\n    p: int = 1\n"
        "def f(x): return A",
        *("", "frozen=True", "order=True", "eq=False", "slots=True"),
    ),
    "namedtuple": _variants(
        "import collections\nk = collections.namedtuple('A', '§\ndef f(x): return k",
        *("p q')(1, 2)", "p r')(1, 2)", "p q')(1, 3)", "p q')"),
    ),
    "partial": _variants(
        "import functools\ndef g(x, y=0): return x § y\nf = functools.partial(g, 1)", "+", "-"
    ),
    "cached function": _variants(
        "import functools\n@functools.lru_cache\ndef f(x): return §", "1", "2"
    ),
    "set of instances": _variants(
        "class A:\n    def __init__(self, n): self.n = n\nk = {A(1), A(§)}\ndef f(x): return k",
        *("2", "3"),
    ),
    "shared in a set": [
        "def g(): return 1\ng.k = []\nk = {g}, [g.k]\ndef f(x): return k",
        "def g(): return 1\ng.k = []\nk = {g}, [[]]\ndef f(x): return k",
    ],
    "cycles": [
        "k = []\nk.append(k)\ndef f(x): return k",
        "k = []\nk.append([k])\ndef f(x): return k",
        "k = []\nk.append((k,))\ndef f(x): return k",
        "k = [[]]\nk[0].append(k[0])\ndef f(x): return k",
    ],
    "type variable": _variants(
        "import typing\nk = typing.TypeVar(§)\ndef f(x): return k",
        *("'T'", "'U'", "'T', bound=int", "'T', int, str", "'T', covariant=True"),
    ),
    "own reduction": _variants(
        "class A:\n    def __reduce__(self): return (A, (), {'n': §})\nk = A()\n"
        "def f(x): return k",
        *("1", "2"),
    ),
}  # fmt: skip


@pytest.mark.parametrize("sources", DIFFERENT.values(), ids=DIFFERENT.keys())
@pytest.mark.parametrize("pickled", [False, True], ids=["live", "pickled"])
def test_what_counts(sources: list[str], pickled: bool) -> None:
    functions = [define(source) for source in sources]
    if pickled:
        try:
            functions = [round_trip(f) for f in functions]
        except (AttributeError, TypeError, pickle.PicklingError):
            pytest.skip("can't be pickled")
    digests = [digest_function(f) for f in functions]
    clashes = [
        (sources[i], sources[j])
        for i in range(len(digests))
        for j in range(i)
        if digests[i] == digests[j]
    ]
    assert not clashes


UNDIGESTIBLE = {
    "eval": "def f(x): return eval(x)",
    "exec": "def f(x): exec(x)",
    "globals": "def f(x): return globals()[x]",
    "locals": "def f(x): return locals()",
    "vars": "def f(x): return vars(x)",
    "__import__": "def f(x): return __import__(x)",
    "aliased eval": "run = eval\ndef f(x): return run(x)",
    "nested eval": "def f(x): return lambda: eval(x)",
    "helper's eval": "def g(x): return eval(x)\ndef f(x): return g(x)",
    "import_module": "import importlib\ndef f(x): return importlib.import_module(x)",
    "import_module by name": "from importlib import import_module as g\ndef f(x): return g(x)",
    "import_module inside": "def f(x):\n    import importlib as i\n    return i.import_module(x)",
    "builtins": "import builtins\ndef f(x): return builtins",
    "builtins inside": "def f(x):\n    import builtins\n    return builtins.eval(x)",
    "sys.modules": "import sys\ndef f(x): return sys.modules[x]",
    "frames": "import sys\ndef f(x): return sys._getframe()",
    "inspect": "import inspect\ndef f(x): return inspect.stack()",
    "traceback": "def f(x):\n    import traceback\n    return traceback.format_exc()",
    "function's globals": "def g(): pass\ndef f(x): return g.__globals__[x]",
    "line number": "def f(x):\n    try: x()\n    except Exception as e:\n"
    "        return e.__traceback__.tb_lineno",
    "query of globals": "k = 1\ndef f(x): return x.query('a > @k')",
    "main module": "import __main__\ndef f(x): return __main__.k",
    "relative import": "def f(x):\n    from . import g\n    return g",
    "generator": "k = (i for i in [])\ndef f(x): return k",
    "lock": "import threading\nk = threading.Lock()\ndef f(x): return k",
    "lock in a closure": "import threading\ndef make(k): return lambda x: k\n"
    "f = make(threading.RLock())",
    "lock in a class": "import threading\nclass A:\n    k = threading.Lock()\ndef f(x): return A",
    "lock in an instance": "import threading\nclass A: pass\na = A()\na.k = threading.Lock()\n"
    "def f(x): return a",
    "file": "import os\nk = open(os.devnull)\ndef f(x): return k",
    "weak reference": "import weakref\ndef g(): pass\nk = weakref.ref(g)\ndef f(x): return k",
    "thread": "import threading\nk = threading.Thread()\ndef f(x): return k",
    "set of twins": "class A: pass\nk = {A(), A()}\ndef f(x): return k",
    "set inside itself": "class A: pass\na = A()\na.k = frozenset({a})\n"
    "k = a.k\ndef f(x): return k",
    "failing reduction": "class A:\n    def __reduce__(self): raise KeyError('no')\nk = A()\n"
    "def f(x): return k",
    "strange reduction": "class A:\n    def __reduce__(self): return ()\nk = A()\n"
    "def f(x): return k",
    "singleton by name": "class A:\n    def __reduce__(self): return 'k'\nk = A()\n"
    "def f(x): return k",
    "user's ufunc": "import numpy\nk = numpy.frompyfunc(lambda x: x, 1, 1)\ndef f(x): return k",
    "registered subclasses": "import abc\nclass A(abc.ABC): pass\nA.register(int)\n"
    "def f(x): return isinstance(x, A)",
    "depth": "k = []\nfor _ in range(100000): k = [k]\ndef f(x): return k",
    "endless reduction": "class A:\n    def __reduce__(self): return (A, (A(),))\nk = A()\n"
    "def f(x): return k",
}  # fmt: skip


@pytest.mark.parametrize("source", UNDIGESTIBLE.values(), ids=UNDIGESTIBLE.keys())
def test_what_cannot_be_known(source: str) -> None:
    with pytest.raises(Undigestible):
        digest_function(define(source))


@pytest.mark.parametrize(
    "make",
    [
        threading.Lock,
        threading.Event,
        lambda: socket.socket(),
        lambda: io.TextIOWrapper(io.BytesIO()),
        lambda: weakref.WeakValueDictionary({1: threading.Thread()}),
        lambda: memoryview(b""),
        lambda: sys._getframe(),
        lambda: (i for i in [1]),
    ],
)
def test_values_that_cannot_be_known(make: Callable[[], object]) -> None:
    value = make()
    with pytest.raises(Undigestible):
        digest_value([value])
    if isinstance(value, socket.socket):
        value.close()


def test_the_reason_names_the_place() -> None:
    source = "import threading\nk = threading.Lock()\ndef g(x): return k\ndef f(x): return g(x)"
    with pytest.raises(Undigestible, match="global 'g': global 'k': .*lock"):
        digest_function(define(source))


def test_not_callable() -> None:
    not_callable: Any = 3
    with pytest.raises(Undigestible):
        digest_function(not_callable)


# -- modules ----------------------------------------------------------------------------------


class Modules(UserModules):
    """Gives the digests of functions that use them."""

    def digest(self, source: str) -> str:
        self.forget()
        return digest_function(round_trip(define(source)))


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Modules]:
    yield from Modules.importable(tmp_path, monkeypatch)


CALLS = {
    "function": "from helpers_hf import g\ndef f(x): return g(x)",
    "module": "import helpers_hf\ndef f(x): return helpers_hf.g(x)",
    "inside": "def f(x):\n    import helpers_hf\n    return helpers_hf.g(x)",
    "from inside": "def f(x):\n    from helpers_hf import g\n    return g(x)",
    "class": "from helpers_hf import A\ndef f(x): return A().g(x)",
    "instance": "import helpers_hf\na = helpers_hf.A()\ndef f(x): return a.g(x)",
    "passed on": "import helpers_hf\ndef h(m, x): return m.g(x)\ndef f(x): return h(helpers_hf, x)",
    "default": "import helpers_hf\ndef f(x, m=helpers_hf): return m.g(x)",
}
HELPERS = """
import helpers2_hf
K = 1
def g(x): return helpers2_hf.h(x) + K
class A:
    def g(self, x): return g(x)
"""


@pytest.mark.parametrize("source", CALLS.values(), ids=CALLS.keys())
def test_user_modules_count_by_content(modules: Modules, source: str) -> None:
    modules.write("helpers_hf", HELPERS)
    modules.write("helpers2_hf", "def h(x): return 1")
    before = modules.digest(source)
    assert modules.digest(source) == before
    modules.write("helpers_hf", HELPERS.replace("K = 1", "K = 2"))
    other_value = modules.digest(source)
    modules.write("helpers_hf", HELPERS)
    modules.write("helpers2_hf", "def h(x): return 2")
    other_helper = modules.digest(source)
    assert len({before, other_value, other_helper}) == 3
    modules.write("helpers2_hf", "def h(x): return 1")
    assert modules.digest(source) == before


def test_a_file_that_changed_after_its_import_counts(modules: Modules) -> None:
    modules.write("helpers_hf", "def g(x): return 1")
    f = define("from helpers_hf import g\ndef f(x): return g(x)")
    before = digest_function(f)
    modules.write("helpers_hf", "def g(x): return 2")
    assert digest_function(f) != before


@pytest.mark.parametrize("decorator", ["functools.lru_cache", "helpers2_hf.decorator"])
def test_changed_files_of_decorated_functions_count(modules: Modules, decorator: str) -> None:
    modules.write(
        "helpers2_hf",
        """
        import functools
        def decorator(g): return functools.wraps(g)(lambda x: g(x))
        """,
    )
    text = f"import functools, helpers2_hf\n@{decorator}\ndef g(x): return 1"
    modules.write("helpers_hf", text)
    f = define("from helpers_hf import g\ndef f(x): return g(x)")
    seen = [digest_function(f)]
    modules.write("helpers_hf", text + "\nK = 1")
    seen.append(digest_function(f))
    if "helpers2" in decorator:
        modules.write("helpers2_hf", "def decorator(g): return lambda x: 3")
        seen.append(digest_function(f))
    assert len(set(seen)) == len(seen)


def test_a_deleted_source(modules: Modules) -> None:
    modules.write("helpers_hf", "def g(x): return 1")
    f = define("from helpers_hf import g\ndef f(x): return g(x)")
    (modules.directory / "helpers_hf.py").unlink()
    with pytest.raises(Undigestible, match="helpers_hf"):
        digest_function(f)


def test_modules_that_are_not_loaded_are_read(modules: Modules) -> None:
    source = "def f(x):\n    from pkg_hf.a import g\n    return g(x)"
    for name, text in {"__init__": "", "a": "from .b import h\ndef g(x): return h()"}.items():
        modules.write(f"pkg_hf.{name}", text)
    modules.write("pkg_hf.b", "def h(): return 1")
    before = modules.digest(source)
    assert "pkg_hf" not in sys.modules, "nothing may be imported"
    modules.write("pkg_hf.b", "def h(): return 2")
    assert modules.digest(source) != before
    modules.write("pkg_hf.b", "def h(): return eval('1')")
    with pytest.raises(Undigestible):
        modules.digest(source)


def test_a_method_of_the_name_eval_reaches_nothing(modules: Modules) -> None:
    table_function = "class Two:\n    def eval(self, x): yield x\n"
    modules.write("helpers_hf", table_function + "def g(x): return 1")
    source = "from helpers_hf import g\ndef f(x): return g(x)"
    before = modules.digest(source)
    modules.write("helpers_hf", table_function + "def g(x): return 2")
    assert modules.digest(source) != before
    for reaching in ("one = eval('1')", "class One:\n    run = eval", "from builtins import eval"):
        modules.write("helpers_hf", f"{table_function}{reaching}\ndef g(x): return 1")
        with pytest.raises(Undigestible):
            modules.digest(source)
    modules.write("helpers2_hf", table_function)
    modules.digest("def f(x):\n    import helpers2_hf\n    return helpers2_hf")


def test_relative_imports_inside(modules: Modules) -> None:
    modules.write("pkg_hf.__init__", "")
    modules.write("pkg_hf.a", "def f(x):\n    from . import b\n    return b.h(x)")
    modules.write("pkg_hf.b", "def h(x): return 1")
    source = "from pkg_hf.a import f"
    before = modules.digest(source)
    modules.write("pkg_hf.b", "def h(x): return 2")
    assert modules.digest(source) != before


def test_attributes_by_name_of_a_user_module(modules: Modules) -> None:
    modules.write("helpers_hf", "def g(x): return 1")
    with pytest.raises(Undigestible, match="helpers_hf"):
        modules.digest("import helpers_hf\ndef f(x): return getattr(helpers_hf, x)")
    modules.digest("def f(x): return getattr(x, 'a')")


def test_module_level_getattr_counts(modules: Modules) -> None:
    source = "import helpers_hf\ndef f(x): return helpers_hf.g"
    modules.write("helpers_hf", "from helpers2_hf import __getattr__")
    modules.write("helpers2_hf", "def __getattr__(name): return 1")
    before = modules.digest(source)
    modules.write("helpers2_hf", "def __getattr__(name): return 2")
    assert modules.digest(source) != before


def test_a_user_module_with_a_standard_name_counts_by_content(modules: Modules) -> None:
    loaded = sys.modules.pop("colorsys", None)
    try:
        source = "import colorsys\ndef f(x): return colorsys.g(x)"
        modules.write("colorsys", "def g(x): return 1")
        before = modules.digest(source)
        modules.write("colorsys", "def g(x): return 2")
        assert modules.digest(source) != before
    finally:
        modules.forget()
        if loaded is not None:
            sys.modules["colorsys"] = loaded


def test_a_monkey_patched_library_function_counts_by_content(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    digests = set()
    for body in ("1", "2"):
        source = f"import json, functools\n@functools.wraps(json.dumps)\ndef f(x): return {body}"
        patch = define(source)
        patch.__dict__.clear()
        monkeypatch.setattr(json, "dumps", patch)
        digests.add(digest_function(patch))
        monkeypatch.undo()
    assert len(digests) == 2


def test_the_version_of_a_distribution_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    f = define("import numpy as np\ndef f(x): return np.mean(x)")
    before = digest_function(f)
    monkeypatch.setattr(reference_encoder, "origin_of", lambda name: "numpy 0.0")
    assert digest_function(f) != before


def test_the_version_of_python_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest_function(lambda x: x)
    monkeypatch.setattr(function_encoder, "PYTHON", "cpython 3.0")
    assert digest_function(lambda x: x) != before


@pytest.mark.parametrize(
    ("name", "origin"),
    [
        ("json", "cpython"),
        ("os.path", "cpython"),
        ("sys", "cpython"),
        ("no_such_module_hf", None),
        ("__main__", None),
        (__name__, None),
        ("numpy", f"numpy {np.__version__}"),
        ("pandas.core.frame", f"pandas {pd.__version__}"),
    ],
)
def test_origins(name: str, origin: str | None) -> None:
    found = module_origin.origin_of(name)
    if origin is None:
        assert found is None
    else:
        assert found is not None
        assert found.lower().startswith(origin)


def test_broadcast_variables_count_by_value(tmp_path: Path) -> None:
    broadcast = pytest.importorskip("pyspark.core.broadcast")
    digests = []
    for number, value in enumerate(([1], [2], [1])):
        path = tmp_path / str(number)
        path.write_bytes(pickle.dumps(value))
        digests.append(digest_value(broadcast.Broadcast(path=str(path))))
    assert digests[0] == digests[2] != digests[1]


def test_accumulators_are_refused() -> None:
    accumulators = pytest.importorskip("pyspark.accumulators")
    accumulator = accumulators.Accumulator(0, 0, accumulators.AddingAccumulatorParam(0))
    with pytest.raises(Undigestible, match="accumulator"):
        digest_value(accumulator)


# -- any values -------------------------------------------------------------------------------

LEAVES = (
    st.none()
    | st.booleans()
    | st.integers(-2, 2)
    | st.integers()
    | st.sampled_from([0.0, -0.0, 1.0, float("nan"), 2.5])
    | st.sampled_from([0j, 1 + 0j])
    | st.text(max_size=2)
    | st.binary(max_size=2)
    | st.sampled_from([decimal.Decimal(1), decimal.Decimal("1.0"), int, len])
)
HASHABLE = st.recursive(
    LEAVES,
    lambda inner: st.lists(inner, max_size=3).map(tuple) | st.frozensets(inner, max_size=3),
    max_leaves=6,
)
NESTED = st.recursive(
    HASHABLE,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
        | st.dictionaries(HASHABLE, inner, max_size=3)
        | st.sets(HASHABLE, max_size=3)
    ),
    max_leaves=10,
)


def same(one: Any, other: Any) -> bool:
    """Whether two values are equal, types included."""
    if type(one) is not type(other):
        return False
    if isinstance(one, (float, complex)):
        return repr(one) == repr(other)
    if isinstance(one, decimal.Decimal):
        return bool(one.as_tuple() == other.as_tuple())
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, dict):
        return same(list(one.items()), list(other.items()))
    if isinstance(one, (set, frozenset)):
        left = list(other)
        for item in one:
            found = next((i for i, candidate in enumerate(left) if same(item, candidate)), None)
            if found is None:
                return False
            del left[found]
        return not left
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


@given(NESTED)
def test_digests_survive_copies(value: Any) -> None:
    value = rebuilt(value)
    assert digest_value(value) == digest_value(rebuilt(value)) == digest_value(round_trip(value))


@given(st.lists(HASHABLE, max_size=4), st.lists(HASHABLE, max_size=4))
def test_digests_of_constants(one: list[Any], other: list[Any]) -> None:
    def with_constants(constants: list[Any]) -> Any:
        code = (lambda x: x).__code__.replace(co_consts=(None, *constants))
        return types.FunctionType(code, {})

    matches = digest_function(with_constants(one)) == digest_function(with_constants(other))
    assert matches == same(one, other)


def test_small_functions_are_digested_fast() -> None:
    f = define("k = 3\ndef g(x): return x + k\ndef f(x, y=2): return g(x) * y if x else None")
    digest_function(f)
    times = []
    for _ in range(20):
        start = time.perf_counter()
        digest_function(f)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.001


def test_large_values_are_digested_fast() -> None:
    start = time.perf_counter()
    digest_value([b"x" * 10_000_000, list(range(1_000_000)), re.compile("a")])
    assert time.perf_counter() - start < 5


# --- what says itself what is to be digested ------------------------------------------------------


class Sealed:
    """Holds something that no result depends on, and something that every result does."""

    def __init__(self, secret: str, content: object) -> None:
        self.secret = secret
        self.content = content

    def __holdfast_digest__(self) -> object:
        return self.content


def test_an_object_counts_as_what_it_says_it_does() -> None:
    assert digest_value([Sealed("a", 1)]) == digest_value([Sealed("b", 1)])
    assert digest_value(Sealed("a", 1)) != digest_value(Sealed("a", 2))
    assert digest_value(Sealed("a", 1)) != digest_value(1)
    shared, one = Sealed("a", []), Sealed("a", [])
    assert digest_value([shared, shared]) != digest_value([shared, one])
    with pytest.raises(Undigestible, match="Sealed"):
        digest_value(Sealed("a", socket.socket()))


def test_a_broadcast_of_which_there_is_but_an_id_cannot_be_known() -> None:
    from holdfast.spark.python_functions import _UnseenBroadcast

    with pytest.raises(Undigestible, match="a broadcast variable"):
        digest_value(_UnseenBroadcast(3))


def test_what_holdfast_brings_counts_by_its_version() -> None:
    assert (module_origin.origin_of("holdfast.plan.value_digest") or "").startswith("holdfast ")
