"""A partition's file under a second name, which lasts when the first one goes."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path


def link_partition(file: Path, link: Path) -> None:
    """Gives a partition's file, and the checksums that Hadoop lays beside it, a second name.

    A symbolic link is not followed: the second name is then one of that link.

    Args:
        file: the file that holds the partition.
        link: its second name, on the same file system.

    Raises:
        OSError: when the file is gone, there is something by the second name, or the file system
            takes no links.
    """
    os.link(file, link, follow_symlinks=False)
    # Without checksums Hadoop reads unchecked.
    with suppress(FileNotFoundError):
        os.link(
            file.with_name(f".{file.name}.crc"),
            link.with_name(f".{link.name}.crc"),
            follow_symlinks=False,
        )
