"""Opens the file of a partition for whoever reads it, and none other."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import IO

from holdfast.storage.kept_dataset import KeptPartition
from holdfast.storage.partition_version import version_of
from holdfast.taskexecutor.outputs.output import Output

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


def open_partition(root: Path, output: Output, partition: KeptPartition) -> IO[bytes]:
    """Opens a partition's file: by its name in the book, through no link, if nobody has changed it.

    Args:
        root: the executor's directory.
        output: the promoted output.
        partition: one of its partitions.

    Raises:
        OSError: when it isn't there any more, or not as it was published.
    """
    steps = output.directory.relative_to(root).parts
    opened = os.open(root, _DIRECTORY & ~os.O_NOFOLLOW)
    try:
        for step, flags in [*((step, _DIRECTORY) for step in steps), (partition.file, _FILE)]:
            inner = os.open(step, flags, dir_fd=opened)
            os.close(opened)
            opened = inner
        status = os.fstat(opened)
        if not stat.S_ISREG(status.st_mode):
            raise FileNotFoundError(f"partition {partition.index} is not a file")
        if version_of(status) != partition.version:
            raise FileNotFoundError(f"partition {partition.index} was modified")
        return open(opened, "rb", buffering=0)
    except BaseException:
        os.close(opened)
        raise
