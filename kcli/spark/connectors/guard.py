"""Runs a command, and ends all its processes when the process that has started this one ends.

A Spark job consists of several processes: spark-submit, the driver, a Java virtual machine and Python workers. They run
in a session of their own. A line `stop` on standard input sends SIGTERM to the command. The end of standard input
means that the job must end now: the task has ended or has run out of patience, and another worker may soon start the
same job. After the command has ended, no process of the session is left.

This file runs as a program, without kcli and its packages, so that it needs little memory. Its first argument is the
directory with the files of the task, which may contain secrets. The others are the command.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import threading
import time

STDIN_FD = 0
READ_BYTES = 64
PAUSE_S = 0.05
"""The time for killed processes to disappear."""
ROUNDS_MAX = 100
"""The most looks for processes that are left. A process may start another one while it is looked for."""
_ENDING = threading.Lock()
"""Held by the thread that ends this process, so that the other one cannot end it in the middle."""
SIGNALLED = 128
"""The exit code of a command that a signal has ended is larger than this number by the number of the signal."""


def main() -> None:
    # The task ignores these signals, and its children inherit that.
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, signal.SIG_DFL)
    command = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL)
    threading.Thread(target=_obey, args=(command,), daemon=True).start()
    code = command.wait()
    with _ENDING:
        kill_session()
        # Python's own clean-up would wait for the thread.
        os._exit(code if code >= 0 else SIGNALLED - code)


def _obey(command: subprocess.Popen[bytes]) -> None:
    while os.read(STDIN_FD, READ_BYTES):
        with contextlib.suppress(OSError):
            command.terminate()
    with _ENDING:
        kill_session()
        shutil.rmtree(sys.argv[1], ignore_errors=True)  # a task that was killed could not delete it
        os._exit(SIGNALLED + signal.SIGKILL)


def kill_session() -> None:
    """Kills all other processes of this session."""
    session = os.getsid(0)
    for _ in range(ROUNDS_MAX):
        others = [pid for pid in _processes() if pid != os.getpid() and _is_in(pid, session)]
        for pid in others:
            with contextlib.suppress(OSError):
                os.kill(pid, signal.SIGKILL)
        if not others:
            return
        time.sleep(PAUSE_S)


def _processes() -> list[int]:
    return [int(name) for name in os.listdir("/proc") if name.isascii() and name.isdigit()]


def _is_in(pid: int, session: int) -> bool:
    """Whether a process of this session still runs. A killed process stays visible until its parent has noticed."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            state, _, _, its_session = file.read().rpartition(")")[2].split()[:4]
    except (OSError, ValueError):
        return False
    return its_session == str(session) and state not in ("Z", "X")


if __name__ == "__main__":
    main()
