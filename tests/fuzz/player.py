"""Plays cases: each job by plain Spark and through Holdfast, at the same moment."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, field
from random import Random
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.classic.dataframe import DataFrame as ClassicDataFrame

from holdfast import Environment
from holdfast.api.table import Table
from holdfast.plan.terms import digests
from holdfast.runtime.vertex_outcome import VertexOutcome
from holdfast.runtime.wanted import CachedComputation
from holdfast.spark.java_classes import new_object
from holdfast.spark.session_settings import session_inputs
from tests.fuzz.busy import when_a_job_runs
from tests.fuzz.family import Family, Variant
from tests.fuzz.pair import briefly, start
from tests.fuzz.rows import Rows, rows_of
from tests.fuzz.script import Build, Enter, Forget, Next, Run, Script, Step
from tests.fuzz.world import World

_NOT_ADAPTIVE = "'spark.sql.adaptive.enabled', 'false'"
_ADAPTIVE = "'spark.sql.adaptive.enabled', 'true'"
_RANDOM = "random rows of one digest"
# Has later programs of a case leave it, too.
_REFUSED = "refused"


@dataclass(frozen=True)
class Finding:
    """A job through Holdfast was not as plain Spark's.

    Attributes:
        script: the case.
        kind: `wrong rows`, `error`, `no error`, or `one digest`.
        step: of which DataFrame.
        detail: what was expected, and what came.
    """

    script: Script
    kind: str
    step: str
    detail: str


@dataclass
class Counts:
    """What was played.

    Attributes:
        pairs: of computations, through Holdfast.
        digested: pairs of which digests were compared, and rows where digests agree.
        invalid: cases, and variants of families, that plain Spark refuses.
        runs: jobs through Holdfast.
        repeated: how many of them were run again, as they had been written.
        expected_reads: for each kind of read that is hoped for: how often it was, and came.
        due: the same of what one program has kept and another one should find.
        missed: what of that was not found, and why as far as that is known.
        private: the reasons for which only its program reads what would be due otherwise.
    """

    pairs: int = 0
    digested: int = 0
    invalid: int = 0
    runs: int = 0
    repeated: int = 0
    expected_reads: Counter[tuple[str, bool]] = field(default_factory=Counter)
    due: Counter[tuple[str, bool]] = field(default_factory=Counter)
    missed: list[str] = field(default_factory=list)
    private: Counter[str] = field(default_factory=Counter)

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
    """Plays one case after another in one session.

    Args:
        env: an environment of its own.
        world: of the same session.
        part: the number of the one program that this process is, of those of each case; or else
            it is all of them.
    """

    def __init__(self, env: Environment, world: World, part: int | None = None) -> None:
        self._part = part
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
        steps, name, stays = script.steps, "", False
        findings: list[Finding] = []
        if self._part is not None:
            programs = list(_programs(steps))
            steps, stays = programs[self._part], self._part < len(programs) - 1
            name = script.label.replace(" ", "-")
        try:
            with self._world.case(name, stays=stays) as self._names:
                if (self._world.home / _REFUSED).exists():
                    raise _Refused
                findings += filter(None, (self._step(script, step) for step in steps))
        except _Refused:
            self.counts.invalid += 1
            if stays:
                (self._world.home / _REFUSED).touch()
            return []
        finally:
            self._end_program()
            self._env.invalidate_all()
        if not stays:
            self.counts.pairs += script.pairs
        return findings

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
        """Runs nothing where digests differ; where they don't, rows mustn't either.

        Returns:
            those of the family that Spark takes, and what is wrong between any two of them.
        """
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

    def _past_cache(self, built: _Built) -> Any:
        """The DataFrame without what Spark's own cache has of it."""
        made = self._made(built.plan)
        spark = made.sparkSession
        plan = made._jdf.queryExecution().analyzed()
        queries = new_object(spark, "UncachedQueries")
        return ClassicDataFrame(queries.dataset(spark._jsparkSession, plan), spark)

    def _run(self, script: Script, step: Run) -> Finding | None:
        built = self._built.get(step.name)
        if built is None:
            return None
        expected = []
        if step.meanwhile:
            expected.append(self._plainly(lambda: rows_of(built.twin)))
        actual = self._held(built, step.meanwhile)
        read = self._has_read()
        self.counts.runs += 1
        self.counts.repeated += self._has_repeated()
        if step.meanwhile:
            # What comes after has another state; each answer is one of both.
            expected.append(self._plainly(lambda: rows_of(self._made(built.plan))))
        else:
            expected += self._sampled(built, 1 if script.is_steady else 2)
        if step.past_cache:
            expected.append(self._plainly(lambda: rows_of(self._past_cache(built))))
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
        if not (steady or step.meanwhile) and not isinstance(actual, Exception):
            return self._random_hit(script, step, built, expected)
        kind = "wrong rows"
        if isinstance(actual, Exception):
            kind = "error"
        elif all(isinstance(each, Exception) for each in expected):
            kind = "no error"
            if step.may_answer or not read:
                return None
        return Finding(script, kind, step.name, f"expected {_text(expected[0])}\n{_text(actual)}")

    def _held(self, built: _Built, meanwhile: str) -> Rows | Exception:
        if not meanwhile:
            return _outcome(lambda: rows_of(built.table))
        act = lambda: exec(meanwhile, self._names)  # noqa: E731
        thread = threading.Thread(target=when_a_job_runs, args=(self._env.spark, act))
        thread.start()
        try:
            return _outcome(lambda: rows_of(built.table))
        finally:
            thread.join()

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
        told = step.meanwhile or step.past_cache
        # That files of an old DataFrame are gone is no chance.
        rows = [each for each in expected if isinstance(each, Rows)]
        if told or all(_same(rows[0], each, False) for each in rows[1:]):
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


def _programs(steps: tuple[Step, ...]) -> Iterator[tuple[Step, ...]]:
    """The steps of each program of a case."""
    starts = [place for place, step in enumerate(steps) if isinstance(step, Next)] or [0]
    for start_of_one, end in zip(starts, [*starts[1:], len(steps)], strict=True):
        yield steps[start_of_one:end]


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
