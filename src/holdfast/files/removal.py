"""Removes directories so that none is ever seen half removed."""

from __future__ import annotations

import os
import shutil
from pathlib import Path


def remove_at_once(path: Path, going: Path) -> bool:
    """Renames a directory, or a file, out of everybody's sight, and removes it there.

    Args:
        path: what is removed; it need not be there.
        going: a path beside it that nobody looks at. What lies there goes as well.

    Returns:
        whether nothing of it is left.

    >>> import tempfile
    >>> home = Path(tempfile.mkdtemp())
    >>> (home / "old").mkdir()
    >>> remove_at_once(home / "old", home / ".removed-old"), list(home.iterdir())
    (True, [])
    """
    try:
        os.rename(path, going)
    except (FileNotFoundError, NotADirectoryError):
        return True
    except OSError:
        # Somebody was killed over a removal of the same name.
        _remove(going)
        try:
            os.rename(path, going)
        except OSError:
            going = path
    _remove(going)
    return not os.path.lexists(going)


def _remove(path: Path) -> None:
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
        return
    try:
        path.unlink(missing_ok=True)
    except OSError:
        # Whoever asked is told that it is there.
        return
