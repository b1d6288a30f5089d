"""`holdfast demo` from its options to its exit code."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

import holdfast
from holdfast import Environment
from holdfast.cli.demo import act_analysts_session, act_lost_partition, act_lost_task_executor
from holdfast.cli.demo.amounts import count, seconds, size
from holdfast.cli.demo.chart import draw_chart
from holdfast.cli.demo.cluster_place import on_cluster, refuse_without_namespaces
from holdfast.cli.demo.comparison import Comparison, totals
from holdfast.cli.demo.errors import BadInputError, DemoError
from holdfast.cli.demo.folder_story import folder_story
from holdfast.cli.demo.parquet_folder import ParquetTable, refuse_patterns, tables_of
from holdfast.cli.demo.partition_hosts import show_hosts
from holdfast.cli.demo.place import Place, on_this_machine
from holdfast.cli.demo.reading_tasks import ReadingTasks
from holdfast.cli.demo.spark_session import run_interruptibly
from holdfast.cli.demo.stage import Stage
from holdfast.cli.demo.story import Story
from holdfast.cli.demo.tpch_data import scale_name, tpch_tables
from holdfast.cli.demo.tpch_story import COLUMNS, tpch_story
from holdfast.errors import HoldfastError


@dataclass(frozen=True)
class DemoOptions:
    """What the person chose.

    Attributes:
        scale: of the generated data, roughly in GB.
        data: a folder of the person's own Parquet, in place of generated data.
        output: the folder for everything that the demo leaves behind.
        cluster: plays on a Spark cluster of this machine, with task executors.
    """

    scale: float
    data: Path | None
    output: Path
    cluster: bool = False


def run_demo(options: DemoOptions) -> int:
    """Plays the demo.

    Args:
        options: what the person chose.

    Returns:
        0 when all answers agree, else 1.

    Raises:
        DemoError: when it can't be played to the end.
    """
    stage = Stage()
    _prepare(options.output)
    if options.cluster:
        refuse_without_namespaces(options.output)
    stage.say(
        f"Holdfast {holdfast.__version__}: an analyst's session, on plain Spark and with cache()"
        f"{', on a cluster of two nodes' if options.cluster else ''}",
        style="bold",
    )
    if options.data is None:
        title = f"TPC-H at scale {scale_name(options.scale)}"
        tables = tpch_tables(stage, options.output, options.scale)
    else:
        title = options.data.expanduser().absolute().name or str(options.data)
        tables = tables_of(options.data)
    if options.cluster:
        stage.say("Starting a Spark cluster: a master, two workers, two task executors, a driver")
    play_on = on_cluster if options.cluster else on_this_machine
    with play_on(options.output, options.output / "spark.log") as place:
        try:
            return run_interruptibly(
                place.spark, lambda: _play(stage, place, title, tables, options.output)
            )
        except (PySparkException, Py4JError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise DemoError(f"Spark failed: {reason}\nMore of it is in {place.logs}") from error
        except HoldfastError as error:
            raise DemoError(str(error)) from error


def _play(
    stage: Stage, place: Place, title: str, tables: Mapping[str, ParquetTable], output: Path
) -> int:
    story = _story(stage, place.spark, title, tables)
    _introduce(stage, place, story)
    act_analysts_session.warm_up(stage, place, story)
    with place.environment() as env:
        hot = place.hot(story.build(env))
        reading = ReadingTasks(place.spark, env)
        comparisons = act_analysts_session.play(stage, place.spark, env, hot, story, reading.ask)
        still_agrees = _lose_something(stage, place, env, hot, comparisons[0], reading)
    picture = output / "times.png"
    draw_chart(comparisons, f"{story.title}: an analyst's session", picture)
    return _close(stage, comparisons, still_agrees, picture)


def _lose_something(
    stage: Stage,
    place: Place,
    env: Environment,
    hot: DataFrame,
    asked: Comparison,
    reading: ReadingTasks,
) -> bool:
    if place.cluster is None:
        return act_lost_partition.play(stage, env, hot, asked)
    show_hosts(stage, place.cluster, env)
    localities = reading.localities()
    stage.say(
        f"Of {count(localities.total(), 'task')} that read kept partitions, "
        f"{localities['NODE_LOCAL']:,} ran NODE_LOCAL, on the node that holds what they read."
    )
    return act_lost_task_executor.play(stage, place.cluster, env, hot, asked)


def _prepare(output: Path) -> None:
    refuse_patterns(output)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInputError(
            f"{output} can't be used as --output: {error.strerror or error}"
        ) from error
    if not os.access(output, os.W_OK | os.X_OK):
        raise BadInputError(f"{output} can't be used as --output: it can't be written to")


def _story(
    stage: Stage, spark: SparkSession, title: str, tables: Mapping[str, ParquetTable]
) -> Story:
    if _is_tpch(spark, tables):
        return tpch_story(title, tables)
    return folder_story(stage, spark, title, tables)


def _is_tpch(spark: SparkSession, tables: Mapping[str, ParquetTable]) -> bool:
    return tables.keys() >= COLUMNS.keys() and all(
        {column.lower() for column in tables[name].read(spark).columns} >= columns.keys()
        for name, columns in COLUMNS.items()
    )


def _introduce(stage: Stage, place: Place, story: Story) -> None:
    width = max(len(table.name) for table in story.tables)
    for line, table in enumerate(story.tables):
        stage.say(
            f"{'Data     ' if line == 0 else '         '}{table.name:<{width}}  "
            f"{count(table.rows, 'row'):>16}  {size(table.bytes):>9}"
        )
    stage.say(place.description)
    if place.spread is not None:
        stage.say(
            f"Spread   the kept table is repartition({place.spread}), so that each node has some "
            "of it"
        )


def _close(stage: Stage, comparisons: list[Comparison], still_agrees: bool, picture: Path) -> int:
    plain, cached = totals(comparisons)
    agreed = all(each.agrees for each in comparisons) and still_agrees
    stage.headline(
        f"{len(comparisons)} questions: {seconds(plain)} on plain Spark, {seconds(cached)} with "
        f"cache()"
    )
    if agreed:
        stage.say("Every answer agreed, also after the loss.", style="green")
    else:
        stage.say("Answers differ: this is a bug in Holdfast.", style="bold red")
    stage.say(f"The times as a picture: {picture}")
    return 0 if agreed else 1
