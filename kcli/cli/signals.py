"""SIGTERM, for tools that have work to finish before they exit."""

from __future__ import annotations

import signal
from types import FrameType


class Terminated(KeyboardInterrupt):
    """SIGTERM: the tool ends as after Ctrl-C, with another exit code."""


def finish_on_sigterm() -> None:
    """Makes SIGTERM end a tool as Ctrl-C does: records in flight arrive and a group is left."""
    signal.signal(signal.SIGTERM, _terminate)


def _terminate(_number: int, _frame: FrameType | None) -> None:
    raise Terminated
