"""How commands write amounts."""

from __future__ import annotations


def size(number_of_bytes: float) -> str:
    """`345 MB`, in powers of 1000."""
    for unit in ("bytes", "kB", "MB", "GB"):
        if number_of_bytes < 999.5:
            return f"{number_of_bytes:.0f} {unit}"
        number_of_bytes /= 1000
    return f"{number_of_bytes:.1f} TB"


def count(number: int, thing: str) -> str:
    """`1 row`, `1,500 rows`."""
    return f"{number:,} {thing}" if number == 1 else f"{number:,} {thing}s"
