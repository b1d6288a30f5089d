"""`holdfast demo` from its options to its exit code."""

from __future__ import annotations

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from threading import Event

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import holdfast
from holdfast.cli.amounts import count, seconds, size
from holdfast.cli.demo import (
    act_analysts_session,
    act_killed_driver,
    act_lost_partition,
    act_lost_task_executor,
    act_second_program,
)
from holdfast.cli.demo.cluster_place import on_cluster, refuse_without_namespaces
from holdfast.cli.demo.comparison import AnswerComparison, totals
from holdfast.cli.demo.errors import BadDemoInputError, DemoError
from holdfast.cli.demo.extra import chart
from holdfast.cli.demo.folder_story import folder_story
from holdfast.cli.demo.large_orders import can_be_asked
from holdfast.cli.demo.parquet_folder import ParquetTable, refuse_patterns, tables_of
from holdfast.cli.demo.partition_hosts import show_hosts
from holdfast.cli.demo.place import Place, kept_in, on_this_machine
from holdfast.cli.demo.reading_tasks import ReadingTasks
from holdfast.cli.demo.spark_session import run_interruptibly
from holdfast.cli.demo.stage import Stage
from holdfast.cli.demo.story import Story
from holdfast.cli.demo.tpch_data import scale_name, tpch_folder, tpch_tables
from holdfast.cli.demo.tpch_story import COLUMNS, tpch_story
from holdfast.cli.local_cluster.local_cluster import LocalCluster
from holdfast.errors import HoldfastError

# Longer than anybody looks at what is shown.
_LIFETIME = "1 h"


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
    draw_chart = chart().draw_chart
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
        folder = tpch_folder(options.output, options.scale)
        title = f"TPC-H at scale {scale_name(options.scale)}"
        tables = tpch_tables(stage, options.output, options.scale)
    else:
        folder = options.data.expanduser().absolute()
        title = folder.name or str(options.data)
        tables = tables_of(folder)
    if options.cluster:
        stage.say("Starting a Spark cluster: a master, two workers, two task executors, a driver")
    play_on = on_cluster if options.cluster else on_this_machine
    with play_on(options.output, options.output / "spark.log") as place:
        try:
            session = run_interruptibly(
                place.spark,
                lambda interrupted: _play_session(
                    stage, place, title, tables, options.output, interrupted
                ),
            )
        except (PySparkException, Py4JError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise DemoError(f"Spark failed: {reason}\nSee {place.logs} for details") from error
        except HoldfastError as error:
            raise DemoError(str(error)) from error
    # The session has ended by now, so that the next act has the machine to itself.
    recovered = None
    if can_be_asked(tables):
        recovered = act_killed_driver.play(stage, folder, options.output)
    else:
        stage.say("The killed driver is shown on TPC-H data only: run it with --scale.")
    picture = options.output / "times.png"
    draw_chart(session.comparisons, f"{session.title}: an analyst's session", picture)
    return _close(stage, session, recovered, picture)


@dataclass(frozen=True)
class _Session:
    """The first two acts.

    Attributes:
        title: what data they were about.
        comparisons: the questions with their answers.
        still_agrees: whether the answers of the second program, and those after the loss, were
            the same.
    """

    title: str
    comparisons: list[AnswerComparison]
    still_agrees: bool


def _play_session(
    stage: Stage,
    place: Place,
    title: str,
    tables: Mapping[str, ParquetTable],
    output: Path,
    interrupted: Event,
) -> _Session:
    story = _story(stage, place.spark, title, tables)
    _introduce(stage, place, story)
    act_analysts_session.warm_up(stage, place, story)
    if place.cluster is not None:
        return _play_on_cluster(stage, place, place.cluster, story)
    with place.environment(_LIFETIME) as env:
        hot = place.hot(story.build(env))
        comparisons = act_analysts_session.play(stage, place.spark, env, hot, story)
    agree = act_second_program.play(stage, place, story, comparisons, output, interrupted)
    with place.environment(_LIFETIME) as env:
        hot = place.hot(story.build(env))
        agree = act_lost_partition.play(stage, env, hot, comparisons[0]) and agree
    return _Session(story.title, comparisons, agree)


def _play_on_cluster(stage: Stage, place: Place, cluster: LocalCluster, story: Story) -> _Session:
    with place.environment() as env:
        hot = place.hot(story.build(env))
        reading = ReadingTasks(place.spark, env)
        comparisons = act_analysts_session.play(stage, place.spark, env, hot, story, reading.ask)
        show_hosts(stage, cluster, env)
        localities = reading.localities()
        stage.say(
            f"Of {count(localities.total(), 'task')} that read kept partitions, "
            f"{localities['NODE_LOCAL']:,} ran NODE_LOCAL, on the node that holds what they read."
        )
        agrees = act_lost_task_executor.play(stage, cluster, env, hot, comparisons[0])
    return _Session(story.title, comparisons, agrees)


def _prepare(output: Path) -> None:
    refuse_patterns(output)
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadDemoInputError(
            f"{output} can't be used as --output: {error.strerror or error}"
        ) from error
    if not os.access(output, os.W_OK | os.X_OK):
        raise BadDemoInputError(f"{output} can't be used as --output: it is not writable")


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


def _close(stage: Stage, session: _Session, recovered: bool | None, picture: Path) -> int:
    plain, cached = totals(session.comparisons)
    agreed = all(each.agrees for each in session.comparisons) and session.still_agrees
    stage.headline(
        f"{len(session.comparisons)} questions: {seconds(plain)} on plain Spark, "
        f"{seconds(cached)} with cache()"
    )
    if agreed and recovered is not False:
        after = "the loss" if recovered is None else "the loss and the kill"
        stage.say(f"Every answer agreed, also after {after}.", style="green")
    else:
        stage.say("Answers differ: this is a bug in Holdfast.", style="bold red")
    stage.say(f"Chart of the times: {picture}")
    kept = kept_in(picture.parent)
    if kept.is_dir():
        stage.say(f"Look at what was kept: holdfast ui --directory {shlex.quote(str(kept))}")
    return 0 if agreed and recovered is not False else 1
