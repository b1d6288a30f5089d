"""A tour of Holdfast, some minutes long, on a machine with two cores.

1. An analyst asks eight questions of one join: on plain Spark, and with `cache()`.
2. A kept partition is lost, and re-created when it is asked for.
3. Another program asks the same questions, and finds what the first one has kept.
4. The driver of a nightly job is killed, and the job goes on where it was.

Each answer is compared with plain Spark's. `make demo` and `holdfast demo` run this file; so does

    python examples/tour.py --output tour

which needs `pip install 'holdfast[demo]'` for the picture of the times.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.window import Window
from rich.console import Console
from rich.table import Table

import holdfast

ROWS = 12_000_000
_ROWS_OF_A_WARM_UP = 100_000
_LIFETIME = "1 h"
_ROWS_OF_AN_ORDER, _ORDERS_OF_A_CUSTOMER = 4, 10
_SECONDS_BETWEEN_LOOKS = 0.2

console = Console(highlight=False)


# -- the data -------------------------------------------------------------------------------------


def make_data(spark: SparkSession, folder: Path, rows: int) -> None:
    """Writes customers, their orders and the orders' items as Parquet, the same each time.

    Args:
        spark: any session.
        folder: where to; what is complete there already stays.
        rows: how many items.
    """
    orders = max(rows // _ROWS_OF_AN_ORDER, 1)
    customers = max(orders // _ORDERS_OF_A_CUSTOMER, 1)
    tables = {
        "customers": spark.range(customers).selectExpr(
            "id AS customer",
            "concat('Customer ', id) AS name",
            "element_at(array('building', 'machinery', 'household', 'furniture'), "
            "1 + int(pmod(xxhash64(id), 4))) AS segment",
        ),
        "orders": spark.range(orders).selectExpr(
            "id AS order",
            f"pmod(xxhash64(id), {customers}) AS customer",
            "date_add(DATE'2024-01-01', int(pmod(xxhash64(id, 1), 730))) AS ordered",
            "1 + int(pmod(xxhash64(id, 2), 5)) AS priority",
        ),
        "items": spark.range(rows).selectExpr(
            f"pmod(xxhash64(id), {orders}) AS order",
            "1 + int(pmod(xxhash64(id, 1), 50)) AS quantity",
            "decimal(pmod(xxhash64(id, 2), 100000)) / 100 AS price",
            "int(pmod(xxhash64(id, 3), 60)) AS days_to_ship",
            "pmod(xxhash64(id, 4), 20) = 0 AS returned",
            "element_at(array('air', 'rail', 'road', 'sea'), 1 + int(pmod(xxhash64(id, 5), 4))) "
            "AS mode",
        ),
    }
    for name, table in tables.items():
        if not (folder / name / "_SUCCESS").exists():
            table.write.mode("overwrite").parquet(str(folder / name))


def joined(session: SparkSession, folder: Path) -> DataFrame:
    """What every question is about: the items with their orders and customers."""
    customers, orders, items = (
        session.read.parquet(str(folder / name)) for name in ("customers", "orders", "items")
    )
    revenue = (F.col("quantity") * F.col("price")).cast("decimal(14,2)")
    return items.join(orders, "order").join(customers, "customer").withColumn("revenue", revenue)


# -- the questions --------------------------------------------------------------------------------


def _best_months(of: DataFrame) -> DataFrame:
    monthly = of.groupBy("segment", F.trunc("ordered", "month").alias("month")).agg(_revenue())
    best_first = Window.partitionBy("segment").orderBy(F.desc("revenue"), "month")
    return monthly.withColumn("place", F.row_number().over(best_first)).where("place = 1")


def _revenue() -> Any:
    return F.sum("revenue").alias("revenue")


QUESTIONS: dict[str, Callable[[DataFrame], DataFrame]] = {
    "Revenue by segment": lambda of: of.groupBy("segment").agg(_revenue()),
    "Revenue by quarter": lambda of: of.groupBy(F.trunc("ordered", "quarter").alias("q")).agg(
        _revenue(), F.count("*").alias("items")
    ),
    "The ten best customers": lambda of: (
        of.groupBy("customer", "name")
        .agg(_revenue())
        .orderBy(F.desc("revenue"), "customer")
        .limit(10)
    ),
    "Days to shipping by priority": lambda of: of.groupBy("priority").agg(
        F.sum("days_to_ship"), F.max("days_to_ship")
    ),
    "Returned goods by mode": lambda of: (
        of.where("returned").groupBy("mode").agg(F.sum("quantity"), _revenue())
    ),
    "The largest orders": lambda of: (
        of.groupBy("order", "ordered").agg(_revenue()).orderBy(F.desc("revenue"), "order").limit(10)
    ),
    "The best month of each segment": _best_months,
    "The orders of customer 4": lambda of: (
        of.where("customer = 4").groupBy("order", "ordered").agg(_revenue(), F.count("*"))
    ),
}


@dataclass(frozen=True)
class Answer:
    """The answer to a question.

    Attributes:
        rows: in an order of their own, as text.
        seconds: from asking until the last row has arrived.
    """

    rows: list[list[str]]
    seconds: float


def ask(question: str, of: DataFrame) -> Answer:
    """Asks one of `QUESTIONS`."""
    began = time.perf_counter()
    rows = QUESTIONS[question](of).collect()
    took = time.perf_counter() - began
    return Answer(sorted([str(value) for value in row] for row in rows), took)


# -- programs -------------------------------------------------------------------------------------


def local_session(output: Path) -> SparkSession:
    """A session on all cores of this machine, that says little."""
    spark = (
        SparkSession.builder.master("local[*]")
        .appName("a tour of Holdfast")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "3g")
        .config("spark.log.level", "ERROR")
        .config("spark.sql.shuffle.partitions", "8")
        # The nightly job's joins shuffle, whose stages are what a driver's successor goes on from.
        .config("spark.sql.autoBroadcastJoinThreshold", "4m")
        .config("spark.local.dir", str(output / "spark"))
        .config("spark.sql.warehouse.dir", str(output / "warehouse"))
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def kept_at(output: Path, **more: object) -> dict[str, object]:
    """The configuration that the programs of the tour share."""
    return {"intermediate-result-storage.directory": str(output / "kept"), **more}


@contextmanager
def program(role: str, output: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another program, with a JVM of its own, which is killed at the end of the block."""
    output.mkdir(parents=True, exist_ok=True)
    with (output / f"{role}.log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, __file__, "--role", role, "--output", str(output)],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            start_new_session=True,
        )
        try:
            yield process
        finally:
            _kill(process)


def _kill(process: subprocess.Popen[bytes]) -> bool:
    """Ends a program and its JVM at once; False where it had ended by itself."""
    lived = process.poll() is None
    if lived:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    return lived


def _end_of(process: subprocess.Popen[bytes], role: str, output: Path) -> Any:
    """What a program has said, when it has ended by itself."""
    if process.wait() != 0:
        raise SystemExit(f"The {role} program failed, see {output / role}.log")
    return json.loads((output / f"{role}.json").read_text(encoding="utf-8"))


def _say(role: str, output: Path, what: object) -> None:
    (output / f"{role}.json").write_text(json.dumps(what), encoding="utf-8")


# -- 1: questions, on plain Spark and with `cache()` ----------------------------------------------


def ask_all(of: DataFrame) -> dict[str, Answer]:
    """All questions, one after the other."""
    return {question: ask(question, of) for question in QUESTIONS}


def warm_up(spark: SparkSession, output: Path) -> None:
    """Lets both sides answer everything once, of a table that is small."""
    small = output / "warm-up"
    make_data(spark, small, _ROWS_OF_A_WARM_UP)
    ask_all(joined(spark, small))
    config = {"intermediate-result-storage.directory": str(small / "kept")}
    attached = holdfast.attach(spark, config)
    ask_all(joined(attached, small).cache())
    holdfast.detach(attached)
    shutil.rmtree(small)


# -- 2: a lost partition --------------------------------------------------------------------------


def lose_a_partition(session: Any) -> int:
    """Removes the largest partition that is kept, and says how many bytes that were."""
    (kept,) = (each for each in session.holdfast.list_cached() if each.location is not None)
    largest = max(kept.location.rglob("*.parquet"), key=lambda file: file.stat().st_size)
    size: int = largest.stat().st_size
    largest.unlink()
    return size


# -- 3: a second program --------------------------------------------------------------------------


def second(output: Path) -> None:
    """Asks the questions once more; there is no `cache()` in it."""
    spark = local_session(output)
    session = holdfast.attach(spark, kept_at(output))
    answers = {}
    for question in QUESTIONS:
        answer = ask(question, joined(session, output / "data"))
        answers[question] = [answer.rows, answer.seconds, _read(session)]
    _say("second", output, answers)
    holdfast.detach(session)
    spark.stop()


def _read(session: Any) -> bool:
    """Whether the last job has read something kept."""
    result = session.holdfast.last_job_result
    return any(each.outcome is holdfast.VertexOutcome.READ for each in result.vertices)


# -- 4: a killed driver ---------------------------------------------------------------------------


def nightly(output: Path) -> None:
    """The nightly job: what each customer has bought, and of which quarter most."""
    spark = local_session(output)
    session = holdfast.attach(
        spark,
        kept_at(
            output,
            **{
                "execution.batch.job-recovery.enabled": True,
                "execution.batch.job-recovery.min-vertex-input": "1 mb",
                "high-availability.storageDir": (output / "jobs").as_uri(),
            },
        ),
    )
    began = time.perf_counter()
    nightly_report(session, output).write.parquet(str(output / "report"))
    _say("nightly", output, time.perf_counter() - began)
    holdfast.detach(session)
    spark.stop()


def nightly_report(session: SparkSession, output: Path) -> DataFrame:
    """The job's query."""
    table = joined(session, output / "data")
    quarter = F.trunc("ordered", "quarter").alias("quarter")
    of_customers = table.groupBy("customer", quarter).agg(_revenue())
    best_first = Window.partitionBy("customer").orderBy(F.desc("revenue"), "quarter")
    best = of_customers.withColumn("place", F.row_number().over(best_first)).where("place = 1")
    return best.join(table.groupBy("customer").agg(F.count("*").alias("items")), "customer")


def vertices_done(output: Path) -> int:
    """How many vertices of a job that runs are finished, as `holdfast jobs` says."""
    told = subprocess.run(
        [sys.executable, "-m", "holdfast", "jobs", "--json", "--storage-dir", str(output / "jobs")],
        capture_output=True,
        text=True,
    )
    jobs = json.loads(told.stdout) if told.returncode == 0 else []
    return max((job["vertices_done"] for job in jobs if job["state"] == "running"), default=0)


def kill_half_way(output: Path) -> tuple[int, float] | None:
    """Kills the nightly job's driver when something is done.

    Returns:
        how many vertices were done, and the age of the program in seconds; None where the job was
        over before.
    """
    began = time.perf_counter()
    with program("nightly", output) as driver:
        while driver.poll() is None:
            done = vertices_done(output)
            if done > 0 and _kill(driver):
                return done, time.perf_counter() - began
            time.sleep(_SECONDS_BETWEEN_LOOKS)
        _end_of(driver, "nightly", output)
    return None


# -- the tour -------------------------------------------------------------------------------------


class Tour:
    """What has been shown, and whether every answer was plain Spark's."""

    def __init__(self) -> None:
        self.agrees = True
        self._began = time.perf_counter()
        self._acts: list[tuple[str, str, str]] = []

    def headline(self, text: str) -> None:
        console.print(f"\n[{time.perf_counter() - self._began:4.0f} s] {text}", style="bold")

    def act(self, what: str, figure: str, agrees: bool) -> None:
        """Something that was shown, for the closing table."""
        self.agrees = self.agrees and agrees
        self._acts.append((what, figure, "yes" if agrees else "NO"))
        console.print(f"  {what}: {figure}", style=None if agrees else "bold red")

    def table(self) -> Table:
        table = Table("", "", "plain Spark's answer", title="What was shown")
        for row in self._acts:
            table.add_row(*row)
        return table


def play(output: Path, rows: int) -> bool:
    """Plays everything.

    Returns:
        whether every answer was plain Spark's.
    """
    tour = Tour()
    for folder in (output / "kept", output / "jobs", output / "report"):
        shutil.rmtree(folder, ignore_errors=True)
    output.mkdir(parents=True, exist_ok=True)
    tour.headline(f"The data: {rows:,} items of {rows // _ROWS_OF_AN_ORDER:,} orders")
    spark = local_session(output)
    make_data(spark, output / "data", rows)
    warm_up(spark, output)

    tour.headline(f"{len(QUESTIONS)} questions of one join")
    plain = ask_all(joined(spark, output / "data"))
    console.print(f"  on plain Spark: {_total(plain):.1f} s")
    session = holdfast.attach(spark, kept_at(output))
    hot = joined(session, output / "data").cache(lifetime=_LIFETIME)
    cached = ask_all(hot)
    console.print(session.holdfast.list_cached(), markup=False)
    ratio = _total(cached) / _total(plain)
    agree = _same(plain, cached)
    figure = f"{_total(plain):.1f} s on plain Spark, {_total(cached):.1f} s with cache()"
    tour.act(f"{len(QUESTIONS)} questions", f"{figure}, {ratio:.0%}", agree)

    tour.headline("A kept partition is lost")
    lost = lose_a_partition(session)
    first = next(iter(QUESTIONS))
    again = ask(first, hot)
    console.print(session.holdfast.last_job_result, markup=False)
    tour.act(
        f"{lost:,} bytes lost",
        f"asked again: {again.seconds:.1f} s",
        again.rows == plain[first].rows,
    )

    tour.headline("A second program asks the same, without cache()")
    report = sorted(map(repr, nightly_report(spark, output).collect()))
    holdfast.detach(session)
    spark.stop()
    with program("second", output) as process:
        told = _end_of(process, "second", output)
    answers = {question: Answer(rows, took) for question, (rows, took, _) in told.items()}
    found = sum(is_read for _, _, is_read in told.values())
    tour.act(
        "a second program",
        f"{found} of {len(told)} found, {_total(answers):.1f} s",
        _same(plain, answers) and found == len(told),
    )

    tour.headline("The driver of a nightly job is killed")
    killed = kill_half_way(output)
    if killed is None:
        tour.act("a killed driver", "the job was over before it was killed", True)
    else:
        done, age = killed
        console.print(f"  kill -9 after {age:.1f} s, {done} vertices were done; started again")
        with program("nightly", output) as process:
            took = _end_of(process, "nightly", output)
    spark = local_session(output)
    rows_now = sorted(map(repr, spark.read.parquet(str(output / "report")).collect()))
    if killed is not None:
        tour.act("a killed driver", f"went on, and was done in {took:.1f} s", rows_now == report)
    spark.stop()

    draw(plain, cached, output / "times.png")
    console.print(_times(plain, cached))
    console.print(tour.table())
    console.print(
        f"The picture: {output / 'times.png'}", f"What is kept: {output / 'kept'}", sep="\n"
    )
    if not tour.agrees:
        console.print("Answers differ: this is a bug in Holdfast.", style="bold red")
    return tour.agrees


def _total(answers: dict[str, Answer]) -> float:
    return sum(each.seconds for each in answers.values())


def _same(some: dict[str, Answer], others: dict[str, Answer]) -> bool:
    return all(others[question].rows == answer.rows for question, answer in some.items())


def _times(plain: dict[str, Answer], cached: dict[str, Answer]) -> Table:
    table = Table("question", "plain Spark", "with cache()", title="The questions")
    for question, answer in plain.items():
        table.add_row(question, f"{answer.seconds:.2f} s", f"{cached[question].seconds:.2f} s")
    table.add_row("all", f"{_total(plain):.2f} s", f"{_total(cached):.2f} s", style="bold")
    return table


def draw(plain: dict[str, Answer], cached: dict[str, Answer], picture: Path) -> None:
    """Draws the times as bars, side by side."""
    figure = Figure(figsize=(9, 5), layout="constrained")
    axes = figure.subplots()
    places = range(len(plain))
    for shift, label, answers in ((0.2, "plain Spark", plain), (-0.2, "cache()", cached)):
        heights = [each.seconds for each in answers.values()]
        axes.barh([place + shift for place in places], heights, 0.4, label=label)
    axes.set_yticks(list(places), list(plain))
    axes.invert_yaxis()
    axes.set_xlabel("seconds")
    axes.legend()
    figure.savefig(picture, dpi=120)


def main(arguments: Sequence[str] | None = None) -> int:
    """Plays the tour, or one of its programs.

    Returns:
        0 where every answer was plain Spark's, else 1.
    """
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--rows", type=int, default=ROWS, help="of items (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=Path("holdfast-demo"), metavar="DIR")
    parser.add_argument("--role", choices=["second", "nightly"], help=argparse.SUPPRESS)
    given = parser.parse_args(arguments)
    output = given.output.absolute()
    if given.role is not None:
        {"second": second, "nightly": nightly}[given.role](output)
        return 0
    return 0 if play(output, given.rows) else 1


if __name__ == "__main__":
    sys.exit(main())
