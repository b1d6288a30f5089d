"""What is done in which order: a case that was generated, and that can be printed and pasted."""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.fuzz.node import Node


@dataclass(frozen=True)
class Enter:
    """Brings the world into a state: settings, files, modules, functions.

    Attributes:
        state: what it is called; a state of one name is the same each time.
        text: Python statements, over what `tests.fuzz.prelude` gives.
    """

    state: str
    text: str


@dataclass(frozen=True)
class Build:
    """Makes a DataFrame, twice: one for plain Spark, one that becomes a Table.

    Attributes:
        name: what it is called from here on.
        plan: a Python expression; it may name what was made before.
        cached: whether the Table is cached.
        unasked: whether it is kept though nobody has asked for that.
    """

    name: str
    plan: Node
    cached: bool = False
    unasked: bool = False


@dataclass(frozen=True)
class Run:
    """Asks for the rows of what was made.

    Attributes:
        name: of the DataFrame.
        ordered: the plan fixes the order of its rows.
        meanwhile: Python statements that another thread executes while a job of it runs.
        expects_read: whether it is counted if this reads what is kept: the name of the count.
        may_answer: whether rows are right, too, where plain Spark fails: over what is kept, it
            finds some conditions in another order.
        past_cache: rows of what is in the files now are right, too, where Spark has cached older
            ones.
        due: whether this should read what an earlier program has kept, unless that is private with
            a reason: the name of the count.
    """

    name: str
    ordered: bool = False
    meanwhile: str = ""
    expects_read: str = ""
    may_answer: bool = False
    past_cache: bool = False
    due: str = ""


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
    """A case.

    Attributes:
        label: its class and its seed.
        steps: what is done.
        pairs: how many pairs of computations are compared.
        is_steady: nothing in it is left to chance: plain Spark is asked once.
    """

    label: str
    steps: tuple[Step, ...]
    pairs: int = field(default=1)
    is_steady: bool = False


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
            case Run(name, _, meanwhile):
                if meanwhile:
                    lines.append(f"while_a_job_runs({meanwhile!r})")
                lines.append(f"print({name}.collect(), plain({name}).collect())")
            case Forget():
                lines.append("env.invalidate_all()")
    return "\n".join(lines)
