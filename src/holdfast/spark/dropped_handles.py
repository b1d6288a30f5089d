"""What Python has dropped of the JVM's objects, which the JVM holds until it is told."""

from __future__ import annotations

import gc
import time
from typing import Any

from pyspark.sql import SparkSession

_PATIENCE_S = 2.0
_PAUSE_S = 0.02


def tell_of_dropped_handles(spark: SparkSession) -> None:
    """Has the JVM hold no object any more that Python has dropped.

    A handle of Py4J and its members hold each other, so dropped ones last until Python collects its
    garbage; and a thread of Py4J's then tells the JVM, which looks for them once in a second.

    Args:
        spark: a session of the JVM.
    """
    gc.collect()
    gateway: Any = spark.sparkContext._gateway
    # Only where Py4J leaves them to a thread.
    untold = getattr(gateway._gateway_client, "finalizer_deque", None)
    deadline = time.monotonic() + _PATIENCE_S
    while untold and time.monotonic() < deadline:
        time.sleep(_PAUSE_S)
    if untold is not None:
        # The last one is on its way.
        time.sleep(_PAUSE_S)
