"""The page of an environment: `env.ui()`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from holdfast import Environment
from holdfast.errors import EnvironmentClosedError, PageError


def config(tmp_path: Path) -> dict[str, str]:
    return {"intermediate-result-storage.directory": str(tmp_path / "kept")}


def text_at(url: str) -> str:
    with urllib.request.urlopen(url, timeout=30) as answer:
        text: str = answer.read().decode()
        return text


def test_it_shows_what_the_environment_keeps_and_ends_with_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    env = Environment(spark, config=config(tmp_path))
    env.from_dataframe(spark.range(10)).cache(name="ten numbers").count()
    page = env.ui(read_only=True)
    assert "ten numbers" in text_at(f"{page.url}results")
    assert page.url in repr(page)
    assert f'<iframe src="{page.url}"' in page._repr_html_()
    with env.ui() as other:
        assert other.url != page.url
    assert not other.is_open and page.is_open
    env.close()
    assert not page.is_open
    assert "closed" in repr(page) and "closed" in page._repr_html_()
    with pytest.raises(OSError):
        text_at(page.url)
    with pytest.raises(EnvironmentClosedError):
        env.ui()


def test_a_port_that_is_taken_is_said(spark: SparkSession, tmp_path: Path) -> None:
    with Environment(spark, config=config(tmp_path)) as env:
        env.from_dataframe(spark.range(10)).cache().count()
        port = int(env.ui().url.rpartition(":")[2].rstrip("/"))
        with pytest.raises(PageError, match="can't listen on 127.0.0.1"):
            env.ui(port=port)


def test_it_ends_with_a_program_that_is_killed(tmp_path: Path) -> None:
    program = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time; from holdfast.api.page import Page; "
            "print(Page(['--directory', sys.argv[1]]).url, flush=True); time.sleep(60)",
            str(tmp_path),
        ],
        stdout=subprocess.PIPE,
        text=True,
    )
    assert program.stdout is not None
    url = program.stdout.readline().strip()
    assert "Overview" in text_at(url)
    os.kill(program.pid, signal.SIGKILL)
    program.wait()
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        try:
            text_at(url)
        except OSError:
            break
        time.sleep(0.1)
    with pytest.raises(OSError):
        text_at(url)
