"""WebHDFS, as far as Spark's own client asks for it: reading, and nothing else. Pure.

Source: Hadoop, "WebHDFS REST API".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import parse_qsl

from holdfast.ids import ApplicationID
from holdfast.storage.kept_dataset import KeptPartition
from holdfast.storage.partition_directory import DATASETS
from holdfast.storage.partition_version import modified_ns
from holdfast.taskexecutor.outputs.output import Output
from holdfast.taskexecutor.partitions.partition_info import OutputID
from holdfast.taskexecutor.token import read_key

WEBHDFS_PREFIX = "/webhdfs/v1/"
READING = ("GETFILESTATUS", "LISTSTATUS", "GETFILEBLOCKLOCATIONS", "OPEN")

# Nothing in the names that are served is ever escaped, so an escaped path names nothing.
_PATH = re.compile(
    r"/webhdfs/v1/(?P<key>[0-9a-f]{64})/application-(?P<application>[0-9a-f]{32})/datasets"
    r"(?:/(?P<output>[0-9a-f]{64}-[0-9a-f]{8})(?:/(?P<file>[A-Za-z0-9._-]{1,255}))?)?"
)
_NUMBER = re.compile(r"[0-9]{1,18}")
_MOST_PARAMETERS = 32
_REDIRECTED = "redirected"


def read_root(address: str, token: str, application: ApplicationID) -> str:
    """The URL under which Spark reads an application's outputs.

    Args:
        address: `host:port` of the task executor.
        token: the executor's token.
        application: whose outputs.

    >>> read_root("node-7:7117", "secret", ApplicationID("0" * 32))[:26]
    'webhdfs://node-7:7117/56cf'
    """
    key = read_key(token, application)
    return f"webhdfs://{address}/{key}/application-{application.hex}/{DATASETS}"


class RefusedReading(Exception):
    """A request to read that is answered with an error.

    Args:
        status: the HTTP status.
        java_class: the exception that Hadoop's client raises for it.
        message: what is wrong.
    """

    def __init__(self, status: int, java_class: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.java_class = java_class
        self.message = message

    def document(self) -> dict[str, Any]:
        """The answer's body."""
        return {
            "RemoteException": {
                "exception": self.java_class.rpartition(".")[2],
                "javaClassName": self.java_class,
                "message": self.message,
            }
        }


@dataclass(frozen=True, slots=True)
class Reading:
    """A request to read.

    Attributes:
        key: the read key that it carries.
        application: whose partitions.
        output: which output; None for the directory of all.
        file: the name of a file in it; None for the output's directory.
        operation: what is asked.
        offset: the first byte; None when it isn't said.
        length: how many bytes at most; None for all that follow.
        redirected: the client has been sent here by `OPEN` itself.
    """

    key: str
    application: ApplicationID
    output: OutputID | None
    file: str | None
    operation: str
    offset: int | None
    length: int | None
    redirected: bool

    @classmethod
    def parse(cls, raw_path: str) -> Reading:
        """The request for a path and query, as they came in.

        Raises:
            RefusedReading: when it is none that is served.
        """
        path, _, query = raw_path.partition("?")
        match = _PATH.fullmatch(path)
        if match is None:
            raise missing("no such path is served here")
        try:
            given = parse_qsl(query, keep_blank_values=True, max_num_fields=_MOST_PARAMETERS)
        except ValueError:
            raise _illegal("too many parameters") from None
        parameters = {name.lower(): value for name, value in given}
        operation = parameters.get("op", "").upper()
        if operation not in READING:
            raise _illegal(
                f'Invalid value for webhdfs parameter "op": expected one of {", ".join(READING)}'
            )
        output = match["output"]
        return cls(
            key=match["key"],
            application=ApplicationID(match["application"]),
            output=None if output is None else OutputID.parse(output),
            file=match["file"],
            operation=operation,
            offset=_number(parameters, "offset"),
            length=_number(parameters, "length"),
            redirected=_REDIRECTED in parameters,
        )

    def byte_range(self, size: int) -> tuple[int, int]:
        """Which bytes of a file of `size` bytes are asked for: the first, and how many.

        Raises:
            RefusedReading: when they begin behind the file's end.
        """
        offset = self.offset or 0
        if offset > size:
            raise _illegal(f"offset={offset} is out of the range [0, {size}]")
        rest = size - offset
        return offset, rest if self.length is None else min(rest, self.length)


def redirection(raw_path: str) -> str:
    """Where a client that has not said yet which bytes it wants is sent.

    Hadoop's client seeks only after it has opened: without this step it would be sent the whole
    file each time, to throw it away.
    """
    return f"{raw_path}&{_REDIRECTED}=true"


def missing(message: str) -> RefusedReading:
    """The answer for what isn't there."""
    return RefusedReading(404, "java.io.FileNotFoundException", message)


def forbidden() -> RefusedReading:
    """The answer for a wrong read key."""
    return RefusedReading(
        403,
        "org.apache.hadoop.security.AccessControlException",
        "this read key does not open this application's partitions",
    )


def only_reading() -> RefusedReading:
    """The answer for a method other than GET."""
    return RefusedReading(
        405,
        "java.lang.UnsupportedOperationException",
        "partitions are read-only here: expected GET",
    )


def file_status(partition: KeptPartition, suffix: str = "") -> dict[str, Any]:
    """The status of a partition's file."""
    return _status(
        type="FILE",
        pathSuffix=suffix,
        length=partition.bytes,
        blockSize=max(1, partition.bytes),
        modificationTime=(modified_ns(partition.version) or 0) // 1_000_000,
        permission="400",
        replication=1,
    )


def directory_status(suffix: str = "") -> dict[str, Any]:
    """The status of a directory."""
    return _status(
        type="DIRECTORY",
        pathSuffix=suffix,
        length=0,
        blockSize=0,
        modificationTime=0,
        permission="500",
        replication=0,
    )


def listing(statuses: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    """The answer to LISTSTATUS."""
    return {"FileStatuses": {"FileStatus": list(statuses)}}


def listed_files(output: Output) -> dict[str, Any]:
    """The answer to LISTSTATUS of an output's directory."""
    return listing(file_status(partition, name) for name, partition in output.files.items())


def block_locations(partition: KeptPartition, host: str, port: int) -> dict[str, Any]:
    """The answer to GETFILEBLOCKLOCATIONS: the whole file is one block, on this host."""
    name = f"{host}:{port}"
    block = {
        "cachedHosts": [],
        "corrupt": False,
        "hosts": [host],
        "length": partition.bytes,
        "names": [name],
        "offset": 0,
        "storageTypes": ["DISK"],
        "topologyPaths": [f"/default-rack/{name}"],
    }
    return {"BlockLocations": {"BlockLocation": [block] if partition.bytes else []}}


def _status(**known: Any) -> dict[str, Any]:
    return {
        "accessTime": 0,
        "childrenNum": 0,
        "fileId": 0,
        "group": "holdfast",
        "owner": "holdfast",
        "storagePolicy": 0,
        **known,
    }


def _number(parameters: Mapping[str, str], name: str) -> int | None:
    value = parameters.get(name)
    if value is None:
        return None
    if not _NUMBER.fullmatch(value):
        raise _illegal(f'Invalid value for webhdfs parameter "{name}": expected a number from 0')
    return int(value)


def _illegal(message: str) -> RefusedReading:
    return RefusedReading(400, "java.lang.IllegalArgumentException", message)
