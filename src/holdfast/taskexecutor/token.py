"""The secret that a job master and its task executors share, and the keys made from it."""

from __future__ import annotations

import hashlib
import hmac
import os
import re
import secrets
from collections.abc import Mapping
from pathlib import Path

from holdfast.errors import StorageError
from holdfast.files.durable_files import write_once
from holdfast.ids import ApplicationID

TOKEN_VARIABLE = "HOLDFAST_TOKEN"
TOKEN_FILE = "token"
_SHORTEST = 16
# What may stand in an HTTP header as it is.
_TOKEN = re.compile(r"[!-~]+")


def read_key(token: str, application: ApplicationID) -> str:
    """What opens one application's partitions for reading, and nothing else.

    It stands in the URLs that Spark puts into its plans and logs, so it must not give away the
    token.

    Returns:
        64 hexadecimal digits.
    """
    return hmac.new(token.encode(), application.hex.encode(), hashlib.sha256).hexdigest()


def same(given: str, expected: str) -> bool:
    """Whether two secrets are the same, in a time that doesn't tell how much of them is."""
    return hmac.compare_digest(given.encode("utf-8", "surrogateescape"), expected.encode())


def given_token(token_file: Path | None, environ: Mapping[str, str]) -> str | None:
    """The token that a person has given: by file, or in the environment.

    Args:
        token_file: a file that holds it.
        environ: the environment's variables, of which `HOLDFAST_TOKEN` may hold it.

    Returns:
        None when none is given.

    Raises:
        StorageError: when the file can't be read.
        StorageError: when what is given can't be a token.
    """
    if token_file is not None:
        try:
            return _checked(token_file.read_text(encoding="ascii").strip(), str(token_file))
        except (OSError, UnicodeDecodeError) as error:
            raise StorageError(
                str(token_file), f"can't read a token from this file: {error}"
            ) from error
    if TOKEN_VARIABLE in environ:
        return _checked(environ[TOKEN_VARIABLE].strip(), TOKEN_VARIABLE)
    return None


def own_token(directory: Path) -> str:
    """The token of the executor that keeps partitions in `directory`, made when there is none.

    It stays the same for as long as the directory lives, so that job masters get along with an
    executor that has been started again.

    Raises:
        StorageError: when it can be neither read nor written.
    """
    path = directory / TOKEN_FILE
    try:
        if not os.path.lexists(path):
            write_once(path, f"{secrets.token_hex(32)}\n".encode())
        with open(os.open(path, os.O_RDONLY | os.O_NOFOLLOW), encoding="ascii") as file:
            return _checked(file.read().strip(), str(path))
    except (OSError, UnicodeDecodeError) as error:
        raise StorageError(str(path), f"can't store a token here: {error}") from error


def _checked(token: str, where: str) -> str:
    if len(token) < _SHORTEST or not _TOKEN.fullmatch(token):
        raise StorageError(
            where,
            f"expected a token of at least {_SHORTEST} printable ASCII characters without spaces; "
            "`openssl rand -hex 32` generates one",
        )
    return token
