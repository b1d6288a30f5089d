"""What is done in which order: a case that was generated, and that can be printed and pasted."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.fuzz.node import Node


@dataclass(frozen=True)
class Enter:
    """Brings the world into a state of a name: by statements over what `tests.fuzz.prelude` gives."""

    state: str
    text: str


@dataclass(frozen=True)
class Build:
    """Makes a DataFrame, twice: one for plain Spark, one that becomes a Table."""

    name: str
    plan: Node
    """A Python expression; it may name what was made before."""
    cached: bool = False
    unasked: bool = False
    """Whether it is kept though no program has asked for that."""


@dataclass(frozen=True)
class Run:
    """Asks for the rows of what was made."""

    name: str
    ordered: bool = False
    expects_read: str = ""
    """As what it is counted if this reads what is kept."""
    may_answer: bool = False
    """Rows are right, too, where plain Spark fails: it has some conditions in another order."""
    due: str = ""
    """As what it is counted that this should read what an earlier program has kept."""


@dataclass(frozen=True)
class Forget:
    """Drops everything that is kept."""


@dataclass(frozen=True)
class Next:
    """Another program begins, which has nothing of the one before but files and a catalog.

    Results are kept for other programs from the first of these steps to the case's end.
    """


Step = Enter | Build | Run | Forget | Next


@dataclass(frozen=True)
class Script:
    """A case."""

    label: str
    steps: tuple[Step, ...]
    pairs: int = field(default=1)
    """How many pairs of computations are compared."""
    is_steady: bool = False
    """Nothing in it is left to chance: plain Spark is asked once."""


def snippet(script: Script) -> str:
    """The case as a Python program, to be run from the root of the repository."""
    lines = [f"# {script.label}", "from tests.fuzz.prelude import *", ""]
    for step in script.steps:
        match step:
            case Enter(state, text):
                lines += [f"# {state}", *text.splitlines()]
            case Build(name, plan, cached, unasked):
                ending = ".cache()" if cached else ""
                lines.append(f"{name} = env.from_dataframe({plan}){ending}")
                lines += [f"keep_unasked(env, {name})"] if unasked else []
            case Next():
                lines.append("spark, env = another_program()")
            case Run(name):
                lines.append(f"print({name}.collect(), plain({name}).collect())")
            case Forget():
                lines.append("env.invalidate_all()")
    return "\n".join(lines)
