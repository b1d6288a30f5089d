"""The end of act 1: another program starts, and reads what the first one has kept."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from pathlib import Path
from threading import Event

from holdfast.cli.amounts import seconds
from holdfast.cli.demo.answer import agree
from holdfast.cli.demo.comparison import AnswerComparison
from holdfast.cli.demo.place import Place
from holdfast.cli.demo.program_process import ProgramProcess
from holdfast.cli.demo.second_session import SecondAnswer, SecondHome, SecondSession
from holdfast.cli.demo.stage import Stage
from holdfast.cli.demo.story import Story

_PROGRAM = "holdfast.cli.demo.second_program"
_TITLE = "the second program"
_MEASURED = """\
The first program has closed its environment; what it kept has a lifetime, and stays. The second one
is a process with a JVM of its own, on the same storage directory. It calls no cache(), and nothing
in it is warmed up.\
"""


def play(
    stage: Stage,
    place: Place,
    story: Story,
    asked: Sequence[AnswerComparison],
    output: Path,
    interrupted: Event,
) -> bool:
    """Has another program answer the questions of a session that is over.

    Args:
        stage: shows what happens.
        place: where the first program has kept the table.
        story: what is asked.
        asked: the questions with their answers.
        output: the folder for everything that the demo leaves behind.
        interrupted: set when the program is not to be waited for any longer.

    Returns:
        whether all its answers are those of plain Spark.

    Raises:
        DemoError: when it fails, or was interrupted.
    """
    stage.say("A second program asks the same questions.")
    stage.say(_MEASURED, style="dim")
    home = SecondHome(Path(tempfile.mkdtemp(prefix="second-program-", dir=output)))
    try:
        home.ask(SecondSession(story, place.keeping))
        with (
            stage.progress("second one", 1) as progress,
            ProgramProcess(_TITLE, _PROGRAM, [str(home.path)], home.path, home.log) as program,
        ):
            progress.now("a program of its own")
            program.wait_for_end(interrupted)
            took = program.seconds
        return _tell(stage, asked, home.answers(), took)
    finally:
        shutil.rmtree(home.path, ignore_errors=True)


def _tell(
    stage: Stage, asked: Sequence[AnswerComparison], answers: Sequence[SecondAnswer], took: float
) -> bool:
    agreed = [
        agree(before.question, before.plain, each.answer)
        for before, each in zip(asked, answers, strict=True)
    ]
    for read in dict.fromkeys(line for each in answers for line in each.read):
        stage.say(f"Read: {read}")
    times = [each.answer.seconds for each in answers]
    kept = dict.fromkeys(each.kept or "none" for each in answers)
    stage.say(
        f"The second program: {sum(agreed)} of {len(agreed)} answers are those of plain Spark, "
        f"kept data: {', '.join(kept)}",
        style="green" if all(agreed) else "bold red",
    )
    stage.say(
        f"Its first answer took {seconds(times[0])}, all of them {seconds(sum(times))}, "
        f"its process {seconds(took)} with the start of Spark."
    )
    return all(agreed)
