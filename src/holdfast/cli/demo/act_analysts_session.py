"""Act 1: the same questions twice, on plain Spark and with cache()."""

from __future__ import annotations

import time
from collections.abc import Callable

from pyspark.sql import DataFrame, SparkSession

from holdfast import Environment
from holdfast.cli.amounts import count, seconds, size
from holdfast.cli.demo.answer import Answer, ask
from holdfast.cli.demo.comparison import AnswerComparison, comparison_table
from holdfast.cli.demo.job_report import kept_data
from holdfast.cli.demo.place import Place
from holdfast.cli.demo.stage import Stage
from holdfast.cli.demo.story import Question, Story

_MEASURED = """\
Measured: from asking a question until the last row of its answer has arrived. Both sides run in
the same Spark session, plain Spark first, and nothing is persisted for it. Both are warmed up:
each has answered every question once before, unmeasured. What was kept then is deleted; of the
measured questions, the first one computes and keeps, and the others read.\
"""


def warm_up(stage: Stage, place: Place, story: Story) -> None:
    """Lets both sides answer everything once, so that what follows is measured on a warm JVM.

    Args:
        stage: shows the progress.
        place: where both sides run.
        story: what is asked.
    """
    with (
        stage.progress("warming up", 2 * len(story.questions)) as progress,
        place.environment() as env,
    ):
        for side, shared in (
            ("plain Spark", story.build(place.spark)),
            ("cache()", place.hot(story.build(env))),
        ):
            started = time.perf_counter()
            for question in story.questions:
                progress.now(f"{side}: {question.title}")
                ask(question, shared)
                progress.advance()
            progress.note(f"{side}, {seconds(time.perf_counter() - started)}")


def play(
    stage: Stage,
    spark: SparkSession,
    env: Environment,
    hot: DataFrame,
    story: Story,
    ask_cached: Callable[[Question, DataFrame], Answer] = ask,
) -> list[AnswerComparison]:
    """Asks every question on both sides.

    Args:
        stage: shows what happens.
        spark: the session of both sides.
        env: a fresh environment.
        hot: the shared table in that environment, cached but not kept yet.
        story: what is asked.
        ask_cached: asks on the side of `env`.

    Returns:
        the questions with their answers.
    """
    stage.headline(f"Act 1: {len(story.questions)} questions over one table")
    stage.say(f"The table: {story.shared}.")
    stage.say(_MEASURED, style="dim")
    uncached = _session(stage, "plain Spark", story, story.build(spark), ask)
    plain = [answer for answer, _ in uncached]
    cached = _session(stage, "cache()", story, hot, ask_cached, env)
    comparisons = [
        AnswerComparison(question, before, after, kept)
        for question, before, (after, kept) in zip(story.questions, plain, cached, strict=True)
    ]
    stage.show(comparison_table(comparisons))
    for data_set in env.list_cached():
        if data_set.dataset_id is not None:
            stage.say(
                f"Kept by the first question: {count(data_set.rows, 'row')}, "
                f"{size(data_set.bytes)} in {count(data_set.partitions, 'partition')}."
            )
    return comparisons


def _session(
    stage: Stage,
    side: str,
    story: Story,
    shared: DataFrame,
    asking: Callable[[Question, DataFrame], Answer],
    env: Environment | None = None,
) -> list[tuple[Answer, str]]:
    """Every answer, and what its job did with the kept data."""
    answers = []
    with stage.progress(side, len(story.questions)) as progress:
        for question in story.questions:
            progress.now(question.title)
            answer = asking(question, shared)
            answers.append((answer, "" if env is None else kept_data(env.last_job_result)))
            progress.advance()
            progress.note(f"{question.title}, {seconds(answer.seconds)}")
    return answers
