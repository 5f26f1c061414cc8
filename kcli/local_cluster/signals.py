"""Handles the signals of the parent process of a cluster. A signal ends the parent's pause immediately, so the pauses
can be long.
"""

from __future__ import annotations

import os
import select
import signal
from collections.abc import Callable
from contextlib import ExitStack, suppress
from types import FrameType
from typing import Self

STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)


class Signals:
    """Handles the signals of a process inside `with`, in the main thread.

    Calls `when_stopped` for each signal that requests a stop. The signal that a child process has ended only ends a
    pause.
    """

    def __init__(self) -> None:
        self.when_stopped: Callable[[], None] = lambda: None
        self._cleanup = ExitStack()
        self._read_end = -1

    def __enter__(self) -> Self:
        self._read_end, write_end = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        for descriptor in (self._read_end, write_end):
            self._cleanup.callback(os.close, descriptor)
        # Python writes a byte to the pipe for each signal that has a handler.
        self._cleanup.callback(
            signal.set_wakeup_fd, signal.set_wakeup_fd(write_end, warn_on_full_buffer=False)
        )
        for number in (*STOP_SIGNALS, signal.SIGCHLD):
            self._cleanup.callback(signal.signal, number, signal.signal(number, self._received))
        return self

    def __exit__(self, *_: object) -> None:
        self._cleanup.close()

    def pause(self, seconds: float) -> None:
        """Sleeps for a time. Returns early if a signal arrives, or has arrived since the last pause."""
        select.select([self._read_end], [], [], seconds)
        with suppress(BlockingIOError):
            os.read(self._read_end, select.PIPE_BUF)

    def _received(self, number: int, _frame: FrameType | None) -> None:
        if number in STOP_SIGNALS:
            self.when_stopped()
