"""Sessions for whose plans no code is generated: how rows come about is none of what is asked."""

from __future__ import annotations

from typing import TypeVar

from pyspark.sql import SparkSession

from tests.short_lived_jvm import NO_CODEGEN

S = TypeVar("S", bound=SparkSession)


def interpreting(session: S) -> S:
    """The session itself. A new one takes over none of the settings of the one that it is made of.

    Args:
        session: that has been made for a test.
    """
    for key, value in NO_CODEGEN.items():
        session.conf.set(key, value)
    return session
