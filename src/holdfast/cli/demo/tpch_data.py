"""TPC-H's tables, generated once for each scale."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from holdfast.cli.amounts import size
from holdfast.cli.demo.errors import BadDemoInputError, DemoError
from holdfast.cli.demo.extra import INSTALL
from holdfast.cli.demo.parquet_folder import ParquetTable, tables_of
from holdfast.cli.demo.stage import Stage

_TABLES = frozenset(
    ("customer", "lineitem", "nation", "orders", "part", "partsupp", "region", "supplier")
)
_BYTES_AT_SCALE_1 = 362e6
# The data, as much again for what is kept, and room for Spark's shuffles.
_NEEDED_AT_SCALE_1 = 1.2e9
_GENERATOR = "tpchgen-cli"


def scale_name(scale: float) -> str:
    """The scale as it stands in names: `1`, `0.01`."""
    return repr(scale).removesuffix(".0")


def tpch_folder(output: Path, scale: float) -> Path:
    """Where the tables of a scale lie.

    Args:
        output: the folder under which all scales lie.
        scale: how large they are, roughly in GB.
    """
    return output / f"tpch-{scale_name(scale)}"


def tpch_tables(stage: Stage, output: Path, scale: float) -> dict[str, ParquetTable]:
    """TPC-H's tables, generated unless they are there already.

    Args:
        stage: shows the progress.
        output: the folder under which they lie.
        scale: how large they are, roughly in GB.

    Raises:
        BadDemoInputError: when there isn't room for them.
        DemoError: when they can't be generated.
    """
    folder = tpch_folder(output, scale)
    tables = _whole(folder)
    if tables is not None:
        stage.say(f"TPC-H at scale {scale_name(scale)} already exists: {folder}")
        return tables
    _refuse_too_large(output, scale)
    generator = _generator()
    making = Path(tempfile.mkdtemp(prefix=f".{folder.name}-", dir=output))
    try:
        _generate(stage, generator, making, scale)
        _publish(making, folder)
    finally:
        shutil.rmtree(making, ignore_errors=True)
    tables = _whole(folder)
    if tables is None:
        raise DemoError(f"{_GENERATOR} did not write all of TPC-H's tables to {folder}")
    return tables


def _whole(folder: Path) -> dict[str, ParquetTable] | None:
    """The tables in a folder, if all of them are there and can be read."""
    with suppress(BadDemoInputError):
        tables = tables_of(folder)
        if tables.keys() >= _TABLES:
            return tables
    return None


def _refuse_too_large(output: Path, scale: float) -> None:
    needed, free = scale * _NEEDED_AT_SCALE_1, shutil.disk_usage(output).free
    if needed > free:
        raise BadDemoInputError(
            f"scale {scale_name(scale)} needs about {size(needed)} under {output}, where "
            f"{size(free)} are free; take a smaller --scale or another --output"
        )


def _generator() -> str:
    beside = Path(sys.executable).parent / _GENERATOR
    found = str(beside) if beside.is_file() else shutil.which(_GENERATOR)
    if found is None:
        raise DemoError(
            f"{_GENERATOR}, which generates the data, is neither next to {sys.executable} nor on "
            f"the PATH; install it with `{INSTALL}`"
        )
    return found


def _generate(stage: Stage, generator: str, folder: Path, scale: float) -> None:
    command = [generator, "parquet", "-s", scale_name(scale), "--output-dir", str(folder)]
    with (
        stage.progress("generating", scale * _BYTES_AT_SCALE_1) as progress,
        tempfile.TemporaryFile() as said,
        subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=said) as process,
    ):
        progress.now(f"TPC-H at scale {scale_name(scale)}")
        try:
            while process.poll() is None:
                with suppress(subprocess.TimeoutExpired):
                    process.wait(timeout=0.2)
                progress.reached(_written(folder))
        finally:
            process.kill()
        if process.returncode != 0:
            said.seek(0)
            reason = said.read().decode(errors="replace").strip()
            raise DemoError(f"{_GENERATOR} failed with code {process.returncode}: {reason}")
        progress.note(f"TPC-H at scale {scale_name(scale)}, {size(_written(folder))}")


def _written(folder: Path) -> int:
    total = 0
    for file in folder.iterdir():
        with suppress(FileNotFoundError):  # the generator may rename its files
            total += file.stat().st_size
    return total


def _publish(making: Path, folder: Path) -> None:
    """Puts generated data where it is looked for, in one step."""
    if folder.exists() and _whole(folder) is None:
        shutil.rmtree(folder)
    making.chmod(0o755)
    try:
        making.rename(folder)
    except OSError:
        # Another demo on this folder was faster; its data is the same.
        if _whole(folder) is None:
            raise
