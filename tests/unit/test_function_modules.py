"""A user's modules count by their content; what they do while they are imported counts too."""

from __future__ import annotations

import functools
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from holdfast.plan import module_encoder, module_origin
from holdfast.plan.function_digest import Undigestible, digest_function, digest_value
from tests.unit.user_code import UserModules, define


@pytest.fixture
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[UserModules]:
    yield from UserModules.importable(tmp_path, monkeypatch)


# -- modules by their content ----------------------------------------------------------------------

CALLS = {
    "function": "from hf_a import g\ndef f(x): return g(x)",
    "module": "import hf_a\ndef f(x): return hf_a.g(x)",
    "inside": "def f(x):\n    import hf_a\n    return hf_a.g(x)",
    "from inside": "def f(x):\n    from hf_a import g\n    return g(x)",
    "class": "from hf_a import A\ndef f(x): return A().g(x)",
    "instance": "import hf_a\na = hf_a.A()\ndef f(x): return a.g(x)",
    "passed on": "import hf_a\ndef h(m, x): return m.g(x)\ndef f(x): return h(hf_a, x)",
    "default": "import hf_a\ndef f(x, m=hf_a): return m.g(x)",
}
HELPERS = """
import hf_b
K = 1
def g(x): return hf_b.h(x) + K
class A:
    def g(self, x): return g(x)
"""


@pytest.mark.parametrize("source", CALLS.values(), ids=CALLS.keys())
def test_user_modules_count_by_content(modules: UserModules, source: str) -> None:
    before = modules.digest(source, hf_a=HELPERS, hf_b="def h(x): return 1")
    assert modules.digest(source) == before
    other_value = modules.digest(source, hf_a=HELPERS.replace("K = 1", "K = 2"))
    other_helper = modules.digest(source, hf_a=HELPERS, hf_b="def h(x): return 2")
    assert len({before, other_value, other_helper}) == 3
    assert modules.digest(source, hf_b="def h(x): return 1") == before


# A program, and the source of a module that it uses in one way or another: § is what changes.
REACHED = {
    "package": (
        "def f(x):\n    from hf_p.a import g\n    return g(x)",
        {"hf_p__a": "from .b import h\ndef g(x): return h()", "hf_p__b": "def h(): return §"},
    ),
    "relative": (
        "from hf_p.a import f",
        {
            "hf_p__a": "def f(x):\n    from . import b\n    return b.h(x)",
            "hf_p__b": "def h(x): return §",
        },
    ),
    "__getattr__": (
        "import hf_a\ndef f(x): return hf_a.g",
        {"hf_a": "from hf_b import __getattr__", "hf_b": "def __getattr__(name): return §"},
    ),
    "table function": (
        "from hf_a import g\ndef f(x): return g(x)",
        {"hf_a": "class Two:\n    def eval(self, x): yield x\ndef g(x): return §"},
    ),
    "decorated": (
        "from hf_a import g\ndef f(x): return g(x)",
        {"hf_a": "import functools\n@functools.lru_cache\ndef g(x): return 1\nK = §"},
    ),
    "decorator": (
        "from hf_a import g\ndef f(x): return g(x)",
        {
            "hf_a": "import hf_b\n@hf_b.decorator\ndef g(x): return 1",
            "hf_b": "def decorator(g): return lambda x: §",
        },
    ),
}


@pytest.mark.parametrize(("source", "files"), REACHED.values(), ids=REACHED.keys())
def test_all_that_is_reached_of_them_counts(
    modules: UserModules, source: str, files: dict[str, str]
) -> None:
    def digest(value: str) -> str:
        written = {name: text.replace("§", value) for name, text in files.items()}
        return modules.digest(source, hf_p____init__="", **written)

    before = digest("1")
    assert digest("2") != before == digest("1")


def test_modules_that_are_not_loaded_are_read_and_not_imported(modules: UserModules) -> None:
    source = "def f(x):\n    from hf_a import g\n    return g(x)"
    modules.digest(source, hf_a="def g(x): return 1")
    assert "hf_a" not in sys.modules
    with pytest.raises(Undigestible):
        modules.digest(source, hf_a="def g(x): return eval('1')")


def test_a_file_that_was_edited_or_deleted_after_its_import_counts(modules: UserModules) -> None:
    modules.write(hf_a="def g(x): return 1")
    f = define(CALLS["function"])
    before = digest_function(f)
    modules.write(hf_a="def g(x): return 2")
    assert digest_function(f) != before
    (modules.directory / "hf_a.py").unlink()
    with pytest.raises(Undigestible, match="hf_a"):
        digest_function(f)


def test_a_module_that_was_edited_while_the_program_runs(modules: UserModules) -> None:
    def digest(value: int) -> str:
        modules.digest(CALLS["function"], hf_a=f"def g(x): return {value}")
        return digest_value(define(CALLS["function"]), seen)

    seen: dict[str, bytes] = {}
    assert digest(1) == digest(1)
    for value in (2, 1, 1):
        with pytest.raises(Undigestible, match="edited"):
            digest(value)


@pytest.mark.parametrize("reach", ["one = eval('1')", "run = eval", "from builtins import eval"])
def test_a_module_that_reaches_eval(modules: UserModules, reach: str) -> None:
    with pytest.raises(Undigestible):
        modules.digest(CALLS["function"], hf_a=f"{reach}\ndef g(x): return 1")


def test_attributes_by_name_of_a_user_module(modules: UserModules) -> None:
    with pytest.raises(Undigestible, match="hf_a"):
        modules.digest("import hf_a\ndef f(x): return getattr(hf_a, x)", hf_a="def g(x): pass")


def test_a_user_module_with_a_standard_name_counts_by_content(modules: UserModules) -> None:
    loaded = sys.modules.pop("colorsys", None)
    try:
        source = "import colorsys\ndef f(x): return colorsys.g(x)"
        before = modules.digest(source, colorsys="def g(x): return 1")
        assert modules.digest(source, colorsys="def g(x): return 2") != before
    finally:
        modules.forget()
        if loaded is not None:
            sys.modules["colorsys"] = loaded


def test_a_patched_library_function_counts_by_content(monkeypatch: pytest.MonkeyPatch) -> None:
    digests = set()
    for value in (1, 2):
        patch = functools.wraps(json.dumps)(define(f"def f(x): return {value}"))
        patch.__dict__.clear()
        monkeypatch.setattr(json, "dumps", patch)
        digests.add(digest_function(patch))
        monkeypatch.undo()
    assert len(digests) == 2


@pytest.mark.parametrize(
    ("name", "origin"),
    [
        *((name, "cpython") for name in ("json", "os.path", "sys")),
        *((name, None) for name in ("no_such_module_hf", "__main__", __name__)),
        ("numpy", f"numpy {np.__version__}"),
        ("pandas.core.frame", f"pandas {pd.__version__}"),
        ("holdfast.plan.value_digest", "holdfast "),
    ],
)
def test_origins(name: str, origin: str | None) -> None:
    found = module_origin.origin_of(name)
    assert (found is None) == (origin is None)
    assert (found or "").lower().startswith(origin or "")


# -- what modules do while they are imported -------------------------------------------------------

# How a module comes by a value of another one: hf_b, whose V is what changes.
BEHIND = {
    "table": {"hf_a": "import hf_b\nTABLE = {'k': hf_b.V}\ndef g(x): return TABLE['k']"},
    "name": {"hf_a": "from hf_b import V\ndef g(x): return V"},
    "renamed": {"hf_a": "from hf_b import V as W\ndef g(x): return W"},
    "everything": {"hf_a": "from hf_b import *\ndef g(x): return V"},
    "condition": {"hf_a": "try: from hf_b import V\nexcept E: V = 0\ndef g(x): return V"},
    "class body": {"hf_a": "class A:\n    import hf_b\n    V = hf_b.V\ndef g(x): return A.V"},
    "called": {
        "hf_a": "def load():\n    import hf_b\n    return hf_b.V\nV = load()\ndef g(x): return V"
    },
    "method": {
        "hf_a": "class A:\n    def __init__(self):\n        import hf_b\n        self.v = hf_b.V\n"
        "a = A()\ndef g(x): return a.v"
    },
    "default": {"hf_a": "import hf_b\ndef g(x, v=hf_b.V): return v"},
    "third module": {
        "hf_a": "import hf_c\nV = hf_c.V + 1\ndef g(x): return V",
        "hf_c": "import hf_b\nV = hf_b.V",
    },
    "package": {
        "hf_a": "from hf_p import V\ndef g(x): return V",
        "hf_p____init__": "from .inner import V",
        "hf_p__inner": "from hf_b import V",
    },
    "package's beginning": {
        "hf_a": "from hf_p.inner import g",
        "hf_p____init__": "import hf_b\nV = hf_b.V",
        "hf_p__inner": "from . import V\ndef g(x): return V",
    },
    "decorator": {"hf_a": "import hf_b\ndef d(f): return lambda x: hf_b.V\n@d\ndef g(x): return 1"},
    "circle": {
        "hf_a": "import hf_c\nV = hf_c.V\ndef g(x): return V",
        "hf_c": "import hf_b\nV = hf_b.V\nimport hf_a",
    },
}


@pytest.mark.parametrize("program", ["function", "module", "inside"])
@pytest.mark.parametrize("sources", BEHIND.values(), ids=BEHIND.keys())
def test_modules_behind_modules_count(
    modules: UserModules, sources: dict[str, str], program: str
) -> None:
    try:
        one = modules.digest(CALLS[program], **sources, hf_b="V = 1")
    except Undigestible:
        # What is imported inside isn't there to be looked at, so everything of it is too much.
        assert "*" in sources["hf_a"]
        return
    assert modules.digest(CALLS[program], hf_b="V = 2") != one
    assert modules.digest(CALLS[program], hf_b="V = 1") == one


SEEING = {
    "variable": "import os\nV = os.environ.get('A')",
    "renamed": "from os import getenv as g\nV = g('A')",
    "file": "V = open(__file__).read()",
    "condition": "if True:\n    with open(__file__) as f: V = f.read()",
    "path": "from pathlib import Path\nV = Path(__file__).read_text()",
    "time": "import time\nV = time.time()",
    "now": "from datetime import datetime\nV = datetime.now()",
    "chance": "import random\nV = random.random()",
    "called": "import os\ndef load(): return os.getenv('A')\nV = load()",
    "called otherwise": "import os\ndef load(): return os.getenv('A')\ng = load\nV = g()",
    "class body": "import os\nclass A: V = os.getpid()\nV = A.V",
    "constructor": "import os\nclass A:\n    def __init__(self): self.v = os.getpid()\nV = A().v",
    "comprehension": "import os\nV = [os.getpid() for _ in range(3)]",
    "lambda": "import os\nV = (lambda: os.getpid())()",
    "default": "import os\ndef g(x, v=os.getpid()): return v\nV = 1",
    "by name": "V = eval('1')",
    "everything": "from os import *\nV = getpid()",
    "search path": "import sys\nsys.path.insert(0, '/nowhere')\nV = 1",
}


@pytest.mark.parametrize("seeing", SEEING.values(), ids=SEEING.keys())
def test_modules_that_see_the_outside_world_while_they_are_imported(
    modules: UserModules, seeing: str
) -> None:
    behind = "from hf_b import V\ndef g(x): return 1"
    with pytest.raises(Undigestible, match="imported|by name"):
        modules.digest(CALLS["function"], hf_a=behind, hf_b=seeing)
    with pytest.raises(Undigestible, match="imported|by name"):
        modules.digest(CALLS["function"], hf_a=seeing + "\ndef g(x): return 1")


UNSEEN = {
    "function": "import os\ndef load(): return os.getenv('A')",
    "method": "import os\nclass A:\n    def load(self): return os.getenv('A')",
    "constructor": "import os\nclass A:\n    def __init__(self): self.v = os.getenv('A')",
    "program": "import sys\ndef main(): print(sys.argv)\nif __name__ == '__main__':\n    main()",
    "types": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import hf_none",
    "table": "import os\nTABLE = {'a': lambda: os.getenv('A')}",
    "log": "import logging\nlog = logging.getLogger(__name__)\nlog.setLevel(logging.INFO)",
    "paths as texts": "import os\nV = os.path.join('a', 'b').replace('a', 'b')",
    "own names": "def open(x): return x\nV = open(1)",
    "libraries": "import json, re, numpy as np\nV = re.compile('a'), np.arange(3), json.dumps({})",
}


@pytest.mark.parametrize("unseen", UNSEEN.values(), ids=UNSEEN.keys())
def test_what_an_import_does_not_run_raises_no_doubt(modules: UserModules, unseen: str) -> None:
    one = modules.digest(CALLS["function"], hf_a=f"{unseen}\ndef g(x): return 1")
    assert modules.digest(CALLS["function"]) == one


def test_what_a_module_does_when_it_is_called_counts_for_who_calls_it(modules: UserModules) -> None:
    modules.write(hf_a="import os\ndef load(): return os.getenv('A')\ndef g(x): return 1")
    for known in ("hf_a.g(x)", "hf_a.os.path.join(x)"):
        modules.digest(f"import hf_a\ndef f(x): return {known}")
    for unknown in ("hf_a.load()", "hf_a.os.getenv(x)"):
        with pytest.raises(Undigestible, match=r"os\.getenv"):
            modules.digest(f"import hf_a\ndef f(x): return {unknown}")


def test_versions_of_what_modules_import_count(
    modules: UserModules, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = modules.digest(CALLS["function"], hf_a="import numpy\ndef g(x): return numpy.sum(x)")
    found = module_encoder.origin_of
    monkeypatch.setattr(
        module_encoder, "origin_of", lambda name: "numpy 0" if name == "numpy" else found(name)
    )
    assert modules.digest(CALLS["function"]) != before
