"""Runs passes in the cleaner's process, `python -m kcli.storage.cleaner.worker BROKER_PID`. The broker starts this
process when a log must be cleaned.

The process reads plans from its standard input and writes the events of each pass to its standard output. Each message
is a pickle, preceded by its length. The cleaner is a separate process for two reasons. A pass in the broker would hold
Python's global lock for milliseconds at a time. And the memory of the cleaner is freed when its process ends. The
process ends when its input is closed or the broker ends.
"""

from __future__ import annotations

import errno
import os
import pickle
import signal
import struct
import sys
from typing import IO

from kcli.errors import CorruptRecordError, KafkaError
from kcli.runtime.disk import SystemDisk
from kcli.storage.cleaner.plan import CleanerLimits, CleaningEvent, CleaningFailed, CleaningPlan

LENGTH = struct.Struct(">I")


def send(pipe: IO[bytes], message: object) -> None:
    body = pickle.dumps(message)
    pipe.write(LENGTH.pack(len(body)) + body)
    pipe.flush()


def receive(pipe: IO[bytes]) -> object | None:
    """Reads the next message. Returns None if the other end of the pipe is closed."""
    head = pipe.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (size,) = LENGTH.unpack(head)
    body = pipe.read(size)
    return pickle.loads(body) if len(body) == size else None


def main(parent: int) -> None:
    # Ctrl-C at a terminal and SIGTERM of a service manager are sent to the whole process group. They are ignored here,
    # because the broker ends the cleaner.
    for signal_number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(signal_number, signal.SIG_IGN)

    def check_parent() -> None:
        if os.getppid() != parent:
            # Another broker may own the directory by now, so this process must not create more files in it.
            raise SystemExit(1)

    from kcli.storage.cleaner.one_pass import CleaningPass, IoThrottle  # loads numpy

    while (message := receive(sys.stdin.buffer)) is not None:
        assert isinstance(message, tuple), "a plan and its limits"
        plan, limits = message
        assert isinstance(plan, CleaningPlan) and isinstance(limits, CleanerLimits)
        throttle = IoThrottle(limits.bytes_per_second, check_parent)
        event: CleaningEvent
        try:
            for event in CleaningPass(plan, limits, SystemDisk(), throttle).run():
                send(sys.stdout.buffer, event)
        except BrokenPipeError:
            return
        except OSError as error:
            send(sys.stdout.buffer, CleaningFailed(_reason(error), error.errno or errno.EIO))
        except (KafkaError, CorruptRecordError) as error:
            send(sys.stdout.buffer, CleaningFailed(str(error), None))


def _reason(error: OSError) -> str:
    """The reason and the file of an error, without its number."""
    reason = error.strerror or str(error)
    return reason if error.filename is None else f"{reason}: {error.filename}"


if __name__ == "__main__":
    # The argument is the process id of the broker. The parent may be another process, if the broker has already ended.
    main(int(sys.argv[1]))
