"""Controls a cleaner process from the broker: sends plans of passes to the process, receives its events, and can end
it."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import threading
from collections.abc import Generator

from kcli.errors import CorruptRecordError, StorageError
from kcli.storage.cleaner.cleaner import CleaningStopped
from kcli.storage.cleaner.plan import (
    CleanedSegment,
    CleanerLimits,
    CleaningDone,
    CleaningEvent,
    CleaningFailed,
    CleaningPlan,
)
from kcli.storage.cleaner.worker import receive, send

WORKER = "kcli.storage.cleaner.worker"


class CleanerProcess:
    """A process that runs passes of the cleaner (each pass compacts one log). The process starts with the first pass.
    `stop` may be called at any time and from any thread.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._guard = threading.Lock()
        self._stopped_because = ""

    def run_pass(self, plan: CleaningPlan, limits: CleanerLimits) -> Generator[CleaningEvent, None, None]:
        """Runs a pass in the process. Raises the errors of `CleaningPass.run`, and CleaningStopped after `stop`."""
        process = self._running()
        assert process.stdin is not None and process.stdout is not None
        is_done = False
        try:
            send(process.stdin, (plan, limits))
            while not is_done:
                event = receive(process.stdout)
                match event:
                    case CleaningFailed(reason, None):
                        is_done = True
                        raise CorruptRecordError(reason)
                    case CleaningFailed(reason, int(error_number)):
                        is_done = True
                        raise OSError(error_number, reason)
                    case CleanedSegment():
                        yield event
                    case CleaningDone():
                        is_done = True
                        yield event
                    case _:
                        raise self._ended(process)
        except (BrokenPipeError, ValueError):
            # A ValueError means that `stop` has closed the pipe between two events.
            raise self._ended(process) from None
        finally:
            if not is_done:
                self._end()  # the pass was cancelled, but the process still works on it

    @property
    def pid(self) -> int | None:
        """The id of the process. None if no process runs."""
        process = self._process
        return None if process is None else process.pid

    def stop(self, reason: str = "the broker stops") -> None:
        with self._guard:
            self._stopped_because = reason
        self._end()

    def _running(self) -> subprocess.Popen[bytes]:
        with self._guard:
            if self._stopped_because:
                raise CleaningStopped(self._stopped_because)
            if self._process is None:
                try:
                    self._process = subprocess.Popen(
                        [sys.executable, "-m", WORKER, str(os.getpid())],
                        stdin=subprocess.PIPE,
                        stdout=subprocess.PIPE,
                    )
                except OSError as error:  # the process could not be started; no log directory has failed
                    raise StorageError(f"the cleaner's process cannot be started: {error}") from error
            return self._process

    def _ended(self, process: subprocess.Popen[bytes]) -> Exception:
        code = process.wait()
        if self._stopped_because:
            return CleaningStopped(self._stopped_because)
        return CorruptRecordError(
            f"the cleaner's process has ended with code {code}: out of memory, or a bug in kcli"
        )

    def _end(self) -> None:
        with self._guard:
            process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                assert pipe is not None
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
