"""Makes a plan canonical: from the engine's document to a tree of digests."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.errors import UnsupportedPlanError
from holdfast.plan.canonical_plan import CanonicalNode, hash_parts
from holdfast.plan.document import EXECUTION, LOGICAL, OperatorDocument, Value
from holdfast.plan.expressions import (
    Canonical,
    ExpressionCanonicalizer,
    PythonFunctionDigest,
    Scope,
    freeze_json,
    short,
)
from holdfast.plan.operators import (
    BOTH_SIDES_JOINS,
    CTE_DEFINITION,
    CTE_REFERENCE,
    LEFT_ONLY_JOINS,
    OPERATOR_RULES,
    WITH_CTE,
    OperatorRule,
    Output,
)
from holdfast.plan.sources import SourceContext, canonical_source

_SORT = LOGICAL + "Sort"
_DEDUPLICATE = LOGICAL + "Deduplicate"
_DISTINCT = LOGICAL + "Distinct"
_PROJECT = LOGICAL + "Project"
_SOURCES = frozenset(
    {
        LOGICAL + "LocalRelation",
        EXECUTION + "LogicalRDD",
        EXECUTION + "datasources.LogicalRelation",
    }
)
_UNKNOWN = OperatorRule(output=Output.DESCRIBED)


@dataclass(frozen=True, slots=True)
class Canonicalizer:
    """Turns plans into canonical trees, in time linear in their size.

    Args:
        session: a text that no other application has; it salts what is only known here.
        inline_name: what the texts of inline tables end with.
        python_digest: digests pickled Python functions.
        salt_of: given a handle, a text that tells this very node from every other.
    """

    session: str
    inline_name: str
    python_digest: PythonFunctionDigest
    salt_of: Callable[[int], str]

    def canonicalize(self, operators: list[OperatorDocument]) -> CanonicalNode:
        """The canonical form of a plan.

        Args:
            operators: the analyzed plan, as `holdfast.plan.document` describes it.

        Raises:
            UnsupportedPlanError: when the document's structure can't be followed. No plan that
                Spark has resolved is known to do so; the job then runs as if nothing were kept.
        """
        return _PlanPass(self, operators, (), {}).run()


@dataclass(slots=True)
class _PlanPass:
    """One plan on its way: its operators in pre-order, worked through from the last one on."""

    with_: Canonicalizer
    operators: list[OperatorDocument]
    outer: tuple[Scope, ...]
    definitions: dict[int, tuple[int, CanonicalNode]]
    _ends: list[int] = field(default_factory=list)
    _done: dict[int, tuple[int, CanonicalNode]] = field(default_factory=dict)

    def run(self) -> CanonicalNode:
        self._ends = self._find_ends()
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
                node = self._operator(operator, children)
                position -= 1
            finished.append(node)
        return finished[0]

    def _operator(
        self, operator: OperatorDocument, children: tuple[CanonicalNode, ...]
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
            return _seen_from(node, len(self.outer) - depth)
        rule = OPERATOR_RULES.get(name, _UNKNOWN)
        if rule.transparent:
            return _standing_for(children[0], operator["i"], children)
        if name in _SOURCES:
            return self._source(operator)
        return self._general(operator, rule, children)

    def _source(self, operator: OperatorDocument) -> CanonicalNode:
        source = canonical_source(
            operator, SourceContext(self.with_.session, self.with_.inline_name)
        )
        return self._node(operator, (), source.content, list(source.doubts), files=source.files)

    def _general(
        self,
        operator: OperatorDocument,
        rule: OperatorRule,
        children: tuple[CanonicalNode, ...],
    ) -> CanonicalNode:
        expressions = ExpressionCanonicalizer(
            Scope([child.output for child in children]),
            self.outer,
            self._nested,
            self.with_.python_digest,
        )
        name = operator["c"]
        arguments: list[Canonical] = []
        for position, argument in enumerate(operator["f"]):
            if position in rule.ignored or position in rule.defines or _is_child(argument):
                continue
            arguments.append(expressions.canonical(argument))
        arguments += [expressions.canonical(argument) for argument in operator["o"]]
        if "s" in operator:
            schema = _unnamed(operator["s"]) if rule.names_unseen else operator["s"]
            arguments.append(("schema", freeze_json(schema)))
        if "inputs" in operator:
            arguments.append(("inputs", *map(freeze_json, operator["inputs"])))
        if name == _DEDUPLICATE and _covers_all(arguments[0], children[0]):
            name, rule, arguments = _DISTINCT, OPERATOR_RULES[_DISTINCT], []
        doubts = list(expressions.doubts)
        if rule.seed is not None and operator["f"][rule.seed] is None:
            doubts.append(f"a {short(name)} without a seed")
        if rule is _UNKNOWN:
            doubts.append(f"the operator {short(name)}, which Holdfast doesn't know")
        output = self._output(operator, rule, children, expressions.subqueries)
        if output is None:
            doubts.append(f"the output of {short(name)}")
            output = ()
        if name == _PROJECT and not doubts and _takes_all(arguments[0], children[0]):
            return _standing_for(children[0], operator["i"], children, output)
        return self._node(
            {**operator, "c": name},
            children,
            tuple(arguments),
            doubts,
            output=output,
            subqueries=tuple(expressions.subqueries),
            ordered=(name == _SORT and operator["f"][1] is True)
            or (rule.keeps_order and bool(children) and children[0].ordered),
            reach=expressions.reach,
            layout_sensitive=rule.layout_sensitive or expressions.layout_sensitive,
        )

    def _nested(self, operators: list[Any], outer: tuple[Scope, ...]) -> CanonicalNode:
        return _PlanPass(self.with_, operators, outer, self.definitions).run()

    def _node(
        self,
        operator: OperatorDocument,
        children: tuple[CanonicalNode, ...],
        content: Canonical,
        doubts: list[str],
        *,
        output: tuple[int, ...] | None = None,
        subqueries: tuple[CanonicalNode, ...] = (),
        ordered: bool = False,
        reach: int = 0,
        layout_sensitive: bool = False,
        files: tuple[tuple[str, int, int], ...] = (),
    ) -> CanonicalNode:
        salt = None
        if doubts:
            salt = operator["t"] or self.with_.salt_of(operator["i"])
        below = (*children, *subqueries)
        return CanonicalNode(
            operator=short(operator["c"]),
            digest=hash_parts(
                operator["c"], content, salt, tuple(child.digest for child in children)
            ),
            children=children,
            subqueries=subqueries,
            handle=operator["i"],
            output=tuple(operator["out"]) if output is None else output,
            ordered=ordered,
            reach=max([reach, *(child.reach for child in children)]),
            layout_sensitive=layout_sensitive or any(node.layout_sensitive for node in below),
            doubts=tuple(doubts),
            files=files,
        )

    @staticmethod
    def _output(
        operator: OperatorDocument,
        rule: OperatorRule,
        children: tuple[CanonicalNode, ...],
        subqueries: list[CanonicalNode],
    ) -> tuple[int, ...] | None:
        """The ids of the output's attributes; None where they can't be told."""
        match rule.output:
            case Output.DESCRIBED:
                return tuple(operator["out"])
            case Output.FIRST_CHILD:
                return children[0].output
            case Output.NAMED_EXPRESSIONS:
                return _ids(operator["f"][rule.named])
            case Output.CHILD_AND_NAMED:
                added = _ids(operator["f"][rule.named])
                return None if added is None else children[0].output + added
            case Output.JOIN:
                sides = children if len(children) == 2 else (*children, *subqueries[:1])
                return _join_output(operator["f"][2]["c"], [side.output for side in sides])


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
        ordered=node.ordered,
        reach=node.reach,
        layout_sensitive=node.layout_sensitive,
    )


def _seen_from(definition: CanonicalNode, deeper: int) -> CanonicalNode:
    """A definition as a plan sees it that is `deeper` plans inside the one that it stands in."""
    if deeper == 0 or definition.reach == 0:
        return definition
    return replace(
        definition,
        digest=hash_parts("seen from", deeper, definition.digest),
        reach=definition.reach + deeper,
    )


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


def _takes_all(projection: Canonical, child: CanonicalNode) -> bool:
    """Whether a projection is all of the child's columns in their order, at most renamed."""
    return len(projection) == len(child.output) + 1 and all(
        column == ("column", position) for position, column in enumerate(projection[1:])
    )


def _covers_all(keys: Canonical, child: CanonicalNode) -> bool:
    """Whether rows that agree on the keys agree on everything."""
    return bool(child.output) and set(keys[1:]) == {
        ("column", position) for position in range(len(child.output))
    }


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
