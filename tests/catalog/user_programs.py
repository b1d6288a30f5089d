"""What the process has done that programs of other users are forked from: all that they import."""

from tests.catalog.user_program import try_out

try_out()
