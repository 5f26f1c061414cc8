"""Starts a program in this process or in the background, for commands with the option -daemon."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kcli.cli.output import Output
from kcli.cli.syntax.options import CommandError
from kcli.config.environment import EXTRA_ARGS, LOG_DIR, logs_directory
from kcli.model.java_text import split_blanks

CONSOLE_SUFFIX = ".out"


@dataclass(frozen=True, slots=True)
class Program:
    """A module that runs as a program. `name` is that of its log file in the background, `noun` is for errors."""

    module: str
    name: str
    noun: str


@dataclass(frozen=True, slots=True)
class Started:
    """A program that was started in the background."""

    pid: int
    log_file: str


def start(
    program: Program, arguments: Sequence[str], run: Callable[[], int], output: Output, *, is_daemon: bool
) -> int:
    """Calls `run`, which returns the exit code. With `is_daemon`, starts the program with `arguments` and returns 0."""
    if is_daemon or "-daemon" in split_blanks(os.environ.get(EXTRA_ARGS, "")):
        started = _start_in_background(program, arguments)
        if not output.is_text:
            output.row(started, "")
        return 0
    return run()


def _start_in_background(program: Program, arguments: Sequence[str]) -> Started:
    """Starts the program as `nohup … &` does: in a new session, without input, with its output in one file."""
    from kcli.server.logging.rotation import bound_output_file

    log_dir = logs_directory() or "logs"
    log_file = os.path.join(log_dir, f"{program.name}{CONSOLE_SUFFIX}")
    try:
        os.makedirs(log_dir, exist_ok=True)
        bound_output_file(log_file)
        with open(log_file, "ab") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", program.module, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
                env=os.environ | {LOG_DIR: log_dir},
            )
    except OSError as error:
        raise CommandError(
            f"cannot start a {program.noun} that writes to {log_file}: {error.strerror}"
        ) from None
    # The program continues to run after this process ends. Without this line Python would warn about an unfinished
    # child.
    process.returncode = 0
    return Started(process.pid, log_file)
