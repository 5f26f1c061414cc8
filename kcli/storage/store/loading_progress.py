"""Logs the progress while the logs of a directory are recovered."""

from __future__ import annotations

import logging
import threading

from kcli.runtime.clock import Clock

_log = logging.getLogger(__name__)

INTERVAL_SECONDS = 5.0
"""The seconds between two progress lines. There is no line for each log, because a node may have thousands of logs."""


class LoadingProgress:
    """Counts the recovered logs of a directory, and logs their number. Several threads may call `loaded`."""

    def __init__(self, clock: Clock, path: str, total: int) -> None:
        self._clock = clock
        self._path = path
        self._total = total
        self._count = 0
        self._shown = clock.monotonic()
        self._guard = threading.Lock()

    def loaded(self) -> None:
        """Counts one more log. Logs the number if INTERVAL_SECONDS have passed since the last line."""
        with self._guard:
            self._count += 1
            now = self._clock.monotonic()
            if now - self._shown < INTERVAL_SECONDS:
                return
            self._shown = now
            _log.info("Recovered %d of %d logs of %s", self._count, self._total, self._path)
