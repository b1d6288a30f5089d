"""What the rows of a partition are, told from the end of its file on a task executor."""

from __future__ import annotations

import io
import json
from typing import Any

import pyarrow
import pyarrow.parquet
import urllib3

from holdfast.cli.datasets.listed_dataset import Contents, ListedColumn
from holdfast.cli.datasets.type_text import type_text
from holdfast.ids import ApplicationID
from holdfast.spark.partition_writer import FILLER_COLUMN, POSITION_COLUMN
from holdfast.storage.kept_dataset import KeptPartition
from holdfast.storage.partition_directory import DATASETS
from holdfast.taskexecutor.partitions.partition_info import OutputID
from holdfast.taskexecutor.reading.webhdfs import WEBHDFS_PREFIX
from holdfast.taskexecutor.token import read_key

_MAGIC = b"PAR1"
_TAIL = 8
_LONGEST = 64 * 1024 * 1024
_SPARK_VERSION = b"org.apache.spark.version"
_SPARK_SCHEMA = b"org.apache.spark.sql.parquet.row.metadata"
_TIMEOUT = urllib3.Timeout(5.0, 30.0)


def contents_of(
    address: str,
    token: str,
    application: ApplicationID,
    output: OutputID,
    partition: KeptPartition,
) -> Contents | None:
    """Reads a partition's footer, no row of it.

    Args:
        address: the executor's.
        token: the executor's.
        application: whose partition it is.
        output: what it is a part of.
        partition: the partition.

    Returns:
        the columns as the file calls them; None when the footer can't be read.
    """
    url = (
        f"http://{address}{WEBHDFS_PREFIX}{read_key(token, application)}/application-"
        f"{application.hex}/{DATASETS}/{output.name}/{partition.file}?op=OPEN"
    )
    tail = _bytes(url, partition.bytes - _TAIL, _TAIL)
    if tail is None or not tail.endswith(_MAGIC):
        return None
    length = int.from_bytes(tail[:4], "little")
    if length > min(_LONGEST, partition.bytes - _TAIL):
        return None
    footer = _bytes(url, partition.bytes - _TAIL - length, length)
    if footer is None:
        return None
    try:
        # A file of nothing but its footer: only where rows lie would be wrong in it.
        file = io.BytesIO(_MAGIC + footer + tail)
        schema = pyarrow.parquet.read_metadata(file).schema.to_arrow_schema()
        return _contents(schema)
    except (pyarrow.ArrowException, OSError, ValueError, LookupError, TypeError):
        return None


def _bytes(url: str, offset: int, length: int) -> bytes | None:
    if offset < 0:
        return None
    try:
        response = urllib3.request(
            "GET",
            f"{url}&offset={offset}&length={length}",
            redirect=False,
            retries=False,
            timeout=_TIMEOUT,
        )
    except urllib3.exceptions.HTTPError:
        return None
    return response.data if response.status == 200 and len(response.data) == length else None


def _contents(schema: Any) -> Contents:
    written = schema.metadata or {}
    if _SPARK_SCHEMA in written:
        columns = [
            ListedColumn(field["name"], type_text(field["type"]), bool(field["nullable"]))
            for field in json.loads(written[_SPARK_SCHEMA])["fields"]
        ]
    else:
        columns = [ListedColumn(field.name, str(field.type), field.nullable) for field in schema]
    version = written.get(_SPARK_VERSION)
    return Contents(
        tuple(each for each in columns if each.name not in (FILLER_COLUMN, POSITION_COLUMN)),
        None if version is None else version.decode("utf-8", "replace"),
    )
