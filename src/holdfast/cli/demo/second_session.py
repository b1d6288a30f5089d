"""What the second program is asked, and what it answers."""

from __future__ import annotations

import pickle
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.cli.demo.answer import Answer
from holdfast.cli.demo.story import Story


@dataclass(frozen=True)
class SecondAnswer:
    """An answer of the second program.

    Attributes:
        answer: the rows, and how long they took.
        kept: what its job did with kept data, in its own words.
        read: what it read that another program had kept, and who had.
    """

    answer: Answer
    kept: str
    read: tuple[str, ...]


@dataclass(frozen=True)
class SecondSession:
    """What the second program is asked.

    Attributes:
        story: the questions.
        keeping: its environment's configuration.
    """

    story: Story
    keeping: Mapping[str, str]


@dataclass(frozen=True)
class SecondHome:
    """The folder over which the second program is asked, and answers.

    It is private, and what is unpickled from it these two programs have put there.

    Attributes:
        path: the folder.
    """

    path: Path

    @property
    def log(self) -> Path:
        """What the program and its JVM write to their standard output and error."""
        return self.path / "program.log"

    def ask(self, session: SecondSession) -> None:
        """Leaves what is asked."""
        self._asked.write_bytes(pickle.dumps(session))

    def asked(self) -> SecondSession:
        """What is asked."""
        session: SecondSession = pickle.loads(self._asked.read_bytes())
        return session

    def answer(self, answers: tuple[SecondAnswer, ...]) -> None:
        """Leaves the answers."""
        self._answers.write_bytes(pickle.dumps(answers))

    def answers(self) -> tuple[SecondAnswer, ...]:
        """The answers, in the order of the questions."""
        answers: tuple[SecondAnswer, ...] = pickle.loads(self._answers.read_bytes())
        return answers

    @property
    def _asked(self) -> Path:
        return self.path / "asked.pickle"

    @property
    def _answers(self) -> Path:
        return self.path / "answers.pickle"
