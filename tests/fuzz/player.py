"""Plays cases: each job by plain Spark and through Holdfast, at the same moment."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field
from random import Random
from typing import Any

from pyspark.sql import DataFrame

from holdfast import Environment
from holdfast.api.table import Table
from holdfast.plan.terms import digests
from holdfast.runtime.vertex_outcome import VertexOutcome
from holdfast.runtime.wanted import CachedComputation
from holdfast.spark.session_settings import session_inputs
from tests.fuzz.family import Family, Variant
from tests.fuzz.pair import briefly, start
from tests.fuzz.rows import Rows, rows_of
from tests.fuzz.script import Build, Enter, Forget, Next, Run, Script, Step
from tests.fuzz.world import World

_NOT_ADAPTIVE = "'spark.sql.adaptive.enabled', 'false'"
_ADAPTIVE = "'spark.sql.adaptive.enabled', 'true'"
_RANDOM = "random rows of one digest"


@dataclass(frozen=True)
class Finding:
    """A job of a DataFrame through Holdfast was not as plain Spark's."""

    script: Script
    kind: str
    """`wrong rows`, `error`, `no error`, or `one digest`."""
    step: str
    detail: str


@dataclass
class Counts:
    """What was played: pairs by jobs and by digests, and what plain Spark refuses."""

    pairs: int = 0
    digested: int = 0
    invalid: int = 0
    runs: int = 0
    repeated: int = 0
    expected_reads: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """For each kind of read that is hoped for: how often it was, and came."""
    due: Counter[tuple[str, bool]] = field(default_factory=Counter)
    """The same of what one program has kept and another one should find."""
    missed: list[str] = field(default_factory=list)
    private: Counter[str] = field(default_factory=Counter)
    """The reasons for which only its program reads what would be due otherwise."""

    @property
    def share_found(self) -> float:
        """How much of what is due was found."""
        found = sum(number for (_, is_found), number in self.due.items() if is_found)
        return found / (self.due.total() or 1) if self.due else 1.0


@dataclass
class _Built:
    plan: str
    state: str
    table: Table
    twin: DataFrame


class _Refused(Exception):
    """Plain Spark doesn't take a case's plan."""


class Player:
    """Plays one case after another in the session of an environment and a world."""

    def __init__(self, env: Environment, world: World) -> None:
        self._env = self._alone_env = env
        self._world = world
        self.counts = Counts()
        self._names: dict[str, Any] = {}
        self._built: dict[str, _Built] = {}
        self._state = ""
        self._samples: dict[tuple[str, str, str], list[Rows | Exception]] = {}

    def play(self, script: Script) -> list[Finding]:
        """All that went wrong in a case; nothing where plain Spark refuses its plans."""
        self._built, self._state, self._samples = {}, "", {}
        try:
            with self._world.case() as self._names:
                findings = [self._step(script, step) for step in script.steps]
        except _Refused:
            self.counts.invalid += 1
            return []
        finally:
            self._end_program()
            self._env.invalidate_all()
        self.counts.pairs += script.pairs
        return [each for each in findings if each is not None]

    def _begin_program(self) -> None:
        self._end_program()
        self._built = {}
        session = self._alone_env.spark.newSession()
        self._names = self._world.begin(session)
        self._env = Environment(session, config=config_of_programs(self._world))

    def _end_program(self) -> None:
        if self._env is not self._alone_env:
            self._env.close()
            self._env = self._alone_env

    def digests_agree_wrongly(self, label: str, family: Family) -> tuple[Family, list[Finding]]:
        """Those of a family that Spark takes; of one digest, rows mustn't differ either."""
        self._built, self._state, self._samples = {}, "", {}
        same: dict[str, list[tuple[Variant, tuple[str, ...]]]] = {}
        findings: list[Finding] = []
        with self._world.case() as self._names:
            exec(start(Random(label), family.setup).text, self._names)
            for variant in family.variants:
                try:
                    digest, columns = self._digested(variant)
                except Exception:
                    self.counts.invalid += 1
                    continue
                same.setdefault(digest, []).append((variant, columns))
            taken = [variant for each in same.values() for variant, _ in each]
            family = family.only(each for each in family.variants if each in taken)
            self.counts.digested += family.pairs
            for variants in same.values():
                findings += self._differing(label, family, variants)
        return family, findings

    def _differing(
        self, label: str, family: Family, variants: list[tuple[Variant, tuple[str, ...]]]
    ) -> list[Finding]:
        """What is wrong between one of those of one digest and each of the others."""
        (first, columns), *others = variants
        findings = []
        expected = self._alone(first, None) if others else None
        for other, its in others:
            # Columns may stand in another order, and be repeated.
            given = self._alone(other, [its.index(column) for column in columns])
            if _agree(given, expected, family.ordered):
                continue
            again = self._alone(first, None)
            kind = "one digest" if _agree(again, expected, family.ordered) else _RANDOM
            detail = f"{first}\n{other}\n{_text(expected)}\n{_text(given)}"
            script = briefly(label, Random(0), family.pair(first, other))
            findings.append(Finding(script, kind, "b", detail))
        return findings

    def _digested(self, variant: Variant) -> tuple[str, tuple[str, ...]]:
        """The digest of a variant's plan, and what each of its columns is."""
        root = self._env._bridge.query(self._entered(variant)).root
        digest = session_inputs(self._env.spark).dataset_digest(root)
        return digest, digests(root.columns)

    def _alone(self, variant: Variant, places: list[int] | None) -> Rows | Exception:
        def job() -> Rows:
            frame = self._entered(variant)
            if places is not None and places != list(range(len(frame.columns))):
                names = [f"c{place}" for place in range(len(frame.columns))]
                frame = frame.toDF(*names).select(*[names[place] for place in places])
            return rows_of(frame)

        return self._plainly(job)

    def _plainly(self, job: Callable[[], Rows]) -> Rows | Exception:
        live = self._env._implicit.live
        with nullcontext() if live is None else live.left_alone():
            return _outcome(job)

    def _entered(self, variant: Variant) -> DataFrame:
        exec(variant.state, self._names)
        made: DataFrame = eval(str(variant.plan), self._names)
        return made

    def _identity(self, table: DataFrame) -> str:
        root = self._env._bridge.query(table).root  # type: ignore[arg-type]
        return session_inputs(self._env.spark).dataset_digest(root)

    def _step(self, script: Script, step: Step) -> Finding | None:
        match step:
            case Enter(state, text):
                if self._env._implicit.live is not None:
                    # Only adaptive plans reuse what others have shuffled.
                    text = text.replace(_NOT_ADAPTIVE, _ADAPTIVE)
                try:
                    exec(text, self._names)
                except Exception as error:
                    raise _Refused(text) from error
                self._state = state
            case Build():
                return self._build(script, step)
            case Run():
                return self._run(script, step)
            case Forget():
                self._env.invalidate_all()
            case Next():
                self._begin_program()
        return None

    def _build(self, script: Script, step: Build) -> Finding | None:
        plan = str(step.plan)
        try:
            twin = self._made(plan)
            twin.schema
        except Exception as error:
            raise _Refused from error
        try:
            table = self._env.from_dataframe(self._made(plan, held=True))
            if step.cached:
                table = table.cache()
            if step.unasked:
                keep_unasked(self._env, table)
        except Exception as error:
            if step.cached and isinstance(self._plainly(lambda: rows_of(twin)), Exception):
                # An error that comes while a plan is optimized is one of `cache()` in Spark, too.
                return None
            return Finding(script, "error", step.name, f"while it was made: {_text(error)}")
        self._built[step.name] = _Built(plan, self._state, table, twin)
        return None

    def _made(self, plan: str, *, held: bool = False) -> Any:
        tables = {name: each.table if held else each.twin for name, each in self._built.items()}
        return eval(plan, {**self._names, **tables})

    def _run(self, script: Script, step: Run) -> Finding | None:
        built = self._built.get(step.name)
        if built is None:
            return None
        actual = _outcome(lambda: rows_of(built.table))
        read = self._has_read()
        self.counts.runs += 1
        self.counts.repeated += self._has_repeated()
        expected = self._sampled(built, 1 if script.is_steady else 2)
        if step.expects_read and not isinstance(actual, Exception):
            self.counts.expected_reads[step.expects_read, read] += 1
        if step.due and not isinstance(actual, Exception):
            self._count_due(script, step, built)
        if any(_same(actual, each, step.ordered) for each in expected):
            return self._random_hit(script, step, built, expected)
        expected += self._sampled(built, 2, again=True)
        steady = all(_same(expected[0], each, step.ordered) for each in expected[1:])
        if any(_same(actual, each, step.ordered) for each in expected):
            return None
        if not steady and not isinstance(actual, Exception):
            return self._random_hit(script, step, built, expected)
        kind = "wrong rows"
        if isinstance(actual, Exception):
            kind = "error"
        elif all(isinstance(each, Exception) for each in expected):
            kind = "no error"
            if step.may_answer or not read:
                return None
        return Finding(script, kind, step.name, f"expected {_text(expected[0])}\n{_text(actual)}")

    def _has_read(self) -> bool:
        result = self._env.last_job_result
        if result is None:
            return False
        return bool(result.reused_exchanges) or VertexOutcome.READ in [
            vertex.outcome for vertex in result.vertices
        ]

    def _count_due(self, script: Script, step: Run, built: _Built) -> None:
        result = self._env.last_job_result
        outcomes = [] if result is None else [each.outcome for each in result.vertices]
        is_found = VertexOutcome.READ in outcomes and VertexOutcome.PRODUCED not in outcomes
        if not is_found:
            digest = self._env._known_plans.query(built.table).root.digest
            of_it = [each for each in self._env.list_cached() if each.digest == digest]
            private = {each.kind for one in of_it for each in one.matches_only_itself}
            if private:
                self.counts.private.update(private)
                return
            why = "; ".join(each.sentence for one in of_it for each in one.reasons)
            self.counts.missed.append(
                f"{script.label}, {built.state}, `{step.name}`: {built.plan}: {why or 'no reason'}"
            )
        self.counts.due[step.due, is_found] += 1

    def _has_repeated(self) -> bool:
        result = self._env.last_job_result
        return result is not None and result.vertices[-1].attempts > 1

    def _sampled(self, built: _Built, most: int, *, again: bool = False) -> list[Rows | Exception]:
        """What plain Spark gives: of DataFrames made at this moment, or when the Table was made."""
        samples = self._samples.setdefault((built.plan, built.state, self._state), [])
        if len(samples) < most or again:
            samples.append(self._plainly(lambda: rows_of(built.twin)))
        if again and built.state == self._state:
            samples.append(self._plainly(lambda: rows_of(self._made(built.plan))))
        return list(samples)

    def _random_hit(
        self, script: Script, step: Run, built: _Built, expected: list[Rows | Exception]
    ) -> Finding | None:
        """Whether what is different each time is the same computation when it is written again."""
        # That files of an old DataFrame are gone is no chance.
        rows = [each for each in expected if isinstance(each, Rows)]
        if all(_same(rows[0], each, False) for each in rows[1:]):
            return None
        again = self._env.from_dataframe(self._made(built.plan, held=True))
        fresh = self._env.from_dataframe(self._made(built.plan, held=True))
        if self._identity(again) != self._identity(fresh):
            return None
        return Finding(script, _RANDOM, step.name, "\n".join(map(_text, expected[:2])))


def config_of_programs(world: World) -> dict[str, str]:
    """The configuration of programs that find what others have kept."""
    keys = {"directory": str(world.home / "kept"), "lifetime": "1 h"}
    return {f"intermediate-result-storage.{key}": value for key, value in keys.items()}


def keep_unasked(env: Environment, table: Table) -> None:
    """Has a table kept as what recurs is."""
    query = env._known_plans.query(table)
    computation = CachedComputation(query.root.digest, query, "recurring", is_unasked=True)
    env._manager.wanted.register(computation, env)


def _outcome(job: Callable[[], Rows]) -> Rows | Exception:
    try:
        return job()
    except Exception as error:
        return error


def _same(one: Rows | Exception, other: Rows | Exception, ordered: bool) -> bool:
    if isinstance(one, Rows) and isinstance(other, Rows) and one.names != other.names:
        return False
    return _agree(one, other, ordered)


def _agree(one: Rows | Exception, other: Rows | Exception, ordered: bool) -> bool:
    if isinstance(one, Exception) or isinstance(other, Exception):
        return isinstance(one, Exception) and isinstance(other, Exception)
    return one.agrees(other, ordered=ordered)


def _text(outcome: object) -> str:
    if isinstance(outcome, Rows):
        return f"{outcome.names} {outcome.types} {outcome.rows}"[:2000]
    return f"{type(outcome).__name__}: {outcome}"[:1000]
