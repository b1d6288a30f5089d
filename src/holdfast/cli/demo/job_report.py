"""What a job tells about itself, on the stage."""

from __future__ import annotations

from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from holdfast import JobExecutionResult
from holdfast.cli.amounts import seconds
from holdfast.cli.demo.stage import Stage


def kept_data(result: JobExecutionResult | None) -> str:
    """What a job did with each kept result, in its own words; empty where there was none.

    Args:
        result: what its environment says.
    """
    vertices = result.vertices if result else ()
    return ", ".join(each.outcome.value for each in vertices if each.dataset_id is not None)


def kept_by_others(result: JobExecutionResult | None) -> tuple[str, ...]:
    """What a job has read that another program had kept, and who had.

    Args:
        result: what its environment says.
    """
    vertices = result.vertices if result else ()
    return tuple(f"{each.name}, kept by {each.kept_by}" for each in vertices if each.kept_by)


def show_job_result(stage: Stage, result: JobExecutionResult | None) -> None:
    """Shows how a job went; nothing where there was none.

    Args:
        stage: shows it.
        result: what its environment says.
    """
    if result is None:
        return
    stage.say("env.last_job_result:")
    stage.say(f"  job {result.job_id} {result.name!r}: {seconds(result.net_runtime)}")
    recovers = any(vertex.recovered is not None for vertex in result.vertices)
    table = RichTable(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("vertex", overflow="fold", max_width=46)
    table.add_column("outcome")
    headings = ["partitions", "rows", "bytes", "attempts", *(["recovered"] if recovers else [])]
    for heading in headings:
        table.add_column(heading, justify="right")
    for vertex in result.vertices:
        numbers = [vertex.partitions, vertex.rows, vertex.bytes, vertex.attempts]
        if recovers:
            numbers.append(vertex.recovered)
        table.add_row(
            Text(vertex.name),
            vertex.outcome.value,
            *("" if number is None else f"{number:,}" for number in numbers),
        )
    stage.show(table)
    for vertex in result.vertices:
        if vertex.recovered_tasks:
            tasks = f"{vertex.recovered_tasks:,} tasks"
            stage.say(f"  {vertex.name}: {tasks} were completed by an earlier start")
    for loss in result.losses:
        stage.say(f"  lost and recomputed: {loss}")
