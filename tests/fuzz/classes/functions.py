"""Python functions: what their bodies compute, what they close over, and what they can see of it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from random import Random

from tests.fuzz.family import Family
from tests.fuzz.node import Node, listed
from tests.fuzz.pair import Pair


@dataclass(frozen=True)
class _Inner:
    """What a function refers to, part by part; `changed` replaces one of them."""

    name: str = "inner"
    argument: str = "v"
    annotation: str = ""
    default: str = ""
    doc: str = ""
    body: str = "v"
    attribute: str = ""

    def text(self) -> str:
        annotation = f": {self.annotation}" if self.annotation else ""
        default = f" = {self.default}" if self.default else ""
        doc = f"    {self.doc!r}\n" if self.doc else ""
        attribute = f"\n{self.name}.mark = {self.attribute}" if self.attribute else ""
        return (
            f"def {self.name}({self.argument}{annotation}{default}):\n{doc}"
            f"    return {self.body.replace('v', self.argument)}{attribute}"
        )


# How a function looks at another one, `f`, or at what is around it.
_LOOKS = listed(r"""
f(x) ~ f(x) or 0 ~ str(f(x)) ~ f.__name__ ~ getattr(f, '__name__') ~ repr(f).split(' at ')[0]
'{0.__name__}'.format(f) ~ f.__doc__ ~ f.__annotations__ ~ getattr(f, '__doc__')
f'{f.__qualname__}' ~ str(f)[:20] ~ '%s' % (f,) ~ f.__code__.co_name ~ f.__defaults__
f.__code__.co_varnames ~ getattr(f, '__annotations__') ~ sorted(f.__dict__) ~ vars(f)
getattr(f, 'mark', 0) ~ __import__('inspect').getdoc(f) ~ __import__('inspect').signature(f)
__import__('operator').attrgetter('__name__')(f) ~ f.__module__ ~ [g.__name__ for g in [f]]
getattr(f, '__' + 'name__') ~ type(f).__name__ ~ f.__code__.co_consts ~ (lambda g: g.__name__)(f)
__import__('functools').wraps(f)(lambda: 1).__name__
__import__('functools').partial(f).func.__name__ ~ f.__code__.co_firstlineno ~ {f.__name__: 1}
max([f], key=lambda g: g.__name__).__name__
next(iter(map(lambda g: getattr(g, '__name__'), [f]))) ~ object.__getattribute__(f, '__name__')
format(f, '')[:20] ~ ascii(f)[:20] ~ f'{f!r}'[:20] ~ str.__str__(str(f))[:20] ~ f.__reduce_ex__
__import__('inspect').getsource ~ dir(f) ~ f.__kwdefaults__ ~ f.__get__(1).__name__
""")
_WAYS = ("closure", "global", "default", "container", "attribute", "method")
_CONSTANTS = ("0", "1", "True", "1.0", "0.0", "-0.0", "'1'", "b'1'", "(1, 2)", "(2, 1)", "None",
              "float('nan')", "frozenset({1})", "{1}", "[1]", "{'a': 1}", "{'a': 2}", "1 + 0j", "...")  # fmt: skip

_LOOKS_AT_VALUES = ("repr(f)", "f", "type(f)", "(x, f)", "hash(str(f))", "f == f", "bool(f)")
_CHANGES = (
    *({"name": "other"}, {"argument": "w"}, {"annotation": "'text'"}, {"annotation": "int"}),
    *({"default": "7"}, {"doc": "Some text."}, {"body": "v and v + 1"}, {"attribute": "3"}),
)
_CALL = Node("spark.range(3).select(udf(u, 'string')('id').alias('v'))")
_HEAD = "from pyspark.sql.functions import udf\n"


def pair(rng: Random) -> Pair:
    """A query that calls a function, and the same after one thing about the function changed."""
    if rng.random() < 0.35:
        return _constants(rng)
    look, way = rng.choice(_LOOKS), rng.choice(_WAYS)
    inner = _Inner()
    changed = replace(
        inner,
        **rng.choice(
            [_CHANGES[0], *_CHANGES]
        ),
    )  # fmt: skip
    return _of(_calling(inner, look, way), _calling(changed, look, way))


def family(rng: Random) -> Family:
    """A function that looks in one way at others that differ, or at values that do."""
    look, way = rng.choice(_LOOKS), rng.choice(_WAYS)
    inner = _Inner()
    states = [_calling(replace(inner, **each), look, way) for each in ({}, *_CHANGES)]
    if rng.random() < 0.35:
        look = rng.choice(_LOOKS_AT_VALUES)
        states = [f"value = {each}\n{_seen(look, way, 'value')}" for each in _CONSTANTS]
        rng.shuffle(states)
    return Family.of_states(_CALL, [_HEAD + state for state in states])


def _calling(inner: _Inner, look: str, way: str) -> str:
    return f"{inner.text()}\n{_seen(look, way, inner.name)}"


def _seen(look: str, way: str, name: str) -> str:
    """The text of a function `u` that looks at what is called `name`."""
    match way:
        case "global":
            seen = f"f = {name}\ndef u(x):\n    return str({look})"
        case "default":
            seen = f"def u(x, f={name}):\n    return str({look})"
        case "container":
            seen = f"box = {{'f': {name}}}\ndef u(x):\n    f = box['f']\n    return str({look})"
        case "attribute":
            seen = (
                f"class Holder:\n    pass\nholder = Holder()\nholder.f = {name}\n"
                f"def u(x):\n    f = holder.f\n    return str({look})"
            )
        case "method":
            seen = (
                f"class Caller:\n    def __init__(self, f):\n        self.f = f\n"
                f"    def __call__(self, x):\n        f = self.f\n        return str({look})\n"
                f"u = Caller({name})"
            )
        case _:
            seen = f"def make(f):\n    def u(x):\n        return str({look})\n    return u\nu = make({name})"
    return seen


def _constants(rng: Random) -> Pair:
    """The function closes over a value."""
    one, other = rng.sample(_CONSTANTS, 2)
    look = rng.choice(_LOOKS_AT_VALUES)
    way = rng.choice(
        ["closure", "global", "default", "container", "attribute", "method", "constant"]
    )
    if way == "constant":
        first, second = (
            f"def u(x):\n    f = {each}\n    return str({look})" for each in (one, other)
        )
        return _of(first, second)
    first, second = (f"value = {each}\n{_seen(look, way, 'value')}" for each in (one, other))
    return _of(first, second)


def _of(first: str, second: str) -> Pair:
    return Pair(_CALL, _CALL, first_state=_HEAD + first, second_state=_HEAD + second)
