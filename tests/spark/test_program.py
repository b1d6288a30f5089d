"""Unchanged programs: `holdfast run`, `python -m holdfast` and a notebook's kernel."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from jupyter_client.manager import start_new_kernel
from pyspark.sql import SparkSession

from holdfast.api.table_session import TableSession

PROGRAM = """
import sys
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
import helping

def odd(n: int) -> bool:
    return n % 2 == 1

if __name__ == "__main__":
    spark = (
        SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
        .config("spark.sql.shuffle.partitions", "2").getOrCreate()
    )
    again = SparkSession.builder.getOrCreate()
    numbers = spark.range(int(sys.argv[1])).where(F.udf(odd, "boolean")("id"))
    counts = numbers.groupBy((F.col("id") % 3).alias("k")).count().cache()
    print(sys.argv[1:], __name__, __file__, helping.NAME, again is spark)
    print(sorted(counts.collect()), counts.where("k > 0").count())
    print(spark.sql("SELECT sum(count) AS s FROM {c}", c=counts).collect())
    if hasattr(spark, "holdfast"):
        last = spark.holdfast.last_job_result
        print([each.outcome.value for each in last.vertices], file=sys.stderr)
    if "fail" in sys.argv:
        raise ValueError("as asked")
    if "leave" in sys.argv:
        sys.exit(7)
"""

# Nobody has activated the virtual environment that the tests run in.
ENVIRONMENT = {**os.environ, "PYSPARK_PYTHON": sys.executable}


@pytest.fixture
def program(tmp_path: Path) -> Path:
    (tmp_path / "helping.py").write_text("NAME = 'beside the program'\n", encoding="utf-8")
    path = tmp_path / "counting.py"
    path.write_text(PROGRAM, encoding="utf-8")
    return path


def ran(*command: object, cwd: Path) -> subprocess.CompletedProcess[str]:
    given = [sys.executable, *map(str, command)]
    return subprocess.run(
        given, capture_output=True, text=True, cwd=cwd, env=ENVIRONMENT, timeout=120, check=False
    )


def test_a_program_prints_what_it_prints_without_holdfast(program: Path, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    plain = ran(program, 30, "--flag", cwd=elsewhere)
    attached = ran("-m", "holdfast", program, 30, "--flag", cwd=elsewhere)
    assert plain.returncode == attached.returncode == 0, attached.stderr
    assert attached.stdout == plain.stdout
    assert "['read from cache', 'run']" in attached.stderr
    assert "read from cache" not in plain.stderr


@pytest.mark.soak
def test_a_module_runs_and_its_exit_code_is_the_commands(program: Path) -> None:
    result = ran("-m", "holdfast", "-m", "counting", 9, "leave", cwd=program.parent)
    assert result.returncode == 7, result.stderr


@pytest.mark.parametrize("setting", ["heartbeat.intervall=5 s", "heartbeat.interval=soon"])
def test_a_wrong_setting_is_one_line_before_spark_starts(tmp_path: Path, setting: str) -> None:
    (tmp_path / "ran.py").write_text("print('ran')\n", encoding="utf-8")
    result = ran("-m", "holdfast", "run", "-c", setting, "ran.py", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    (line,) = result.stderr.splitlines()
    assert line.startswith("holdfast run: configuration key 'heartbeat.interval")


def test_what_only_the_session_shows_to_be_wrong_is_one_line_as_well(program: Path) -> None:
    setting = "execution.batch.job-recovery.enabled=true"
    result = ran("-m", "holdfast", "run", "-c", setting, program, 9, cwd=program.parent)
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1].startswith("holdfast run: configuration key 'high-avail")
    assert "Traceback" not in result.stderr


def test_a_wrong_setting_starts_no_session() -> None:
    code = (
        "import holdfast\n"
        "for make in holdfast.attach, holdfast.Environment:\n"
        "    try:\n"
        "        make(config={'heartbeat.interval': 'soon'})\n"
        "    except holdfast.errors.ConfigurationError:\n"
        "        from pyspark import SparkContext\n"
        "        print(SparkContext._gateway)\n"
    )
    assert ran("-c", code, cwd=Path.cwd()).stdout == "None\nNone\n"


def test_an_error_is_shown_from_the_programs_first_line(program: Path) -> None:
    result = ran("-m", "holdfast", program, 9, "fail", cwd=program.parent)
    assert result.returncode == 1
    shown = result.stderr[result.stderr.index("Traceback") :].splitlines()
    assert f'File "{program}"' in shown[1]
    assert shown[-1] == "ValueError: as asked"


REUSING = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
spark.range(100).write.mode("overwrite").parquet("numbers")
for _ in range(2):
    numbers = spark.read.parquet("numbers")
    rows = numbers.groupBy((numbers.id % 3).alias("k")).count().collect()
reused = spark.holdfast._implicit.live
print(sum(row["count"] for row in rows), 0 if reused is None else reused.uses)
"""


def test_one_flag_has_queries_reuse_shuffles(tmp_path: Path) -> None:
    (tmp_path / "reusing.py").write_text(REUSING, encoding="utf-8")
    assert ran("-m", "holdfast", "reusing.py", cwd=tmp_path).stdout == "100 0\n"
    assert ran("-m", "holdfast", "--implicit", "reusing.py", cwd=tmp_path).stdout == "100 1\n"


INTERRUPTED = """
import os, signal, time
from pyspark.sql import SparkSession

def first_row_interrupts(rows):
    os.kill(DRIVER, signal.SIGINT)
    time.sleep(60)
    yield from rows

if __name__ == "__main__":
    spark = (
        SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
    )
    DRIVER = os.getpid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    spark.range(3).mapInPandas(first_row_interrupts, "id long").cache().count()
"""


def test_an_interrupt_is_shown_in_a_few_lines(tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text(INTERRUPTED, encoding="utf-8")
    result = ran("-m", "holdfast", "interrupted.py", cwd=tmp_path)
    assert result.returncode != 0 and "KeyboardInterrupt" in result.stderr
    # Spark's own log of a killed task has a page of Java for each.
    assert "\tat org.apache.spark" not in result.stderr
    assert result.stderr.count("Traceback") <= 1


def test_a_program_without_a_session_is_told_so(tmp_path: Path) -> None:
    (tmp_path / "idle.py").write_text("print('idle')\n", encoding="utf-8")
    result = ran("-m", "holdfast", "idle.py", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, "idle\n")
    assert "created no session" in result.stderr
    missing = ran("-m", "holdfast", "missing.py", cwd=tmp_path)
    assert missing.returncode == 2
    assert "there is no program missing.py" in missing.stderr


@pytest.mark.parametrize("setting", ["alone", "=value", ""])
def test_a_setting_is_a_key_and_a_value(tmp_path: Path, setting: str) -> None:
    result = ran("-m", "holdfast", "run", "-c", setting, "idle.py", cwd=tmp_path)
    assert result.returncode == 2
    assert "is not KEY=VALUE" in result.stderr


def test_the_extension_attaches_the_session_of_the_shell(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = InteractiveShell()
    shell.user_ns["spark"] = spark
    shell.run_line_magic("load_ext", "holdfast")
    try:
        assert isinstance(spark, TableSession)
        shell.run_cell("hot = spark.range(10).selectExpr('id % 3 AS k').distinct().cache()")
        shell.run_cell("hot.count()")
        capsys.readouterr()
        shell.run_line_magic("holdfast", "")
        assert "produced" in capsys.readouterr().out
        shell.run_line_magic("holdfast", "hot")
        assert "read" in capsys.readouterr().out
        shell.run_line_magic("holdfast", "cold")
        assert "cold is not the name of a DataFrame" in capsys.readouterr().out
    finally:
        shell.run_line_magic("unload_ext", "holdfast")
    assert type(spark) is SparkSession
    assert shell.find_line_magic("holdfast") is None


class Notebook:
    """A kernel, and the cells that are run in it."""

    def __init__(self, client: Any) -> None:
        self.client = client

    def begin(self, code: str) -> str:
        return str(self.client.execute(code))

    def outputs(self, cell: str) -> list[dict[str, Any]]:
        """What a cell has shown, once it is over."""
        found: list[dict[str, Any]] = []
        while True:
            message = self.client.get_iopub_msg(timeout=120)
            if message["parent_header"].get("msg_id") != cell:
                continue
            if message["content"].get("execution_state") == "idle":
                return found
            found.append({"type": message["msg_type"], **message["content"]})

    def text(self, code: str) -> str:
        shown = self.outputs(self.begin(code))
        assert not [each for each in shown if each["type"] == "error"], shown
        return "".join(
            each.get("text") or each.get("data", {}).get("text/plain", "") for each in shown
        )


def results(shown: list[dict[str, Any]]) -> list[str]:
    """The values among what a cell has shown."""
    return [each["data"]["text/plain"] for each in shown if each["type"] == "execute_result"]


@contextmanager
def kernel(home: Path, **environment: str) -> Iterator[tuple[Any, Notebook]]:
    manager, client = start_new_kernel(
        kernel_name="python3", cwd=str(home), env=ENVIRONMENT | environment
    )
    try:
        yield manager, Notebook(client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[tuple[Any, Notebook]]:
    with kernel(tmp_path) as started:
        yield started


def test_a_notebook_has_the_master_and_the_settings_that_spark_is_configured_with(
    tmp_path: Path,
) -> None:
    kept = tmp_path / "kept"
    (tmp_path / "spark-defaults.conf").write_text(
        f"spark.master local[3]\n"
        f"spark.ui.enabled false\n"
        f"spark.holdfast.intermediate-result-storage.directory {kept}\n",
        encoding="utf-8",
    )
    of_server = "--conf spark.holdfast.implicit-cache.enabled=true pyspark-shell"
    settings = {"SPARK_CONF_DIR": str(tmp_path), "PYSPARK_SUBMIT_ARGS": of_server}
    with kernel(tmp_path, **settings) as (_, cells):
        cells.text("%load_ext holdfast")
        shown = cells.outputs(cells.begin("spark.sparkContext.master"))
        assert results(shown) == ["'local[3]'"]
        assert kept.is_dir()
        cells.text("spark.range(100).write.parquet('numbers')")
        query = "spark.read.parquet('numbers').groupBy('id').count().collect()"
        cells.text(f"for _ in range(2): {query}")
        shown = cells.outputs(cells.begin("spark.holdfast.last_job_result.reused_exchanges"))
        assert results(shown) == ["1"]


def test_a_notebook_shows_progress_and_its_stop_button_stops_the_job(
    notebook: tuple[Any, Notebook],
) -> None:
    manager, cells = notebook
    cells.text(
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.master('local[2]').config('spark.ui.enabled', 'false')"
        ".getOrCreate()"
    )
    cells.text("%load_ext holdfast")
    slow = (
        "import time\n"
        "def nap(rows):\n"
        "    time.sleep({})\n"
        "    yield from rows\n"
        "spark.range(0, 8, 1, 4).mapInPandas(nap, 'id long').cache().count()"
    )
    shown = cells.outputs(cells.begin(slow.format(1.5)))
    assert "tasks" in str(shown)
    assert results(shown) == ["8"]
    before = time.monotonic()
    cell = cells.begin(slow.format(60))
    while "tasks" not in str(cells.client.get_iopub_msg(timeout=60)["content"]):
        pass
    manager.interrupt_kernel()
    errors = [each for each in cells.outputs(cell) if each["type"] == "error"]
    assert [each["ename"] for each in errors] == ["KeyboardInterrupt"]
    # A job that a busy machine makes slow is shown, too.
    assert results(cells.outputs(cells.begin("spark.range(3).count()"))) == ["3"]
    assert time.monotonic() - before < 55
    assert "produced" in cells.text("%holdfast") or "run" in cells.text("%holdfast")
