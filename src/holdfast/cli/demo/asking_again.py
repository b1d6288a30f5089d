"""A question that has been answered before, and what became of its job."""

from __future__ import annotations

from pyspark.sql import DataFrame

from holdfast import Environment
from holdfast.cli.amounts import seconds
from holdfast.cli.demo.answer import agree, ask
from holdfast.cli.demo.comparison import AnswerComparison
from holdfast.cli.demo.job_report import kept_data
from holdfast.cli.demo.stage import Stage


def ask_again(
    stage: Stage, env: Environment, hot: DataFrame, asked: AnswerComparison, how: str
) -> bool:
    """Asks a question that has been answered before.

    Args:
        stage: shows what happens.
        env: the environment that keeps the table.
        hot: the kept table.
        asked: the question.
        how: what to call it.

    Returns:
        whether the answer is the same as before.
    """
    with stage.log_lines():
        answer = ask(asked.question, hot)
    agreed = agree(asked.question, asked.plain, answer)
    kept = kept_data(env.last_job_result)
    verdict = "the same answer" if agreed else "ANOTHER ANSWER"
    stage.say(
        f"{how}: {verdict} after {seconds(answer.seconds)}, kept data: {kept or 'none'}",
        style="green" if agreed else "bold red",
    )
    return agreed
