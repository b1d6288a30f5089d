"""The page as people see it, in a real browser."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Route, expect

from holdfast.catalog.cataloged_result import MadeFrom
from holdfast.cli.catalog_access import catalog_in
from holdfast.highavailability.ha_storage import HighAvailabilityStorage
from holdfast.highavailability.job_identity import JobIdentity
from holdfast.plan.outline import PlanStep
from holdfast.storage.column_statistics import ColumnStatistics
from tests.catalog.results import produced, unlimited
from tests.ui.conftest import LARGE, Looking, Serve
from tests.ui.recorded_jobs import DATASET, record_jobs

Look = Callable[..., Looking]
TOKEN = "a-token-of-some-length"
PATHS = {
    "overview": "/",
    "results": "/results",
    "jobs": "/jobs",
    "advice": "/advice",
    "why": "/why",
}
HOSTILE = "<script>window.owned = 1</script><img src=x onerror='window.owned = 1'> {{ 7 * 7 }}"
SCREENSHOTS = os.environ.get("HOLDFAST_SCREENSHOTS")


# Where the tests have their files is nobody's business.
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


def drawn(image: Locator) -> None:
    """Waits until a picture, which comes after the page that shows it, is there, and whole."""
    expect(image).to_have_js_property("complete", True)
    assert image.evaluate("each => each.naturalWidth") > 0


def shot(looking: Looking, name: str) -> None:
    """A picture for the documentation, where one is asked for."""
    if SCREENSHOTS:
        looking.page.wait_for_timeout(500)
        looking.page.evaluate(_ELSEWHERE)
        looking.page.screenshot(path=Path(SCREENSHOTS) / f"{name}.png")


@pytest.mark.parametrize("catalog", ["empty", "small", "large"])
@pytest.mark.parametrize(("width", "scheme"), [(360, "dark"), (1600, "light")])
@pytest.mark.sampled(5)
def test_each_page(
    serve: Serve, look: Look, catalogs: dict[str, Path], catalog: str, width: int, scheme: str
) -> None:
    served = serve("--directory", catalogs[catalog], "--storage-dir", catalogs["empty"])
    looking = look(width, color_scheme=scheme)
    page = looking.page
    for name, path in PATHS.items():
        page.goto(served.url + path)
        expect(page.get_by_role("heading", level=1)).to_be_visible()
        assert page.locator("nav a[aria-current]").count() == 1
        assert looking.fits(), name
        assert accessible(looking) == [], name
        if catalog == "large" and width == 1600:
            shot(looking, name)
    if catalog != "empty":
        page.goto(served.url + "/results")
        page.locator("tbody a").first.click()
        expect(page.get_by_role("heading", name="Partitions")).to_be_visible()
        assert looking.fits()
        assert accessible(looking) == []


def test_results_are_searched_sorted_and_paged(
    serve: Serve, look: Look, catalogs: dict[str, Path]
) -> None:
    served = serve("--directory", catalogs["large"])
    page = look().page
    page.goto(served.url + "/results")
    number = page.get_by_role("status")
    whole = int(re.sub(r"\D", "", number.inner_text().split(" result")[0]))
    assert 0.8 * LARGE < whole < LARGE
    page.get_by_label("Search").press_sequentially("visits_9")
    expect(page.locator("tbody tr").first).to_contain_text("visits_9")
    page.wait_for_url("**/results?*text=visits_9*")
    found = int(re.sub(r"\D", "", number.inner_text().split(" result")[0]))
    assert 0 < found < whole
    page.get_by_role("link", name="Size").click()
    expect(page.locator("th[aria-sort]")).to_have_attribute("aria-sort", "descending")
    assert "text=visits_9" in page.url
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


def test_a_keyboard_is_enough(serve: Serve, look: Look, catalogs: dict[str, Path]) -> None:
    served = serve("--directory", catalogs["small"])
    page = look().page
    page.goto(served.url)
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the content")).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.locator("#main")).to_be_focused()
    page.goto(served.url + "/results")
    page.get_by_label("Search").focus()
    page.keyboard.type("join")
    page.keyboard.press("Enter")
    expect(page.get_by_label("Search")).to_have_value("join")


def test_it_works_without_scripts(serve: Serve, look: Look, catalogs: dict[str, Path]) -> None:
    served = serve("--directory", catalogs["small"])
    page = look(java_script_enabled=False).page
    page.goto(served.url + "/results")
    page.get_by_label("Search").fill("zzz")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_text("No result fits this search")).to_be_visible()


def test_hostile_names_are_text(serve: Serve, look: Look, tmp_path: Path) -> None:
    with catalog_in(tmp_path, make=True) as catalog:
        assert catalog is not None
        made = produced(made_from=MadeFrom(plan=(PlanStep(HOSTILE, (), (HOSTILE,)),)))
        description = made.kept.manifest.dataset.model_copy(update={"computes": HOSTILE})
        manifest = made.kept.manifest.model_copy(update={"dataset": description})
        kept = made.kept.model_copy(update={"manifest": manifest, "directories": (HOSTILE,)})
        made = produced(kept=kept, made_from=made.made_from)
        statistics = {"a": ColumnStatistics(HOSTILE, HOSTILE, 0)}
        number = catalog.publications.publish(made, None, unlimited, statistics=statistics).number
        assert number is not None
        served = serve("--directory", tmp_path)
        looking = look()
        page = looking.page
        for path in (*PATHS.values(), f"/results/{kept.name}", f"/results/{kept.name}/plan"):
            page.goto(served.url + path)
            page.wait_for_timeout(200)
            assert page.evaluate("window.owned") is None
        page.goto(served.url)
        expect(page.get_by_role("link", name=HOSTILE)).to_be_visible()
        expect(page.locator("#live")).to_be_visible()
        catalog.holders.use(number)
        expect(page.locator("#happenings li.new").first).to_contain_text(HOSTILE)
        page.goto(served.url + f"/why?query={HOSTILE}")
        expect(page.get_by_role("textbox")).to_have_value(HOSTILE.lower())
        assert page.evaluate("window.owned") is None


def test_logging_in(serve: Serve, look: Look, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    served = serve("--directory", tmp_path, "--token-file", token, "--log-in")
    looking = look()
    page = looking.page
    page.goto(served.url + "/results")
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
    page.goto(served.url + "/results")
    expect(page.get_by_role("heading", name="Results")).to_be_visible()


# --- while something happens ----------------------------------------------------------------------

PROGRAM = """
import sys
from pyspark.sql import functions as F
from holdfast import Environment

env = Environment(config=dict(each.split("=", 1) for each in sys.argv[1:]))
env.spark.range(1_000).write.mode("overwrite").parquet(env.spark.conf.get("spark.data"))
for _ in sys.stdin:
    table = env.read.parquet(env.spark.conf.get("spark.data"))
    days = table.groupBy((F.col("id") % 7).alias("day")).count()
    print(days.cache(lifetime="1 h").count(), flush=True)
env.close()
"""


def test_a_program_that_runs_is_seen_and_what_it_keeps_changed(
    serve: Serve, look: Look, tmp_path: Path
) -> None:
    kept = tmp_path / "kept"
    kept.mkdir()
    script = tmp_path / "report.py"
    script.write_text(PROGRAM)
    program = subprocess.Popen(
        [sys.executable, script, f"intermediate-result-storage.directory={kept}"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=os.environ
        | {"PYSPARK_SUBMIT_ARGS": f"--conf spark.data={tmp_path / 'data'} pyspark-shell"},
    )
    assert program.stdin is not None and program.stdout is not None
    served = serve("--directory", kept)
    looking = look()
    page = looking.page
    page.goto(served.url)
    expect(page.get_by_text("Nothing has happened yet")).to_be_visible()
    expect(page.locator("#live")).to_be_visible()
    try:
        for _ in range(2):
            program.stdin.write("\n")
            program.stdin.flush()
            assert program.stdout.readline() == "7\n"
        news = page.locator("#happenings li.new")
        expect(news.filter(has_text="kept")).to_have_count(1)
        expect(news.filter(has_text="read")).not_to_have_count(0)
        expect(page.locator("#numbers")).to_contain_text("1 result")
        shot(looking, "live")
        news.filter(has_text="kept").get_by_role("link").click()
        expect(page.get_by_role("heading", name="Plan")).to_be_visible()
        drawn(page.get_by_alt_text("The plan:"))
        expect(page.locator("table").first).to_contain_text("bigint")
        expect(page.get_by_text("data/part-").first).to_be_visible()
        shot(looking, "result")
        page.get_by_role("button", name="Pin").click()
        expect(page.get_by_role("status")).to_contain_text("Pinned")
        page.get_by_role("button", name="Verify").click()
        expect(page.get_by_role("status")).to_contain_text("Verified")
        page.get_by_role("button", name="Unpin").click()
        expect(page.get_by_role("status")).to_contain_text("Unpinned")
        page.once("dialog", lambda dialog: dialog.dismiss())
        page.get_by_role("button", name="Release").click()
        expect(page.get_by_role("button", name="Release")).to_be_visible()
        page.once("dialog", lambda dialog: dialog.accept())
        page.get_by_role("button", name="Release").click()
        expect(page.get_by_role("status")).to_contain_text("Released")
        expect(page.get_by_text("it was removed by hand")).to_be_visible()
        # The program has the right rows all the same.
        program.stdin.write("\n")
        program.stdin.flush()
        assert program.stdout.readline() == "7\n"
    finally:
        program.stdin.close()
        assert program.wait(60) == 0


def test_a_task_executor_that_is_killed_is_seen(serve: Serve, look: Look, tmp_path: Path) -> None:
    executor = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "taskexecutor", "start", "--dir", tmp_path / "held"],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"HOLDFAST_TOKEN": TOKEN},
    )
    try:
        assert executor.stdout is not None
        address = executor.stdout.readline().split(" at ")[1].split()[0]
        served = serve("--directory", tmp_path, "--executors", address, HOLDFAST_TOKEN=TOKEN)
        looking = look()
        page = looking.page
        page.goto(served.url)
        expect(page.get_by_text(f"{address} holds parts of 0 datasets")).to_be_visible()
        expect(page.locator("#live")).to_be_visible()
        page.wait_for_timeout(1_500)
        executor.send_signal(signal.SIGKILL)
        expect(page.locator("#happenings li.executor")).to_contain_text(address)
        expect(page.locator("#numbers")).to_contain_text("Not answering")
        assert accessible(looking) == []
    finally:
        executor.kill()
        executor.wait()


def test_what_happens_while_a_page_is_opened_is_seen(
    serve: Serve, look: Look, tmp_path: Path
) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    served = serve("--directory", tmp_path, "--storage-dir", jobs)
    page = look().page
    recorded: list[HighAvailabilityStorage] = []

    def connect(route: Route) -> None:
        recorded.append(record_jobs(jobs))
        route.continue_()

    page.route("**/events", connect)
    page.goto(served.url + "/jobs")
    expect(page.get_by_role("status")).to_contain_text("2 jobs")
    for storage in recorded:
        storage.close()


def test_a_search_is_not_undone_by_what_was_asked_for_before_it(
    serve: Serve, look: Look, tmp_path: Path
) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    storage = record_jobs(jobs)
    served = serve("--directory", tmp_path, "--storage-dir", jobs)
    page = look().page
    late: list[Route] = []
    page.route(
        served.url + "/jobs",
        lambda route: (
            late.append(route) if route.request.resource_type == "fetch" else route.continue_()
        ),
    )
    with page.expect_request(lambda request: request.resource_type == "fetch"):
        page.goto(served.url + "/jobs")
    page.get_by_label("State").select_option("recoverable")
    expect(page.locator("tbody tr")).to_have_count(1)
    page.wait_for_url("**/jobs?*state=recoverable*")
    with page.expect_response(lambda response: response.request.resource_type == "fetch"):
        late[0].continue_()
    page.wait_for_timeout(500)
    expect(page.locator("tbody tr")).to_have_count(1)
    storage.close()


def test_a_job_that_is_killed_and_goes_on(serve: Serve, look: Look, tmp_path: Path) -> None:
    jobs = tmp_path / "jobs"
    jobs.mkdir()
    served = serve("--directory", tmp_path, "--storage-dir", jobs)
    looking = look()
    page = looking.page
    page.goto(served.url + "/jobs")
    expect(page.get_by_text("No job is recorded")).to_be_visible()
    storage = record_jobs(jobs)
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
    drawn(page.get_by_alt_text("Which vertex reads which"))
    bars = page.locator(".vertices svg.bar rect:not(.rest)")
    assert [each.get_attribute("width") for each in bars.all()] == ["75.0", "50.0"]
    assert accessible(looking) == []
    shot(looking, "job")
    rows = json.loads(page.request.get(served.url + "/jobs.json?state=running").text())
    assert [each["name"] for each in rows] == ["hourly"]
    # Another driver goes on with it, which is seen at once.
    storage.begin(JobIdentity(digest=DATASET, action="collect", sink=None), "nightly")
    expect(page.locator("#job")).to_contain_text("running")
    page.goto(served.url)
    expect(page.get_by_role("heading", name="Jobs that resumed")).to_be_visible()
    expect(page.locator("#numbers")).to_contain_text("start 3")
    assert accessible(looking) == []
    storage.close()
