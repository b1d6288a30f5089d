"""How a catalog names task executors, and what lies on them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.errors import StorageError
from holdfast.ids import ApplicationID
from holdfast.taskexecutor.partitions.partition_info import OutputID

_RECORDED = "taskexecutor://"
_PATTERN = re.compile(r"taskexecutor://(.+)/application-([0-9a-f]{32})/([0-9a-f]{64}-[0-9a-f]{8})")


@dataclass(frozen=True, slots=True)
class ClusterDirectory:
    """What a directory stands for, as the catalog records it: neither a port nor a key.

    Attributes:
        host: the machine whose task executor has it.
        application: whose it is.
        output: which output lies there.
    """

    host: str
    application: ApplicationID
    output: OutputID

    @classmethod
    def parse(cls, directory: str) -> ClusterDirectory:
        """What a catalog records.

        Raises:
            StorageError: when it is no such directory.
        """
        match = _PATTERN.fullmatch(directory)
        if match is None:
            raise StorageError(directory, "expected taskexecutor://HOST/application-ID/OUTPUT")
        return cls(match[1], ApplicationID(match[2]), OutputID.parse(match[3]))

    def __str__(self) -> str:
        return f"{_RECORDED}{self.host}/application-{self.application.hex}/{self.output.name}"


def cluster_identity(executor_ids: Iterable[str]) -> str:
    """What tells task executors from others, whatever program asks.

    Args:
        executor_ids: those of all of them.
    """
    return hashlib.sha256(" ".join(sorted(executor_ids)).encode()).hexdigest()
