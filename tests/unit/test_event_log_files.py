"""Event logs are found in all the forms in which Spark leaves them."""

from __future__ import annotations

from pathlib import Path

import pyarrow
import pytest

from holdfast.advice.event_log_files import event_logs
from holdfast.errors import EventLogError

LINES = [b'{"Event":"SparkListenerLogStart"}', b'{"Event":"SparkListenerApplicationEnd"}']


def write(path: Path, lines: list[bytes] = LINES) -> Path:
    """Compressed, where it is called so."""
    path.parent.mkdir(parents=True, exist_ok=True)
    content = b"\n".join(lines) + b"\n"
    if ".zstd" in path.name:
        with pyarrow.CompressedOutputStream(str(path), "zstd") as stream:
            stream.write(content)
    else:
        path.write_bytes(content)
    return path


def lines_in(path: Path) -> list[list[bytes]]:
    return [list(log.lines()) for log in event_logs(path)]


def test_one_file(tmp_path: Path) -> None:
    for name in ("local-1", "local-2.inprogress", "local-3.zstd", "local-4.zstd.inprogress"):
        assert lines_in(write(tmp_path / name)) == [LINES]
    # Lines longer than what is read at a time.
    long = [b"a" * 3_000_000, b"b", b"c" * 1_500_000]
    assert lines_in(write(tmp_path / "local-5.zstd", long)) == [long]


def test_a_directory_of_logs_and_one_in_parts(tmp_path: Path) -> None:
    parts = tmp_path / "eventlog_v2_local-2"
    for number in (10, 9, 2):
        write(parts / f"events_{number}_local-2.zstd", [b"%d" % number])
    write(parts / "appstatus_local-2", [])
    assert lines_in(parts) == [[b"2", b"9", b"10"]]
    write(tmp_path / "local-1")
    write(tmp_path / "something" / "else")
    write(tmp_path / ".hidden")
    for name in ("eventlog_v2_local-3", "empty"):
        (tmp_path / name).mkdir()
    assert [log.path.name for log in event_logs(tmp_path)] == ["eventlog_v2_local-2", "local-1"]
    assert lines_in(tmp_path) == [[b"2", b"9", b"10"], LINES]
    assert event_logs(tmp_path / "empty") == []


def test_a_log_that_ends_in_the_middle_of_a_line_or_frame(tmp_path: Path) -> None:
    cut = tmp_path / "local-1"
    cut.write_bytes(LINES[0] + b"\n" + LINES[1][:10])
    assert lines_in(cut) == [[LINES[0], LINES[1][:10]]]
    many = [b'{"Event":"%d"}' % number for number in range(100_000)]
    whole = write(tmp_path / "local-2.zstd", many)
    whole.write_bytes(whole.read_bytes()[: whole.stat().st_size // 2])
    [found] = lines_in(whole)
    assert 0 < len(found) < len(many)
    assert found == many[: len(found)]


@pytest.mark.parametrize("codec", ["lz4", "snappy", "lzf"])
def test_other_compression_is_an_error_that_says_what_to_do(tmp_path: Path, codec: str) -> None:
    [log] = event_logs(write(tmp_path / f"local-1.{codec}"))
    with pytest.raises(
        EventLogError, match=rf"{codec}.*spark\.eventLog\.compression\.codec to zstd"
    ):
        list(log.lines())


def test_what_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(EventLogError, match="nowhere: no such file or directory"):
        event_logs(tmp_path / "nowhere")
    [log] = event_logs(write(tmp_path / "local-1"))
    (tmp_path / "local-1").unlink()
    assert list(log.lines()) == []
