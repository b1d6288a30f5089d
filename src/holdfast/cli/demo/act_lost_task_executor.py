"""Act 2 on a cluster: a node's task executor is lost, and the question is answered all the same."""

from __future__ import annotations

import time

from pyspark.sql import DataFrame

from holdfast import Environment
from holdfast.cli.amounts import count, size
from holdfast.cli.demo.asking_again import ask_again
from holdfast.cli.demo.comparison import AnswerComparison
from holdfast.cli.demo.job_report import show_job_result
from holdfast.cli.demo.partition_hosts import partition_hosts, show_hosts
from holdfast.cli.demo.stage import Stage
from holdfast.cli.local_cluster.local_cluster import LocalCluster

_SECONDS_UNTIL_FOUND = 3.0


def play(
    stage: Stage, cluster: LocalCluster, env: Environment, hot: DataFrame, asked: AnswerComparison
) -> bool:
    """Kills the task executor that holds most, asks again, starts it again, and asks again.

    Args:
        stage: shows what happens.
        cluster: what the session runs on.
        env: the environment that keeps the table.
        hot: the kept table.
        asked: a question that has been answered before.

    Returns:
        whether the answers are the same as before.
    """
    stage.headline("Act 2: a node's task executor is lost")
    hosts = partition_hosts(env)
    if not hosts:
        stage.say("There is no kept data to lose.")
        return True
    lost = max(hosts, key=lambda each: each.bytes)
    (index,) = (place for place, node in enumerate(cluster.workers) if node.host == lost.host)
    address = cluster.workers[index].task_executor_address
    stage.say(f"The question: {asked.question.title}")
    cluster.kill_task_executor(index)
    stage.say(
        f"Killed with -9: the task executor at {address}, and with it "
        f"{count(lost.partitions, 'partition')}, {size(lost.bytes)}"
    )
    agreed = ask_again(stage, env, hot, asked, "Asked again")
    show_job_result(stage, env.last_job_result)
    cluster.restart_task_executor(index)
    stage.say(f"Started again: the task executor at {address}")
    time.sleep(_SECONDS_UNTIL_FOUND)
    agreed &= ask_again(stage, env, hot, asked, "Asked with both there")
    agreed &= ask_again(stage, env, hot, asked, "Asked once more")
    show_hosts(stage, cluster, env)
    return agreed
