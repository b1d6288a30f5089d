"""How `high-availability.storageDir` is written."""

from __future__ import annotations

from pathlib import Path
from urllib.parse import unquote, urlsplit


def storage_directory(uri: str) -> Path:
    """The directory that a value of the key means.

    Args:
        uri: `file:///path`, `file:/path`, or a plain path, which may begin with `~`.

    Returns:
        an absolute path. Whether something is there is not looked at.

    Raises:
        ValueError: when it is of another scheme, of another host, or empty.

    >>> storage_directory("file:///data/ha"), storage_directory("/data/ha")
    (PosixPath('/data/ha'), PosixPath('/data/ha'))
    """
    if not uri.strip() or "\0" in uri:
        raise ValueError(uri)
    parts = urlsplit(uri)
    if parts.scheme.lower() == "file":
        if parts.netloc not in ("", "localhost") or not parts.path.startswith("/"):
            raise ValueError(uri)
        if parts.query or parts.fragment:
            raise ValueError(uri)
        return Path(unquote(parts.path))
    if parts.scheme and uri[len(parts.scheme) + 1 :].startswith("/"):
        raise ValueError(uri)
    return Path(uri).expanduser().absolute()
