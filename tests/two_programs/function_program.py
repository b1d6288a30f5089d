"""Plays programs with functions.

`python -m tests.two_programs.function_program HOME VERSIONS NAME…`: each program is played as its
text is in these versions (`0,1,2`), 0 being the program itself. Prints a line of JSON for each.
Modules of the user's are those of a single version.
"""

from __future__ import annotations

import json
import os
import re
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame

from holdfast import VertexOutcome
from tests.two_programs.cases import World
from tests.two_programs.functions import PROGRAMS, Program
from tests.two_programs.program import worlds

_PRELUDE = """
import collections, dataclasses, datetime, decimal, enum, functools, itertools, operator, re
from typing import Iterator, Tuple
import numpy as np, pandas as pd, pyarrow as pa
from pyspark.sql import functions as F, Window
"""


def _made(world: World, program: Program) -> DataFrame:
    rows = world.read().where("id < 200")
    space: dict[str, Any] = {"__name__": "__main__", "spark": world.spark, "rows": rows}
    space["home"] = str(world.home)
    exec(compile(_PRELUDE + program.text, "program", "exec", dont_inherit=True), space)
    df: DataFrame = space["df"]
    return df


def _rows(df: DataFrame) -> list[str]:
    return sorted(map(repr, df.collect()))


@contextmanager
def _with(world: World, settings: Mapping[str, str]) -> Iterator[World]:
    for key, value in settings.items():
        world.spark.conf.set(key, value)
    yield world
    for key in settings:
        world.spark.conf.unset(key)


def _played(plain: World, attached: World, program: Program) -> dict[str, Any]:
    environment = attached.spark.holdfast
    said: dict[str, Any] = {}
    with _with(attached, program.settings):
        try:
            cached = _made(attached, program).cache()
            said["rows"] = _rows(cached)
            job = environment.last_job_result.vertices
            said["is_found"] = bool(job) and job[0].outcome is VertexOutcome.READ
            said["why"] = [*map(str, environment.list_cached()[-1].reasons)]
            cached.unpersist()
        except Exception as error:
            said["error"] = f"{type(error).__name__}: {str(error)[:500]}"
    with _with(plain, program.settings):
        try:
            said["plain"] = _rows(_made(plain, program))
        except Exception as error:
            said["plain_error"] = f"{type(error).__name__}: {str(error)[:500]}"
    return said


def _write_modules(directory: Path, programs: Mapping[str, Program]) -> dict[str, Program]:
    """Writes the modules of programs, under names of their own."""
    renamed = {}
    numbers = {name: number for number, name in enumerate(PROGRAMS)}
    for name, program in programs.items():
        number, text = numbers[name], program.text
        for top in {module.partition(".")[0] for module in program.modules}:
            text = re.sub(rf"\b{top}\b", f"{top}_{number}", text)
        for module, source in program.modules.items():
            top = module.partition(".")[0]
            file = directory.joinpath(f"{top}_{number}", *module.split(".")[1:]).with_suffix(".py")
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(source, encoding="utf-8")
        renamed[name] = Program(text, settings=program.settings)
    return renamed


def main() -> None:
    """Plays versions of the programs of the names that are given; of all, without any."""
    warnings.filterwarnings("ignore")
    home, versions, names = Path(sys.argv[1]), sys.argv[2].split(","), set(sys.argv[3:])
    asked = {k: v for k, v in PROGRAMS.items() if not names or k in names}
    with tempfile.TemporaryDirectory() as modules:
        sys.path.append(modules)
        os.environ["PYTHONPATH"] = os.pathsep.join((os.environ.get("PYTHONPATH", ""), modules))
        with worlds(home) as (plain, attached):
            for version in map(int, versions):
                chosen = {k: [*v.versions()][version : version + 1] for k, v in asked.items()}
                programs = {name: each for name, found in chosen.items() for each in found}
                for name, program in _write_modules(Path(modules), programs).items():
                    found = {"name": f"{name}#{version}", **_played(plain, attached, program)}
                    print(json.dumps(found), flush=True)


if __name__ == "__main__":
    main()
