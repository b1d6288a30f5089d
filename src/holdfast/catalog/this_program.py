"""Who runs the program that runs here."""

from __future__ import annotations

import grp
import os
import pwd
import socket

from holdfast.catalog.audience import Audience
from holdfast.catalog.cataloged_result import ProgramIdentity
from holdfast.ids import ApplicationID


def this_program(
    application: ApplicationID,
    shares_with: Audience = Audience.USER,
    group: int | None = None,
) -> ProgramIdentity:
    """The program that runs here.

    Args:
        application: of its environment.
        shares_with: with whom it shares at most.
        group: that of the files that it shares; None: as of any file that it makes.
    """
    groups = dict.fromkeys([os.getegid(), *os.getgroups()])
    if group is not None and (group in groups or os.getuid() == 0):
        groups = {group: None, **groups}
    return ProgramIdentity(
        application,
        _user_name(),
        tuple(map(_group_name, groups)),
        socket.gethostname(),
        os.getpid(),
        shares_with,
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
