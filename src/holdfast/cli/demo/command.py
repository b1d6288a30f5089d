"""`holdfast demo` from its options to its exit code."""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

import holdfast
from holdfast.cli.demo import act_analysts_session, act_lost_partition
from holdfast.cli.demo.amounts import count, seconds, size
from holdfast.cli.demo.chart import draw_chart
from holdfast.cli.demo.comparison import Comparison, totals
from holdfast.cli.demo.errors import BadInputError, DemoError
from holdfast.cli.demo.folder_story import folder_story
from holdfast.cli.demo.parquet_folder import ParquetTable, refuse_patterns, tables_of
from holdfast.cli.demo.spark_session import demo_session, driver_memory_mib, run_interruptibly
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
    """

    scale: float
    data: Path | None
    output: Path


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
    stage.say(
        f"Holdfast {holdfast.__version__}: an analyst's session, on plain Spark and with cache()",
        style="bold",
    )
    if options.data is None:
        title = f"TPC-H at scale {scale_name(options.scale)}"
        tables = tpch_tables(stage, options.output, options.scale)
    else:
        title = options.data.expanduser().absolute().name or str(options.data)
        tables = tables_of(options.data)
    log = options.output / "spark.log"
    with demo_session(log) as spark:
        try:
            return run_interruptibly(
                spark, lambda: _play(stage, spark, title, tables, options.output)
            )
        except (PySparkException, Py4JError) as error:
            reason = str(error).strip().partition("\n")[0]
            raise DemoError(f"Spark failed: {reason}\nMore of it is in {log}") from error
        except HoldfastError as error:
            raise DemoError(str(error)) from error


def _play(
    stage: Stage,
    spark: SparkSession,
    title: str,
    tables: Mapping[str, ParquetTable],
    output: Path,
) -> int:
    story = _story(stage, spark, title, tables)
    _introduce(stage, spark, story)
    kept = output / "kept"
    try:
        act_analysts_session.warm_up(stage, spark, story, kept)
        with act_analysts_session.environment(spark, kept) as env:
            hot = story.build(env).cache()
            comparisons = act_analysts_session.play(stage, spark, env, hot, story)
            still_agrees = act_lost_partition.play(stage, env, hot, comparisons[0])
    finally:
        with suppress(OSError):  # another demo may be at work in it
            kept.rmdir()
    picture = output / "times.png"
    draw_chart(comparisons, f"{story.title}: an analyst's session", picture)
    return _close(stage, comparisons, still_agrees, picture)


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


def _introduce(stage: Stage, spark: SparkSession, story: Story) -> None:
    width = max(len(table.name) for table in story.tables)
    for place, table in enumerate(story.tables):
        stage.say(
            f"{'Data     ' if place == 0 else '         '}{table.name:<{width}}  "
            f"{count(table.rows, 'row'):>16}  {size(table.bytes):>9}"
        )
    stage.say(
        f"Machine  {count(os.cpu_count() or 1, 'core')}, {driver_memory_mib()} MiB for Spark "
        f"{spark.version}"
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
