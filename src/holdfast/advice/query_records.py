"""How past queries are written down, and read again."""

from __future__ import annotations

import json
from typing import Any

from holdfast.advice import question_records
from holdfast.advice.kept_forms import KeptForm
from holdfast.advice.past_query import PastQuery, PlanPart
from holdfast.advice.ran_query import RanQuery
from holdfast.advice.storage_use import StorageUse
from holdfast.advice.worth_keeping import Verdict

_VERSION = 1


def written(ran: RanQuery) -> bytes:
    """A query as JSON.

    >>> query = PastQuery("app", "report", 1, "count", 0.0, 2.0, PlanPart("a", "Join", 2.0, 9))
    >>> read(written(RanQuery(query))) == RanQuery(query)
    True
    """
    query = ran.query
    document = {
        "version": _VERSION,
        "digest": ran.digest,
        "application": query.application,
        "program": query.program,
        "number": query.number,
        "what": query.what,
        "started": query.started,
        "elapsed": query.elapsed,
        "root": _part(query.root),
        "sources": ran.sources,
        "bytes": [query.bytes_read, query.shuffle_bytes],
        "reused": [query.reused, round(query.reused_seconds, 3)],
        "forms": [_form(each) for each in ran.forms],
        "verdicts": [
            [
                each.key,
                each.what,
                each.why,
                None if each.form is None else _form(each.form),
                round(each.costs, 3),
                round(each.seconds, 3),
                each.is_kept,
            ]
            for each in ran.verdicts
        ],
        "uses": [
            [
                each.key,
                each.is_write,
                each.bytes,
                round(each.seconds, 3),
                round(each.computing, 3),
            ]
            for each in ran.uses
        ],
        "questions": [
            question_records.written(plain)
            for each in ran.questions
            if (plain := question_records.without_literals(each)) is not None
        ],
    }
    return json.dumps(document, separators=(",", ":")).encode()


def read(content: bytes) -> RanQuery | None:
    """The query that has been written down; None where it can't be read, as of a later version."""
    try:
        document = json.loads(content)
        if document["version"] != _VERSION:
            return None
        bytes_read, shuffled = document.get("bytes", (0, 0))
        reused, seconds = document.get("reused", (0, 0.0))
        query = PastQuery(
            str(document["application"]),
            str(document["program"]),
            int(document["number"]),
            str(document["what"]),
            float(document["started"]),
            float(document["elapsed"]),
            _read_part(document["root"]),
            int(bytes_read),
            int(shuffled),
            int(reused),
            float(seconds),
        )
        verdicts = [
            Verdict(key, what, None if form is None else _read_form(form), why, *rest)
            for key, what, why, form, *rest in document["verdicts"]
        ]
        uses = [
            StorageUse(str(key), bool(is_write), int(size), float(seconds), float(computing))
            for key, is_write, size, seconds, computing in document.get("uses", ())
        ]
        forms = tuple(map(_read_form, document["forms"]))
        questions = tuple(map(question_records.read, document.get("questions", ())))
        digest = str(document["digest"])
        sources = document.get("sources")
        return RanQuery(query, digest, forms, tuple(verdicts), tuple(uses), questions, sources)
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return None


def _part(part: PlanPart) -> list[Any]:
    return [
        part.key,
        part.what,
        round(part.own_seconds, 3),
        part.bytes,
        list(part.columns),
        round(part.extra_seconds, 3),
        part.template,
        [_part(each) for each in part.inputs],
        part.rows,
    ]


def _read_part(document: list[Any]) -> PlanPart:
    key, what, own, size, columns, extra, template, inputs, *rows = document
    return PlanPart(
        key,
        str(what),
        float(own),
        int(size),
        tuple(map(_read_part, inputs)),
        tuple(map(str, columns)),
        float(extra),
        template,
        rows=next((int(each) for each in rows if each is not None), None),
    )


def _form(form: KeptForm) -> list[Any]:
    return [form.key, sorted(form.columns), *([form.dataset] if form.dataset else ())]


def _read_form(document: list[Any]) -> KeptForm:
    key, columns, *dataset = document
    return KeptForm(str(key), frozenset(map(str, columns)), *map(str, dataset))
