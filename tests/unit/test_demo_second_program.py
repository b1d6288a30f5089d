"""The demo's second program: what it is handed, and how it ends."""

from __future__ import annotations

import datetime
import threading
import time
from decimal import Decimal
from pathlib import Path

import pytest
from pyspark.sql import Row

from holdfast.cli.demo.answer import Answer
from holdfast.cli.demo.errors import DemoError
from holdfast.cli.demo.parquet_folder import ParquetTable
from holdfast.cli.demo.program_process import ProgramProcess
from holdfast.cli.demo.second_session import SecondAnswer, SecondHome, SecondSession
from holdfast.cli.demo.tpch_story import COLUMNS, tpch_story


def test_questions_and_answers_get_there_as_they_are(tmp_path: Path) -> None:
    tables = {name: ParquetTable(name, (tmp_path / name,), None, 1, 2) for name in COLUMNS}
    story, home = tpch_story("TPC-H", tables), SecondHome(tmp_path)
    home.ask(SecondSession(story, {"a": "b"}))
    asked = home.asked()
    assert asked.story.tables == story.tables and asked.keeping == {"a": "b"}
    assert [each.title for each in asked.story.questions] == [
        each.title for each in story.questions
    ]
    row = Row(day=datetime.date(2026, 11, 23), revenue=Decimal("1.00"), nothing=None)
    answer = Answer((("day", "date"), ("revenue", "decimal(3,2)")), (row,), 1.5)
    home.answer((SecondAnswer(answer, "read from cache", ("it, kept by ana",)),))
    (given,) = home.answers()
    assert given.answer == answer and given.read == ("it, kept by ana",)
    assert given.answer.rows[0].revenue.as_tuple() == Decimal("1.00").as_tuple()


def test_the_end_of_what_it_wrote_is_told_when_it_fails(tmp_path: Path) -> None:
    home = SecondHome(tmp_path)
    with (
        ProgramProcess(
            "the second program",
            "holdfast.cli.demo.second_program",
            [str(tmp_path)],
            tmp_path,
            home.log,
        ) as program,
        pytest.raises(DemoError, match=r"(?s)the second program failed with code 1.*asked\.pickle"),
    ):
        program.wait_for_end(threading.Event())


def test_it_is_dead_soon_after_an_interruption(tmp_path: Path) -> None:
    (tmp_path / "sleeping.py").write_text("import time\ntime.sleep(600)\n")
    interrupted = threading.Event()
    timer = threading.Timer(0.3, interrupted.set)
    timer.start()
    began = time.monotonic()
    with (
        pytest.raises(DemoError, match="the program was interrupted"),
        ProgramProcess("the program", "sleeping", [], tmp_path, tmp_path / "log") as program,
    ):
        program.wait_for_end(interrupted)
    assert not program.runs and time.monotonic() - began < 60
