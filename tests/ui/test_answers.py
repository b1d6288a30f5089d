"""What the page answers, without a browser: files, who may see it, and what goes wrong."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import sqlite3
import urllib.error
import urllib.parse
import urllib.request
from http.cookiejar import CookieJar
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.catalog_access import catalog_in
from holdfast.cli.main import main
from tests.catalog.results import produced, unlimited
from tests.ui.conftest import LARGE, Serve

TOKEN = "a-token-of-some-length"
PATHS = "/ /results /jobs /advice /why".split()


class Client:
    """Asks like a browser: with cookies, and following redirects."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.jar = CookieJar()
        self._opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(self.jar))

    def ask(
        self, path: str, form: dict[str, str] | None = None, **headers: str
    ) -> tuple[int, str, Any]:
        data = None if form is None else urllib.parse.urlencode(form).encode()
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        request = urllib.request.Request(self.url + path, data, named)
        try:
            with self._opener.open(request, timeout=30) as answer:
                return answer.status, answer.read().decode(), answer.headers
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode(), error.headers

    def csrf(self, path: str) -> str:
        found = re.search(r'name="csrf" value="([0-9a-f]+)"', self.ask(path)[1])
        assert found is not None
        return found[1]


def test_what_is_not_there_yet_is_empty_and_comes(serve: Serve, tmp_path: Path) -> None:
    client = Client(serve("--directory", tmp_path).url)
    for path in PATHS:
        status, text, _ = client.ask(path)
        assert (status, 'class="empty"' in text) == (200, True), path
    assert client.ask("/results.json")[1] == "[]"
    assert client.ask("/results.csv")[1] == ""
    with catalog_in(tmp_path, make=True) as catalog:
        assert catalog is not None
        catalog.publications.publish(produced(), None, unlimited)
    assert [each["computes"] for each in json.loads(client.ask("/results.json")[1])] == [
        "Join over a, b"
    ]


def test_a_catalog_that_is_made_anew_is_the_one_that_is_shown(serve: Serve, tmp_path: Path) -> None:
    client = Client(serve("--directory", tmp_path).url)
    for number in (1, 2):
        with catalog_in(tmp_path, make=True) as catalog:
            assert catalog is not None
            for _ in range(number):
                catalog.publications.publish(produced(), None, unlimited)
        assert len(json.loads(client.ask("/results.json")[1])) == number
        for file in (tmp_path / "catalog").iterdir():
            file.unlink()
    assert client.ask("/results.json")[1] == "[]"


def test_tables_are_files_too(serve: Serve, catalogs: dict[str, Path]) -> None:
    client = Client(serve("--directory", catalogs["large"]).url)
    rows = json.loads(client.ask("/results.json?state=all")[1])
    assert len(rows) == LARGE
    kept = json.loads(client.ask("/results.json?owner=bo&sort=size&text=join")[1])
    expected = [
        each
        for each in rows
        if each["owner"] == "bo" and each["state"] == "kept" and "Join" in each["computes"]
    ]
    assert kept == sorted(expected, key=lambda each: each["bytes"], reverse=True)
    [*told] = csv.DictReader(io.StringIO(client.ask("/results.csv?owner=bo&text=join")[1]))
    assert {each["id"] for each in told} == {each["id"] for each in kept}
    part = f"/results/{kept[0]['id']}"
    parts = [f"{part}/{each}" for each in ("columns", "partitions", "sources", "uses")]
    for path in ("/days", "/lately", "/advice", "/unused", "/why", "/jobs", *parts):
        assert json.loads(client.ask(f"{path}.json")[1]) is not None
        assert client.ask(f"{path}.csv")[0] == 200


def test_the_commands_read_what_the_page_reads(
    serve: Serve, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with catalog_in(tmp_path, make=True) as catalog:
        assert catalog is not None
        catalog.publications.publish(produced(), None, unlimited)
    assert main(["ls", "--json", "--directory", str(tmp_path)]) == 0
    assert json.loads(capsys.readouterr().out) == []
    # It is recorded, and there are no files: only who looks at these notices.
    assert len(json.loads(Client(serve("--directory", tmp_path).url).ask("/results.json")[1])) == 1


def test_a_catalog_may_lie_anywhere(serve: Serve, catalogs: dict[str, Path]) -> None:
    url = f"sqlite:///{catalogs['small'] / 'catalog' / 'catalog.db'}"
    client = Client(serve("--directory", catalogs["empty"], "--catalog-url", url).url)
    assert len(json.loads(client.ask("/results.json?state=all")[1])) == 12
    assert url in client.ask("/")[1]


def test_formulas_stay_text_in_spreadsheets(serve: Serve, tmp_path: Path) -> None:
    with catalog_in(tmp_path, make=True) as catalog:
        assert catalog is not None
        made = produced()
        description = made.kept.manifest.dataset.model_copy(update={"computes": "=cmd|'/c x'!A1"})
        manifest = made.kept.manifest.model_copy(update={"dataset": description})
        kept = made.kept.model_copy(update={"manifest": manifest})
        catalog.publications.publish(produced(kept=kept), None, unlimited)
    text = Client(serve("--directory", tmp_path).url).ask("/results.csv")[1]
    [row] = csv.DictReader(io.StringIO(text))
    assert row["computes"] == "'=cmd|'/c x'!A1"


def test_whatever_a_url_says_is_answered(serve: Serve, catalogs: dict[str, Path]) -> None:
    client = Client(serve("--directory", catalogs["small"]).url)
    for query in (
        "page=-1",
        "page=x",
        "page=99999999999999999999",
        "sort=nothing",
        "order=sideways",
        "state=nowhere",
        "text=%00%ff%27%22%3Cscript%3E",
        "owner=" + "x" * 5000,
        "application=zz",
        "said=nothing",
    ):
        for path in ("/results", "/jobs", "/why", "/advice", "/"):
            assert client.ask(f"{path}?{query}")[0] == 200, (path, query)
        assert client.ask(f"/results/{'0' * 64}-{'0' * 8}?{query}")[0] == 404, query


def test_what_is_not_there_is_said(serve: Serve, catalogs: dict[str, Path]) -> None:
    client = Client(serve("--directory", catalogs["small"]).url)
    for path in ("/nothing", "/results/abcd", "/jobs/abcd", "/results/../etc"):
        status, text, _ = client.ask(path)
        assert (status, "Not Found" in text or "Not found" in text) == (404, True), path
    assert client.ask("/static/nothing")[0] == 404
    assert client.ask("/static/../application.py")[0] == 404
    assert client.ask("/static/%2e%2e/application.py")[0] == 404


def test_a_catalog_that_cannot_be_read_is_said(serve: Serve, tmp_path: Path) -> None:
    with catalog_in(tmp_path, make=True) as catalog:
        assert catalog is not None
        catalog.publications.publish(produced(), None, unlimited)
        file = Path(str(catalog.database.name).removeprefix("sqlite:///"))
    connection = sqlite3.connect(file)
    connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.commit()
    connection.close()
    status, text, _ = Client(serve("--directory", tmp_path).url).ask("/results")
    assert status == 503
    assert "later version" in text or "9999" in text


# --- who may see it, and press its buttons --------------------------------------------------------


def published(root: Path, **changed: Any) -> str:
    with catalog_in(root, make=True) as catalog:
        assert catalog is not None
        made = produced(is_shared=True, lifetime=3600.0, **changed)
        catalog.publications.publish(made, None, unlimited)
        return str(made.kept.name)


def test_the_browser_is_told_what_the_page_may_do(serve: Serve, tmp_path: Path) -> None:
    client = Client(serve("--directory", tmp_path).url)
    for path in ("/", "/results", "/nothing", "/results.json", "/static/page.js"):
        headers = client.ask(path)[2]
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert headers["Referrer-Policy"] == "same-origin"


def test_no_other_name_leads_to_the_page(serve: Serve, tmp_path: Path) -> None:
    client = Client(serve("--directory", tmp_path).url)
    assert client.ask("/", Host="evil.example")[0] == 403
    assert client.ask("/", Host="127.0.0.1.evil.example:80")[0] == 403
    assert client.ask("/", Host="localhost")[0] == 200


def test_buttons_do_what_they_say(serve: Serve, tmp_path: Path) -> None:
    name = published(tmp_path)
    client = Client(serve("--directory", tmp_path).url)
    page = f"/results/{name}"
    csrf = client.csrf(page)
    for action, said in [
        ("pin", "Pinned: it stays until you unpin"),
        ("unpin", "Unpinned"),
        ("verify", "Not verified: its files"),
        ("release", "Released"),
    ]:
        status, text, _ = client.ask(f"{page}/{action}", {"csrf": csrf})
        assert (status, said in text) == (200, True), (action, text)
    [row] = json.loads(client.ask("/results.json?state=all")[1])
    assert (row["state"], row["why_gone"]) == ("gone", "it was removed by hand")
    assert "<button" not in client.ask(page)[1]


def test_no_other_site_presses_buttons(serve: Serve, tmp_path: Path) -> None:
    page = f"/results/{published(tmp_path)}"
    client = Client(serve("--directory", tmp_path).url)
    csrf = client.csrf(page)
    assert client.ask(f"{page}/release", {})[0] == 403
    assert client.ask(f"{page}/release", {"csrf": "0" * 64})[0] == 403
    assert client.ask(f"{page}/release", {"csrf": "ä"})[0] == 403
    assert client.ask(f"{page}/release", {"csrf": csrf}, Origin="http://evil.example")[0] == 403
    assert client.ask(f"{page}/release")[0] == 405
    assert client.ask(f"{page}/explode", {"csrf": csrf})[0] == 404
    assert [each["state"] for each in json.loads(client.ask("/results.json")[1])] == ["kept"]


def test_nothing_is_changed_where_it_is_read_only(serve: Serve, tmp_path: Path) -> None:
    page = f"/results/{published(tmp_path)}"
    client = Client(serve("--directory", tmp_path, "--read-only").url)
    text = client.ask(page)[1]
    assert "<button" not in text and "(read-only)" in text
    assert client.ask(f"{page}/release", {"csrf": "0" * 64})[0] == 403


def test_others_need_the_token(serve: Serve, tmp_path: Path) -> None:
    page = f"/results/{published(tmp_path)}"
    token = tmp_path / "token"
    token.write_text(TOKEN)
    served = serve("--directory", tmp_path, "--host", "0.0.0.0", "--token-file", token)
    url = served.url.replace("0.0.0.0", "127.0.0.1")
    stranger = Client(url)
    for path in (*PATHS, "/results.json", "/events", page, f"{page}/plan"):
        status, text, _ = stranger.ask(path)
        assert status == 200 and "Log in" in text and "Join over" not in text, path
    assert stranger.ask(f"{page}/release", {})[0] in (200, 405)
    status, text, _ = stranger.ask("/login", {"token": "wrong"})
    assert (status, "That is not the token" in text) == (403, True)
    assert stranger.ask("/?token=wrong")[1].count("Log in") > 0
    friend = Client(url)
    assert friend.ask("/login", {"token": TOKEN})[0] == 200
    assert "Join over" in friend.ask("/results")[1]
    [cookie] = friend.jar
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert cookie.get_nonstandard_attr("SameSite") == "Strict"
    assert friend.ask(f"{page}/pin", {"csrf": friend.csrf(page)})[0] == 200
    # What a form of one session carries is of no use in another one.
    other = Client(url)
    assert other.ask(f"/?token={TOKEN}")[0] == 200
    assert other.csrf(page) != friend.csrf(page)
    assert other.ask(f"{page}/pin", {"csrf": friend.csrf(page)})[0] == 403


def test_another_users_results_are_not_to_be_changed(serve: Serve, tmp_path: Path) -> None:
    page = f"/results/{published(tmp_path)}"
    connection = sqlite3.connect(tmp_path / "catalog" / "catalog.db")
    connection.execute("UPDATE results SET user_name = 'somebody'")
    connection.commit()
    connection.close()
    text = Client(serve("--directory", tmp_path).url).ask(page)[1]
    # The superuser may.
    assert ("<button" in text) == (os.getuid() == 0)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--host", "0.0.0.0"], "requires a token"),
        (["--log-in"], "--log-in requires a token"),
        (["--directory", "/nowhere/at/all"], "no such directory"),
        (["--storage-dir", "s3://bucket"], "--storage-dir"),
        (["--executors", "nonsense"], "--executors"),
        (["--host", "192.0.2.1", "--token-file", "TOKEN"], "can't listen"),
    ],
)
def test_bad_arguments_are_refused(
    arguments: list[str],
    expected: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.delenv("HOLDFAST_TOKEN", raising=False)
    token = tmp_path / "token"
    token.write_text(TOKEN)
    given = [str(token) if each == "TOKEN" else each for each in arguments]
    directory = [] if "--directory" in given else ["--directory", str(tmp_path)]
    assert main(["ui", *directory, *given]) == 2
    assert expected in capsys.readouterr().err
