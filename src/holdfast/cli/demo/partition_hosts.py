"""On which hosts of a cluster the kept partitions lie."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from urllib.parse import urlsplit

from rich import box
from rich.table import Table as RichTable

from holdfast import Environment, ResultPartitionDescriptor
from holdfast.cli.amounts import size
from holdfast.cli.demo.stage import Stage
from holdfast.cli.local_cluster.local_cluster import LocalCluster


@dataclass(frozen=True)
class PartitionHost:
    """What a host holds of the kept data that the last job produced or read.

    Attributes:
        host: its address.
        partitions: how many.
        rows: in all of them.
        bytes: of all of them.
    """

    host: str
    partitions: int
    rows: int
    bytes: int


def partition_hosts(env: Environment) -> list[PartitionHost]:
    """The hosts, by address.

    Args:
        env: the environment, with task executors.
    """
    result = env.last_job_result
    by_host: dict[str, list[ResultPartitionDescriptor]] = defaultdict(list)
    for partitions in result.persistent_result_partitions.descriptors.values() if result else ():
        for partition in partitions:
            by_host[urlsplit(partition.location).hostname or ""].append(partition)
    return [
        PartitionHost(
            host,
            len(partitions),
            sum(partition.rows for partition in partitions),
            sum(partition.bytes for partition in partitions),
        )
        for host, partitions in sorted(by_host.items())
    ]


def show_hosts(stage: Stage, cluster: LocalCluster, env: Environment) -> None:
    """Shows where the partitions lie, node by node.

    Args:
        stage: shows it.
        cluster: the nodes.
        env: the environment that keeps the partitions.
    """
    found = {each.host: each for each in partition_hosts(env)}
    table = RichTable(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("node")
    table.add_column("task executor")
    for heading in ("kept partitions", "rows", "bytes"):
        table.add_column(heading, justify="right")
    for node in cluster.workers:
        held = found.get(node.host, PartitionHost(node.host, 0, 0, 0))
        table.add_row(
            node.host,
            node.task_executor_address,
            f"{held.partitions:,}",
            f"{held.rows:,}",
            size(held.bytes),
        )
    stage.say("Locations of the kept partitions:")
    stage.show(table)
