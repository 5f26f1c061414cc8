"""The process of a program that is no node: its log, its event loop, and the signal that stops it."""

from __future__ import annotations

import asyncio
import logging
import signal
from pathlib import Path

from kcli.config.environment import logs_directory
from kcli.server import logging as server_logging
from kcli.server.logging import LogSettings


def configure_log() -> None:
    """Begins to log to stdout, and to files if the environment names a directory for them."""
    directory = logs_directory()
    settings = LogSettings(
        directory=None if directory is None else Path(directory), levels={"root": logging.INFO}
    )
    server_logging.configure(settings)


class StopSignal:
    """The first signal that stops the program. A second one has no effect, because the stop has limits of time."""

    def __init__(self) -> None:
        self.number: int | None = None
        self._event = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._receive, number)

    def _receive(self, number: int) -> None:
        if self.number is None:
            self.number = number
        self._event.set()

    def end(self) -> None:
        """Ends the wait without a signal, because the program has ended."""
        self._event.set()

    async def wait(self) -> None:
        await self._event.wait()
