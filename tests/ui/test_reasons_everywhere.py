"""Each reason why a result is not read everywhere, or not kept, wherever results are seen."""

from __future__ import annotations

import html
import json
from pathlib import Path

from tests.catalog.commands import run
from tests.catalog.programs import keep_for_each_reason
from tests.ui.conftest import Client, Serve


def test_every_reason_is_shown_wherever_results_are_seen_from_outside(
    serve: Serve, tmp_path: Path
) -> None:
    at = ("--directory", tmp_path)
    client = Client(serve(*at))

    def shown(path: str) -> str:
        return html.unescape(client.text(path))

    with keep_for_each_reason(tmp_path) as (reasons, ids):
        everywhere = [run("ls", *at)[1], run("why", "--last", "100", *at)[1]]
        everywhere += map(shown, ("/results?state=all", "/results.csv?state=all", "/why"))
        objects = {each["id"]: each["reasons"] for each in json.loads(run("ls", "--json", *at)[1])}
        for kind, reason in reasons.items():
            assert all(reason.sentence in each for each in everywhere), kind
        for number, (kind, name) in enumerate(ids.items()):
            (found,) = objects[name]
            assert (found["kind"], found["sentence"]) == (kind, reasons[kind].sentence)
            of_one = [shown(f"/results/{name}")]
            if number % 5 == 0:
                of_one += (run(command, name, *at)[1] for command in ("show", "why"))
            assert all(reasons[kind].sentence in each for each in of_one), kind
