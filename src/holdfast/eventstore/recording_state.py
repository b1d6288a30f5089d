"""Whether the events of a job are being recorded."""

from __future__ import annotations

from enum import Enum


class RecordingState(Enum):
    """Whether the events of a job are being recorded. Only the first state is ever left."""

    RECORDING = "recording"
    STOPPED = "stopped"
    """Everything that was to be recorded has been."""
    FAILED = "failed"
    """The disk didn't take it, or not in time. What is on it stays a valid prefix."""
    FENCED = "fenced"
    """A newer start of the job has taken over."""
