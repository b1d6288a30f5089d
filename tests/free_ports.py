"""Ports for servers that a test starts at a known place, or starts again at the same."""

from __future__ import annotations

import itertools
import random
import socket

# Below these begin the ports that systems give to whoever asks for any, as all that connects does:
# one of those can be taken between the moment when it is found free and its use.
_PORTS = range(20_000, 32_768)


def free_ports(count: int) -> list[int]:
    """Ports that nobody listens on, and that nobody is given who asks for any.

    Args:
        count: how many.

    Returns:
        different ports of 127.0.0.1.
    """
    # Hypothesis seeds the common generator, with the same in all of the suite's processes.
    candidates = random.SystemRandom().sample(_PORTS, len(_PORTS))
    return list(itertools.islice(filter(_is_free, candidates), count))


def _is_free(port: int) -> bool:
    try:
        socket.create_server(("127.0.0.1", port)).close()
    except OSError:
        return False
    return True
