"""Serves partitions to Spark over WebHDFS."""

from __future__ import annotations

import asyncio
import logging
from concurrent.futures import Executor
from pathlib import Path
from typing import IO

from aiohttp import web
from pydantic_core import to_json

from holdfast.errors import TaskExecutorError
from holdfast.taskexecutor.outputs.output import Output
from holdfast.taskexecutor.reading import webhdfs
from holdfast.taskexecutor.reading.served_file import open_partition
from holdfast.taskexecutor.reading.webhdfs import Reading, RefusedReading
from holdfast.taskexecutor.task_executor import TaskExecutor
from holdfast.taskexecutor.token import read_key, same

logger = logging.getLogger(__name__)


class ReadingService:
    """Answers requests below `/webhdfs/v1/`.

    Args:
        executor: has the partitions.
        root: the directory that they lie in.
        token: read keys are made from it.
        host: the name under which Spark's machines know this one.
        port: where they reach it.
        threads: open files, which may block.
    """

    def __init__(
        self,
        executor: TaskExecutor,
        root: Path,
        token: str,
        host: str,
        port: int,
        threads: Executor,
    ) -> None:
        self._executor = executor
        self._root = root
        self._token = token
        self._host = host
        self._port = port
        self._threads = threads

    async def handle(self, request: web.Request) -> web.StreamResponse:
        """Answers one request."""
        try:
            if request.method != "GET":
                raise webhdfs.only_reading()
            reading = Reading.parse(request.raw_path)
            # First of all: who has no key isn't told what there is.
            if not same(reading.key, read_key(self._token, reading.application)):
                raise webhdfs.forbidden()
            return await self._answer(request, reading)
        except RefusedReading as refused:
            return web.Response(body=to_json(refused.document()), status=refused.status)

    async def _answer(self, request: web.Request, reading: Reading) -> web.StreamResponse:
        try:
            if reading.output is None:
                outputs = self._executor.promoted_outputs(reading.application)
                return self._root_answer(reading, outputs)
            output = self._executor.promoted(reading.application, reading.output)
        except TaskExecutorError as error:
            raise webhdfs.missing(str(error)) from error
        if reading.file is None:
            return self._directory_answer(reading, output)
        partition = output.files.get(reading.file)
        if partition is None:
            raise webhdfs.missing("no such partition is stored here")
        if reading.operation == "GETFILESTATUS":
            return _json({"FileStatus": webhdfs.file_status(partition)})
        if reading.operation == "LISTSTATUS":
            return _json(webhdfs.listing([webhdfs.file_status(partition)]))
        if reading.operation == "GETFILEBLOCKLOCATIONS":
            return _json(webhdfs.block_locations(partition, self._host, self._port))
        start, count = reading.byte_range(partition.bytes)
        if reading.offset is None and not reading.redirected:
            location = f"http://{self._host}:{self._port}{webhdfs.redirection(request.raw_path)}"
            return web.Response(status=307, headers={"Location": location})
        try:
            file = await asyncio.get_running_loop().run_in_executor(
                self._threads, open_partition, self._root, output, partition
            )
        except OSError as error:
            logger.warning("can't serve %s: %s", output.output_id, error)
            raise webhdfs.missing(str(error)) from error
        with file:
            return await _send(request, file, start, count)

    def _root_answer(self, reading: Reading, outputs: list[Output]) -> web.Response:
        if reading.operation == "GETFILESTATUS":
            return _json({"FileStatus": webhdfs.directory_status()})
        if reading.operation == "LISTSTATUS":
            names = (output.output_id.name for output in outputs)
            return _json(webhdfs.listing(webhdfs.directory_status(name) for name in names))
        raise webhdfs.missing("this is a directory")

    def _directory_answer(self, reading: Reading, output: Output) -> web.Response:
        if reading.operation == "GETFILESTATUS":
            return _json({"FileStatus": webhdfs.directory_status()})
        if reading.operation == "LISTSTATUS":
            return _json(webhdfs.listed_files(output))
        raise webhdfs.missing("this is a directory")


def _json(document: object) -> web.Response:
    return web.Response(body=to_json(document))


async def _send(
    request: web.Request, file: IO[bytes], start: int, count: int
) -> web.StreamResponse:
    """Hands a file's bytes to the socket inside the kernel."""
    response = web.StreamResponse(headers={"Content-Length": str(count)})
    await response.prepare(request)
    transport = request.transport
    if count == 0 or transport is None:
        return response
    try:
        sent = await asyncio.get_running_loop().sendfile(transport, file, start, count)
    except (ConnectionError, RuntimeError) as error:
        # Spark hangs up as soon as it has what it wanted.
        logger.debug("a reader disconnected: %s", error)
        transport.abort()
        return response
    if sent != count:
        # The reader must not take what follows for the rest of the file.
        logger.warning("%s was truncated while it was read", file.name)
        transport.abort()
    return response
