"""The driver of the third act, in a process of its own."""

from __future__ import annotations

from pathlib import Path

from holdfast.cli.demo.driver_home import DriverHome
from holdfast.cli.demo.driver_report import DriverReport
from holdfast.cli.demo.program_process import ProgramProcess

_PROGRAM = "holdfast.cli.demo.driver_program"


class DriverProcess(ProgramProcess):
    """A driver that runs; what is left of it at the end of the block is killed.

    Args:
        data: the folder of TPC-H's tables.
        home: where it has its files.
        plain: whether it does without Holdfast.
    """

    def __init__(self, data: Path, home: DriverHome, *, plain: bool = False) -> None:
        self._home = home
        home.path.mkdir(parents=True, exist_ok=True)
        super().__init__(
            "the driver of the third act",
            _PROGRAM,
            [str(data), str(home.path), *(["--plain"] if plain else [])],
            home.temporary,
            home.log,
        )

    def wait(self) -> DriverReport:
        """Waits until it has ended by itself.

        Raises:
            DemoError: when it has failed.
        """
        self.wait_for_end()
        return DriverReport.model_validate_json(self._home.report.read_text(encoding="utf-8"))
