"""A running job: its processes, the end of its log, and its stop."""

from __future__ import annotations

import contextlib
import logging
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import IO

_log = logging.getLogger("kcli.spark.connectors")

GUARD = Path(__file__).with_name("guard.py")
TAIL_LINES = 30
"""The last lines of a job's log, which the trace of a failed task shows."""
LINE_MAX_BYTES = 8192
"""The longest line. A longer one is divided."""
END_S = 10.0
"""The longest wait for the end of killed processes, and for the last lines of the log."""


class JobProcess:
    """Starts a command, and logs its output line by line. `directory` has the files of the command."""

    def __init__(self, command: Sequence[str], directory: str) -> None:
        self._tail: deque[str] = deque(maxlen=TAIL_LINES)
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", str(GUARD), directory, *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._orders: IO[bytes] = self._process.stdin
        self._reader = threading.Thread(
            target=self._read, args=(self._process.stdout,), name="job-log", daemon=True
        )
        self._reader.start()

    def exit_code(self) -> int | None:
        """The exit code of the command, or None while it runs."""
        code = self._process.poll()
        if code is not None:
            self._reader.join(END_S)
            self._end_orders()
        return code

    def tail(self) -> str:
        """The last lines of the output."""
        return "\n".join(self._tail)

    def stop(self, timeout_s: float) -> None:
        """Sends SIGTERM, and SIGKILL to all processes after the time-out. Waits for their end."""
        if self._orders.closed:
            return  # the command has ended
        with contextlib.suppress(OSError):
            self._orders.write(b"stop\n")
            self._orders.flush()
        try:
            self._process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            _log.warning("The job did not stop within %.0f s, and is killed", timeout_s)
        self._end_orders()
        self._process.wait(END_S)
        self._reader.join(END_S)

    def _end_orders(self) -> None:
        with contextlib.suppress(OSError):
            self._orders.close()

    def _read(self, output: IO[bytes]) -> None:
        with output:
            while line := output.readline(LINE_MAX_BYTES):
                text = line.decode(errors="replace").rstrip("\r\n")
                self._tail.append(text)
                _log.info("%s", text)
