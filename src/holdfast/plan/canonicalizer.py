"""Makes a plan canonical: from the engine's document to a tree of digests."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.errors import UnsupportedPlanError
from holdfast.plan.canonical_plan import CanonicalNode
from holdfast.plan.catalyst_operators import (
    BOTH_SIDES_JOINS,
    CTE_DEFINITION,
    CTE_REFERENCE,
    LEFT_ONLY_JOINS,
    OPERATOR_RULES,
    UNION_LOOP,
    UNION_LOOP_REFERENCE,
    WITH_CTE,
    OperatorRule,
    OutputKind,
)
from holdfast.plan.document import CATALYST, EXECUTION, LOGICAL, OperatorDocument, Value, parts_of
from holdfast.plan.expressions import (
    ExpressionCanonicalizer,
    PythonFunctionDigest,
    Scope,
    freeze_json,
    short,
)
from holdfast.plan.hashing import hash_parts
from holdfast.plan.observed import EVERYTHING, Observed
from holdfast.plan.reasons import Reason, Why
from holdfast.plan.rows import (
    Rows,
    as_dealt,
    distributed,
    filtered,
    grouped,
    joined,
    of_group,
    of_side,
    ranks,
    rows_of,
    rows_over,
    sorted_rows,
)
from holdfast.plan.sources import SourceContext, canonical_source, has_metadata, shows_splits
from holdfast.plan.terms import Canonical, Term, digests, embedded, term, undetermined
from holdfast.plan.traits import KEEPS_PARTITIONS, traits_of
from holdfast.plan.validity import Validity

_AGGREGATE = LOGICAL + "Aggregate"
_DEDUPLICATE = LOGICAL + "Deduplicate"
_DISTINCT = LOGICAL + "Distinct"
_FILTER = LOGICAL + "Filter"
_JOIN = LOGICAL + "Join"
_PROJECT = LOGICAL + "Project"
_SORT = LOGICAL + "Sort"
_ATTACH_SEQUENCE = LOGICAL + "AttachDistributedSequence"
_AND = "org.apache.spark.sql.catalyst.expressions.And"
_RELATION = EXECUTION + "datasources.LogicalRelation"
_ROW_BY_ROW = frozenset({_FILTER, _PROJECT, LOGICAL + "SubqueryAlias", LOGICAL + "View"})
_SOURCES = frozenset(
    {
        LOGICAL + "LocalRelation",
        EXECUTION + "LogicalRDD",
        _RELATION,
        CATALYST + "catalog.HiveTableRelation",
    }
)
_UNKNOWN = OperatorRule(output=OutputKind.DESCRIBED, observes=EVERYTHING)
# Of a loop and of references to it.
_LOOP_ID = 0
_LOOP_LIMIT = 4


@dataclass(frozen=True, slots=True)
class Canonicalizer:
    """Turns plans into canonical trees, in time linear in their size.

    Args:
        session: a text that no other application has; it salts what is only known here.
        python_digest: digests pickled Python functions.
        salt_of: given a handle, a text that tells this very node from every other.
        as_written: digests tell plans apart whose columns, or rows, may come in another order.
        portable: files count as they look on every machine that has them.
        passes_on: whether a pickled Python function gives the rows that it gets.
    """

    session: str
    python_digest: PythonFunctionDigest
    salt_of: Callable[[int], str]
    as_written: bool = False
    portable: bool = False
    passes_on: Callable[[str], bool] = lambda _: False

    def canonicalize(self, operators: list[OperatorDocument]) -> CanonicalNode:
        """The canonical form of a plan.

        Args:
            operators: the analyzed plan, as `holdfast.plan.document` describes it.

        Raises:
            UnsupportedPlanError: when the document's structure can't be followed. No plan that
                Spark has resolved is known to do so; the job then runs as if nothing were kept.
        """
        return _PlanPass(self, operators, (), {}).run()

    def digest(self, rows: Rows, columns: Sequence[Term], layout: str | None = None) -> str:
        """The digest of these columns of these rows, in partitions of which the plan says this."""
        if self.as_written:
            return hash_parts("as written", rows.dealt, digests(columns))
        digest = digest_of(rows, digests(columns))
        return digest if layout is None else hash_parts("distributed", layout, digest)


def digest_of(rows: Rows, columns: Iterable[str]) -> str:
    """The digest of a node, see `CanonicalNode`, in whatever order its columns stand.

    Args:
        rows: the node's.
        columns: the digests of its columns.
    """
    return hash_parts(rows.digest, tuple(sorted(set(columns))))


@dataclass(slots=True)
class _PlanPass:
    """One plan on its way: its operators in pre-order, worked through from the last one on."""

    with_: Canonicalizer
    operators: list[OperatorDocument]
    outer: tuple[Scope, ...]
    definitions: dict[int, tuple[int, CanonicalNode]]
    _ends: list[int] = field(default_factory=list)
    _loops: dict[int, tuple[int, int]] = field(default_factory=dict)
    _done: dict[int, tuple[int, CanonicalNode]] = field(default_factory=dict)

    def run(self) -> CanonicalNode:
        self._ends = self._find_ends()
        self._loops = self._find_loops()
        for start in sorted(
            (i for i, each in enumerate(self.operators) if each["c"] == CTE_DEFINITION),
            key=lambda i: (self._ends[i], -i),
        ):
            node = self._subtree(start)
            self._done[self._ends[start]] = (start, node)
            self.definitions[self.operators[start]["f"][1]] = (len(self.outer), node)
        return self._subtree(0)

    def _find_ends(self) -> list[int]:
        """For each operator, the position after the last one below it."""
        ends = [0] * len(self.operators)
        starts: list[int] = []
        for start in range(len(self.operators) - 1, -1, -1):
            end = start + 1
            for _ in range(self.operators[start]["n"]):
                if not starts:
                    raise UnsupportedPlanError("a plan", "its operators don't form a tree")
                end = ends[starts.pop()]
            ends[start] = end
            starts.append(start)
        if len(starts) != 1:
            raise UnsupportedPlanError("a plan", "its operators don't form a tree")
        return ends

    def _find_loops(self) -> dict[int, tuple[int, int]]:
        """For each reference to a loop around it the loop's position, and how many are nearer."""
        around: list[int] = []
        found = {}
        for position, operator in enumerate(self.operators):
            while around and self._ends[around[-1]] <= position:
                around.pop()
            if operator["c"] == UNION_LOOP:
                around.append(position)
            elif operator["c"] == UNION_LOOP_REFERENCE:
                for distance, loop in enumerate(reversed(around)):
                    if self.operators[loop]["f"][_LOOP_ID] == operator["f"][_LOOP_ID]:
                        found[position] = (loop, distance)
                        break
        return found

    def _is_of_loop(self, start: int) -> bool:
        """Whether the rows of what begins here are others each time that a loop around it runs."""
        end = self._ends[start]
        return any(start <= each < end and loop < start for each, (loop, _) in self._loops.items())

    def _subtree(self, start: int) -> CanonicalNode:
        finished: list[CanonicalNode] = []
        position = self._ends[start] - 1
        while position >= start:
            done = self._done.get(position + 1)
            if done is not None and done[0] >= start:
                position, node = done[0] - 1, done[1]
            else:
                operator = self.operators[position]
                children = tuple(finished.pop() for _ in range(operator["n"]))
                if position in self._loops:
                    node = self._loop_reference(operator, self._loops[position][1])
                else:
                    node = self._operator(operator, children, position)
                if self._loops and self._is_of_loop(position):
                    # It can't be run alone, and has the digest that it has in other loops.
                    node = replace(node, replaceable=False)
                position -= 1
            finished.append(node)
        return finished[0]

    def _operator(
        self, operator: OperatorDocument, children: tuple[CanonicalNode, ...], position: int
    ) -> CanonicalNode:
        name = operator["c"]
        if name == CTE_DEFINITION:
            definition = _standing_for(children[0], operator["i"], children)
            # Catalyst wants a definition to stand there; what it defines may be replaced.
            return replace(definition, replaceable=False)
        if name == WITH_CTE:
            return _standing_for(children[-1], operator["i"], children)
        if name == CTE_REFERENCE and operator["f"][0] in self.definitions:
            depth, definition = self.definitions[operator["f"][0]]
            node = _standing_for(definition, operator["i"], (), tuple(operator["out"]))
            # What is read, and doubted, stands with the definition, which isn't below.
            below = list(definition.walk())
            node = replace(
                node,
                files=tuple(sorted(definition.source_files())),
                of_catalog=bool(definition.catalog_files()),
                doubts=definition.all_doubts(),
                of_session=tuple(each for one in below for each in one.of_session),
                partitioned=tuple(each for one in below for each in one.partitioned),
                # Of a loop it may be a part.
                replaceable=definition.children[0].replaceable,
            )
            return self._seen_from(node, len(self.outer) - depth)
        rule = OPERATOR_RULES.get(name, _UNKNOWN)
        if rule.transparent:
            return _standing_for(children[0], operator["i"], children)
        if name in _SOURCES:
            return self._source(operator, position)
        if name == UNION_LOOP and operator["f"][_LOOP_LIMIT] is not None:
            rule = replace(rule, layout_sensitive=True)
        return _OperatorPass(self, operator, rule, children, position).run()

    def runs_in_scan(self, position: int) -> bool:
        """Whether tasks run an operator row by row, as they read the files of one relation."""
        *steps, leaf = self.operators[position : self._ends[position]]
        return leaf["c"] == _RELATION and not any(
            # Rows wait for Python, while the scan goes on.
            step["c"] not in _ROW_BY_ROW or any("python" in part for part in parts_of(step["f"]))
            for step in steps
        )

    def _loop_reference(self, operator: OperatorDocument, distance: int) -> CanonicalNode:
        """The rows that a loop has made so far, or those of its last round."""
        _, _, is_all = operator["f"]
        shape = freeze_json(_unnamed(operator["s"]))
        leaf = self._leaf(operator, rows_of(operator["c"], distance, is_all, shape))
        # What its rows depend on is met in the loop.
        return replace(leaf, observes=frozenset())

    def _shows_splits(self, position: int) -> bool:
        """Whether more is used of a relation's metadata than what stands in its listing."""
        above = position - 1
        while above > 0 and self.operators[above]["c"] in _ROW_BY_ROW - {_PROJECT}:
            above -= 1
        if self.outer or above < 0 or self.operators[above]["c"] != _PROJECT:
            return True
        # A leaf's own arguments are what it puts out.
        others = self.operators[:position] + self.operators[position + 1 :]
        return shows_splits(self.operators[position], others)

    def _source(self, operator: OperatorDocument, position: int) -> CanonicalNode:
        context = SourceContext(self.with_.session, self.with_.portable, self.with_.passes_on)
        shown = has_metadata(operator) and self._shows_splits(position)
        source = canonical_source(operator, context, with_splits=shown)
        salt = self.salt(operator) if source.doubts else None
        leaf = self._leaf(operator, rows_of(operator["c"], source.content, salt))
        return replace(
            leaf,
            layout_sensitive=bool(source.partitioned),
            ambiguous_rows=bool(source.partitioned),
            partitioned=source.partitioned,
            scan_sensitive=source.scan_sensitive,
            doubts=source.doubts,
            of_session=source.of_session,
            files=source.files,
            of_catalog=source.of_catalog,
            observes=source.observes,
        )

    def _leaf(self, operator: OperatorDocument, rows: Rows) -> CanonicalNode:
        output = tuple(operator["out"])
        columns = _numbered(output)
        return CanonicalNode(
            operator=short(operator["c"]),
            digest=self.with_.digest(rows, columns),
            children=(),
            subqueries=(),
            handle=operator["i"],
            output=output,
            rows=rows,
            columns=columns,
            ordered=False,
            reach=0,
            layout_sensitive=False,
        )

    def _seen_from(self, definition: CanonicalNode, deeper: int) -> CanonicalNode:
        """A definition as a plan sees it that is `deeper` plans inside the one it stands in."""
        if deeper == 0 or definition.reach == 0:
            return definition
        rows = Rows(
            hash_parts("seen from", deeper, definition.rows.digest),
            hash_parts("seen from", deeper, definition.rows.dealt),
        )
        return replace(
            definition,
            rows=rows,
            digest=self.with_.digest(rows, definition.columns, definition.layout),
            reach=definition.reach + deeper,
        )

    def salt(self, operator: OperatorDocument) -> str:
        """What tells this very operator from every other."""
        return operator["t"] or self.with_.salt_of(operator["i"])

    def nested(self, operators: list[Any], outer: tuple[Scope, ...]) -> CanonicalNode:
        """A plan inside an expression."""
        return _PlanPass(self.with_, operators, outer, self.definitions).run()


class _OperatorPass:
    """One operator that has expressions or inputs."""

    def __init__(
        self,
        plan: _PlanPass,
        operator: OperatorDocument,
        rule: OperatorRule,
        children: tuple[CanonicalNode, ...],
        position: int,
    ) -> None:
        self._plan = plan
        self._operator = operator
        self._name = operator["c"]
        self._rule = rule
        self._children = children
        self._ranks = self._sides()
        self._scope = Scope(
            (child.output, self._seen(side, child.columns)) for side, child in enumerate(children)
        )
        self._position = position
        self._expressions = self._new_expressions()
        self._doubts: list[Reason] = []
        # Why its values are not determined stands with its columns, and not with its rows.
        self._by_column = False
        self._layout = self._layout_of_inputs()

    def _new_expressions(self) -> ExpressionCanonicalizer:
        plan, position = self._plan, self._position
        return ExpressionCanonicalizer(
            self._scope,
            plan.outer,
            plan.nested,
            plan.with_.python_digest,
            lambda: plan.runs_in_scan(position),
        )

    def run(self) -> CanonicalNode:
        known = self._known_form()
        if known is not None and self._is_exact() and not self._is_scan_sensitive():
            rows, columns, output = known
            if self._name == _DISTINCT:
                self._use_all_columns()
        else:
            self._by_column = False
            self._layout = self._layout_of_inputs()
            rows, columns, output = self._general_form()
            self._use_all_columns()
        if not self._by_column:
            self._doubts += self._expressions.doubts
            self._doubts += self._inherited(Validity.NODE)
        return self._node(rows, self._with_ties(rows, columns, output), output)

    def _with_ties(
        self, rows: Rows, columns: tuple[Term, ...], output: tuple[int, ...]
    ) -> tuple[Term, ...]:
        """Columns of which some have the value of any row of a group."""
        tied = self._operator.get("ties", ())
        if not tied:
            return columns
        why = Why.TIES.of(short(self._name))
        return tuple(
            replace(
                term("of any row", rows.dealt, column),
                undetermined=tuple(dict.fromkeys((*column.undetermined, why))),
            )
            if each in tied
            else column
            for each, column in zip(output, columns, strict=True)
        )

    # -- forms in which several ways of writing the same are one --------------------------------

    def _known_form(self) -> tuple[Rows, tuple[Term, ...], tuple[int, ...]] | None:
        """Rows, columns and their ids of an operator whose meaning is known; None for others."""
        fields = self._operator["f"]
        match self._name:
            case name if name == _PROJECT:
                output = _ids(fields[0])
                if output is None:
                    return None
                (child,) = self._children
                self._by_column = True
                columns = self._expressions.columns(
                    fields[0], lambda: self._plan.salt(self._operator), child.rows.dealt
                )
                return child.rows, tuple(columns), output
            case name if name == _ATTACH_SEQUENCE:
                return self._numbered_rows(fields[0])
            case name if name == _FILTER:
                (child,) = self._children
                conditions = self._conditions(fields[0])
                return filtered(child.rows, conditions), child.columns, child.output
            case name if name == _AGGREGATE:
                return self._aggregate(fields[0], fields[1])
            case name if name == _DISTINCT:
                return self._distinct()
            case name if name == _DEDUPLICATE:
                keys = self._expressions.terms(fields[0])
                (child,) = self._children
                if not keys or {*digests(keys)} != {*digests(child.columns)}:
                    return None
                self._name, self._rule = _DISTINCT, OPERATOR_RULES[_DISTINCT]
                return self._distinct()
            case name if name == _JOIN:
                return self._join(fields[2], fields[3])
            case name if name == _SORT:
                (child,) = self._children
                orders = self._expressions.canonical([fields[0], fields[1]])
                return sorted_rows(child.rows, orders), child.columns, child.output
            case _ if self._rule.distributes:
                (child,) = self._children
                said = self._expressions.canonical([each for each in fields if not _is_child(each)])
                # Fewer partitions are made of those that are there.
                self._layout = hash_parts(self._name, embedded(said), child.layout)
                return distributed(child.rows, self._layout), child.columns, child.output
        return None

    def _layout_of_inputs(self) -> str | None:
        below = [child.layout for child in self._children]
        if short(self._name) not in KEEPS_PARTITIONS or not any(below):
            return None
        return below[0] if len(below) == 1 else hash_parts(self._name, tuple(below))

    def _conditions(self, condition: Value) -> tuple[Term, ...]:
        (whole,) = self._expressions.terms([condition])
        return whole.operands_of(_AND)

    def _aggregate(
        self, keys: list[Value], named: list[Value]
    ) -> tuple[Rows, tuple[Term, ...], tuple[int, ...]] | None:
        (child,) = self._children
        output = _ids(named)
        if output is None:
            return None
        by, results = self._expressions.terms(keys), self._expressions.terms(named)
        rows = grouped(child.rows, by, digests(results))
        return rows, tuple(map(of_group, results)), output

    def _numbered_rows(
        self, number: Value
    ) -> tuple[Rows, tuple[Term, ...], tuple[int, ...]] | None:
        output = _ids([number])
        if output is None:
            return None
        (child,) = self._children
        self._by_column = True
        numbers = replace(term("number", child.rows.dealt), undetermined=self._partitioned())
        return child.rows, (numbers, *child.columns), (*output, *child.output)

    def _distinct(self) -> tuple[Rows, tuple[Term, ...], tuple[int, ...]] | None:
        (child,) = self._children
        if not child.columns:
            # No group, where there are no keys, is one row, whatever is grouped.
            return None
        rows = grouped(child.rows, child.columns, digests(child.columns))
        return rows, tuple(map(of_group, child.columns)), child.output

    def _join(
        self, kind: dict[str, Any], condition: Value
    ) -> tuple[Rows, tuple[Term, ...], tuple[int, ...]] | None:
        if self._ranks is None:
            return None
        conditions = () if condition is None else self._conditions(condition)
        rows = joined(short(kind["c"]), [child.rows for child in self._children], conditions)
        sides = self._children if short(kind["c"]) in BOTH_SIDES_JOINS else self._children[:1]
        columns = [self._seen(side, child.columns) for side, child in enumerate(sides)]
        output = [child.output for child in sides]
        return rows, tuple(sum(columns, ())), tuple(sum(output, ()))

    def _sides(self) -> tuple[int, int] | None:
        """For each input of a join that is known which side it is; None for other operators."""
        if self._name != _JOIN or len(self._children) != 2:
            return None
        kind = short(self._operator["f"][2]["c"])
        if kind not in LEFT_ONLY_JOINS | BOTH_SIDES_JOINS:
            return None
        return ranks(kind, [child.rows for child in self._children])

    def _seen(self, side: int, columns: Sequence[Term]) -> tuple[Term, ...]:
        """An input's columns as the operator's expressions see them."""
        if self._ranks is not None:
            return tuple(of_side(self._ranks[side], column) for column in columns)
        if len(self._children) > 1:
            return tuple(term("of input", side, column) for column in columns)
        return tuple(columns)

    def _is_exact(self) -> bool:
        """Whether each row is the same however and how often the operator is run."""
        if self._by_column:
            return True
        return not self._expressions.doubts and not self._expressions.partitioned

    # -- the form of all others -----------------------------------------------------------------

    def _general_form(self) -> tuple[Rows, tuple[Term, ...], tuple[int, ...]]:
        content = self._arguments()
        rule, operator = self._rule, self._operator
        if rule.seed is not None and operator["f"][rule.seed] is None:
            self._doubts.append(Why.UNSEEDED.of(short(self._name)))
        if rule is _UNKNOWN:
            self._doubts.append(Why.UNKNOWN_OPERATOR.of(short(self._name)))
        output = self._output()
        if output is None:
            self._doubts.append(Why.UNREADABLE.of(f"the output of {short(self._name)}"))
            output = ()
        salt = None
        if self._doubts or self._expressions.doubts:
            salt = self._plan.salt(operator)
        if self._expressions.ties:
            content = (content, tuple(child.layout for child in self._children))
        rows = rows_over(
            [(child.rows, child.columns) for child in self._children], self._name, content, salt
        )
        if self._partitioned():
            rows = as_dealt(rows)
        if rule.output is OutputKind.FIRST_CHILD and len(self._children) == 1:
            return rows, self._children[0].columns, output
        return rows, _numbered(output), output

    def _arguments(self) -> Canonical:
        operator, rule = self._operator, self._rule
        # What has been met of an attempt at a known form is met again.
        self._expressions = self._new_expressions()
        arguments: list[Canonical] = []
        for position, argument in enumerate(operator["f"]):
            if position in rule.ignored or position in rule.defines or _is_child(argument):
                continue
            arguments.append(embedded(self._expressions.canonical(argument)))
            if rule.output is OutputKind.JOIN and len(self._children) == 1:
                self._widen()
        arguments += [embedded(self._expressions.canonical(each)) for each in operator["o"]]
        if "s" in operator:
            schema = _unnamed(operator["s"]) if rule.names_unseen else operator["s"]
            arguments.append(("schema", freeze_json(schema)))
        if "inputs" in operator:
            arguments.append(("inputs", *map(freeze_json, operator["inputs"])))
        return tuple(arguments)

    def _widen(self) -> None:
        """What comes after a lateral join's right side may refer to it."""
        for right in self._expressions.subqueries[:1]:
            columns = [term("of input", 1, column) for column in right.columns]
            self._scope.widened(right.output, columns)

    def _output(self) -> tuple[int, ...] | None:
        """The ids of the output's attributes; None where they are unknown."""
        operator, children = self._operator, self._children
        match self._rule.output:
            case OutputKind.DESCRIBED:
                return tuple(operator["out"])
            case OutputKind.FIRST_CHILD:
                return children[0].output
            case OutputKind.NAMED_EXPRESSIONS:
                return _ids(operator["f"][self._rule.named])
            case OutputKind.CHILD_AND_NAMED:
                added = _ids(operator["f"][self._rule.named])
                return None if added is None else children[0].output + added
            case OutputKind.JOIN:
                right = self._expressions.subqueries[:1]
                sides = children if len(children) == 2 else (*children, *right)
                return _join_output(operator["f"][2]["c"], [side.output for side in sides])

    def _is_scan_sensitive(self) -> bool:
        """Written in another way, it might ask readers for something else."""
        if self._expressions.scan_sensitive or (self._rule is _UNKNOWN and not self._children):
            return True
        inputs = (*self._children, *self._expressions.subqueries)
        return any(node.scan_sensitive for node in inputs)

    def _observes(self) -> frozenset[Observed]:
        inputs = (*self._children, *self._expressions.subqueries)
        own = self._rule.observes | self._expressions.observes
        return own.union(*(node.observes for node in inputs))

    def _partitioned(self) -> tuple[Reason, ...]:
        """Why its own rows depend on how rows are partitioned among tasks, if they do."""
        of_operator = (
            (Why.PARTITIONED.of(short(self._name)),) if self._rule.layout_sensitive else ()
        )
        return (*of_operator, *self._expressions.partitioned)

    def _inherited(self, where: Validity) -> tuple[Reason, ...]:
        """Why values that its rows depend on are not determined by its inputs' rows."""
        return tuple(each for each in self._expressions.inherited if each.where is where)

    def _use_all_columns(self) -> None:
        for child in self._children:
            self._expressions.inherited += undetermined(child.columns)

    def _sees_partitions(self) -> bool:
        if self._doubts or self._expressions.doubts:
            return True
        # A limit over rows in order is of the first ones.
        ordered = self._rule.keeps_order and any(child.ordered for child in self._children)
        sensitive = self._rule.layout_sensitive or self._rule.distributes
        return bool(self._expressions.partitioned) or (sensitive and not ordered)

    def _node(
        self, rows: Rows, columns: tuple[Term, ...], output: tuple[int, ...]
    ) -> CanonicalNode:
        expressions, children = self._expressions, self._children
        subqueries = tuple(expressions.subqueries)
        is_sorted = self._name == _SORT and self._operator["f"][1] is True
        keeps_order = self._rule.keeps_order and bool(children) and children[0].ordered
        inputs = (*children, *subqueries)
        sees_tasks = self._partitioned()
        partitioned = () if self._by_column else (*sees_tasks, *self._inherited(Validity.SESSION))
        ambiguities = (*partitioned, *expressions.ties)
        return CanonicalNode(
            operator=short(self._name),
            digest=self._plan.with_.digest(rows, columns, self._layout),
            children=children,
            subqueries=subqueries,
            handle=self._operator["i"],
            output=output,
            rows=rows,
            columns=columns,
            ordered=is_sorted or keeps_order,
            reach=max([expressions.reach, *(child.reach for child in children)]),
            partitioned=ambiguities,
            layout_sensitive=bool(sees_tasks) or any(node.layout_sensitive for node in inputs),
            ambiguous_rows=bool(ambiguities) or any(node.ambiguous_rows for node in inputs),
            layout=self._layout,
            scan_sensitive=self._is_scan_sensitive(),
            observes=self._observes(),
            traits=traits_of(
                self._operator,
                observes_scan=expressions.observes_scan,
                sees_partitions=self._sees_partitions(),
            ),
            doubts=tuple(self._doubts),
        )


def _standing_for(
    node: CanonicalNode,
    handle: int,
    children: tuple[CanonicalNode, ...],
    output: tuple[int, ...] | None = None,
) -> CanonicalNode:
    """A node that gives `node`'s rows unchanged, under another handle and perhaps other ids."""
    return CanonicalNode(
        operator=node.operator,
        digest=node.digest,
        children=children,
        subqueries=(),
        handle=handle,
        output=node.output if output is None else output,
        rows=node.rows,
        columns=node.columns,
        ordered=node.ordered,
        reach=node.reach,
        layout_sensitive=node.layout_sensitive,
        ambiguous_rows=node.ambiguous_rows,
        layout=node.layout,
        scan_sensitive=node.scan_sensitive,
        observes=node.observes,
    )


def _numbered(output: Sequence[int]) -> tuple[Term, ...]:
    """Columns that are known by their places alone."""
    return tuple(term("column", position) for position in range(len(output)))


def _unnamed(schema: dict[str, Any]) -> list[Any]:
    """A schema's fields without their names, in their order."""
    return [
        {key: value for key, value in field.items() if key != "name"} for field in schema["fields"]
    ]


def _is_child(argument: Value) -> bool:
    """Whether an argument is nothing but children; their digests and their number are hashed."""
    if isinstance(argument, list):
        return bool(argument) and all(_is_child(item) for item in argument)
    return isinstance(argument, dict) and "child" in argument


def _ids(expressions: Value) -> tuple[int, ...] | None:
    """The ids of the attributes that named expressions put out."""
    ids = []
    for expression in expressions:
        if "alias" in expression:
            ids.append(expression["alias"])
        elif "a" in expression:
            ids.append(expression["a"])
        elif short(expression.get("c", "")) == "OuterReference" and "a" in expression["f"][0]:
            ids.append(expression["f"][0]["a"])
        else:
            return None
    return tuple(ids)


def _join_output(kind: str, sides: list[tuple[int, ...]]) -> tuple[int, ...] | None:
    if short(kind) in LEFT_ONLY_JOINS:
        return sides[0]
    if short(kind) in BOTH_SIDES_JOINS and len(sides) == 2:
        return sides[0] + sides[1]
    return None
