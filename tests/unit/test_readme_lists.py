"""What the README lists is all there is."""

from __future__ import annotations

import re
from pathlib import Path

from holdfast.config import ALL_OPTIONS

README = Path(__file__).parents[2] / "README.md"


def test_the_commands_it_shows_are_targets_of_the_makefile() -> None:
    makefile = README.with_name("Makefile").read_text(encoding="utf-8")
    commands = re.findall(r"(?:`|\$ )make ([a-z][a-z-]*)", README.read_text(encoding="utf-8"))
    assert set(commands) >= {"demo", "test"}
    for command in commands:
        assert re.search(rf"^{command}:", makefile, re.MULTILINE), command


def test_every_configuration_key_is_in_its_table_with_its_description() -> None:
    rows = re.findall(
        r"^\| `([a-z-]+\.[a-zA-Z.-]+)` \| (.*?) \| (.*?) \|$", README.read_text(), re.M
    )
    assert {key for key, _, _ in rows} == {option.key for option in ALL_OPTIONS}
    for option in ALL_OPTIONS:
        shown = next(row for row in rows if row[0] == option.key)
        assert shown[2].startswith(option.description.rstrip("."))
