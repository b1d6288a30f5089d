"""Epochs are taken once each, and never come back."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.highavailability.epochs import (
    KEPT_NUMBERS,
    claim_epoch,
    epoch_file,
    newest_epoch,
    take_epoch,
)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "epochs"


def test_other_files_are_no_epochs_and_a_certain_one_is_claimed_once(directory: Path) -> None:
    for act in (take_epoch, partial(claim_epoch, epoch=1)):
        with pytest.raises(FileNotFoundError):
            act(directory.parent / "gone" / "epochs")
    directory.mkdir()
    for name in ("12", "00000000x1", ".0000000009", "0" * 20, "-000000001"):
        (directory / name).touch()
    assert newest_epoch(directory) == 0
    assert take_epoch(directory) == 1
    assert [claim_epoch(directory, each) for each in (7, 7, 3)] == [True, False, True]
    assert newest_epoch(directory) == 7


def test_who_pauses_before_it_takes_one_gets_no_old_one(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_epoch(directory)
    listed = os.listdir

    def pause_after_looking(path: Path) -> list[str]:
        found = listed(path)
        monkeypatch.setattr(os, "listdir", listed)
        for _ in range(2 * KEPT_NUMBERS):
            take_epoch(directory)
        return found

    monkeypatch.setattr(os, "listdir", pause_after_looking)
    assert take_epoch(directory) == 2 * KEPT_NUMBERS + 2
    # Only the newest files stay.
    assert not epoch_file(directory, 2).exists()
    assert len(os.listdir(directory)) <= KEPT_NUMBERS


@given(st.lists(st.integers(0, 400), max_size=10))
def test_each_is_above_all_before_it_and_above_what_is_asked_for(above: list[int]) -> None:
    with TemporaryDirectory() as parent:
        directory, newest = Path(parent, "epochs"), 0
        assert newest_epoch(directory) == 0
        for least in above:
            taken = take_epoch(directory, above=least)
            assert taken == max(newest, least) + 1 == newest_epoch(directory)
            newest = taken
            assert directory.stat().st_mode & 0o777 == 0o700
