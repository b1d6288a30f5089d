"""One file to four clients at once: a task executor against nginx."""

from __future__ import annotations

import multiprocessing
import socket
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.taskexecutor.kept import keep
from benchmarks.taskexecutor.processes import nginx, task_executor

CLIENTS = 4
_TIMES = 4
_BYTES = 256 * 1024 * 1024
_BUFFER = 1024 * 1024


def measure(home: Path, program: str, rounds: int) -> list[tuple[float, float]]:
    """The throughput of both servers, in bytes a second, round by round in turns.

    Returns:
        for each round that of the task executor and that of nginx.
    """
    with task_executor(home / "kept") as executor:
        kept = keep(executor.gateway, _write)
        (partition,) = kept.partitions
        with nginx(program, home / "nginx", kept.directory) as address:
            path = f"/webhdfs/v1/{kept.url.split('/', 3)[3]}/{partition.file}?op=OPEN&offset=0"
            ways = ((executor.address, path), (address, f"/{partition.file}"))
            figures = []
            for number in range(rounds + 1):
                # Whoever begins has it no easier in the long run.
                order = (0, 1) if number % 2 else (1, 0)
                found = {way: _throughput(*ways[way], partition.bytes) for way in order}
                figures.append((found[0], found[1]))
    # The first round fills the page cache.
    return figures[1:]


def _write(directory: Path) -> None:
    values = pa.array(range(_BYTES // 8), pa.int64())
    pq.write_table(
        pa.table({"a": values}),
        directory / "part-00000-x-c000.parquet",
        compression="none",
        use_dictionary=False,
    )


def _throughput(address: str, path: str, size: int) -> float:
    context = multiprocessing.get_context("fork")
    ready = context.Barrier(CLIENTS + 1)
    clients = [
        context.Process(target=_fetch, args=(address, path, size, ready)) for _ in range(CLIENTS)
    ]
    for client in clients:
        client.start()
    ready.wait()
    begin = time.perf_counter()
    for client in clients:
        client.join()
    seconds = time.perf_counter() - begin
    if any(client.exitcode for client in clients):
        raise RuntimeError(f"{address} did not serve the file")
    return CLIENTS * _TIMES * size / seconds


def _fetch(address: str, path: str, size: int, ready: object) -> None:
    host, _, port = address.rpartition(":")
    buffer = bytearray(_BUFFER)
    request = f"GET {path} HTTP/1.1\r\nHost: {address}\r\n\r\n".encode()
    with socket.create_connection((host, int(port))) as connection:
        ready.wait()  # type: ignore[attr-defined]
        for _ in range(_TIMES):
            connection.sendall(request)
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(1024)
            if not head.startswith(b"HTTP/1.1 200"):
                raise RuntimeError(head.decode("latin-1"))
            left = size - len(head.partition(b"\r\n\r\n")[2])
            while left:
                received = connection.recv_into(buffer, min(left, _BUFFER))
                if not received:
                    raise RuntimeError("the connection was closed")
                left -= received
