"""What commands import that are forked."""

import holdfast.cli.taskexecutor
import holdfast.cli.ui.command
import holdfast.taskexecutor.server

__all__ = ["holdfast"]
