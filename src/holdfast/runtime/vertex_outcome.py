"""How a vertex ended."""

from __future__ import annotations

from enum import Enum


class VertexOutcome(Enum):
    """The outcome of a vertex."""

    CREATED = "created"
    PRODUCED = "produced"
    """Computed, and its result kept."""
    READ = "read from cache"
    """Not computed: its result had been kept before, or another job kept it meanwhile."""
    RECOVERED = "recovered"
    """Not computed: an earlier start of this job had finished it."""
    RUN = "run"
    """Computed for the answer; nothing was to be kept."""
    NOT_KEPT = "not kept"
    """Its result could not be kept; the vertices that needed it computed it."""
    FAILED = "failed"
