"""What the master says about its workers, on the JSON page of its web UI."""

from __future__ import annotations

import json
from dataclasses import dataclass
from urllib.error import URLError
from urllib.request import ProxyHandler, build_opener

_SECONDS_FOR_AN_ANSWER = 5
# A proxy for the world outside has no way to this machine's loopback.
_OPENER = build_opener(ProxyHandler({}))


@dataclass(frozen=True)
class RegisteredWorker:
    """A worker as its master knows it.

    Attributes:
        worker_id: another one for each start.
        host: its address.
        state: `ALIVE`, `DEAD`, …
    """

    worker_id: str
    host: str
    state: str


def registered_workers(url: str) -> list[RegisteredWorker]:
    """Every worker that has registered since the master's start; none while it doesn't answer."""
    try:
        with _OPENER.open(f"{url}/json/", timeout=_SECONDS_FOR_AN_ANSWER) as answer:
            page = json.load(answer)
    # Its pages are added one by one once it has its port: until then another one answers.
    except (URLError, TimeoutError, ConnectionError, json.JSONDecodeError):
        return []
    return [RegisteredWorker(each["id"], each["host"], each["state"]) for each in page["workers"]]
