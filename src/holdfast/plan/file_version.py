"""Which version of a file a plan reads."""

from __future__ import annotations

from typing import NamedTuple

_LOCAL = "file:"
_LISTS = "lists "


class FileVersion(NamedTuple):
    """A file as a plan listed it.

    Attributes:
        path: as Hadoop writes it.
        length: in bytes.
        modified: modification time in ms since 1970.
        tag: what else tells this version from others of the same length and modification time: the
            inode and its change time, HDFS's id of the file, an object's ETag; empty where there is
            nothing. Of a directory, which files are below it.
    """

    path: str
    length: int
    modified: int
    tag: str = ""

    def portable(self) -> FileVersion:
        """The version as it looks on every machine that has the file.

        >>> FileVersion("file:/a", 1, 2, "inode 3").portable()
        FileVersion(path='file:/a', length=1, modified=2, tag='')
        >>> FileVersion("s3a://b/a", 1, 2, "etag 3").portable().tag
        'etag 3'
        >>> FileVersion("file:/a", 0, 0, "lists 3").portable().tag
        'lists 3'
        """
        is_directory = self.tag.startswith(_LISTS)
        return self._replace(tag="") if self.path.startswith(_LOCAL) and not is_directory else self
