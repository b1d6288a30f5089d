"""How the suite's JVMs are started. They live for seconds: starting is what they mostly do."""

from __future__ import annotations

import os
import sys
from pathlib import Path

# Compiling hot code a second time, for speed, takes longer here than it saves.
OPTIONS = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"
# What `python -m tests.share_classes` makes.
SHARED_CLASSES = Path(sys.prefix, "spark-classes.jsa")


def start_them_fast() -> None:
    """Has JVMs that this process and its children start get the options, unless it has its own."""
    os.environ.setdefault("SPARK_LAUNCHER_OPTS", OPTIONS)
    options = OPTIONS
    if SHARED_CLASSES.exists():
        # Another Java or another Spark does without, and is not to talk of it.
        options += f" -Xlog:disable -XX:SharedArchiveFile={SHARED_CLASSES}"
    os.environ.setdefault("SPARK_SUBMIT_OPTS", options)
