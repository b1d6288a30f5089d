"""Who runs the program that runs here."""

from __future__ import annotations

import grp
import os
import pwd
import socket

from holdfast.catalog.cataloged_result import ProgramIdentity
from holdfast.ids import ApplicationID


def this_program(application: ApplicationID) -> ProgramIdentity:
    """The program that runs here.

    Args:
        application: of its environment.
    """
    groups = dict.fromkeys([os.getegid(), *os.getgroups()])
    return ProgramIdentity(
        application,
        _user_name(),
        tuple(map(_group_name, groups)),
        socket.gethostname(),
        os.getpid(),
    )


def _user_name() -> str:
    try:
        # Not what the environment's variables say, which anybody can set.
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        # A container's user may have no name.
        return str(os.getuid())


def _group_name(group: int) -> str:
    try:
        return grp.getgrgid(group).gr_name
    except KeyError:
        return str(group)
