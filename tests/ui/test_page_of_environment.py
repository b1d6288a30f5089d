"""The page of an environment: `env.ui()`."""

from __future__ import annotations

import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast import Environment
from holdfast.errors import EnvironmentClosedError, PageError
from tests.harness.waiting import wait_for


def text_at(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        return str(answer.read().decode())


def test_it_shows_what_the_environment_keeps_and_ends_with_it(
    env: Environment, spark: SparkSession
) -> None:
    env.from_dataframe(spark.range(10)).cache(name="ten numbers").count()
    page = env.ui(read_only=True)
    assert "ten numbers" in text_at(f"{page.url}results")
    assert page.url in repr(page) and f'<iframe src="{page.url}"' in page._repr_html_()
    with pytest.raises(PageError, match="can't listen on 127.0.0.1"):
        env.ui(port=int(page.url.rpartition(":")[2].rstrip("/")))
    assert page.is_open
    env.close()
    assert not page.is_open and "closed" in repr(page) and "closed" in page._repr_html_()
    with pytest.raises(OSError):
        text_at(page.url)
    with pytest.raises(EnvironmentClosedError):
        env.ui()


def test_it_ends_with_a_program_that_is_killed(tmp_path: Path) -> None:
    source = (
        "import sys, time; from holdfast.api.page import Page; "
        "print(Page(['--directory', sys.argv[1]]).url, flush=True); time.sleep(60)"
    )
    program = subprocess.Popen(
        [sys.executable, "-c", source, str(tmp_path)], stdout=subprocess.PIPE, text=True
    )
    assert program.stdout is not None
    url = program.stdout.readline().strip()
    assert "Overview" in text_at(url)
    program.kill()
    program.communicate()

    def is_gone() -> bool | None:
        try:
            text_at(url)
        except OSError:
            return True
        return None

    assert wait_for(is_gone, 30)
