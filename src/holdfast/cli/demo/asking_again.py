"""After a loss: the question again, and what became of its job."""

from __future__ import annotations

from pyspark.sql import DataFrame
from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from holdfast import Environment, JobExecutionResult
from holdfast.cli.demo.amounts import seconds
from holdfast.cli.demo.answer import agree, ask
from holdfast.cli.demo.comparison import Comparison
from holdfast.cli.demo.stage import Stage


def ask_again(stage: Stage, env: Environment, hot: DataFrame, asked: Comparison, how: str) -> bool:
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
    result = env.last_job_result
    kept = [v.outcome.value for v in result.vertices if v.dataset_id is not None] if result else []
    verdict = "the same answer" if agreed else "ANOTHER ANSWER"
    stage.say(
        f"{how}: {verdict} after {seconds(answer.seconds)}, kept data: {', '.join(kept) or 'none'}",
        style="green" if agreed else "bold red",
    )
    return agreed


def show_result(stage: Stage, env: Environment) -> None:
    """Shows how the last job went.

    Args:
        stage: shows it.
        env: the environment that ran it.
    """
    if env.last_job_result is not None:
        stage.say("What env.last_job_result says:")
        _show(stage, env.last_job_result)


def _show(stage: Stage, result: JobExecutionResult) -> None:
    stage.say(f"  job {result.job_id} {result.name!r}: {seconds(result.net_runtime)}")
    table = RichTable(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("vertex", overflow="fold", max_width=46)
    table.add_column("outcome")
    for heading in ("partitions", "rows", "bytes", "attempts"):
        table.add_column(heading, justify="right")
    for vertex in result.vertices:
        numbers = (vertex.partitions, vertex.rows, vertex.bytes, vertex.attempts)
        table.add_row(
            Text(vertex.name),
            vertex.outcome.value,
            *("" if number is None else f"{number:,}" for number in numbers),
        )
    stage.show(table)
    for loss in result.losses:
        stage.say(f"  lost and computed again: {loss}")
