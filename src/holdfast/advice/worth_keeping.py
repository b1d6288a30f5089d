"""What of a query that is about to run is worth keeping, as past queries say."""

from __future__ import annotations

import statistics
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.advice.choice import choose
from holdfast.advice.kept_forms import KeptForm, asked_columns, without_served
from holdfast.advice.past_query import PastQuery, PlanPart
from holdfast.advice.proposal import AS_IN_FILES, StorageRates
from holdfast.advice.weights import fading

# Columns that nobody has asked for in so many queries of a part are not kept.
_RECENT = 50
_MOST = 4


@dataclass(frozen=True, slots=True)
class Verdict:
    """What becomes of a part of a query, and why.

    Attributes:
        key: of the part, see `PlanPart`.
        what: what it computes, for people.
        form: what is to be kept of it; None for nothing.
        why: in a few words.
        costs: seconds of tasks that keeping it takes, beside those of computing it for the query.
        seconds: of tasks, that it takes to compute.
        is_kept: it is kept already, and not read.
    """

    key: str
    what: str
    form: KeptForm | None
    why: str
    costs: float = 0.0
    seconds: float = 0.0
    is_kept: bool = False


def worth_keeping(
    query: PastQuery,
    history: Sequence[PastQuery],
    forms: Mapping[str, Sequence[KeptForm]],
    rates: StorageRates = AS_IN_FILES,
    *,
    least_seconds: float = 1.0,
) -> tuple[Verdict, ...]:
    """What to keep of a query's parts while it runs; a verdict for each part that has a key.

    A part is kept once past queries have lost more by computing it again than it takes to keep it,
    so that what is never asked for again costs at most as much as has been lost before. The longer
    ago that was, the less it tells, see `fading`.

    Args:
        query: that is about to run, with what its parts are expected to take.
        history: queries that have run, in order.
        forms: what is kept already, by keys.
        rates: what writing and reading costs.
        least_seconds: how much keeping a part before would have saved, in seconds of tasks.

    Source: FLIP-36, "Long Term Goal"; Karlin et al., "Competitive Snoopy Caching" (rent or buy),
    Algorithmica 3, 1988.

    >>> part = PlanPart("join", "Join", 10.0, 2**20, columns=("a",))
    >>> queries = [PastQuery("app", "p", n, "count", float(n), 10.0, part) for n in range(2)]
    >>> [verdict] = worth_keeping(queries[1], queries[:1], {})
    >>> sorted(verdict.form.columns), verdict.why
    (['a'], 'computed 2 times; saves 10 s a time')
    >>> worth_keeping(queries[0], [], {})[0].why
    'asked for once'
    """
    now = without_served(query, forms)
    keys = {part.key: part for part in now.root.walk() if part.key is not None}
    related = [
        without_served(each, forms)
        for each in history
        if any(part.key in keys for part in each.root.walk())
    ]
    recent = [*history[-_RECENT:], query]
    forms_asked = {key: KeptForm(key, asked_columns(key, recent)) for key in keys}
    extra = _extra_seconds([*related, now], keys)
    sizes = _sizes([*related, now], forms_asked)
    asked = [_only(each, extra, sizes, rates) for each in (*related, now)]
    weight = fading(query.started)
    chosen = _chosen(asked, rates, least_seconds, weight)
    recurring = _recurring(now, history, rates, least_seconds, weight)
    verdicts = []
    for key, now_part in keys.items():
        places = [
            (weight(each), part) for each in asked for part in each.root.walk() if part.key == key
        ]
        first, last = places[0][1], places[-1][1]
        costs = first.bytes / rates.written + first.extra_seconds
        why = _why(places, key in chosen, costs, rates)
        if key not in chosen and now_part.template in recurring:
            chosen.add(key)
            why = recurring[now_part.template]
        form = forms_asked[key] if key in chosen else None
        verdicts.append(Verdict(key, last.what, form, why, costs, last.seconds))
    return tuple(verdicts)


def _chosen(
    queries: Sequence[PastQuery],
    rates: StorageRates,
    least_seconds: float,
    weight: Callable[[PastQuery], float],
) -> set[str]:
    found = choose(queries, rates, least_seconds=least_seconds, most=_MOST, weight=weight)
    return {each.key for each in found}


def _recurring(
    now: PastQuery,
    history: Sequence[PastQuery],
    rates: StorageRates,
    least_seconds: float,
    weight: Callable[[PastQuery], float],
) -> dict[str | None, str]:
    """Templates that are worth keeping when they are met with new literals or files, and why."""
    templates = {part.template for part in now.root.walk() if part.template is not None}
    asked = [
        _by_template(each, templates)
        for each in (*history, now)
        if any(part.template in templates for part in each.root.walk())
    ]
    generations: dict[str | None, set[str]] = defaultdict(set)
    times: Counter[str | None] = Counter()
    for each in asked:
        for part in each.root.walk():
            generations[part.key].add(part.generation)
            times[part.key] += 1
    # Over the same files, what was lost so far decides.
    several = {key for key, found in generations.items() if key and len(found) > 1}
    if not several:
        return {}
    return {
        key: f"computed {times[key]:,} times with {len(generations[key]):,} sets of literals and "
        "files"
        for key in _chosen(asked, rates, least_seconds, weight) & several
    }


def _by_template(query: PastQuery, templates: Collection[str | None]) -> PastQuery:
    """A query whose parts are told apart by what they compute over whatever files."""

    def made(part: PlanPart) -> PlanPart:
        is_one = part.template in templates
        return replace(
            part,
            key=part.template if is_one else None,
            generation=part.key or "" if is_one else "",
            inputs=tuple(made(each) for each in part.inputs),
        )

    return replace(query, root=made(query.root))


def _extra_seconds(
    queries: Sequence[PastQuery], keys: Collection[str | None]
) -> dict[str | None, float]:
    """What computing all rows of parts takes more: the lesser of two, as one was slow."""
    found: dict[str | None, list[float]] = defaultdict(list)
    for query in queries:
        for part in query.root.walk():
            if part.key in keys:
                found[part.key].append(part.extra_seconds)
    return {key: statistics.median_low(times) for key, times in found.items()}


def _sizes(queries: Sequence[PastQuery], forms: Mapping[str, KeptForm]) -> dict[str | None, float]:
    """How many bytes the columns of parts have that would be kept, if all are about as wide."""
    widths: dict[str | None, list[float]] = defaultdict(list)
    for query in queries:
        for part in query.root.walk():
            if part.key in forms and part.columns:
                widths[part.key].append(part.bytes / len(part.columns))
    return {
        key: statistics.mean(found) * len(forms[key].columns)
        for key, found in widths.items()
        if key
    }


def _only(
    query: PastQuery,
    extra: Mapping[str | None, float],
    sizes: Mapping[str | None, float],
    rates: StorageRates,
) -> PastQuery:
    """A query of whose parts only some have keys, each kept with what others use of it as well."""

    def only(part: PlanPart) -> PlanPart:
        more = max(0.0, sizes.get(part.key, 0.0) - part.bytes)
        return replace(
            part,
            key=part.key if part.key in extra else None,
            extra_seconds=extra.get(part.key, 0.0) + more / rates.written,
            inputs=tuple(only(each) for each in part.inputs),
        )

    return replace(query, root=only(query.root))


def _why(
    places: Sequence[tuple[float, PlanPart]], is_kept: bool, costs: float, rates: StorageRates
) -> str:
    """Why a part is kept, or not, that was asked for as often as there are places."""
    others = places[1:]
    times, last = len(places), places[-1][1]
    reads = last.bytes / rates.read
    if is_kept:
        return f"computed {times:,} times; saves {last.seconds - reads:,.0f} s a time"
    if not others:
        return "asked for once"
    if last.seconds <= reads:
        return f"takes {last.seconds:,.1f} s to compute, and {reads:,.1f} s to read"
    saved = sum(
        weight * max(0.0, each.seconds - each.bytes / rates.read) for weight, each in others
    )
    return (
        f"asked for {times:,} times: that would have saved {saved:,.1f} s, and keeping it takes "
        f"{costs:,.1f} s"
    )
