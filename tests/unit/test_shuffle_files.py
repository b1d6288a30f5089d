"""What earlier starts' shuffles have written is brought together."""

from __future__ import annotations

from pathlib import Path

import pytest

from holdfast.taskexecutor.recovery.shuffle_files import SHUFFLES, gather_shuffles


def leave(start: Path, shuffle: str, *names: str, content: str = "") -> None:
    directory = start / SHUFFLES / shuffle
    directory.mkdir(parents=True, exist_ok=True)
    for name in names:
        (directory / name).write_text(content or start.name)


def contents(start: Path) -> dict[str, str]:
    return {
        str(path.relative_to(start / SHUFFLES)): path.read_text()
        for path in start.rglob("*")
        if path.is_file()
    }


@pytest.fixture
def own(tmp_path: Path) -> Path:
    path = tmp_path / "own"
    path.mkdir()
    return path


def test_data_come_before_their_index(
    tmp_path: Path, own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    leave(own, "s", "9.index")
    leave(tmp_path / "a", "s", "0.data", "0.index")
    rename = Path.rename

    def killed(self: Path, target: Path) -> Path:
        if self.name.endswith(".index"):
            raise OSError("killed")
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", killed)
    with pytest.raises(OSError, match="killed"):
        gather_shuffles(tmp_path / "a", own)
    assert set(contents(own)) == {"s/9.index", "s/0.data"}
    monkeypatch.undo()
    gather_shuffles(tmp_path / "a", own)
    assert set(contents(own)) == {"s/9.index", "s/0.data", "s/0.index"}
