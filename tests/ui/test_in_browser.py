"""The page as people see it, in a real browser."""

from __future__ import annotations

import json
import os
import re
import signal
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page, Route, expect
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from holdfast import Environment
from tests.catalog.results import publish_in, use_in
from tests.harness.forked import Command
from tests.ui.conftest import LARGE, TOKEN, Looking, Serve
from tests.ui.recorded_jobs import record_jobs, resume_nightly

Look = Callable[..., Looking]
PATHS = ("/", "/results", "/jobs", "/advice", "/why")
HOSTILE = "<script>window.owned = 1</script><img src=x onerror='window.owned = 1'> {{ 7 * 7 }}"
SCREENSHOTS = os.environ.get("HOLDFAST_SCREENSHOTS")
# Pictures don't show where the tests have their files.
_ELSEWHERE = r"""() => {
  const texts = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (texts.nextNode()) {
    const text = texts.currentNode;
    text.data = text.data.replace(/[^ :]*\/pytest-of-[^\/]*\/[^\/]*\/[^\/ ]*/g, "/data");
  }
}"""


def accessible(looking: Looking) -> list[str]:
    """What of a page some people can't use."""
    found = Axe().run(looking.page).response["violations"]
    return [f"{each['id']}: {each['nodes'][0]['html']}" for each in found]


def drawn(page: Page, title: str, *texts: str) -> None:
    """Waits until a picture, which comes after the page that shows it, is there, and whole."""
    frame = page.frame_locator(f"iframe[title^='{title}']")
    for text in texts:
        expect(frame.locator("svg")).to_contain_text(text)
    whole = "each => each.scrollHeight <= each.clientHeight"
    expect(frame.locator("svg")).to_be_visible()
    assert frame.locator("html").evaluate(whole)


def shot(looking: Looking, name: str) -> None:
    """A picture for the documentation, where one is asked for."""
    if SCREENSHOTS:
        looking.page.wait_for_timeout(500)
        looking.page.evaluate(_ELSEWHERE)
        looking.page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png")


@pytest.mark.parametrize("catalog", ["empty", "small", "large"])
@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1600, "light")])
@pytest.mark.sampled(6, 2)
def test_each_page(
    look: Look, pages: dict[str, str], catalog: str, width: int, scheme: str
) -> None:
    looking = look(width, color_scheme=scheme)
    page = looking.page
    for path in PATHS:
        page.goto(pages[catalog] + path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.locator("nav a[aria-current]").count() == 1
        assert looking.fits() and accessible(looking) == [], path
        if catalog == "large" and width == 1600:
            shot(looking, path[1:] or "overview")
    if catalog != "empty":
        page.goto(pages[catalog] + "/results")
        page.locator("tbody a").first.click()
        expect(page.get_by_role("heading", name="Partitions")).to_be_visible()
        assert looking.fits() and accessible(looking) == []


def test_results_are_searched_sorted_and_paged(look: Look, pages: dict[str, str]) -> None:
    page = look().page
    page.goto(pages["large"] + "/results")

    def number() -> int:
        return int(re.sub(r"\D", "", page.get_by_role("status").inner_text().split(" result")[0]))

    whole = number()
    assert 0.8 * LARGE < whole < LARGE
    page.get_by_label("Search").press_sequentially("visits_")
    expect(page.locator("tbody tr").first).to_contain_text("visits_")
    page.wait_for_url("**/results?*text=visits_*")
    assert 0 < number() < whole
    page.get_by_role("link", name="Size").click()
    expect(page.locator("th[aria-sort]")).to_have_attribute("aria-sort", "descending")
    assert "text=visits_" in page.url
    page.get_by_role("link", name="Next").click()
    expect(page.get_by_text("Page 2 of")).to_be_visible()
    # A link to what is seen shows the same to others.
    rows = page.locator("tbody").inner_text()
    page.goto(page.url)
    assert page.locator("tbody").inner_text() == rows
    page.get_by_label("State").select_option("gone")
    expect(page.locator("tbody tr").first).to_contain_text("evicted to make room")
    page.get_by_label("Search").fill("nothing is like this")
    expect(page.get_by_text("No result fits this search")).to_be_visible()


def test_a_keyboard_is_enough_and_scripts_need_not_run(look: Look, pages: dict[str, str]) -> None:
    page = look().page
    page.goto(pages["small"])
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.goto(pages["small"] + "/results")
    page.get_by_label("Search").focus()
    page.keyboard.type("join")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Search")).to_have_value("join")
    page = look(java_script_enabled=False).page
    page.goto(pages["small"] + "/results")
    page.get_by_label("Search").fill("zzz")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_text("No result fits this search")).to_be_visible()


def test_hostile_names_are_text(serve: Serve, look: Look, tmp_path: Path) -> None:
    name = publish_in(tmp_path, computes=HOSTILE, made_from=HOSTILE, statistics=HOSTILE)
    url, page = serve("--directory", tmp_path), look().page
    for path in (*PATHS, f"/results/{name}", f"/results/{name}/plan"):
        page.goto(url + path)
        page.wait_for_timeout(200)
        assert page.evaluate("window.owned") is None
    page.goto(url)
    expect(page.get_by_role("link", name=HOSTILE)).to_be_visible()
    expect(page.locator("#live")).to_be_visible()
    use_in(tmp_path)
    expect(page.locator("#happenings li.new").first).to_contain_text(HOSTILE)
    page.goto(url + f"/why?query={HOSTILE}")
    expect(page.get_by_role("textbox")).to_have_value(HOSTILE.lower())
    assert page.evaluate("window.owned") is None


def test_logging_in(serve: Serve, look: Look, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    url = serve("--directory", tmp_path, "--token-file", token, "--log-in")
    looking = look()
    page = looking.page
    page.goto(url + "/results")
    expect(page.get_by_role("heading", name="Log in")).to_be_visible()
    assert accessible(looking) == []
    page.get_by_label("Token").fill("wrong")
    page.get_by_role("button", name="Log in").click()
    expect(page.get_by_role("alert")).to_contain_text("That is not the token")
    # The browser says of each answer like this one that it has failed.
    looking.complaints.clear()
    page.get_by_label("Token").fill(TOKEN)
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", name="Overview")).to_be_visible()
    page.goto(url + "/results")
    expect(page.get_by_role("heading", name="Results")).to_be_visible()


# -- while something happens ----------------------------------------------------------------------


def test_a_program_that_runs_is_seen_and_what_it_keeps_changed(
    serve: Serve, look: Look, spark: SparkSession, tmp_path: Path
) -> None:
    kept, data = tmp_path / "kept", str(tmp_path / "data")
    kept.mkdir()
    spark.range(1_000).write.parquet(data)
    url, looking = serve("--directory", kept), look()
    page = looking.page
    page.goto(url)
    expect(page.get_by_text("Nothing has happened yet")).to_be_visible()
    expect(page.locator("#live")).to_be_visible()
    with Environment(spark, {"intermediate-result-storage.directory": str(kept)}) as env:

        def count() -> int:
            days = env.read.parquet(data).groupBy((F.col("id") % 7).alias("day")).count()
            return days.cache(lifetime="1 h").count()

        assert count() == count() == 7
        # What it has read itself is recorded when it ends, or a while later.
    news = page.locator("#happenings li.new")
    expect(news.filter(has_text="kept")).to_have_count(1)
    expect(news.filter(has_text="read")).not_to_have_count(0)
    expect(page.locator("#numbers")).to_contain_text("1 result")
    shot(looking, "live")
    news.filter(has_text="kept").get_by_role("link").click()
    expect(page.get_by_role("heading", name="Plan")).to_be_visible()
    drawn(page, "The plan:", "Aggregate", "data")
    expect(page.locator("table").first).to_contain_text("bigint")
    expect(page.get_by_text("data/part-").first).to_be_visible()
    shot(looking, "result")
    for button, said in (("Pin", "Pinned"), ("Verify", "Verified"), ("Unpin", "Unpinned")):
        page.get_by_role("button", name=button, exact=True).click()
        expect(page.get_by_role("status")).to_contain_text(said)
    page.once("dialog", lambda dialog: dialog.dismiss())
    page.get_by_role("button", name="Release").click()
    expect(page.get_by_role("button", name="Release")).to_be_visible()
    page.once("dialog", lambda dialog: dialog.accept())
    page.get_by_role("button", name="Release").click()
    expect(page.get_by_role("status")).to_contain_text("Released")
    expect(page.get_by_text("it was removed by hand")).to_be_visible()


def test_a_task_executor_that_is_killed_is_seen(serve: Serve, look: Look, tmp_path: Path) -> None:
    with ExitStack() as stack:
        executor = Command(
            *("taskexecutor", "start", "--dir", tmp_path / "held"),
            environment={"HOLDFAST_TOKEN": TOKEN},
        )
        stack.callback(executor.wait)
        stack.callback(executor.kill)
        address = executor.stdout.readline().split(" at ")[1].split()[0]
        looking = look()
        page = looking.page
        page.goto(serve("--directory", tmp_path, "--executors", address, HOLDFAST_TOKEN=TOKEN))
        expect(page.get_by_text(f"{address} holds parts of 0 datasets")).to_be_visible()
        expect(page.locator("#live")).to_be_visible()
        page.wait_for_timeout(1_500)
        executor.send_signal(signal.SIGKILL)
        expect(page.locator("#happenings li.executor")).to_contain_text(address)
        expect(page.locator("#numbers")).to_contain_text("Not answering")
        assert accessible(looking) == []


def test_what_happens_while_a_page_is_opened_is_seen(
    serve: Serve, look: Look, tmp_path: Path
) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    url, page = serve("--directory", tmp_path, "--storage-dir", jobs), look().page
    with ExitStack() as stack:

        def connect(route: Route) -> None:
            stack.enter_context(record_jobs(jobs))
            route.continue_()

        page.route("**/events", connect)
        page.goto(url + "/jobs")
        expect(page.get_by_role("status")).to_contain_text("2 jobs")


def test_a_search_is_not_undone_by_an_older_answer_that_is_late(
    serve: Serve, look: Look, tmp_path: Path
) -> None:
    jobs, late = tmp_path / "jobs", list[Route]()
    jobs.mkdir()
    with record_jobs(jobs):
        url, page = serve("--directory", tmp_path, "--storage-dir", jobs), look().page

        def answer(route: Route) -> None:
            if route.request.resource_type == "fetch":
                late.append(route)
            else:
                route.continue_()

        page.route(url + "/jobs", answer)
        with page.expect_request(lambda request: request.resource_type == "fetch"):
            page.goto(url + "/jobs")
        page.get_by_label("State").select_option("recoverable")
        expect(page.locator("tbody tr")).to_have_count(1)
        page.wait_for_url("**/jobs?*state=recoverable*")
        with page.expect_response(lambda response: response.request.resource_type == "fetch"):
            late[0].continue_()
        page.wait_for_timeout(500)
        expect(page.locator("tbody tr")).to_have_count(1)


def test_a_job_that_is_killed_and_resumes(serve: Serve, look: Look, tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    url, looking = serve("--directory", tmp_path, "--storage-dir", jobs), look()
    page = looking.page
    page.goto(url + "/jobs")
    expect(page.get_by_text("No job is recorded")).to_be_visible()
    with record_jobs(jobs) as storage:
        page.reload()
        expect(page.get_by_role("status")).to_contain_text("2 jobs")
        assert accessible(looking) == []
        page.get_by_label("State").select_option("recoverable")
        expect(page.locator("tbody tr")).to_have_count(1)
        page.locator("tbody a").click()
        expect(page.get_by_role("heading", name="nightly")).to_be_visible()
        expect(page.locator("ol.starts li")).to_have_count(2)
        expect(page.locator(".vertices tbody tr")).to_have_count(1)
        expect(page.locator(".vertices")).to_contain_text("5 of 8")
        drawn(page, "Which vertex reads which", "Join over orders", "5 of 8 partitions")
        bars = page.locator(".vertices svg.bar rect:not(.rest)")
        assert [each.get_attribute("width") for each in bars.all()] == ["75.0", "50.0"]
        assert accessible(looking) == []
        shot(looking, "job")
        rows = json.loads(page.request.get(url + "/jobs.json?state=running").text())
        assert [each["name"] for each in rows] == ["hourly"]
        # Another driver resumes it, which is seen at once.
        resume_nightly(storage)
        expect(page.locator("#job")).to_contain_text("running")
        page.goto(url)
        expect(page.get_by_role("heading", name="Jobs that resumed")).to_be_visible()
        expect(page.locator("#numbers")).to_contain_text("start 3")
        assert accessible(looking) == []
