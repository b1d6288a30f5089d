"""The canonical form of a plan: what counts, hashed bottom-up."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from holdfast.plan.file_version import FileVersion
from holdfast.plan.observed import EVERYTHING, Observed
from holdfast.plan.reasons import Reason
from holdfast.plan.rows import UNKNOWN_ROWS, Rows
from holdfast.plan.terms import Term, undetermined
from holdfast.plan.traits import Trait
from holdfast.plan.validity import Validity


@dataclass(frozen=True, slots=True, eq=False)
class CanonicalNode:
    """An operator of a canonical plan, with the digest of everything below it.

    Attributes:
        operator: what the operator is called, without its package.
        digest: SHA-256 in hex over the operator, its arguments and its inputs. Two nodes with the
            same digest compute the same rows, in the same order where `ordered`. Their columns may
            stand in another order, and be repeated: `columns` tells which is which.
        children: the inputs.
        subqueries: the plans inside the operator's expressions.
        handle: by which the engine finds the node again.
        output: the engine's ids of the output's attributes, in order.
        ordered: the plan fixes the order of the rows.
        reach: how many enclosing plans outwards the farthest reference leads; 0 where the plan can
            be run by itself.
        layout_sensitive: which rows come out depends on how rows are partitioned among tasks, so
            that their digest counts what is known of that.
        ambiguous_rows: several answers are right, in whichever of its columns: it is
            layout-sensitive, or so is a value in rows with equal sort keys.
        layout: the digest of what the plan says of its partitions: it is part of `digest`, and of
            nothing that is above a shuffle. None where it says nothing.
        replaceable: another plan may stand in the node's place.
        doubts: why this very node has been given a salt, if it has. Why a column of it alone has
            one is in `columns`, for as long as that is passed on.
        of_session: why what it reads itself is known in this session alone, if it is.
        partitioned: why its own rows, or values in rows with equal sort keys, depend on how rows
            are partitioned among tasks, if they do.
        files: the listed versions of the files that this node reads itself.
        of_catalog: a catalog lists them for every plan that names the table, and goes on to after
            the files have changed.
        rows: the rows, whatever columns of them are put out.
        columns: for each of `output` what it is, as a term over the rows.
        traits: what this very node does with how its inputs are computed.
        scan_sensitive: which rows come out depends on which columns and conditions reach readers
            of what it is made of, and so on all that is above. What is kept of it are the rows that
            it has when it is run alone: only a `cache()` of the program asks for these.
        observes: what of the process around it the rows may depend on; in doubt they do.
    """

    operator: str
    digest: str
    children: tuple[CanonicalNode, ...]
    subqueries: tuple[CanonicalNode, ...]
    handle: int
    output: tuple[int, ...]
    ordered: bool
    reach: int
    layout_sensitive: bool
    replaceable: bool = True
    doubts: tuple[Reason, ...] = ()
    of_session: tuple[Reason, ...] = ()
    partitioned: tuple[Reason, ...] = ()
    files: tuple[FileVersion, ...] = ()
    of_catalog: bool = False
    rows: Rows = UNKNOWN_ROWS
    columns: tuple[Term, ...] = ()
    traits: frozenset[Trait] = frozenset()
    scan_sensitive: bool = False
    observes: frozenset[Observed] = EVERYTHING
    ambiguous_rows: bool = False
    layout: str | None = None

    def walk(self) -> Iterator[CanonicalNode]:
        """This node and everything below it, subqueries included, in pre-order."""
        waiting = [self]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(node.subqueries))
            waiting.extend(reversed(node.children))

    def source_files(self) -> frozenset[FileVersion]:
        """Every file version that the plan reads."""
        return frozenset(file for node in self.walk() for file in node.files)

    def catalog_files(self) -> frozenset[FileVersion]:
        """Every file version that the plan reads by the listing of a catalog's table."""
        return frozenset(file for node in self.walk() if node.of_catalog for file in node.files)

    def own_doubts(self) -> tuple[Reason, ...]:
        """Why this node, or a column of it, matches only itself, if it does."""
        return (*self.doubts, *self._of_columns(Validity.NODE))

    def all_doubts(self) -> tuple[Reason, ...]:
        """Why the plan matches only itself, if it does: each reason once."""
        of_rows = (doubt for node in self.walk() for doubt in node.doubts)
        return tuple(dict.fromkeys((*of_rows, *self._of_columns(Validity.NODE))))

    @property
    def ambiguous(self) -> bool:
        """Whether several answers are right."""
        return self.ambiguous_rows or bool(self._of_columns(Validity.SESSION))

    def ambiguities(self) -> tuple[Reason, ...]:
        """Why several answers are right, if they are: each reason once."""
        if not self.ambiguous:
            return ()
        of_rows = (each for node in self.walk() for each in node.partitioned)
        return tuple(dict.fromkeys((*of_rows, *self._of_columns(Validity.SESSION))))

    def _of_columns(self, where: Validity) -> tuple[Reason, ...]:
        return tuple(each for each in undetermined(self.columns) if each.where is where)

    def reasons(self) -> tuple[Reason, ...]:
        """Why other programs don't have the same rows for the plan's digest, each reason once.

        Empty for those alone that have the same rows anywhere.
        """
        of_session = (each for node in self.walk() for each in node.of_session)
        return tuple(dict.fromkeys((*self.all_doubts(), *of_session, *self.ambiguities())))

    def validity(self) -> Validity:
        """Where the plan's digest stands for the same rows."""
        if self.all_doubts():
            return Validity.NODE
        of_session = any(node.of_session for node in self.walk())
        return Validity.SESSION if of_session else Validity.ANYWHERE
