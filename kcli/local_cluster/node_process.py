"""A node in a process of its own, whose log goes to a file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

READY_LINE = b"Kafka Server started"
"""The part of the log line with which a node reports that clients can connect."""
SERVER_COMMAND = (sys.executable, "-m", "kcli.server.main")
TAIL_BYTES = 64 * 1024
"""The end of a log that is read for its last lines, because a log may have gigabytes."""
TAIL_LINES = 15


class NodeProcess:
    """Starts a node and observes it. After a node has ended, `start` starts it again."""

    def __init__(
        self,
        properties_file: Path,
        log_file: Path,
        *,
        command: Sequence[str] = SERVER_COMMAND,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.properties_file = properties_file
        self.log_file = log_file
        self._command = tuple(command)
        self._environment = environment
        self.process: subprocess.Popen[bytes] | None = None
        self._began = 0  # the size of the log file at the last start
        self._read = 0
        self._is_ready = False

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process is not None else None

    def start(self) -> None:
        """Starts the process. It is in a session of its own, so that Ctrl-C reaches only its parent."""
        assert self.exit_code() is not None or self.process is None, "it runs already"
        self._is_ready = False
        with self.log_file.open("ab") as log:
            self._began = self._read = log.tell()
            self.process = subprocess.Popen(
                [*self._command, os.fspath(self.properties_file)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )

    def exit_code(self) -> int | None:
        """Returns the exit code, or None while the node runs. A negative number is the signal that ended it."""
        return self.process.poll() if self.process is not None else None

    def is_ready(self) -> bool:
        """Whether the node has reported that clients can connect."""
        if not self._is_ready:
            with self.log_file.open("rb") as log:
                log.seek(self._read)
                new = log.read()
            # The next call reads the incomplete last line again.
            self._read += new.rfind(b"\n") + 1
            self._is_ready = READY_LINE in new
        return self._is_ready

    def send(self, number: signal.Signals) -> None:
        """Sends a signal, if the node still runs."""
        if self.process is not None:
            self.process.send_signal(number)

    def wait(self, seconds: float) -> int:
        """Waits for the end, and returns the exit code. Raises subprocess.TimeoutExpired."""
        assert self.process is not None, "it was not started"
        return self.process.wait(seconds)

    def last_lines(self, count: int = TAIL_LINES) -> Sequence[str]:
        """Returns the last lines of the log since the last start."""
        with self.log_file.open("rb") as log:
            log.seek(max(self._began, os.fstat(log.fileno()).st_size - TAIL_BYTES))
            return log.read().decode("utf-8", "replace").splitlines()[-count:]
