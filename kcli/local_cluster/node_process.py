"""A node in a separate process, whose output goes to a file."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from kcli.server.logging.rotation import bound_output_file

READY_LINE = b"Kafka Server started"
"""The part of the log line with which a node reports that clients can connect."""
START_LINE = b"When the server has started"
"""The part of the log line that a node in the background writes first."""
SERVER_COMMAND = (sys.executable, "-m", "kcli.server.main")
LOG_DIR = "LOG_DIR"
"""The environment variable with the directory of a node's log files, as in Kafka."""
TAIL_BYTES = 64 * 1024
"""The end of a log that is read for its last lines, because a log may have gigabytes."""
TAIL_LINES = 15


class NodeProcess:
    """Starts a node and observes it. After a node has ended, `start` starts it again."""

    def __init__(
        self,
        properties_file: Path,
        output_file: Path,
        *,
        log_file: Path | None = None,
        command: Sequence[str] = SERVER_COMMAND,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """If `log_file` is given, the node writes its log to this file and to other files in the same directory. The
        output of the process then has only the lines until the node is ready, and Python's own errors.
        """
        self.properties_file = properties_file
        self.output_file = output_file
        self.log_file = log_file
        self._command = tuple(command) if log_file is None else (*command, "--background")
        environment = os.environ if environment is None else environment
        self._environment = (
            environment if log_file is None else {**environment, LOG_DIR: str(log_file.parent)}
        )
        self.process: subprocess.Popen[bytes] | None = None
        self._began = 0  # the size of the output file at the last start
        self._read = 0
        self._is_ready = False

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process is not None else None

    def start(self) -> None:
        """Starts the process in its own session, so that Ctrl-C reaches only the parent process."""
        assert self.exit_code() is not None or self.process is None, "it runs already"
        self._is_ready = False
        bound_output_file(self.output_file)
        with self.output_file.open("ab") as output:
            self._began = self._read = output.tell()
            self.process = subprocess.Popen(
                [*self._command, os.fspath(self.properties_file)],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )

    def exit_code(self) -> int | None:
        """Returns the exit code, or None while the node runs. If a signal ended the process, the code is the negative
        number of the signal.
        """
        return self.process.poll() if self.process is not None else None

    def is_ready(self) -> bool:
        """Whether the node has reported that clients can connect."""
        if not self._is_ready:
            with self.output_file.open("rb") as output:
                output.seek(self._read)
                new = output.read()
            # The next call reads the incomplete last line again.
            self._read += new.rfind(b"\n") + 1
            self._is_ready = READY_LINE in new
        return self._is_ready

    def send(self, number: signal.Signals) -> None:
        """Sends a signal, if the node still runs."""
        if self.process is not None:
            self.process.send_signal(number)

    def wait(self, seconds: float) -> int:
        """Waits for the end of the process, and returns the exit code. Raises subprocess.TimeoutExpired."""
        assert self.process is not None, "it was not started"
        return self.process.wait(seconds)

    def last_lines(self, count: int = TAIL_LINES) -> Sequence[str]:
        """Returns the last lines that the node has written since its start. Lines of the log file come first. Lines of
        the output that are newer than the start follow.
        """
        if self.log_file is None or not self._is_ready:
            return _last_lines(self.output_file, self._began)[-count:]
        lines = _last_lines(self.log_file, 0) if self.log_file.exists() else []
        return [*lines, *_last_lines(self.output_file, self._read)][-count:]


def last_start_is_over(output_file: Path) -> bool:
    """Whether the node was ready after its last start in the background. False without the output of such a start."""
    try:
        tail = _tail(output_file, 0)
    except OSError:
        return False
    return tail.rfind(READY_LINE) > tail.rfind(START_LINE)


def _last_lines(path: Path, began: int) -> list[str]:
    return _tail(path, began).decode("utf-8", "replace").splitlines()


def _tail(path: Path, began: int) -> bytes:
    with path.open("rb") as file:
        file.seek(max(began, os.fstat(file.fileno()).st_size - TAIL_BYTES))
        return file.read()
