"""Starts a worker of Kafka Connect in this process or in the background, for connect-standalone and -distributed."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from kcli.cli.output import Output
from kcli.cli.syntax.options import CommandError
from kcli.config.environment import EXTRA_ARGS, LOG_DIR, logs_directory
from kcli.model.java_text import split_blanks

CONSOLE_SUFFIX = ".out"
MODULE = "kcli.connect.program"


@dataclass(frozen=True, slots=True)
class Started:
    """A worker that was started in the background."""

    pid: int
    log_file: str


def start(mode: str, name: str, files: Sequence[str], output: Output, *, is_daemon: bool) -> int:
    """Runs a worker until a signal stops it, and returns its exit code. With `is_daemon`, starts it and returns 0.

    `mode` is standalone or distributed. `name` is the name of the log file of a worker in the background.
    """
    if is_daemon or "-daemon" in split_blanks(os.environ.get(EXTRA_ARGS, "")):
        started = _start_in_background(mode, name, files)
        if not output.is_text:
            output.row(started, "")
        return 0
    from kcli.connect.program import run

    return run(mode, files)


def _start_in_background(mode: str, name: str, files: Sequence[str]) -> Started:
    """Starts the worker as `nohup … &` does: in a new session, without input, with its output in one file."""
    from kcli.server.logging.rotation import bound_output_file

    log_dir = logs_directory() or "logs"
    log_file = os.path.join(log_dir, f"{name}{CONSOLE_SUFFIX}")
    try:
        os.makedirs(log_dir, exist_ok=True)
        bound_output_file(log_file)
        with open(log_file, "ab") as log:
            worker = subprocess.Popen(
                [sys.executable, "-m", MODULE, mode, *files],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | {LOG_DIR: log_dir},
            )
    except OSError as error:
        raise CommandError(f"cannot start a worker that writes to {log_file}: {error.strerror}") from None
    # The worker continues to run after this process ends. Without this line Python would warn about an unfinished
    # child.
    worker.returncode = 0
    return Started(worker.pid, log_file)
