"""The two servers that are compared, as processes on this machine."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from holdfast.taskexecutor.calls.client import RemoteTaskExecutor

_NGINX = """
worker_processes auto;
{user}
pid {home}/nginx.pid;
error_log {home}/error.log;
events {{ worker_connections 768; }}
http {{
    sendfile on;
    tcp_nopush on;
    access_log off;
    client_body_temp_path {home}/body;
    proxy_temp_path {home}/proxy;
    fastcgi_temp_path {home}/fastcgi;
    uwsgi_temp_path {home}/uwsgi;
    scgi_temp_path {home}/scgi;
    server {{ listen 127.0.0.1:{port}; root {root}; }}
}}
"""
_SECONDS = 20.0


@dataclass(frozen=True)
class ServedExecutor:
    """A task executor that runs.

    Attributes:
        gateway: how it is called.
        address: where.
    """

    gateway: RemoteTaskExecutor
    address: str


@contextmanager
def task_executor(directory: Path) -> Iterator[ServedExecutor]:
    """Runs `holdfast taskexecutor start`."""
    command = [sys.executable, "-m", "holdfast.cli.main", "taskexecutor", "start"]
    with subprocess.Popen(
        [*command, "--dir", str(directory)], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[3]
            token = (directory / "token").read_text().strip()
            yield ServedExecutor(RemoteTaskExecutor(address, token), address)
        finally:
            process.terminate()


def nginx_program() -> str | None:
    """Debian's nginx; None where it is not installed."""
    return shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


@contextmanager
def nginx(program: str, home: Path, root: Path) -> Iterator[str]:
    """Runs nginx over a directory, with Debian's settings for files; gives its address."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    home.mkdir()
    configuration = home / "nginx.conf"
    user = "user root;" if os.getuid() == 0 else ""
    configuration.write_text(_NGINX.format(home=home, port=port, root=root, user=user))
    command = [program, "-c", str(configuration), "-p", str(home), "-g", "daemon off;"]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            _await("127.0.0.1", port)
            yield f"127.0.0.1:{port}"
        finally:
            process.terminate()


def _await(host: str, port: int) -> None:
    end = time.monotonic() + _SECONDS
    while True:
        try:
            socket.create_connection((host, port)).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.05)
