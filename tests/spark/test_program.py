"""Unchanged programs: `holdfast run`, `python -m holdfast` and a notebook's kernel."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.interactiveshell import InteractiveShell
from jupyter_client.manager import start_new_kernel
from pyspark.sql import SparkSession

from tests.short_lived_jvm import OF_PROGRAMS, environment_of_program

PROGRAM = """
import sys
from pyspark.sql import SparkSession
import helping

if __name__ == "__main__":
    spark = SparkSession.builder.master("local[1]").getOrCreate()
    assert spark.range(int(sys.argv[1])).cache().count() == 9
    sys.exit(7)
"""

# The virtual environment that the tests run in need not be an active one.
ENVIRONMENT = os.environ | environment_of_program() | {"PYSPARK_PYTHON": sys.executable}


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


@pytest.mark.soak
def test_a_module_runs_and_its_exit_code_is_the_command_s(program: Path) -> None:
    result = ran("-m", "holdfast", "-m", "counting", 9, cwd=program.parent)
    assert result.returncode == 7, result.stderr


SETTINGS = {
    "heartbeat.intervall=5 s": "configuration key 'heartbeat.interval",
    "heartbeat.interval=soon": "configuration key 'heartbeat.interval'",
    "alone": "is not KEY=VALUE",
    "=value": "is not KEY=VALUE",
}


@pytest.mark.parametrize("setting", SETTINGS)
@pytest.mark.sampled(4)
def test_a_wrong_setting_is_said_before_spark_starts(tmp_path: Path, setting: str) -> None:
    (tmp_path / "ran.py").write_text("print('ran')\n", encoding="utf-8")
    result = ran("-m", "holdfast", "run", "-c", setting, "ran.py", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (2, "")
    last = result.stderr.splitlines()[-1]
    assert last.startswith("holdfast run: ") and SETTINGS[setting] in last
    assert "Traceback" not in result.stderr


@pytest.mark.soak
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


INTERRUPTED = """
import os, signal, time
from pyspark.sql import SparkSession

def first_row_interrupts(rows):
    os.kill(DRIVER, signal.SIGINT)
    time.sleep(60)
    yield from rows

if __name__ == "__main__":
    spark = SparkSession.builder.master("local[1]").getOrCreate()
    spark.range(100).write.parquet("numbers")
    for _ in range(2):
        spark.read.parquet("numbers").groupBy("id").count().collect()
    print(spark.holdfast.last_job_result.reused_exchanges, flush=True)
    DRIVER = os.getpid()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    spark.range(3).mapInPandas(first_row_interrupts, "id long").cache().count()
"""


@pytest.mark.soak
def test_a_flag_has_queries_reuse_shuffles_and_an_interrupt_is_a_few_lines(tmp_path: Path) -> None:
    (tmp_path / "interrupted.py").write_text(INTERRUPTED, encoding="utf-8")
    result = ran("-m", "holdfast", "--implicit", "interrupted.py", cwd=tmp_path)
    assert result.stdout == "1\n"
    assert result.returncode != 0 and "KeyboardInterrupt" in result.stderr
    # Spark's own log of a killed task has a page of Java for each.
    assert "\tat org.apache.spark" not in result.stderr
    assert result.stderr.count("Traceback") <= 1


def test_a_program_without_a_session_is_said_to_have_none(tmp_path: Path) -> None:
    (tmp_path / "idle.py").write_text("print('idle')\n", encoding="utf-8")
    result = ran("-m", "holdfast", "idle.py", cwd=tmp_path)
    assert (result.returncode, result.stdout) == (0, "idle\n")
    assert "created no session" in result.stderr
    missing = ran("-m", "holdfast", "missing.py", cwd=tmp_path)
    assert missing.returncode == 2 and "there is no program missing.py" in missing.stderr


def test_the_extension_attaches_the_session_of_the_shell(
    spark: SparkSession, capsys: pytest.CaptureFixture[str]
) -> None:
    shell = InteractiveShell()
    shell.user_ns["spark"] = spark
    shell.run_line_magic("load_ext", "holdfast")
    try:
        shell.run_cell("hot = spark.range(10).selectExpr('id % 3 AS k').distinct().cache()")
        shell.run_cell("hot.count()")
        for given, said in {
            "": "produced",
            "hot": "read",
            "cold": "cold is not the name of a DataFrame",
        }.items():
            capsys.readouterr()
            shell.run_line_magic("holdfast", given)
            assert said in capsys.readouterr().out
    finally:
        shell.run_line_magic("unload_ext", "holdfast")
    assert type(spark) is SparkSession
    assert shell.find_line_magic("holdfast") is None


class Notebook:
    """A kernel, and the cells that are run in it."""

    def __init__(self, manager: Any, client: Any) -> None:
        self.manager, self.client = manager, client

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

    def results(self, code: str) -> list[str]:
        """The values among what a cell shows, which shows no error."""
        shown = self.outputs(self.begin(code))
        assert not [each for each in shown if each["type"] == "error"], shown
        return [each["data"]["text/plain"] for each in shown if each["type"] == "execute_result"]


@pytest.fixture
def notebook(tmp_path: Path) -> Iterator[Notebook]:
    """Started by a server that has settings of Spark's."""
    settings = OF_PROGRAMS | {
        "spark.master": "local[3]",
        "spark.holdfast.intermediate-result-storage.directory": str(tmp_path / "kept"),
    }
    lines = [f"{key} {value}\n" for key, value in settings.items()]
    (tmp_path / "spark-defaults.conf").write_text("".join(lines), encoding="utf-8")
    of_server = "--conf spark.holdfast.implicit-cache.enabled=true pyspark-shell"
    server = ENVIRONMENT | {"SPARK_CONF_DIR": str(tmp_path), "PYSPARK_SUBMIT_ARGS": of_server}
    manager, client = start_new_kernel(kernel_name="python3", cwd=str(tmp_path), env=server)
    try:
        yield Notebook(manager, client)
    finally:
        client.stop_channels()
        manager.shutdown_kernel(now=True)


def test_a_notebook_has_its_server_s_settings_shows_progress_and_is_stopped(
    notebook: Notebook, tmp_path: Path
) -> None:
    notebook.results("%load_ext holdfast")
    assert notebook.results("spark.sparkContext.master") == ["'local[3]'"]
    assert (tmp_path / "kept").is_dir()
    notebook.results("spark.range(100).write.parquet('numbers')")
    query = "spark.read.parquet('numbers').groupBy('id').count().collect()"
    notebook.results(f"for _ in range(2): {query}")
    assert notebook.results("spark.holdfast.last_job_result.reused_exchanges") == ["1"]

    slow = (
        "import time\n"
        "def nap(rows):\n"
        "    time.sleep({})\n"
        "    yield from rows\n"
        "spark.range(0, 8, 1, 4).mapInPandas(nap, 'id long').cache().count()"
    )
    shown = notebook.outputs(notebook.begin(slow.format(1)))
    assert "tasks" in str(shown) and "'8'" in str(shown)
    before = time.monotonic()
    cell = notebook.begin(slow.format(60))
    while "tasks" not in str(notebook.client.get_iopub_msg(timeout=60)["content"]):
        pass
    notebook.manager.interrupt_kernel()
    errors = [each for each in notebook.outputs(cell) if each["type"] == "error"]
    assert [each["ename"] for each in errors] == ["KeyboardInterrupt"]
    # A job that a busy machine makes slow is shown, too.
    assert notebook.results("spark.range(3).count()") == ["3"]
    assert time.monotonic() - before < 55
    assert "run" in str(notebook.outputs(notebook.begin("%holdfast")))
