"""How much of a plan's data one task goes through, so that whoever kills tasks loses little.

Spark gives each task so many bytes, whatever it does with them. A job that starts again runs the
tasks again that hadn't ended, so their time counts: it is estimated by the plan's work.
"""

from __future__ import annotations

from dataclasses import dataclass

from holdfast.graph.plan_cuts import MIB, Facts
from holdfast.plan.canonical_plan import CanonicalNode

WORK_RATE = 64 * MIB
"""Of a plan's work, in bytes: what one core does in a second; TPC-H's come to 60 to 150 MiB."""
SHUFFLED_RATE = 16 * MIB
"""Of what shuffles have written, in bytes: what one core goes through in a second."""
LONGEST_SHARE = 0.05
"""Of a job's expected time, what a task may take in any case: more tasks are no gain."""
LONGEST_SHARE_AGGREGATING = 0.1
"""The same where what files hold is aggregated before it is shuffled: the more tasks, the less each
of them can put together, and the more is shuffled."""
LEAST_TASK = 4 * MIB
"""Bytes below which no task is made smaller: to start one costs milliseconds."""

_LIMITS = frozenset({"GlobalLimit", "LocalLimit"})


@dataclass(frozen=True, slots=True)
class PlanEffort:
    """What a plan reads, and what it does with it.

    Attributes:
        read: bytes of the files that it reads.
        work: all of its work, to which a byte that is read adds at least 1.
        files_make_partitions: how its files are split shows in its result's partitions, as no
            shuffle lies between.
        partial_aggregation: tasks that read files aggregate by keys before they shuffle.
    """

    read: int
    work: int
    files_make_partitions: bool
    partial_aggregation: bool = False

    @property
    def longest_share(self) -> float:
        """Of the job's expected time, what a task may take in any case."""
        return LONGEST_SHARE_AGGREGATING if self.partial_aggregation else LONGEST_SHARE


@dataclass(frozen=True, slots=True)
class TaskSizes:
    """What a task goes through.

    Attributes:
        files: bytes of files.
        shuffled: bytes of what shuffles have written.
    """

    files: int
    shuffled: int


def plan_effort(root: CanonicalNode, facts: Facts) -> PlanEffort:
    """What a plan reads and does.

    Args:
        root: a canonical plan, as the engine is about to run it.
        facts: sizes and efforts; the work of a node without inputs is the bytes that it reads.
    """
    nodes = {node.digest: node for node in root.walk()}.values()
    read = sum(facts(node).work for node in nodes if not node.children)
    return PlanEffort(
        read=read,
        work=max(read, sum(facts(node).work for node in nodes)),
        files_make_partitions=_reads_unshuffled(root, facts),
        partial_aggregation=any(
            facts(node).partial_aggregation
            and any(_reads_unshuffled(each, facts) for each in node.children)
            for node in nodes
        ),
    )


def task_sizes(effort: PlanEffort, seconds: float, cores: int) -> TaskSizes:
    """What a task goes through that is expected to take no longer than that.

    Args:
        effort: of its plan: the more work there is for each byte, the fewer bytes.
        seconds: how long a task may take; in a job that takes long, a share of that.
        cores: how many run the job.

    >>> task_sizes(PlanEffort(100 * MIB, 200 * MIB, False), seconds=1, cores=2)
    TaskSizes(files=33554432, shuffled=16777216)
    """
    expected = effort.work / WORK_RATE / max(cores, 1)
    seconds = max(seconds, expected * effort.longest_share)
    part = effort.read / effort.work if effort.work else 1.0
    return TaskSizes(
        files=max(LEAST_TASK, int(seconds * WORK_RATE * part)),
        shuffled=max(LEAST_TASK, int(seconds * SHUFFLED_RATE)),
    )


def may_be_split_anew(root: CanonicalNode) -> bool:
    """Whether a plan's rows are those that its user may expect, however it is dealt to tasks.

    Of rows in an order a limit takes the first ones, however that is; where several come last
    together, Spark itself takes any.

    Args:
        root: a canonical plan.
    """
    while root.operator in _LIMITS and root.ordered:
        root = root.children[0]
    return not root.layout_sensitive and root.layout is None


def _reads_unshuffled(root: CanonicalNode, facts: Facts) -> bool:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if facts(node).shuffles:
            continue
        if not node.children and facts(node).work:
            return True
        waiting.extend(node.children)
    return False
