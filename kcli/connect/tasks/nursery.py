"""The process from which a worker forks the processes of its connectors and tasks.

It has imported everything that a task needs, and has no threads. So a fork takes a few milliseconds, and the processes
share the memory of the imported modules. The worker sends one packet for each command:

- the two file descriptors of a new process (its channel, and the pipe for its output), with the text `fork`;
- `kill PID`, which ends a process. Only this process may do it, because it knows which ids are still its children's.

It answers `forked PID` or `refused 0 ERRNO` in the order of the commands, and reports `ended PID STATUS`. It ends when
the worker ends.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib
import os
import select
import signal
import socket
import sys

from kcli.connectors import builtin
from kcli.model.java_text import parse_int

PACKET_BYTES = 64
PRELOADED = (
    "confluent_kafka",
    "kcli.config.consumer",
    "kcli.config.producer",
    "kcli.connect.tasks.connector",
    "kcli.connect.tasks.main",
    "kcli.rdkafka.client",
    "kcli.rdkafka.consumer",
    "kcli.rdkafka.producer",
    "kcli.rdkafka.security",
)
"""The modules to import before the first fork, beside those of the built-in converters and transformations."""

_PR_SET_PDEATHSIG = 1
STDOUT_FD, STDERR_FD = 1, 2


def main() -> None:
    """Serves until the worker closes the control socket, whose file descriptor is the first argument."""
    control = socket.socket(fileno=parse_int(sys.argv[1]))
    groups = (builtin.CONVERTER, builtin.HEADER_CONVERTER, builtin.TRANSFORM, builtin.PREDICATE)
    plugins = {place.partition(":")[0] for group in groups for place in builtin.BUILT_IN[group]}
    for name in (*PRELOADED, *sorted(plugins), *sys.argv[2:]):
        # A plugin that cannot be imported fails its own tasks, which report the reason.
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    waking, woken = os.pipe()
    os.set_blocking(woken, False)
    os.set_blocking(waking, False)
    signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    gc.collect()
    gc.freeze()
    children: set[int] = set()
    while True:
        readable, _, _ = select.select([control.fileno(), waking], [], [])
        if waking in readable:
            with contextlib.suppress(BlockingIOError):
                os.read(waking, 4096)
            _reap(control, children)
        if control.fileno() in readable and not _serve(control, children, (waking, woken)):
            return


def _serve(control: socket.socket, children: set[int], pipe: tuple[int, int]) -> bool:
    """Carries out one command. Returns False if the worker has closed the socket."""
    try:
        packet, descriptors, _, _ = socket.recv_fds(control, PACKET_BYTES, 2)
    except OSError:
        return False
    if not packet:
        return False
    command, _, argument = packet.decode().partition(" ")
    if command == "fork":
        _fork(control, children, descriptors, pipe)
    elif command == "kill" and (pid := parse_int(argument)) in children:
        _kill_group(pid)
    return True


def _fork(control: socket.socket, children: set[int], descriptors: list[int], pipe: tuple[int, int]) -> None:
    try:
        pid = os.fork()
    except OSError as error:
        # The system has no room for another process. The others run on.
        _send(control, f"refused 0 {error.errno}")
    else:
        if pid == 0:
            _become_child(control, descriptors, pipe)
        children.add(pid)
        _send(control, f"forked {pid}")
    for descriptor in descriptors:
        os.close(descriptor)


def _reap(control: socket.socket, children: set[int]) -> None:
    while children:
        ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if ended is None:
            return
        pid = ended.si_pid
        # Another worker may soon run the task, so the processes that it has started end too. Until `waitpid`, no other
        # group can have this id.
        _kill_group(pid)
        _, status = os.waitpid(pid, 0)
        children.discard(pid)
        _send(control, f"ended {pid} {os.waitstatus_to_exitcode(status)}")


def _kill_group(pid: int) -> None:
    """Ends a child and the processes that it has started."""
    for kill in (os.killpg, os.kill):
        with contextlib.suppress(ProcessLookupError):  # a child that has just been forked leads no group yet
            kill(pid, signal.SIGKILL)


def _send(control: socket.socket, text: str) -> None:
    with contextlib.suppress(OSError):
        control.send(text.encode())


def _become_child(control: socket.socket, descriptors: list[int], pipe: tuple[int, int]) -> None:
    """Runs a connector or a task in the process that was just forked. Does not return."""
    status = 1
    try:
        os.setpgid(0, 0)
        # If this process is killed, its children must not run on without it.
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        control.close()
        for descriptor in pipe:
            os.close(descriptor)
        channel, output = descriptors
        # Python's sys.__stdout__ stays the output of the worker, which FileStreamSink uses if it has no file.
        own_output = os.fdopen(os.dup(STDOUT_FD), "w", encoding="utf-8")
        os.dup2(output, STDOUT_FD)
        os.dup2(output, STDERR_FD)
        os.close(output)
        sys.stdout = os.fdopen(STDOUT_FD, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)
        sys.stderr = os.fdopen(STDERR_FD, "w", buffering=1, encoding="utf-8", errors="replace", closefd=False)
        sys.__stdout__ = own_output  # type: ignore[misc]  # of this process only
        from kcli.connect.tasks.main import run

        run(socket.socket(fileno=channel))
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr, sys.__stdout__):
            with contextlib.suppress(Exception):
                if stream is not None:
                    stream.flush()
        # librdkafka's threads may still run, so the process ends without Python's own clean-up.
        os._exit(status)
