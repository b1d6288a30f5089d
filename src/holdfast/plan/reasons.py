"""Why little or nothing finds what is kept, or why it isn't kept: each reason, in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from holdfast.plan.validity import Validity

_MOST_CHARACTERS = 500
_SAID = {
    Validity.USER: "only this user's programs read it",
    Validity.SESSION: "only this program reads it",
    Validity.NODE: "only this very table reads it",
    Validity.NOWHERE: "not kept",
}


@dataclass(frozen=True, slots=True)
class Reason:
    """Why something kept is read in few places, or why it isn't kept.

    Attributes:
        kind: which reason it is, in one word that stays the same from version to version.
        where: where it is read all the same.
        text: the cause.

    >>> str(Why.RANDOM.of("Uuid"))
    'Uuid, which is not deterministic'
    >>> Why.RANDOM.of("Uuid").sentence
    'only this very table reads it: Uuid, which is not deterministic'
    """

    kind: str
    where: Validity
    text: str

    def __str__(self) -> str:
        return self.text

    @property
    def sentence(self) -> str:
        """The effect and its cause, the same wherever it is shown."""
        return f"{_SAID[self.where]}: {self.text}"

    def recorded(self) -> list[str]:
        """It as JSON, for `Reason.read`."""
        return [self.kind, self.where.name, self.text]

    @classmethod
    def read(cls, recorded: Iterable[str]) -> Reason:
        """What `recorded` gave, perhaps of another version that knows other kinds."""
        kind, where, text = recorded
        return cls(kind, Validity[where], text)


class Why(Enum):
    """Every reason that there is: where what it concerns is read all the same, and its words."""

    UNKNOWN_OPERATOR = Validity.NODE, "the operator {}, which Holdfast doesn't know"
    UNKNOWN_EXPRESSION = Validity.NODE, "the expression {}, which Holdfast doesn't know"
    UNKNOWN_AGGREGATE = Validity.NODE, "the aggregate function {}, which Holdfast doesn't know"
    UNREADABLE = Validity.NODE, "a part of the plan that Holdfast can't follow: {}"
    OPAQUE = Validity.NODE, "a {}, whose content can't be known"
    OBJECT = Validity.NODE, "an object of the JVM whose content can't be known: {}"
    PYTHON = Validity.NODE, "a Python function whose content can't be known: {}"
    MOMENT = Validity.NODE, "{}, which depends on when or where it is computed"
    MOMENT_IN_TEXT = Validity.NODE, "a cast of a text that may name the current day or time"
    RANDOM = Validity.NODE, "{}, which is not deterministic"
    UNSEEDED = Validity.NODE, "a {} without a seed"
    UNVERSIONED = Validity.NODE, "a {}, whose content has no version"
    LISTED_LATER = Validity.NODE, "files that are listed when they are read: {}"
    INCOMPARABLE_ROWS = Validity.NODE, "rows of types that can't be compared by value"

    RDD = Validity.SESSION, "an RDD, which no other program has"
    MANY_VALUES = (
        Validity.SESSION,
        "more than 8 MB of values of the program's own, which aren't compared: put them into files",
    )
    PARTITIONED = Validity.SESSION, "{}, which depends on how rows are partitioned among tasks"
    TIES = Validity.SESSION, "{}, which depends on the order of rows that tie"
    OWN_ANSWER = (
        Validity.SESSION,
        "several answers are right, and intermediate-result-storage.share-ambiguous is false",
    )
    OWN_CLASSES = (
        Validity.SESSION,
        "its records are of classes that are pickled by their content, and which no other program "
        "has: define them in a module that the program imports, and not in the program itself",
    )
    OWN_SEAL = Validity.SESSION, "its records are sealed for this program: {}"
    NO_CATALOG = Validity.SESSION, "no catalog is shared with other programs, see catalog.url"
    CATALOG_FAILED = Validity.SESSION, "the catalog couldn't be used when it was kept"
    KEPT_ALREADY = Validity.SESSION, "another program has kept one that this one can't read"
    OVERTAKEN = Validity.SESSION, "another program took over: {}"
    NOT_PUT = Validity.SESSION, "it can't be put where it would outlive the program: {}"

    UNCHECKABLE = (
        Validity.USER,
        "a table of a catalog, which may let others read the table and not its files",
    )
    UNOPENED = Validity.USER, "its files can't be opened to others: {}"

    OF_SPARK = Validity.NOWHERE, "held by Spark's own cache: {}"
    UNKEEPABLE = (
        Validity.NOWHERE,
        "a column's type can neither be kept nor be held by Spark's own cache: it is computed",
    )
    DISTRUSTED = (
        Validity.NOWHERE,
        "what was kept of it before could not be read, or had other rows than its plan",
    )
    OUTDATED = (
        Validity.NOWHERE,
        "{} changed after the catalog listed it: REFRESH TABLE lists it again",
    )
    NO_ROOM = Validity.NOWHERE, "there is no room for its {} bytes"
    BUSY = (
        Validity.NOWHERE,
        "another job computes it, and takes longer than is worth waiting for",
    )
    FAILED_BEFORE = Validity.NOWHERE, "a recent attempt to keep it failed"
    FAILED = Validity.NOWHERE, "{}"
    SOURCE_CHANGED = Validity.NOWHERE, "{} changed after it was listed"
    SETTING_CHANGED = Validity.NOWHERE, "a setting changed while the job ran"
    NOT_ALL_ROWS = Validity.NOWHERE, "the answer did not take all of its rows"
    NOT_ONCE = Validity.NOWHERE, "not every task wrote its partition exactly once"
    NOT_WRITTEN = Validity.NOWHERE, "partition {} was not written: {}"

    def of(self, *what: object) -> Reason:
        """The reason, in a case of it.

        Args:
            what: what its words name, in their order.
        """
        where, words = self.value
        text = words.format(*what)
        if len(text) > _MOST_CHARACTERS:
            text = text[:_MOST_CHARACTERS] + "…"
        return Reason(self.name, where, text)


def sentences(reasons: Iterable[Reason]) -> tuple[str, ...]:
    """The sentences of reasons, each once."""
    return tuple(dict.fromkeys(each.sentence for each in reasons))
