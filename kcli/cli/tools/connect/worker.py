"""Starts a worker of Kafka Connect, for connect-standalone and connect-distributed."""

from __future__ import annotations

from collections.abc import Sequence

from kcli.cli.output import Output
from kcli.cli.tools import background
from kcli.cli.tools.background import Program

MODULE = "kcli.connect.program"


def start(mode: str, name: str, files: Sequence[str], output: Output, *, is_daemon: bool) -> int:
    """Runs a worker until a signal stops it, and returns its exit code. With `is_daemon`, starts it and returns 0.

    `mode` is standalone or distributed. `name` is the name of the log file of a worker in the background.
    """

    def run() -> int:
        from kcli.connect.program import run

        return run(mode, files)

    program = Program(MODULE, name, "worker")
    return background.start(program, [mode, *files], run, output, is_daemon=is_daemon)
