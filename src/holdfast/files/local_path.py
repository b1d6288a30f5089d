"""How a place on this machine is written where users give one."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

_URL = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(/.*)|(file):(.*)", re.DOTALL | re.IGNORECASE)
_OF_THIS_MACHINE = re.compile(r"(?://(?:localhost)?(?=/))?(/(?!/).*)", re.DOTALL | re.IGNORECASE)
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")


def local_path(text: str | Path) -> Path:
    """The path that a value means, where it is one of this machine.

    A `file:` URL is decoded as `java.net.URI` does. White space around a text doesn't count.

    Args:
        text: `file:///path`, `file:/path`, or a path, which may be relative and may begin with `~`.

    Returns:
        an absolute path. Whether something is there is not looked at.

    Raises:
        ValueError: when it is of another scheme, of another host, or no path at all.

    >>> local_path("file:///data/my%20results"), local_path("/data/my%20results")
    (PosixPath('/data/my results'), PosixPath('/data/my%20results'))
    """
    written = str(text).strip() if isinstance(text, str) else str(text)
    url = _URL.fullmatch(written)
    path = written if url is None else _path_of_url(url[1] or url[3], url[2] or url[4])
    if not path or "\0" in path:
        raise ValueError(text)
    if url is not None:
        return Path(path)
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError as error:
        raise ValueError(text) from error


def _path_of_url(scheme: str, rest: str) -> str:
    found = _OF_THIS_MACHINE.fullmatch(rest)
    if scheme.lower() != "file" or found is None or re.search(r"[?#]", rest):
        raise ValueError(f"{scheme}:{rest}")
    if _BROKEN_ESCAPE.search(found[1]):
        raise ValueError(f"{scheme}:{rest}")
    return unquote(found[1], errors="strict")
