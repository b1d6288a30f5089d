"""What the page answers, without a browser: files, who may see it, and what goes wrong."""

from __future__ import annotations

import csv
import io
import json
import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from tests.catalog.commands import run
from tests.catalog.results import publish_in
from tests.ui.conftest import LARGE, TOKEN, Client, Serve

PATHS = "/ /results /jobs /advice /why".split()


def changed(root: Path, statement: str) -> None:
    with closing(sqlite3.connect(root / "catalog" / "catalog.db")) as connection, connection:
        connection.execute(statement)


def shared(root: Path) -> str:
    """The page of a result that others may find."""
    return f"/results/{publish_in(root, is_shared=True, lifetime=3600.0)}"


@pytest.fixture
def client(serve: Serve, tmp_path: Path) -> Client:
    """Of a page over an empty directory."""
    return Client(serve("--directory", tmp_path))


def test_what_is_not_there_yet_is_empty_and_comes_as_often_as_it_is_made(
    client: Client, tmp_path: Path
) -> None:
    for path in PATHS:
        status, text, _ = client.ask(path)
        assert (status, 'class="empty"' in text) == (200, True), path
    assert (client.text("/results.json"), client.text("/results.csv")) == ("[]", "")
    for number in (1, 2):
        for _ in range(number):
            publish_in(tmp_path)
        found = json.loads(client.text("/results.json"))
        assert [each["computes"] for each in found] == ["Join over a, b"] * number
        for file in (tmp_path / "catalog").iterdir():
            file.unlink()
    assert client.text("/results.json") == "[]"


def test_tables_are_files_too(pages: dict[str, str]) -> None:
    client = Client(pages["large"])
    rows = json.loads(client.text("/results.json?state=all"))
    assert len(rows) == LARGE
    kept = json.loads(client.text("/results.json?owner=bo&sort=size&text=join"))
    of_bo = [each for each in rows if (each["owner"], each["state"]) == ("bo", "kept")]
    expected = [each for each in of_bo if "Join" in each["computes"]]
    assert kept == sorted(expected, key=lambda each: each["bytes"], reverse=True)
    as_csv = csv.DictReader(io.StringIO(client.text("/results.csv?owner=bo&text=join")))
    assert {each["id"] for each in as_csv} == {each["id"] for each in kept}
    result = f"/results/{kept[0]['id']}"
    parts = [f"{result}/{each}" for each in ("columns", "partitions", "sources", "uses")]
    for path in ("/days", "/lately", "/advice", "/unused", "/why", "/jobs", *parts):
        assert json.loads(client.text(f"{path}.json")) is not None
        assert client.ask(f"{path}.csv")[0] == 200


def test_a_catalog_may_be_elsewhere(serve: Serve, catalogs: dict[str, Path]) -> None:
    url = f"sqlite:///{catalogs['small'] / 'catalog' / 'catalog.db'}"
    client = Client(serve("--directory", catalogs["empty"], "--catalog-url", url))
    assert len(json.loads(client.text("/results.json?state=all"))) == 12
    assert url in client.text("/")


def test_formulas_stay_text_in_spreadsheets(client: Client, tmp_path: Path) -> None:
    publish_in(tmp_path, computes="=cmd|'/c x'!A1")
    [row] = csv.DictReader(io.StringIO(client.text("/results.csv")))
    assert row["computes"] == "'=cmd|'/c x'!A1"


def test_what_a_url_says_is_answered_and_what_is_not_there_is_not(pages: dict[str, str]) -> None:
    client = Client(pages["small"])
    for query in (
        *("page=-1", "page=x", "page=99999999999999999999", "sort=nothing", "order=sideways"),
        *("state=nowhere", "text=%00%ff%27%22%3Cscript%3E", "owner=" + "x" * 5000),
        *("application=zz", "said=nothing"),
    ):
        for path in PATHS:
            assert client.ask(f"{path}?{query}")[0] == 200, (path, query)
        assert client.ask(f"/results/{'0' * 64}-{'0' * 8}?{query}")[0] == 404, query
    for path in (
        *("/nothing", "/results/abcd", "/jobs/abcd", "/results/../etc", "/static/nothing"),
        *("/static/../application.py", "/static/%2e%2e/application.py"),
    ):
        assert client.ask(path)[0] == 404, path


def test_a_catalog_that_cannot_be_read_is_said(client: Client, tmp_path: Path) -> None:
    publish_in(tmp_path)
    changed(tmp_path, "UPDATE alembic_version SET version_num = '9999'")
    status, text, _ = client.ask("/results")
    assert status == 503 and "9999" in text


# -- who may see it, and press its buttons --------------------------------------------------------


def test_a_browser_runs_nothing_of_others_and_finds_it_under_one_name(client: Client) -> None:
    for path in ("/", "/results", "/nothing", "/results.json", "/static/page.js"):
        headers = client.ask(path)[2]
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
    hosts = ("evil.example", "127.0.0.1.evil.example:80", "localhost")
    assert [client.ask("/", Host=host)[0] for host in hosts] == [403, 403, 200]


def test_a_drawing_may_make_styles_and_is_seen_where_the_page_is(
    client: Client, tmp_path: Path
) -> None:
    """A notebook has the page in a frame, which has the drawing in another one."""
    page = f"/results/{publish_in(tmp_path, made_from='sales')}"
    policies = []
    for path in (page, f"{page}/plan"):
        status, text, headers = client.ask(path)
        assert (status, "sales" in text) == (200, path != page)
        policy = headers["Content-Security-Policy"]
        policies.append(dict(part.split(" ", 1) for part in policy.split("; ")))
    assert "unsafe" not in policies[1]["script-src"]
    assert policies[0]["frame-ancestors"] == policies[1]["frame-ancestors"]


def test_buttons_do_what_they_say(client: Client, tmp_path: Path) -> None:
    page = shared(tmp_path)
    for action, said in (
        ("pin", "Pinned: it stays until you unpin"),
        ("unpin", "Unpinned"),
        ("verify", "Not verified: its files"),
        ("release", "Released"),
    ):
        assert said in client.press(page, action)
    [row] = json.loads(client.text("/results.json?state=all"))
    assert (row["state"], row["why_gone"]) == ("gone", "it was removed by hand")
    assert "<button" not in client.text(page)


def test_no_other_site_presses_buttons_and_none_are_where_it_is_read_only(
    client: Client, serve: Serve, tmp_path: Path
) -> None:
    page = shared(tmp_path)
    csrf = client.csrf(page)
    for form in ({}, {"csrf": "0" * 64}, {"csrf": "ä"}):
        assert client.ask(f"{page}/release", form)[0] == 403
    assert client.ask(f"{page}/release", {"csrf": csrf}, Origin="http://evil.example")[0] == 403
    assert client.ask(f"{page}/release")[0] == 405
    assert client.ask(f"{page}/explode", {"csrf": csrf})[0] == 404
    read_only = Client(serve("--directory", tmp_path, "--read-only"))
    assert "<button" not in read_only.text(page) and "(read-only)" in read_only.text(page)
    assert read_only.ask(f"{page}/release", {"csrf": "0" * 64})[0] == 403
    assert [each["state"] for each in json.loads(client.text("/results.json"))] == ["kept"]
    changed(tmp_path, "UPDATE results SET user_name = 'somebody'")
    # Another user's is not to be changed; the superuser may.
    assert ("<button" in client.text(page)) == (os.getuid() == 0)


def test_others_need_the_token(serve: Serve, tmp_path: Path) -> None:
    page = shared(tmp_path)
    (tmp_path / "token").write_text(TOKEN)
    url = serve("--directory", tmp_path, "--host", "0.0.0.0", "--token-file", tmp_path / "token")
    stranger, friend, other = (Client(url.replace("0.0.0.0", "127.0.0.1")) for _ in range(3))
    for path in (*PATHS, "/results.json", "/events", page, f"{page}/plan"):
        status, text, _ = stranger.ask(path)
        assert status == 200 and "Log in" in text and "Join over" not in text, path
    assert stranger.ask(f"{page}/release", {})[0] in (200, 405)
    status, text, _ = stranger.ask("/login", {"token": "wrong"})
    assert (status, "That is not the token" in text) == (403, True)
    assert "Log in" in stranger.text("/?token=wrong")
    assert friend.ask("/login", {"token": TOKEN})[0] == 200
    assert "Join over" in friend.text("/results")
    [cookie] = friend.jar
    assert cookie.has_nonstandard_attr("HttpOnly")
    assert cookie.get_nonstandard_attr("SameSite") == "Strict"
    assert friend.press(page, "pin")
    # What a form of one session carries is of no use in another one.
    assert other.ask(f"/?token={TOKEN}")[0] == 200
    assert other.ask(f"{page}/pin", {"csrf": friend.csrf(page)})[0] == 403


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
    arguments: list[str], expected: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HOLDFAST_TOKEN", raising=False)
    (tmp_path / "token").write_text(TOKEN)
    given = [str(tmp_path / "token") if each == "TOKEN" else each for each in arguments]
    directory = [] if "--directory" in given else ["--directory", str(tmp_path)]
    code, said = run("ui", *directory, *given)
    assert code == 2 and expected in said
