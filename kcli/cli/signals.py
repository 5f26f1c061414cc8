"""Handles SIGTERM in tools that have work to finish before they exit."""

from __future__ import annotations

import signal
from types import FrameType


class Terminated(KeyboardInterrupt):
    """Raised by SIGTERM. The tool ends as after Ctrl-C, but with another exit code."""


def finish_on_sigterm() -> None:
    """Makes SIGTERM end a tool as Ctrl-C does: the tool waits for the acknowledgement of its records and leaves its
    group."""
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise Terminated
