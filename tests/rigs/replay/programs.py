"""Runs a tool of kcli in a fork of the test process."""

# ruff: noqa: SIM115  the streams of a forked program live as long as it does

from __future__ import annotations

import contextlib
import importlib
import logging
import os
import signal
import sys
import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

from kcli.cli.main import run
from kcli.cli.script_form import SCRIPT_VARIABLE
from kcli.cli.syntax.registry import TOOLS
from kcli.protocol import messages
from kcli.rdkafka import producer
from rigs.replay.comparison import Result

SCRIPTS = {tool.script.removesuffix(".sh"): tool for tool in TOOLS.values() if tool.script}
TIMED_OUT = "timeout"
"""The exit code that the recordings note if a tool took longer than its limit."""


class Program:
    """Runs `kcli ARGV...` in a fork of this process. The fork need not import modules again, so hundreds of steps take
    only seconds.

    `partition` is the partition for records without a key, in place of a random partition.
    """

    def __init__(
        self, argv: list[str], stdin: str | None, directory: Path, partition: int | None = None
    ) -> None:
        self._out = tempfile.TemporaryFile()
        self._err = tempfile.TemporaryFile()
        with tempfile.TemporaryFile() as incoming:
            if stdin is not None:
                incoming.write(stdin.encode("utf-8"))
                incoming.seek(0)
            sys.stdout.flush()
            sys.stderr.flush()
            self._pid = os.fork()
            if self._pid == 0:
                self._become(argv, incoming.fileno(), directory, partition)

    def stdout(self) -> str:
        """The output that the program has written so far."""
        size = os.fstat(self._out.fileno()).st_size
        return os.pread(self._out.fileno(), size, 0).decode("utf-8", "replace")

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the program."""
        with contextlib.suppress(ProcessLookupError):
            os.kill(self._pid, number)

    def wait(self, limit: float) -> Result:
        """Waits for the end of the program, and kills it after `limit` seconds."""
        deadline = time.monotonic() + limit
        pause = 0.002
        timed_out = False
        while True:
            pid, status = os.waitpid(self._pid, os.WNOHANG)
            if pid:
                break
            if time.monotonic() > deadline and not timed_out:
                timed_out = True
                self.signal(signal.SIGKILL)
            time.sleep(pause)
            pause = min(pause * 1.5, 0.05)
        code = os.waitstatus_to_exitcode(status)
        # If a signal ends a program, a shell shows 128 plus the number of the signal.
        shown: int | str = TIMED_OUT if timed_out else code if code >= 0 else 128 - code
        size = os.fstat(self._err.fileno()).st_size
        err = os.pread(self._err.fileno(), size, 0).decode("utf-8", "replace")
        result = Result(self.stdout(), err, shown)
        self._out.close()
        self._err.close()
        return result

    def _become(self, argv: list[str], stdin: int, directory: Path, partition: int | None) -> None:
        code = 70
        try:
            os.dup2(stdin, 0)
            os.dup2(self._out.fileno(), 1)
            os.dup2(self._err.fileno(), 2)
            os.chdir(directory)
            signal.signal(signal.SIGTERM, signal.SIG_DFL)
            os.environ |= {"COLUMNS": "80", "TZ": "UTC", SCRIPT_VARIABLE: argv[0]}
            time.tzset()
            sys.stdin = open(0, encoding="utf-8", newline=None, closefd=False)
            sys.stdout = open(1, "w", encoding="utf-8", closefd=False)
            sys.stderr = open(2, "w", encoding="utf-8", closefd=False)
            # The handlers of the test process write to streams of its own.
            for name in (None, *logging.root.manager.loggerDict):
                logging.getLogger(name).handlers.clear()
            if partition is not None:
                setattr(producer, "random", SimpleNamespace(choice=lambda partitions: partition))  # noqa: B010
            code = run(argv)
            sys.stdout.flush()
            sys.stderr.flush()
        except BaseException:
            import traceback

            traceback.print_exc()
            sys.stderr.flush()
        finally:
            os._exit(code)


def import_tools() -> None:
    """Imports the modules that every fork would otherwise import."""
    for tool in SCRIPTS.values():
        tool.load()
    for name in os.listdir(os.path.dirname(messages.__file__ or "")):
        if name.endswith(".py"):
            importlib.import_module(f"{messages.__name__}.{name.removesuffix('.py')}")
