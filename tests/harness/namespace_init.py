"""The first process of a process namespace: runs one command, and dies with it and its owner.

It is run by its path, not imported, and needs nothing but the standard library, so that it takes
milliseconds to start. When it ends, the kernel kills everything that is left in the namespace:
whatever the command has started, however it was detached.

    namespace_init.py OWNER REPORT [--bind SOURCE TARGET]... -- COMMAND...

OWNER is a descriptor that becomes readable when the owner has ended (a pidfd); REPORT one that
takes the command's number in this namespace once it runs.
"""

from __future__ import annotations

import os
import select
import sys
import threading


def _bind(source: str, target: str) -> None:
    status = os.spawnlp(os.P_WAIT, "mount", "mount", "--bind", source, target)
    if status != 0:
        sys.exit(f"{source} can't be mounted over {target}: mount has failed with {status}")


def _end_with(owner: int) -> None:
    poll = select.poll()
    poll.register(owner, select.POLLIN)
    poll.poll()
    os._exit(0)


def _wait_for(command: int) -> int:
    while True:
        # Orphans of the namespace are this process's children as well.
        pid, status = os.wait()
        if pid == command:
            return os.waitstatus_to_exitcode(status)


def main(arguments: list[str]) -> int:
    """Runs the command to its end."""
    owner, report = int(arguments[0]), int(arguments[1])
    os.set_inheritable(owner, False)
    os.set_inheritable(report, False)
    rest = arguments[2:]
    while rest[0] == "--bind":
        _bind(rest[1], rest[2])
        rest = rest[3:]
    command = rest[1:]
    pid = os.posix_spawnp(command[0], command, os.environ)
    os.write(report, str(pid).encode())
    os.close(report)
    threading.Thread(target=_end_with, args=(owner,), daemon=True).start()
    code = _wait_for(pid)
    return code if code >= 0 else 128 - code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
