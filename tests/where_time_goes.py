"""A plugin of pytest that says where the minutes of the suite go: by folder, by cause, by test.

What is counted is what the thread that runs the tests waits for: the start of a JVM, calls into
one (Spark jobs, mostly), other processes, and time that passes.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

import pyspark.core.context
import pytest
from py4j.clientserver import JavaClient

_CAUSES = {
    "the start of a JVM": [(pyspark.core.context, "launch_gateway")],
    "calls into a JVM": [(JavaClient, "send_command")],
    "other processes": [(subprocess.Popen, "wait"), (subprocess.Popen, "communicate")],
    "waiting": [(time, "sleep"), (threading.Condition, "wait")],
}
_SLOWEST = 20
_PROPERTY = "seconds by cause"


class TimesByCause:
    """In a process that runs tests."""

    def __init__(self) -> None:
        self._seconds: Counter[str] = Counter()
        self._is_counting = False
        for cause, functions in _CAUSES.items():
            for owner, name in functions:
                setattr(owner, name, self._counted(cause, getattr(owner, name)))

    def _counted(self, cause: str, function: Callable[..., Any]) -> Callable[..., Any]:
        main = threading.main_thread()

        def counted(*args: Any, **kwargs: Any) -> Any:
            if self._is_counting or threading.current_thread() is not main:
                return function(*args, **kwargs)
            self._is_counting = True
            began = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self._seconds[cause] += time.perf_counter() - began
                self._is_counting = False

        return counted

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Looks at a test with its fixtures."""
        self._seconds.clear()
        return (yield)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        """Sends what a test has waited for along with its report."""
        if call.when == "teardown":
            item.user_properties.append((_PROPERTY, dict(self._seconds)))


class Summary:
    """In the process that shows results."""

    def __init__(self) -> None:
        self._tests: Counter[str] = Counter()
        self._causes: Counter[str] = Counter()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Adds a test, or a fixture of it, up."""
        self._tests[report.nodeid] += report.duration
        if report.when == "teardown":
            self._causes.update(dict(report.user_properties).get(_PROPERTY, {}))

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Shows it all."""
        folders: Counter[str] = Counter()
        for test, seconds in self._tests.items():
            folders[str(PurePath(test.partition("::")[0]).parent)] += seconds
        causes = self._causes.copy()
        causes["everything else"] = self._tests.total() - causes.total()
        for title, found in (
            ("seconds by folder", folders.most_common()),
            ("seconds by cause", causes.most_common()),
            (f"the {_SLOWEST} slowest tests, in seconds", self._tests.most_common(_SLOWEST)),
        ):
            terminalreporter.section(title)
            for name, seconds in found:
                terminalreporter.write_line(f"{seconds:8.1f}  {name}")


def pytest_configure(config: pytest.Config) -> None:
    """Begins."""
    config.pluginmanager.register(TimesByCause(), "times by cause")
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Summary(), "summary of times")
