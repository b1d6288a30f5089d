"""FileSource: the records of files, built as PyFlink builds it."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["FileSource", "FileSourceBuilder", "StreamFormat"]


@dataclass(frozen=True, slots=True)
class StreamFormat:
    """The format of the records of a file.

    Source: PyFlink, `pyflink.datastream.connectors.file_system.StreamFormat`.
    """

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> StreamFormat:
        """Each line is a record, without its line ending.

        Args:
            charset_name: only UTF-8.

        Raises:
            ValueError: when it is not UTF-8.

        >>> StreamFormat.text_line_format()
        StreamFormat()
        """
        if charset_name.upper() not in ("UTF-8", "UTF8"):
            raise ValueError(
                f"charset_name is {charset_name!r}: expected UTF-8. Convert the files, or read "
                "them with your own Source"
            )
        return StreamFormat()


@dataclass(frozen=True, slots=True)
class FileSource:
    """The records of files.

    Attributes:
        paths: files, directories or patterns of them, on any file system that Spark reads.

    Source: PyFlink, `pyflink.datastream.connectors.file_system.FileSource`.

    >>> lines = StreamFormat.text_line_format()
    >>> FileSource.for_record_stream_format(lines, "a.txt", "b.txt").build().paths
    ('a.txt', 'b.txt')
    """

    paths: tuple[str, ...]

    @staticmethod
    def for_record_stream_format(stream_format: StreamFormat, *paths: str) -> FileSourceBuilder:
        """Begins a source that reads record by record.

        Args:
            stream_format: the format of the records.
            *paths: what to read, at least one.

        Raises:
            ValueError: when it is not a format, or there is no path, or one is not a string.
        """
        if not isinstance(stream_format, StreamFormat):
            raise ValueError(
                f"stream_format is {stream_format!r}: expected StreamFormat.text_line_format()"
            )
        if not paths or not all(isinstance(path, str) and path for path in paths):
            raise ValueError(f"paths are {paths!r}: expected at least one path, as a string")
        return FileSourceBuilder(paths)


@dataclass(frozen=True, slots=True)
class FileSourceBuilder:
    """A source that is being built.

    Attributes:
        paths: what it reads.

    Source: PyFlink, `pyflink.datastream.connectors.file_system.FileSourceBuilder`.
    """

    paths: tuple[str, ...]

    def process_static_file_set(self) -> FileSourceBuilder:
        """Reads the files that exist when the job starts, as all file sources do here."""
        return self

    def build(self) -> FileSource:
        """The source."""
        return FileSource(self.paths)
