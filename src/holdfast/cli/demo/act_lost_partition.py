"""Act 2: a kept partition is lost, and the question is answered all the same."""

from __future__ import annotations

from pathlib import Path

from pyspark.sql import DataFrame

from holdfast import Environment, ResultPartitionDescriptor
from holdfast.cli.amounts import count, size
from holdfast.cli.demo.asking_again import ask_again
from holdfast.cli.demo.comparison import AnswerComparison
from holdfast.cli.demo.job_report import show_job_result
from holdfast.cli.demo.stage import Stage


def play(stage: Stage, env: Environment, hot: DataFrame, asked: AnswerComparison) -> bool:
    """Deletes a kept partition, and asks a question again.

    Args:
        stage: shows what happens.
        env: a fresh environment.
        hot: the shared table in that environment, cached.
        asked: a question that has been answered before.

    Returns:
        whether the answers are the same as before.
    """
    stage.headline("Act 2: a kept partition is lost")
    stage.say(f"The question: {asked.question.title}")
    agreed = ask_again(stage, env, hot, asked, "Asked first")
    partition = _largest_partition(env)
    if partition is None:
        stage.say("There is no kept data to lose.")
        return agreed
    file = Path(partition.location)
    file.unlink()
    stage.say(f"Deleted: {count(partition.rows, 'row')}, {size(partition.bytes)}, {file.name}")
    agreed = ask_again(stage, env, hot, asked, "Asked again") and agreed
    show_job_result(stage, env.last_job_result)
    return ask_again(stage, env, hot, asked, "Asked once more") and agreed


def _largest_partition(env: Environment) -> ResultPartitionDescriptor | None:
    result = env.last_job_result
    kept = result.persistent_result_partitions.descriptors.values() if result else ()
    partitions = [partition for partitions in kept for partition in partitions]
    return max(partitions, key=lambda partition: partition.bytes, default=None)
