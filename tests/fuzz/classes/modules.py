"""Functions of the user's own modules, and the modules behind these."""

from __future__ import annotations

import itertools
from random import Random

from tests.fuzz.node import Node
from tests.fuzz.pair import Pair

# How a module takes a value from the one behind it, what its functions make of that, and what
# the one behind has besides the value.
_MAKE = "def make():\n    return V\n"
_DECORATE = "def decorate(f):\n    return lambda: V\n"
_BASE = "class Base:\n    def value(self):\n        return V\n"
_TAKEN = (
    ("import {back}\nTABLE = {{'k': {back}.V}}", "TABLE['k']", ""),
    ("import {back}\nTABLE = {{'k': {back}.V}}", "TABLE['k']", _MAKE),
    ("from {back} import V", "V", ""),
    ("import {back}", "{back}.V", ""),
    ("import {back} as b\nX = b.V * 2", "X", ""),
    ("from {back} import make\nX = make()", "X", _MAKE),
    ("from {back} import *", "V", ""),
    ("import {back}\nclass C:\n    value = {back}.V", "C.value", ""),
    ("import {back}\ndef inner(d={back}.V):\n    return d", "inner()", ""),
    ("import {back}\nX = [{back}.V for _ in range(2)]", "sum(X)", ""),
    ("import importlib\nX = importlib.import_module('{back}').V", "X", ""),
    ("X = __import__('{back}').V", "X", ""),
    ("import {back}\nX = None\ndef setup():\n    global X\n    X = {back}.V\nsetup()", "X", ""),
    ("import {back}\nX = {{}}\nX.update(v={back}.make())", "X['v']", _MAKE),
    ("def lazily():\n    import {back}\n    return {back}.V", "lazily()", ""),
    ("import {back}\n@{back}.decorate\ndef decorated():\n    return 1", "decorated()", _DECORATE),
    ("import {back}\nclass D({back}.Base):\n    pass", "D().value()", _BASE),
)
_WAYS = ("{front}.g", "lambda x: {front}.g(x)", "__import__('functools').partial({front}.g)")


def pair(rng: Random) -> Pair:
    """A function of a module; then one of the modules behind it has another text."""
    depth = rng.choice([2, 2, 3])
    names = [f"fuzz_{rng.randrange(10**6)}_{place}" for place in range(depth)]
    files = []
    besides = ""
    for place, (name, back) in enumerate(itertools.pairwise(names)):
        taken, used, wanted = rng.choice(_TAKEN)
        value = used.format(back=back)
        text = f"{taken.format(back=back)}\n"
        # What is asked of the last of them, all of them have.
        text += f"def g(x):\n    return {value}\n" if place == 0 else f"V = {value}\n{besides}"
        besides = wanted
        files.append(f"module({name!r}, {text!r})")
    one, other = rng.sample(["1", "2", "1 + 2", "len('abcd')"], 2)
    front = names[0]
    way = rng.choice(_WAYS).format(front=front)
    plan = Node(f"spark.range(3).select(udf({way}, 'long')('id').alias('v'))")
    # A program that is started anew finds other files; one that goes on has read the old ones.
    ending = rng.choice([")", ", reload=False)"])
    first, second = (
        f"module({names[-1]!r}, {f'V = {value}' + chr(10) + besides!r}{ending}\nimport {front}"
        for value in (one, other)
    )
    head = "from pyspark.sql.functions import udf"
    return Pair(plan, plan, setup="\n".join([head, *files]), first_state=first, second_state=second)
