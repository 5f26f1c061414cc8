"""What the worker wants of a task. The thread that reads the channel sets it, and the loop of the task obeys."""

from __future__ import annotations

import threading
from collections.abc import Callable


class Control:
    """The orders of the worker. Each order wakes the loop."""

    def __init__(self, *, is_paused: bool = False) -> None:
        self.is_stopping = False
        self.is_paused = is_paused
        self.on_stop: Callable[[], None] | None = None
        """Called once at the order to stop, in the thread that reads the channel."""
        self._changed = threading.Event()

    def handle(self, method: str, body: object) -> None:
        """Takes a note of the worker."""
        match method:
            case "stop":
                self.stop()
            case "pause":
                self.is_paused = True
            case "resume":
                self.is_paused = False
        self._changed.set()

    def stop(self) -> None:
        if self.is_stopping:
            return
        self.is_stopping = True
        self._changed.set()
        if self.on_stop is not None:
            self.on_stop()

    def wait(self, seconds: float) -> None:
        """Waits, but not longer than until the next order."""
        self._changed.wait(seconds)
        self._changed.clear()

    def wait_while_paused(self) -> None:
        while self.is_paused and not self.is_stopping:
            self.wait(1.0)
