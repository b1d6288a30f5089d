"""The IPython extension: `%load_ext holdfast`, and what `%holdfast` shows."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from typing import Any

from pyspark.sql import SparkSession

from holdfast.api.attachment import attach, detach
from holdfast.api.cell_progress import CellProgress
from holdfast.api.table import Table
from holdfast.api.table_session import TableSession

_SESSION = "spark"
_MAGIC = "holdfast"
_PROGRESS = "_holdfast_progress"


def load_ipython_extension(ipython: Any) -> None:
    """Attaches the notebook's session; called by `%load_ext holdfast`.

    That is the session named `spark`, else the active one, else a new one, with the master that
    Spark is configured with or `local[*]`, which is then named `spark`. While a cell runs Spark
    jobs, the notebook shows how far they are.

    Configured is what Spark is configured with under `spark.holdfast.`. A session that is attached
    already, as by `spark = holdfast.attach(config=...)`, stays as it is.

    `%holdfast` shows what is kept, how often it was read, and what the last job read and why not;
    `%holdfast NAME` shows what a job of the DataFrame of that name would read, and why not.

    Args:
        ipython: The shell.

    Raises:
        StorageError: As for `Environment`.
        UnsupportedSessionError: The session is a Spark Connect session.

    Source: FLIP-36 (interactive programming).

    Example:
        >>> from IPython.core.interactiveshell import InteractiveShell
        >>> import holdfast
        >>> shell = InteractiveShell()
        >>> holdfast.load_ipython_extension(shell)
        >>> shell.user_ns["spark"].holdfast.list_cached()
        []
        >>> holdfast.unload_ipython_extension(shell)
    """
    named = ipython.user_ns.get(_SESSION)
    session = attach(named if isinstance(named, SparkSession) else None)
    ipython.user_ns.setdefault(_SESSION, session)
    ipython.register_magic_function(lambda line: _shown(ipython, session, line), "line", _MAGIC)
    # A terminal has Spark's own progress bar.
    if hasattr(ipython, "kernel"):
        progress = CellProgress(session, _display())
        setattr(ipython, _PROGRESS, progress)
        ipython.events.register("pre_run_cell", progress.begin)
        ipython.events.register("post_run_cell", progress.end)


def unload_ipython_extension(ipython: Any) -> None:
    """Detaches the notebook's session; called by `%unload_ext holdfast`.

    Args:
        ipython: The shell.

    Source: FLIP-36, "Step 3: Clean up".

    Example:
        >>> from IPython.core.interactiveshell import InteractiveShell
        >>> import holdfast
        >>> shell = InteractiveShell()
        >>> holdfast.load_ipython_extension(shell)
        >>> holdfast.unload_ipython_extension(shell)
    """
    ipython.magics_manager.magics["line"].pop(_MAGIC, None)
    progress = ipython.__dict__.pop(_PROGRESS, None)
    if progress is not None:
        ipython.events.unregister("pre_run_cell", progress.begin)
        ipython.events.unregister("post_run_cell", progress.end)
    session = ipython.user_ns.get(_SESSION)
    if isinstance(session, TableSession):
        detach(session)


def _display() -> Callable[..., Any]:
    # Holdfast doesn't need IPython; whoever calls this has it.
    display: Callable[..., Any] = importlib.import_module("IPython.display").display
    return display


def _shown(ipython: Any, session: SparkSession, line: str) -> None:
    display = _display()
    name = line.strip()
    if not isinstance(session, TableSession):
        print("The session is not attached any more: %reload_ext holdfast attaches it again.")
    elif not name:
        display(session.holdfast.list_cached())
        if session.holdfast.last_job_result is not None:
            display(session.holdfast.last_job_result)
    else:
        table = ipython.user_ns.get(name)
        if isinstance(table, Table):
            print(session.holdfast.explain_kept(table))
        else:
            print(f"{name} is not the name of a DataFrame of the attached session.")
