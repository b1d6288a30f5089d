"""Act 2: a kept partition is lost, and the question is answered all the same."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame
from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from holdfast import Environment, JobExecutionResult, ResultPartitionDescriptor
from holdfast.cli.demo.amounts import count, seconds, size
from holdfast.cli.demo.answer import agree, ask
from holdfast.cli.demo.comparison import Comparison
from holdfast.cli.demo.stage import Stage


def play(stage: Stage, env: Environment, hot: DataFrame, asked: Comparison) -> bool:
    """Deletes a kept partition, and asks a question again.

    Args:
        stage: shows what happens.
        env: the environment that keeps the table.
        hot: the kept table.
        asked: a question that has been answered before.

    Returns:
        whether the answers are the same as before.
    """
    stage.headline("Act 2: a kept partition is lost")
    partition = _largest_partition(env)
    if partition is None:
        stage.say("Nothing is kept that could be lost.")
        return True
    stage.say(f"The question: {asked.question.title}")
    file = Path(partition.location)
    file.unlink()
    stage.say(f"Deleted: {count(partition.rows, 'row')}, {size(partition.bytes)}, {file.name}")
    agreed = _ask_again(stage, env, hot, asked, "Asked again")
    if env.last_job_result is not None:
        stage.say("What env.last_job_result says:")
        _show(stage, env.last_job_result)
    return _ask_again(stage, env, hot, asked, "Asked once more") and agreed


def _largest_partition(env: Environment) -> ResultPartitionDescriptor | None:
    result = env.last_job_result
    kept = result.persistent_result_partitions.descriptors.values() if result else ()
    partitions = [partition for partitions in kept for partition in partitions]
    return max(partitions, key=lambda partition: partition.bytes, default=None)


def _ask_again(stage: Stage, env: Environment, hot: DataFrame, asked: Comparison, how: str) -> bool:
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
