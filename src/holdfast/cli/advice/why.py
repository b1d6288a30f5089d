"""`holdfast why`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timezone
from typing import Any

from holdfast.advice.past_query import PastQuery
from holdfast.advice.query_records import read
from holdfast.advice.ran_query import RanQuery
from holdfast.advice.storage_use import StorageUse
from holdfast.catalog.cataloged_result import CatalogedResult
from holdfast.cli.advice.recorded_queries import (
    add_catalog_arguments,
    explained_results,
    recorded_queries,
    results_so_named,
)
from holdfast.cli.amounts import count, size
from holdfast.cli.datasets.printable import printable
from holdfast.cli.number_argument import number_argument
from holdfast.cli.terminal import as_text, output, printing, show
from holdfast.errors import CatalogError
from holdfast.plan.reasons import sentences

_FAILED = 1
_BAD_INPUT = 2
_SHORTEST = 4
_SHOWN_DIGITS = 12
_SHOWN_RESULTS = 20
_READ_EVERYWHERE = "any program that may read it finds it"


def add_to(commands: Any) -> None:
    """Adds the command and its arguments.

    Args:
        commands: what `add_subparsers` gave.
    """
    command = commands.add_parser(
        "why",
        help="show what of a past query was read, kept or not kept, and why",
        description="Shows of past queries, of programs with the implicit cache, which of their "
        "parts were read, are kept, or are not kept, each with the reason; and of results why they "
        "are not read everywhere, or not kept.",
    )
    command.add_argument(
        "digest",
        metavar="ID",
        nargs="?",
        help="the query's digest, or the result's id, or at least its first four digits (default: "
        "the last query, and the last results that are not read everywhere)",
    )
    command.add_argument(
        "--last",
        metavar="NUMBER",
        type=number_argument,
        default=1,
        help="show so many of the last queries (default: 1)",
    )
    add_catalog_arguments(command)
    command.add_argument(
        "--json", action="store_true", help="print a list of objects instead of text"
    )


def run(arguments: argparse.Namespace) -> int:
    """Runs the command.

    Args:
        arguments: what argparse made of the command line.

    Returns:
        the exit code: 0, 1 where there is no such query, 2 for bad input.
    """

    def tell() -> int:
        try:
            return _tell(arguments)
        except CatalogError as error:
            _complain(str(error))
            return _BAD_INPUT

    return printing(tell)


def _tell(arguments: argparse.Namespace) -> int:
    found = [ran for ran in map(read, recorded_queries(arguments)) if ran is not None]
    if arguments.digest is not None:
        if len(arguments.digest) < _SHORTEST:
            _complain(f"expected at least {_SHORTEST} digits; found {arguments.digest!r}")
            return _BAD_INPUT
        found = [ran for ran in found if ran.digest.startswith(arguments.digest.lower())]
    chosen = found[-arguments.last :]
    results: tuple[CatalogedResult, ...] = ()
    if arguments.digest is None:
        results = explained_results(arguments, max(arguments.last, _SHOWN_RESULTS))
    elif not chosen:
        results = results_so_named(arguments, arguments.digest.lower())
    if arguments.json:
        objects = [described(ran) for ran in chosen]
        if arguments.digest is not None:
            objects += [described_result(each) for each in results]
        print(json.dumps(objects, indent=2))
    if not chosen and not results:
        which = "No query" if arguments.digest is None else f"No query {arguments.digest}"
        _complain(f"{which} is on record: queries are recorded with implicit-cache.enabled")
        return _FAILED
    if not arguments.json:
        _show(chosen)
        _show_results(results)
    return 0


def _show_results(results: Sequence[CatalogedResult]) -> None:
    console = output()
    for each in results:
        moment = datetime.fromtimestamp(each.created, timezone.utc)
        title = f"{each.name[:_SHOWN_DIGITS]} {each.state.value} at {moment:%F %T} UTC"
        show(console, as_text(f"{title}: {each.computes}"))
        for said in sentences(each.reasons) or (_READ_EVERYWHERE,):
            show(console, as_text(f"  {said}"))


def described_result(result: CatalogedResult) -> dict[str, Any]:
    """A result as an object of `--json`."""
    return {
        "result": result.name,
        "computes": result.computes,
        "state": result.state.value,
        "reasons": list(sentences(result.reasons)),
    }


def _show(queries: Sequence[RanQuery]) -> None:
    console = output()
    for ran in queries:
        query = ran.query
        moment = datetime.fromtimestamp(query.started, timezone.utc)
        title = (
            f"{ran.digest[:_SHOWN_DIGITS]} {query.what} [{query.program}] at {moment:%F %T} UTC, "
            f"{query.elapsed:,.1f} s{_tasks(query)}: {query.root.what}"
        )
        show(console, as_text(title))
        if query.reused:
            show(console, as_text(f"  reused: {reused(query)}"))
        for each in outcomes(ran):
            extent = f" ({each.extent})" if each.extent else ""
            show(console, as_text(f"  {each.outcome}: {each.what}{extent}"))
            if each.why:
                show(console, as_text(f"    {each.why}"))


def reused(query: PastQuery) -> str:
    """What a query has read of what earlier ones have left, for people."""
    exchanges = count(query.reused, "exchange")
    return f"{exchanges} of earlier queries, whose tasks took {query.reused_seconds:,.1f} s"


def _tasks(query: PastQuery) -> str:
    """What its tasks took, as far as that is known."""
    if not query.bytes_read and not query.shuffle_bytes:
        return ""
    read, shuffled = size(query.bytes_read), size(query.shuffle_bytes)
    return f" (tasks: {query.root.seconds:,.1f} s, {read} read, {shuffled} shuffled)"


@dataclass(frozen=True, slots=True)
class PartOutcome:
    """What became of a part of a query.

    Attributes:
        outcome: in a word.
        what: the part is.
        why: it was so.
        rows: how many it has; None where no query has told.
        bytes: of the columns that the query uses, as files hold them, as is estimated; None where
            nothing is known.
    """

    outcome: str
    what: str
    why: str
    rows: int | None
    bytes: int | None

    @property
    def extent(self) -> str:
        """How much it is, for people; empty where unknown."""
        if self.bytes is None:
            return ""
        rows = "" if self.rows is None else f"{count(self.rows, 'row')}, "
        return f"{rows}about {size(self.bytes)}"


def outcomes(ran: RanQuery) -> Iterator[PartOutcome]:
    """What became of each part of a query.

    Args:
        ran: the query.
    """
    parts = {part.key: part for part in ran.query.root.walk()}

    def outcome_of(key: str, outcome: str, what: str, why: str) -> PartOutcome:
        part = parts.get(key)
        if part is None:
            return PartOutcome(outcome, what, why, None, None)
        return PartOutcome(outcome, part.what, why, part.rows, part.bytes)

    verdicts = {verdict.key: verdict for verdict in ran.verdicts}
    uses = {use.key: use for use in ran.uses}
    # Those with a dataset say of what others can be made, and aren't parts themselves.
    for form in (each for each in ran.forms if not each.dataset):
        verdict = verdicts.get(form.key)
        is_new = verdict is not None and verdict.form == form
        outcome = "kept" if is_new else "read"
        why = verdict.why if is_new and verdict is not None else _took(uses.get(form.key))
        yield outcome_of(form.key, outcome, form.key, why)
    taken = {form.key for form in ran.forms}
    for verdict in ran.verdicts:
        if verdict.key not in taken:
            outcome = "not read" if verdict.is_kept else "not kept"
            yield outcome_of(verdict.key, outcome, verdict.what, verdict.why)


def _took(use: StorageUse | None) -> str:
    """What reading something that was kept before took."""
    if use is None:
        return "kept before"
    wrong = ", so reading it was wrong" if use.is_wrong else ""
    return (
        f"kept before; took {use.seconds:,.1f} s to read, and takes {use.computing:,.1f} s to "
        f"compute{wrong}"
    )


def described(ran: RanQuery) -> dict[str, Any]:
    """A query as an object of `--json`."""
    query = ran.query
    return {
        "digest": ran.digest,
        "application": query.application,
        "program": query.program,
        "number": query.number,
        "what": query.what,
        "computes": query.root.what,
        "started": datetime.fromtimestamp(query.started, timezone.utc).isoformat(),
        "seconds": query.elapsed,
        "task_seconds": query.root.seconds,
        "bytes_read": query.bytes_read,
        "shuffle_bytes": query.shuffle_bytes,
        "reused": query.reused,
        "reused_task_seconds": query.reused_seconds,
        "parts": [asdict(each) for each in outcomes(ran)],
    }


def _complain(what: str) -> None:
    print(printable(f"holdfast why: {what}"), file=sys.stderr)
