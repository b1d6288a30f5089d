"""What a function calls itself, and what it can see of its machine, counts or can't be known."""

from __future__ import annotations

import itertools
import pickle
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark import cloudpickle

from holdfast.plan import module_encoder
from holdfast.plan.function_digest import Undigestible, digest_function, digest_value
from tests.unit.user_modules import UserModules

_NUMBERS = itertools.count()


def define(source: str, name: str = "f") -> Any:
    """What a notebook would have under a name after running a source, in a place of its own."""
    number = next(_NUMBERS)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    code = compile("\n" * number + textwrap.dedent(source), f"cell {number}", "exec", 0, True)
    exec(code, namespace)
    return namespace[name]


def digests(source: str) -> tuple[str, str, str]:
    """The digests of a function as it is, as it is pickled, and as a command for workers."""
    f = define(source)
    try:
        pickled = cloudpickle.loads(cloudpickle.dumps(f))
    except pickle.PicklingError:
        # What caches results is found by its name, which there is none for here.
        pickled = f
    return digest_function(f), digest_function(pickled), digest_value((pickled, "bigint"))


# -- names ------------------------------------------------------------------------------------

# § is what a function is called in one source, and in the other.
NAMES_COUNT = {
    "closed over, asked by getattr": (
        "def make(g): return lambda x: getattr(g, '__name__')\ndef §(x): return x\nf = make(§)"
    ),
    "closed over, asked by a computed name": (
        "def make(g): return lambda x: getattr(g, '__' + x + '__')\ndef §(x): return x\nf = make(§)"
    ),
    "closed over, shown": (
        "def make(g): return lambda x: repr(g)\ndef §(x): return x\nf = make(§)"
    ),
    "closed over, as text": "def make(g): return lambda x: str(g)\ndef §(x): return x\nf = make(§)",
    "closed over, formatted": (
        "def make(g): return lambda x: '{0.__name__}'.format(g)\ndef §(x): return x\nf = make(§)"
    ),
    "closed over, formatted by what is given": (
        "def make(g, text): return lambda x: text.format(g)\n"
        "def §(x): return x\nf = make(§, '{0.__qualname__}')"
    ),
    "closed over, in an f-string": (
        "def make(g): return lambda x: f'{g}'\ndef §(x): return x\nf = make(§)"
    ),
    "closed over, with a percent sign": (
        "def make(g): return lambda x: '%s' % g\ndef §(x): return x\nf = make(§)"
    ),
    "closed over, passed on": (
        "def show(g): return str(g)\ndef make(g): return lambda x: show(g)\n"
        "def §(x): return x\nf = make(§)"
    ),
    "a default": "def §(x): return x\ndef f(x, g=§): return str(g)",
    "a keyword default": "def §(x): return x\ndef f(x, *, g=§): return str(g)",
    "a global": "def §(x): return x\ng = §\ndef f(x): return str(g)",
    "a global that is called as well": ("def §(x): return x\ng = §\ndef f(x): return g(x), str(g)"),
    "in a list": "def §(x): return x\nk = [§]\ndef f(x): return str(k[0])",
    "in a dict": "def §(x): return x\nk = {'a': §}\ndef f(x): return str(k['a'])",
    "in a tuple": "def §(x): return x\nk = (§,)\ndef f(x): return str(k)",
    "in a set": "def §(x): return x\nk = {§}\ndef f(x): return str(k)",
    "in an instance": (
        "class A: pass\na = A()\ndef §(x): return x\na.g = §\ndef f(x): return str(a.g)"
    ),
    "in a class": "def §(x): return x\nclass A:\n    g = §\ndef f(x): return str(A.g)",
    "in a partial": (
        "import functools\ndef §(x): return x\nk = functools.partial(§)\n"
        "def f(x): return str(k.func)"
    ),
    "as an argument of a partial": (
        "import functools\ndef §(x): return x\ndef g(h, x): return str(h)\n"
        "f = functools.partial(g, §)"
    ),
    "as an attribute": "def §(x): return x\ndef f(x): return str(f.g)\nf.g = §",
    "wrapped": (
        "import functools\ndef §(x): return x\ndef h(x): return functools.wraps(§)(h)\n"
        "@functools.wraps(§)\ndef g(x): return x\ng.__name__ = g.__qualname__ = 'g'\n"
        "def f(x): return str(g.__wrapped__)"
    ),
    "a bound method's function": (
        "import types\ndef §(self): return 1\nm = types.MethodType(§, 1)\n"
        "def f(x): return str(m.__func__)"
    ),
    "a cached function": (
        "import functools\ndef §(x): return x\nk = functools.lru_cache(§)\ndef f(x): return str(k)"
    ),
    "a static method": (
        "def §(x): return x\nclass A:\n    g = staticmethod(§)\ndef f(x): return str(A.g)"
    ),
    "a property": "def §(self): return 1\nclass A:\n    p = property(§)\ndef f(x): return A.p.fget",
    "looked at by pandas": (
        "import pandas as pd\ndef §(v): return v.max()\n"
        "def f(x): return pd.DataFrame({'a': [1]}).agg([§]).index[0]"
    ),
    "handed to another helper": (
        "def §(x): return x\ndef show(g): return repr(g)\ndef f(x): return show(§)"
    ),
    "of a function made inside": (
        "def make():\n    def §(x):\n        def inner(): pass\n        return str(inner)\n"
        "    return §\nf = make()"
    ),
    "of what a function made inside is called": (
        "def §(x):\n    def inner(): pass\n    return inner.__qualname__\nf = §"
    ),
    "a class": "class §: pass\nA = §\ndef f(x): return str(A)",
    "a class of an instance": "class §: pass\na = §()\ndef f(x): return type(a).__name__",
    "an enumeration": (
        "import enum\nclass §(enum.Enum):\n    A = 1\nE = §\ndef f(x): return str(E.A)"
    ),
    "own name, in a helper": ("def §(x): return §.__name__\ng = §\ndef f(x): return g(x)"),
}


@pytest.mark.parametrize("source", NAMES_COUNT.values(), ids=NAMES_COUNT.keys())
def test_names_count_where_code_may_ask_for_them(source: str) -> None:
    one, other = source.replace("§", "first"), source.replace("§", "second")
    assert len(set(digests(one))) <= 2, "alive and pickled it is the same"
    assert all(a != b for a, b in zip(digests(one), digests(other), strict=True))
    assert digests(one) == digests(one)


NAMES_DO_NOT_COUNT = {
    "of the function": "def §(x): return x\nf = §",
    "of a function that is called": (
        "def make(g): return lambda x: g(x)\ndef §(x): return x\nf = make(§)"
    ),
    "of one that is called with a star": (
        "def make(g): return lambda *x: g(*x)\ndef §(x): return x\nf = make(§)"
    ),
    "of a partial's": "import functools\ndef §(x): return x\nf = functools.partial(§)",
    "of a partial's that is called": (
        "import functools\ndef §(x): return x\ng = functools.partial(§)\ndef f(x): return g(x)"
    ),
    "of a cached function": "import functools\ndef §(x): return x\nf = functools.lru_cache(§)",
    "of a bound method that is called": (
        "import types\ndef §(self): return 1\nm = types.MethodType(§, 1)\ndef f(x): return m()"
    ),
    "of one that makes lambdas": "def §(x): return sorted(x, key=lambda v: -v)\nf = §",
    "of one that calls what it makes, and makes texts": (
        "def §(x):\n    def inner(y): return y + 1\n    return str(inner(x))\nf = §"
    ),
    "of one with comprehensions": "def §(x): return ','.join(str(v) for v in x)\nf = §",
    "of one that is wrapped": (
        "import functools\ndef §(x): return x\n@functools.wraps(§)\ndef f(x): return 1"
    ),
}


@pytest.mark.parametrize("source", NAMES_DO_NOT_COUNT.values(), ids=NAMES_DO_NOT_COUNT.keys())
def test_names_do_not_count_where_functions_are_merely_called(source: str) -> None:
    assert digests(source.replace("§", "first")) == digests(source.replace("§", "second"))


ASKED = {
    "documentation by getattr": (
        "def g(x): return x\ng.__doc__ = §\ndef f(x, h=g): return getattr(h, x)"
    ),
    "documentation by format": (
        "def g(x): return x\ng.__doc__ = §\ntext = '{0.__doc__}'\n"
        "def f(x, h=g): return text.format(h)"
    ),
    "annotations by getattr": (
        "def g(x: §): return x\ndef f(x, h=g): return getattr(h, '__annotations__')"
    ),
    "annotations": "def g(x: §): return x\ndef f(x, h=g): return h.__annotations__",
    "module": "def g(x): return x\ng.__module__ = §\ndef f(x, h=g): return h.__module__",
    "module by getattr": (
        "def g(x): return x\ng.__module__ = §\ndef f(x, h=g): return getattr(h, x)"
    ),
    "a class's documentation": "class A: __doc__ = §\ndef f(x): return getattr(A, x)",
    "a class's module": "class A: __module__ = §\ndef f(x): return str(A)",
}


@pytest.mark.parametrize("source", ASKED.values(), ids=ASKED.keys())
def test_what_else_code_may_ask_for(source: str) -> None:
    one, other = source.replace("§", "'a'"), source.replace("§", "'b'")
    assert digests(one) == digests(one)
    assert all(a != b for a, b in zip(digests(one), digests(other), strict=True))


# -- the outside world ------------------------------------------------------------------------

OUTSIDE = {
    "open": "def f(x): return open(x).read()",
    "open to read": "def f(x): return open(x, 'rb').read()",
    "open to read and write": "def f(x): return open(x, 'a+').read()",
    "open with a mode that is not known": "def f(x, m='r'): return open(x, m)",
    "open, aliased": "g = open\ndef f(x): return g(x).read()",
    "open in a container": "k = [open]\ndef f(x): return k[0](x).read()",
    "open in a closure": "def make(g): return lambda x: g(x)\nf = make(open)",
    "open, partially": "import functools\nf = functools.partial(open, '/etc/hostname')",
    "io.open": "import io\ndef f(x): return io.open(x)",
    "io.FileIO": "import io\ndef f(x): return io.FileIO(x)",
    "os.open": "import os\ndef f(x): return os.open(x, 0)",
    "codecs.open": "import codecs\ndef f(x): return codecs.open(x)",
    "os.environ": "import os\ndef f(x): return os.environ['A']",
    "os.environ.get": "import os\ndef f(x): return os.environ.get(x)",
    "os.getenv": "import os\ndef f(x): return os.getenv(x)",
    "environ, renamed": "from os import environ as e\ndef f(x): return e[x]",
    "environ, renamed inside": "def f(x):\n    from os import environ as e\n    return e[x]",
    "getenv, renamed inside": "def f(x):\n    from os import getenv as e\n    return e(x)",
    "os inside": "def f(x):\n    import os\n    return os.getenv(x)",
    "os inside, renamed": "def f(x):\n    import os as o\n    return o.getenv(x)",
    "os inside a function inside": (
        "def f(x):\n    import os\n    def g(): return os.getenv(x)\n    return g()"
    ),
    "os as a variable": "import os\ndef f(x):\n    o = os\n    return o.getenv(x)",
    "os as an argument": "import os\ndef g(o, x): return o.getenv(x)\ndef f(x): return g(os, x)",
    "os in a container": "import os\nk = {'os': os}\ndef f(x): return k['os'].getenv(x)",
    "os in an instance": (
        "import os\nclass A: pass\na = A()\na.os = os\ndef f(x): return a.os.getenv(x)"
    ),
    "os in a class body": ("def f(x):\n    class A:\n        import os\n    return A.os.getenv(x)"),
    "os closed over": "def make():\n    import os\n    return lambda x: os.getenv(x)\nf = make()",
    "os by name": "import os\ndef f(x): return getattr(os, x)",
    "os by a constant name": "import os\ndef f(x): return getattr(os, 'getenv')(x)",
    "os by attrgetter": "import os, operator\nk = operator.attrgetter('environ')\n"
    "def f(x): return k(os)",
    "os through another module": "import shutil\ndef f(x): return shutil.os.getenv(x)",
    "os.path.exists": "import os\ndef f(x): return os.path.exists(x)",
    "exists": "from os.path import exists\ndef f(x): return exists(x)",
    "exists, through a module": "import os.path as p\ndef f(x): return p.exists(x)",
    "os.path.abspath": "import os\ndef f(x): return os.path.abspath(x)",
    "os.path.expanduser": "import os\ndef f(x): return os.path.expanduser(x)",
    "os.listdir": "import os\ndef f(x): return os.listdir(x)",
    "os.walk": "import os\ndef f(x): return list(os.walk(x))",
    "os.stat": "import os\ndef f(x): return os.stat(x).st_size",
    "os.getpid": "import os\ndef f(x): return os.getpid()",
    "os.getcwd": "import os\ndef f(x): return os.getcwd()",
    "os.urandom": "import os\ndef f(x): return os.urandom(4)",
    "os.cpu_count": "import os\ndef f(x): return os.cpu_count()",
    "os.popen": "import os\ndef f(x): return os.popen(x).read()",
    "os.uname": "import os\ndef f(x): return os.uname().nodename",
    "glob": "import glob\ndef f(x): return glob.glob(x)",
    "shutil": "import shutil\ndef f(x): return shutil.which(x)",
    "tempfile": "import tempfile\ndef f(x): return tempfile.mkdtemp()",
    "path": "import pathlib\ndef f(x): return pathlib.Path(x).read_text()",
    "path by name": "from pathlib import Path\ndef f(x): return Path(x).exists()",
    "path in a closure": (
        "from pathlib import Path\ndef make(p): return lambda x: p.read_bytes()\n"
        "f = make(Path('a'))"
    ),
    "path below a path": (
        "from pathlib import Path\nk = Path('a')\ndef f(x): return (k / x).is_file()"
    ),
    "path's working directory": "from pathlib import Path\ndef f(x): return str(Path.cwd())",
    "path's open": "from pathlib import Path\ndef f(x): return Path(x).open().read()",
    "path inside": "def f(x):\n    from pathlib import Path as P\n    return P(x).stat().st_size",
    "time": "import time\ndef f(x): return time.time()",
    "time by name": "from time import time\ndef f(x): return time()",
    "perf_counter": "import time\ndef f(x): return time.perf_counter()",
    "monotonic": "import time\ndef f(x): return time.monotonic_ns()",
    "localtime of now": "import time\ndef f(x): return time.localtime()",
    "strftime of now": "import time\ndef f(x): return time.strftime('%Y')",
    "now": "import datetime\ndef f(x): return datetime.datetime.now()",
    "now by name": "from datetime import datetime as d\ndef f(x): return d.now()",
    "now, aliased": "from datetime import datetime\nnow = datetime.now\ndef f(x): return now()",
    "now in UTC": "import datetime as d\ndef f(x): return d.datetime.now(d.timezone.utc)",
    "utcnow": "from datetime import datetime\ndef f(x): return datetime.utcnow()",
    "today": "from datetime import date\ndef f(x): return date.today()",
    "today of what is handed in": "def f(x): return (x.today() - x).days",
    "today of an instance": (
        "import datetime\nk = datetime.date(2020, 1, 1)\ndef f(x): return k.today()"
    ),
    "now of pandas": "import pandas as pd\ndef f(x): return pd.Timestamp.now()",
    "now of pandas by a text": "import pandas as pd\ndef f(x): return pd.Timestamp('now')",
    "today of numpy by a text": "import numpy as np\ndef f(x): return np.datetime64('today')",
    "random": "import random\ndef f(x): return random.random()",
    "random inside": "def f(x):\n    import random\n    return random.randint(0, x)",
    "random by name inside": "def f(x):\n    from random import choice\n    return choice(x)",
    "random without a seed": "import random\ndef f(x): return random.Random().random()",
    "random with a seed of None": "import random\ndef f(x): return random.Random(None).random()",
    "system random": "import random\ndef f(x): return random.SystemRandom().random()",
    "numpy.random": "import numpy as np\ndef f(x): return np.random.rand()",
    "numpy.random inside": "def f(x):\n    from numpy import random as r\n    return r.normal()",
    "numpy's generator without a seed": (
        "import numpy as np\ndef f(x): return np.random.default_rng().random()"
    ),
    "numpy's generator, aliased": (
        "import numpy as np\ng = np.random.default_rng\ndef f(x): return g().random()"
    ),
    "numpy's state without a seed": (
        "from numpy.random import RandomState\ndef f(x): return RandomState().rand()"
    ),
    "a sample of a frame": "def f(x): return x.sample(3)",
    "a sample of a frame, one of many": "def f(x): return x.groupby('a').sample(n=1, weights='b')",
    "draws of a distribution": "def f(x): return x.rvs(size=3)",
    "a sample with arguments that are unpacked": "def f(x, a): return x.sample(*a)",
    "uuid4": "import uuid\ndef f(x): return str(uuid.uuid4())",
    "uuid1 by name": "from uuid import uuid1\ndef f(x): return str(uuid1())",
    "uuid4 as a factory": (
        "import collections, uuid\nk = collections.defaultdict(uuid.uuid4)\ndef f(x): return k[x]"
    ),
    "uuid4 of a field": (
        "import dataclasses, uuid\n@dataclasses.dataclass\nclass A:\n"
        "    p: object = dataclasses.field(default_factory=uuid.uuid4)\ndef f(x): return A().p"
    ),
    "secrets": "import secrets\ndef f(x): return secrets.token_hex()",
    "socket": "import socket\ndef f(x): return socket.gethostname()",
    "socket inside": "def f(x):\n    from socket import gethostname as g\n    return g()",
    "subprocess": "import subprocess\ndef f(x): return subprocess.check_output(x)",
    "platform": "import platform\ndef f(x): return platform.node()",
    "locale": "import locale\ndef f(x): return locale.getlocale()",
    "getpass": "import getpass\ndef f(x): return getpass.getuser()",
    "thread": "import threading\ndef f(x): return threading.get_ident()",
    "thread's name": "from threading import current_thread as t\ndef f(x): return t().name",
    "processes": "import multiprocessing as m\ndef f(x): return m.cpu_count()",
    "ctypes": "import ctypes\ndef f(x): return ctypes.CDLL(None).getpid()",
    "sqlite": "import sqlite3\ndef f(x): return sqlite3.connect(x)",
    "urllib": "import urllib.request\ndef f(x): return urllib.request.urlopen(x).read()",
    "urllib inside": "def f(x):\n    from urllib.request import urlopen\n    return urlopen(x)",
    "http": "import http.client\ndef f(x): return http.client.HTTPConnection(x)",
    "requests inside": "def f(x):\n    import aiohttp\n    return aiohttp.ClientSession()",
    "command line": "import sys\ndef f(x): return sys.argv[0]",
    "search path": "import sys\ndef f(x): return sys.path[0]",
    "executable": "import sys\ndef f(x): return sys.executable",
    "standard input": "import sys\ndef f(x): return sys.stdin.read()",
    "references": "import sys\ndef f(x): return sys.getrefcount(x)",
    "identity": "def f(x): return id(x)",
    "identity, as a key": "def f(x): return sorted(x, key=id)",
    "own file": "def f(x): return __file__",
    "a module's file": "import json\ndef f(x): return json.__file__",
    "a module's file by name": "import json\ndef f(x): return getattr(json, '__file__')",
    "a module's specification": "import json\ndef f(x): return json.__spec__.origin",
    "own specification": "def f(x): return __spec__",
    "frame of a generator": "def f(x): return (v for v in x).gi_frame.f_lineno",
    "line number by name": (
        "def g(x): return x\n"
        "def f(x, h=g): return getattr(getattr(h, '__code__'), 'co_firstlineno')"
    ),
    "file name by format": (
        "def g(x): return x\ndef f(x, h=g): return '{0.__code__.co_filename}'.format(h)"
    ),
    "exception": "import sys\ndef f(x): return sys.exception()",
    "metadata": "import importlib.metadata as m\ndef f(x): return m.version('numpy')",
    "resources": "from importlib import resources as r\ndef f(x): return r.files('a')",
    "numpy.load": "import numpy as np\ndef f(x): return np.load(x)",
    "numpy.loadtxt by name": "from numpy import loadtxt\ndef f(x): return loadtxt(x)",
    "numpy.fromfile": "import numpy\ndef f(x): return numpy.fromfile(x)",
    "numpy.fromregex": "import numpy\ndef f(x): return numpy.fromregex(x, '(a)', 'S1')",
    "pandas' handles": "import pandas as pd\ndef f(x): return pd.io.common.get_handle(x, 'r')",
    "pyarrow.ipc": "import pyarrow.ipc as p\ndef f(x): return p.open_file(x).read_all()",
    "pyarrow's random": "import pyarrow.compute as pc\ndef f(x): return pc.random(len(x))",
    "pyarrow's functions by name": (
        "import pyarrow.compute as pc\ndef f(x): return pc.call_function('random', [])"
    ),
    "numpy.memmap": "import numpy as np\ndef f(x): return np.memmap(x)",
    "pandas.read_csv": "import pandas as pd\ndef f(x): return pd.read_csv(x)",
    "pandas.read_parquet inside": (
        "def f(x):\n    import pandas as p\n    return p.read_parquet(x)"
    ),
    "pandas.read_sql by name": "from pandas import read_sql as r\ndef f(x): return r(x, x)",
    "pandas passed on": (
        "import pandas as pd\ndef g(p, x): return p.read_csv(x)\ndef f(x): return g(pd, x)"
    ),
    "pyarrow.parquet": "import pyarrow.parquet as q\ndef f(x): return q.read_table(x)",
    "pyarrow.memory_map": "import pyarrow as pa\ndef f(x): return pa.memory_map(x)",
    "a pickle": "import pickle\ndef f(x): return pickle.loads(x)",
    "a pickle by name": "from pickle import loads\ndef f(x): return loads(x)",
    "task context": (
        "from pyspark import TaskContext\ndef f(x): return TaskContext.get().partitionId()"
    ),
    "task context's properties": (
        "from pyspark import TaskContext as T\ndef f(x): return T.get().getLocalProperty('a')"
    ),
    "task context inside": (
        "def f(x):\n    from pyspark import TaskContext\n"
        "    return TaskContext.get().attemptNumber()"
    ),
    "task context inside, of its module": (
        "def f(x):\n    import pyspark.taskcontext as t\n    return t.TaskContext.get().resources()"
    ),
    "task context of Spark": "import pyspark\ndef f(x): return pyspark.TaskContext.get()",
    "barrier context": "from pyspark import BarrierTaskContext as B\ndef f(x): return B.get()",
    "files of Spark": "from pyspark import SparkFiles\ndef f(x): return SparkFiles.get(x)",
    "files of Spark inside": (
        "def f(x):\n    import pyspark\n    return open(pyspark.SparkFiles.get(x)).read()"
    ),
    "thread of Spark": "from pyspark import InheritableThread as T\ndef f(x): return T(target=x)",
    "session of Spark": (
        "from pyspark.sql import SparkSession as S\ndef f(x): return S.getActiveSession()"
    ),
    "in a helper": "import os\ndef g(x): return os.getenv(x)\ndef f(x): return g(x)",
    "in a method": (
        "import os\nclass A:\n    def g(self, x): return os.getenv(x)\ndef f(x): return A().g(x)"
    ),
    "in an unpickled object": (
        "import os\nclass A:\n    def __init__(self): self.p = os.getenv('A')\n"
        "    def __reduce__(self): return (A, ())\na = A()\ndef f(x): return a.p"
    ),
    "in a decorator": (
        "import os, functools\ndef d(g):\n    @functools.wraps(g)\n"
        "    def wrapper(x): return os.getenv(g(x))\n    return wrapper\n@d\ndef f(x): return x"
    ),
    "in a lambda in a default": "import os\ndef f(x, g=lambda: os.getenv('A')): return g()",
    "in a property": (
        "import os\nclass A:\n    @property\n    def p(self): return os.getpid()\n"
        "a = A()\ndef f(x): return a.p"
    ),
    "in a metaclass": (
        "import os\nclass M(type):\n    def __call__(cls): return os.getpid()\n"
        "class A(metaclass=M): pass\ndef f(x): return A()"
    ),
    "in a cached property": (
        "import os, functools\nclass A:\n    p = functools.cached_property(lambda s: os.getpid())\n"
        "def f(x): return A().p"
    ),
    "in a generator": "import time\ndef f(x):\n    for v in x:\n        yield time.time()",
    "in a coroutine": "import time\nasync def f(x): return time.time()",
    "in a match": "import os\ndef f(x):\n    match x:\n        case 1: return os.getenv('A')",
    "in a subclass of a thread": (
        "import random\nclass A(random.Random): pass\ndef f(x): return A().random()"
    ),
}


@pytest.mark.parametrize("source", OUTSIDE.values(), ids=OUTSIDE.keys())
def test_what_sees_the_outside_world_cannot_be_known(source: str) -> None:
    f = define(source)
    with pytest.raises(Undigestible):
        digest_function(f)
    try:
        pickled = cloudpickle.loads(cloudpickle.dumps(f))
    except (TypeError, AttributeError):
        return
    with pytest.raises(Undigestible):
        digest_value((pickled, "bigint"))


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


HARMLESS = {
    "math": "import math\ndef f(x): return math.sqrt(x)",
    "re": (
        "import re\nk = re.compile('a')\ndef f(x): return k.match(x).group(), re.sub('a', 'b', x)"
    ),
    "json": "import json\ndef f(x): return json.dumps(json.loads(x))",
    "dates": (
        "from datetime import date, datetime, timedelta\n"
        "def f(x): return datetime.combine(date(2020, 1, 1), x) - timedelta(days=1)"
    ),
    "local time": "import datetime\ndef f(x): return datetime.datetime.fromtimestamp(x)",
    "given times": "import time\ndef f(x): return time.strftime('%Y', time.gmtime(x))",
    "sleep": "import time\ndef f(x): time.sleep(0)",
    "numpy": "import numpy as np\ndef f(x): return np.where(np.isnan(x), 0, x).sum()",
    "numpy inside": "def f(x):\n    import numpy as np\n    return np.linalg.norm(x)",
    "numpy's generator with a seed": (
        "import numpy as np\ndef f(x): return np.random.default_rng(42).normal(size=3)"
    ),
    "numpy's generator with a named seed": (
        "import numpy as np\ndef f(x): return np.random.RandomState(seed=42).rand()"
    ),
    "numpy's generator by name": (
        "from numpy.random import default_rng\ndef f(x): return default_rng(7).random()"
    ),
    "numpy's generator, closed over": (
        "import numpy as np\nk = np.random.default_rng(1)\ndef f(x): return k.random()"
    ),
    "random with a seed": "import random\ndef f(x): return random.Random(42).random()",
    "random, closed over": "import random\nk = random.Random(1)\ndef f(x): return k.random()",
    "pandas": (
        "import pandas as pd\ndef f(x):\n"
        "    return pd.concat([x, pd.DataFrame({'a': [1]})]).groupby('a').agg('sum')"
    ),
    "a sample with a seed": "def f(x): return x.sample(3, random_state=1)",
    "pyarrow": "import pyarrow as pa\ndef f(x): return pa.array([1])",
    "collections": (
        "from collections import Counter, defaultdict\nk = defaultdict(list)\n"
        "def f(x): return Counter(x).most_common(1), k"
    ),
    "itertools": "import itertools as i, functools as u\n"
    "def f(x): return u.reduce(max, i.chain(x))",
    "hashlib": "import hashlib\ndef f(x): return hashlib.sha256(x).hexdigest()",
    "uuid": "import uuid\ndef f(x): return uuid.uuid5(uuid.NAMESPACE_DNS, x).hex",
    "paths as texts": (
        "import os\ndef f(x): return os.path.join(os.path.basename(x.replace('a', 'b')), os.sep)"
    ),
    "paths as texts inside": (
        "def f(x):\n    import os\n    x.remove(1)\n    return os.path.splitext(x)"
    ),
    "paths as texts by name": "from os.path import basename as b\ndef f(x): return b(x)",
    "pure paths": "from pathlib import PurePosixPath as P\ndef f(x): return P(x).suffix",
    "paths that are taken apart": (
        "import pathlib\ndef f(x): return pathlib.Path(x).with_suffix('.a').name"
    ),
    "buffers": "import io\ndef f(x): return io.BytesIO(x).read() + io.StringIO('a').read()",
    "files that are written": (
        "def f(x):\n    with open('/dev/null', 'a') as log:\n        log.write(x)\n    return x"
    ),
    "files that are written, by a name": (
        "def f(x, at='/dev/null'):\n"
        "    with open(f'{at}-{x}', mode='wb') as log: log.write(b'.')\n    return x"
    ),
    "logs": "import logging\nk = logging.getLogger('a')\ndef f(x):\n    k.info(x)\n    return x",
    "urls": "from urllib.parse import urlparse\ndef f(x): return urlparse(x).netloc",
    "limits": "import sys\ndef f(x): return sys.maxsize, sys.float_info.max",
    "decimals": "from decimal import Decimal\ndef f(x): return Decimal(x).quantize(Decimal('0.1'))",
    "compression": "import gzip, zlib\ndef f(x): return gzip.decompress(x), zlib.crc32(x)",
    "text": "import string, textwrap, unicodedata\n"
    "def f(x): return unicodedata.normalize('NFC', textwrap.dedent(x)), string.digits",
    "xml": "import xml.etree.ElementTree as E\ndef f(x): return E.fromstring(x).find('a')",
    "words like those of the outside world": (
        "def f(row): return row.now, row.open, row.time, row['environ'], row.read_text"
    ),
    "own methods of such names": (
        "class A:\n    def open(self): return 1\n    def exists(self): return 2\n"
        "def f(x): return A().open() + A().exists()"
    ),
    "a global of such a name": "today = 3\ndef f(x): return x + today",
    "getattr of rows": "def f(x): return getattr(x, 'a')",
    "dataclasses": (
        "import dataclasses\n@dataclasses.dataclass\nclass A:\n    p: int = 1\n"
        "def f(x): return dataclasses.asdict(A(x))"
    ),
    "types of Spark": (
        "from pyspark.sql import Row\nfrom pyspark.sql.types import LongType\n"
        "def f(x): return Row(a=x), LongType()"
    ),
    "a cached function": "import functools\n@functools.lru_cache\ndef g(x): return x\n"
    "def f(x): return g(x)",
    "single dispatch, told apart by hand": (
        "k = {int: lambda v: v + 1, str: lambda v: v + 'a'}\ndef f(x): return k[type(x)](x)"
    ),
}


@pytest.mark.parametrize("source", HARMLESS.values(), ids=HARMLESS.keys())
def test_harmless_libraries_raise_no_doubt(source: str) -> None:
    assert digests(source) == digests(source)


def test_the_reason_names_what_is_seen() -> None:
    source = "import os\ndef g(x): return os.environ[x]\ndef f(x): return g(x)"
    with pytest.raises(Undigestible, match=r"global 'g': global 'os': 'os\.environ'"):
        digest_function(define(source))


def test_the_time_zone_counts_where_local_times_are_made(monkeypatch: pytest.MonkeyPatch) -> None:
    local = "import datetime\ndef f(x): return datetime.datetime.fromtimestamp(x)"
    plain = "import datetime\ndef f(x): return datetime.datetime(2020, 1, 1)"
    before = digests(local), digests(plain)
    monkeypatch.setattr("time.tzname", ("XYZ", "XYZ"))
    assert digests(local) != before[0]
    assert digests(plain) == before[1]


# -- values that differ by little --------------------------------------------------------------

DIFFERENT = {
    "order of a dict": [
        "k = {'a': 1, 'b': 2}\ndef f(x): return list(k)",
        "k = {'b': 2, 'a': 1}\ndef f(x): return list(k)",
    ],
    "order of keywords": ["f = lambda x: dict(a=1, b=2)", "f = lambda x: dict(b=2, a=1)"],
    "sign of a zero in a constant": ["f = lambda x: (1, 0.0)", "f = lambda x: (1, -0.0)"],
    "sign of a zero in a set of constants": [
        "f = lambda x: x in {0.0, 5}",
        "f = lambda x: x in {-0.0, 5}",
    ],
    "sign of an imaginary zero": ["f = lambda x: 0j", "f = lambda x: -0j"],
    "payload of a NaN": [
        (
            "import struct\nk = struct.unpack('<d', bytes.fromhex('010000000000f87f'))\n"
            "f = lambda x: k"
        ),
        (
            "import struct\nk = struct.unpack('<d', bytes.fromhex('020000000000f87f'))\n"
            "f = lambda x: k"
        ),
    ],
    "kind of one in a set": [
        "f = lambda x: x in {1, 2}",
        "f = lambda x: x in {True, 2}",
        "f = lambda x: x in {1.0, 2}",
    ],
    "kind of one as a key": [
        "k = {1: 'a'}\nf = lambda x: k",
        "k = {True: 'a'}\nf = lambda x: k",
        "k = {1.0: 'a'}\nf = lambda x: k",
    ],
    "bytes": ["f = lambda x: 'a'", "f = lambda x: b'a'", "f = lambda x: bytearray(b'a')"],
    "surrogates": [
        "f = lambda x: '\\ud800'",
        "f = lambda x: '\\ud801'",
        "f = lambda x: '?'",
        "f = lambda x: '\\ufffd'",
    ],
    "generators": ["def f(x): return [x]", "def f(x): yield x", "async def f(x): yield x"],
    "nonlocal cells": [
        "def make():\n    n = 0\n    def f(x):\n        nonlocal n\n"
        "        n += 1\n        return n\n"
        "    return f\nf = make()",
        "def make():\n    n = 1\n    def f(x):\n        nonlocal n\n"
        "        n += 1\n        return n\n"
        "    return f\nf = make()",
    ],
    "shared cells": [
        "def make(n):\n    def g():\n        nonlocal n\n        n += 1\n"
        "    def f(x):\n        g()\n        return n\n    return f\nf = make(0)",
        "def make(n, m):\n    def g():\n        nonlocal m\n        m += 1\n"
        "    def f(x):\n        g()\n        return n\n    return f\nf = make(0, 0)",
    ],
    "state of a closed-over list": [
        "k = []\nf = lambda x: k",
        "k = []\nk.append(1)\nf = lambda x: k",
    ],
    "attribute of a function": ["def f(x): return f.n\nf.n = 1", "def f(x): return f.n\nf.n = 2"],
    "order of a function's attributes": [
        "def f(x): return f\nf.a = 1; f.b = 2",
        "def f(x): return f\nf.b = 2; f.a = 1",
    ],
    "strides of an array": [
        "import numpy as np\nk = np.array([[1, 2], [3, 4]])\nf = lambda x: k",
        "import numpy as np\nk = np.asfortranarray(np.array([[1, 2], [3, 4]]))\nf = lambda x: k",
    ],
    "payload of an array": [
        "import numpy as np\nk = np.array([0.0])\nf = lambda x: k",
        "import numpy as np\nk = np.array([-0.0])\nf = lambda x: k",
    ],
    "index of a frame": [
        "import pandas as pd\nk = pd.DataFrame({'a': [1]}, [0])\nf = lambda x: k",
        "import pandas as pd\nk = pd.DataFrame({'a': [1]}, [1])\nf = lambda x: k",
    ],
    "columns of a frame": [
        "import pandas as pd\nk = pd.DataFrame({'a': [1], 'b': [1]})\nf = lambda x: k",
        "import pandas as pd\nk = pd.DataFrame({'b': [1], 'a': [1]})\nf = lambda x: k",
    ],
    "the last of many constants": [
        f"k = {[*range(20_000)]}\nf = lambda x: k",
        f"k = {[*range(19_999), 0]}\nf = lambda x: k",
    ],
    "hidden state": [
        "class A:\n    def __init__(self, n): self.n = n\n"
        "    def __reduce__(self): return (A, (self.n,))\n"
        f"k = A({n})\nf = lambda x: k.n"
        for n in (1, 2)
    ],
    "what a state becomes": [
        "class A:\n    def __getstate__(self): return {}\n"
        f"    def __setstate__(self, s): self.n = {n}\nk = A()\nf = lambda x: k.n"
        for n in (1, 2)
    ],
    "order of slots": [
        "class A: __slots__ = ('a', 'b')\nf = lambda x: A.__slots__",
        "class A: __slots__ = ('b', 'a')\nf = lambda x: A.__slots__",
    ],
    "order of an enumeration": [
        "import enum\nE = enum.Enum('E', 'A B')\nf = lambda x: list(E)",
        "import enum\nE = enum.Enum('E', 'B A')\nf = lambda x: list(E)",
    ],
    "order of fields": [
        (
            "import dataclasses\n@dataclasses.dataclass\nclass A:\n"
            "    a: int = 1\n    b: int = 1\nf = lambda x: A()"
        ),
        (
            "import dataclasses\n@dataclasses.dataclass\nclass A:\n"
            "    b: int = 1\n    a: int = 1\nf = lambda x: A()"
        ),
    ],
    "size of a cache": [
        f"import functools\n@functools.lru_cache({n})\ndef g(x): return x\nf = lambda x: g(x)"
        for n in (1, 2)
    ],
    "which of two recursive ones": [
        "def g(x): return f(x)\ndef f(x): return g(x) if x else 1",
        "def g(x): return g(x)\ndef f(x): return g(x) if x else 1",
    ],
    "variable of another name": ["n = 1\nm = 1\nf = lambda x: n", "n = 1\nm = 1\nf = lambda x: m"],
}


@pytest.mark.parametrize("sources", DIFFERENT.values(), ids=DIFFERENT.keys())
def test_what_differs_by_little(sources: list[str]) -> None:
    found = [digests(source) for source in sources]
    for one, other in itertools.combinations(found, 2):
        assert all(a != b for a, b in zip(one, other, strict=True))
    assert found == [digests(source) for source in sources]


NAMES = st.sampled_from(["os", "h", "x1", "k", "y"])
CHAINS = st.sampled_from(["environ", "getenv", "path.join", "sep", "path.exists", "replace"])


@given(NAMES, CHAINS, st.booleans(), st.sampled_from(["{}", "[{}]", "({})(x)", "g({})", "{} + 1"]))
def test_a_module_under_any_name(name: str, chain: str, inside: bool, around: str) -> None:
    used = around.format(f"{name}.{chain}")
    bound = f"import os as {name}"
    source = f"def g(v): return v\n{bound}\ndef f(x): return {used}"
    if inside:
        source = f"def f(x, *more):\n    {bound}\n    return {used}"
    f = define(source)
    if chain in ("path.join", "sep"):
        assert digest_function(f) == digest_function(define(source))
    else:
        with pytest.raises(Undigestible):
            digest_function(f)


def test_no_walk_ends_in_a_recursion_error() -> None:
    deep: Any = None
    for _ in range(sys.getrecursionlimit() * 3):
        deep = [deep]
    for value in (deep, {"a": (deep,)}, lambda: deep):
        with pytest.raises(Undigestible, match="too deeply"):
            digest_value(value)
    source = "def g0(x): return x\n" + "".join(
        f"def g{n}(x): return g{n - 1}(x)\n" for n in range(1, 3000)
    )
    try:
        digest_function(define(f"{source}\nf = g2999"))
    except Undigestible as doubt:
        assert "too deeply" in str(doubt)


# -- what modules do while they are imported ---------------------------------------------------


class Modules(UserModules):
    """Gives the digests of what a program makes of them."""

    def digest(self, sources: dict[str, str], function: str) -> str:
        """The digest of what a program makes of some modules."""
        for name, source in sources.items():
            self.write(name, source)
        self.forget()
        return digest_value((cloudpickle.loads(cloudpickle.dumps(define(function))), "bigint"))


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Modules]:
    yield from Modules.importable(tmp_path, monkeypatch)


# How a module comes by a value of another one: hf_b, whose V is § .
BEHIND = {
    "a value in a table": {
        "hf_a": "import hf_b\nTABLE = {'k': hf_b.V}\ndef g(x): return TABLE['k']"
    },
    "a name": {"hf_a": "from hf_b import V\ndef g(x): return V"},
    "a name, renamed": {"hf_a": "from hf_b import V as W\ndef g(x): return W"},
    "everything": {"hf_a": "from hf_b import *\ndef g(x): return V"},
    "on a condition": {
        "hf_a": "try:\n    from hf_b import V\nexcept ImportError:\n    V = 0\ndef g(x): return V"
    },
    "in the body of a class": {
        "hf_a": "class A:\n    import hf_b\n    V = hf_b.V\ndef g(x): return A.V"
    },
    "in a function that is called": {
        "hf_a": "def load():\n    import hf_b\n    return hf_b.V\nV = load()\ndef g(x): return V"
    },
    "in a method that is called": {
        "hf_a": "class A:\n    def __init__(self):\n        import hf_b\n        self.v = hf_b.V\n"
        "a = A()\ndef g(x): return a.v"
    },
    "in a default": {"hf_a": "import hf_b\ndef g(x, v=hf_b.V): return v"},
    "through a third module": {
        "hf_a": "import hf_c\nV = hf_c.V + 1\ndef g(x): return V",
        "hf_c": "import hf_b\nV = hf_b.V",
    },
    "through a package": {
        "hf_a": "from hf_p import V\ndef g(x): return V",
        "hf_p.__init__": "from .inner import V",
        "hf_p.inner": "from hf_b import V",
    },
    "through a package's beginning": {
        "hf_a": "from hf_p.inner import g",
        "hf_p.__init__": "import hf_b\nV = hf_b.V",
        "hf_p.inner": "from . import V\ndef g(x): return V",
    },
    "of a submodule": {
        "hf_a": "from hf_p import inner\nV = inner.V\ndef g(x): return V",
        "hf_p.__init__": "",
        "hf_p.inner": "import hf_b\nV = hf_b.V",
    },
    "of a decorator": {
        "hf_a": "import hf_b\ndef d(f): return lambda x: hf_b.V\n@d\ndef g(x): return 1"
    },
    "in a circle": {
        "hf_a": "import hf_c\nV = hf_c.V\ndef g(x): return V",
        "hf_c": "import hf_b\nV = hf_b.V\nimport hf_a",
    },
}
PROGRAMS = {
    "a function": "import hf_a\nf = hf_a.g",
    "a helper": "from hf_a import g\ndef f(x): return g(x)",
    "a module": "import hf_a\ndef f(x): return hf_a.g(x)",
    "inside": "def f(x):\n    import hf_a\n    return hf_a.g(x)",
}


@pytest.mark.parametrize("program", PROGRAMS.values(), ids=PROGRAMS.keys())
@pytest.mark.parametrize("sources", BEHIND.values(), ids=BEHIND.keys())
def test_modules_behind_modules_count(
    modules: Modules, sources: dict[str, str], program: str
) -> None:
    try:
        one = modules.digest({**sources, "hf_b": "V = 1"}, program)
    except Undigestible:
        # What is imported inside isn't there to be looked at, so everything of it is too much.
        assert "*" in sources["hf_a"]
        return
    assert modules.digest({"hf_b": "V = 2"}, program) != one
    assert modules.digest({"hf_b": "V = 1"}, program) == one


SEEING = {
    "a variable": "import os\nV = os.environ.get('A')",
    "a variable, renamed": "from os import getenv as g\nV = g('A')",
    "a file": "V = open(__file__).read()",
    "a file on a condition": "if True:\n    with open(__file__) as f: V = f.read()",
    "a file by its path": "from pathlib import Path\nV = Path(__file__).read_text()",
    "the time": "import time\nV = time.time()",
    "now": "from datetime import datetime\nV = datetime.now()",
    "chance": "import random\nV = random.random()",
    "in a function that is called": "import os\ndef load(): return os.getenv('A')\nV = load()",
    "in a function that is called under another name": (
        "import os\ndef load(): return os.getenv('A')\ng = load\nV = g()"
    ),
    "in the body of a class": "import os\nclass A:\n    V = os.getpid()\nV = A.V",
    "in a constructor": (
        "import os\nclass A:\n    def __init__(self): self.v = os.getpid()\nV = A().v"
    ),
    "in a comprehension": "import os\nV = [os.getpid() for _ in range(3)]",
    "in a lambda": "import os\nV = (lambda: os.getpid())()",
    "in a default": "import os\ndef g(x, v=os.getpid()): return v\nV = 1",
    "by name": "V = eval('1')",
    "by everything": "from os import *\nV = getpid()",
    "where modules are looked for": "import sys\nsys.path.insert(0, '/nowhere')\nV = 1",
}


@pytest.mark.parametrize("seeing", SEEING.values(), ids=SEEING.keys())
def test_modules_that_see_the_outside_world_while_they_are_imported(
    modules: Modules, seeing: str
) -> None:
    behind = "from hf_b import V\ndef g(x): return 1"
    with pytest.raises(Undigestible, match="imported|by name"):
        modules.digest({"hf_a": behind, "hf_b": seeing}, PROGRAMS["a helper"])
    with pytest.raises(Undigestible, match="imported|by name"):
        modules.digest({"hf_a": seeing + "\ndef g(x): return 1"}, PROGRAMS["a helper"])


UNSEEN = {
    "a function that nobody calls": "import os\ndef load(): return os.getenv('A')",
    "a method that nobody calls": "import os\nclass A:\n    def load(self): return os.getenv('A')",
    "a constructor that nobody calls": (
        "import os\nclass A:\n    def __init__(self): self.v = os.getenv('A')"
    ),
    "a program of its own": (
        "import sys\ndef main(): print(sys.argv)\nif __name__ == '__main__':\n    main()"
    ),
    "for types alone": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import hf_none",
    "a function in a table": "import os\nTABLE = {'a': lambda: os.getenv('A')}",
    "a log": "import logging\nlog = logging.getLogger(__name__)\nlog.setLevel(logging.INFO)",
    "paths as texts": "import os\nV = os.path.join('a', 'b').replace('a', 'b')",
    "own names": "def open(x): return x\nV = open(1)",
    "libraries": "import json, re, numpy as np\nV = re.compile('a'), np.arange(3), json.dumps({})",
}


@pytest.mark.parametrize("unseen", UNSEEN.values(), ids=UNSEEN.keys())
def test_what_an_import_does_not_run_raises_no_doubt(modules: Modules, unseen: str) -> None:
    source = {"hf_a": f"{unseen}\ndef g(x): return 1"}
    assert modules.digest(source, PROGRAMS["a helper"]) == modules.digest(
        source, PROGRAMS["a helper"]
    )


def test_versions_of_what_modules_import_count(
    modules: Modules, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = {"hf_a": "import numpy\nV = int(numpy.sum([1]))\ndef g(x): return V"}
    before = modules.digest(sources, PROGRAMS["a helper"])
    found = module_encoder.origin_of
    monkeypatch.setattr(
        module_encoder, "origin_of", lambda name: "numpy 0" if name == "numpy" else found(name)
    )
    assert modules.digest(sources, PROGRAMS["a helper"]) != before


def test_what_a_module_says_it_sees_only_when_it_is_called(modules: Modules) -> None:
    sources = {"hf_a": "import os\ndef load(): return os.getenv('A')\ndef g(x): return 1"}
    modules.digest(sources, "import hf_a\ndef f(x): return hf_a.g(x)")
    with pytest.raises(Undigestible, match=r"os\.getenv"):
        modules.digest(sources, "import hf_a\ndef f(x): return hf_a.load()")
    with pytest.raises(Undigestible, match=r"os\.getenv"):
        modules.digest(sources, "import hf_a\ndef f(x): return hf_a.os.getenv(x)")
    modules.digest(sources, "import hf_a\ndef f(x): return hf_a.os.path.join(x)")


def test_a_module_that_was_edited_while_the_program_runs(modules: Modules) -> None:
    def digest(value: int) -> str:
        modules.digest({"hf_a": f"def g(x): return {value}"}, PROGRAMS["a helper"])
        return digest_value(define(PROGRAMS["a helper"]), seen)

    seen: dict[str, bytes] = {}
    assert digest(1) == digest(1)
    for value in (2, 1, 1):
        with pytest.raises(Undigestible, match="edited"):
            digest(value)
