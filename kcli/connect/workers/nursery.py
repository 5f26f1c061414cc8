"""The worker's side of the process from which it forks the processes of connectors and tasks."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import sys
from collections import deque
from collections.abc import Callable, Sequence

from kcli.connect.tasks.nursery import PACKET_BYTES
from kcli.formats.connect.errors import ConnectException
from kcli.model.java_text import parse_int

FORKS_MAX = 16
"""The most forks at a time, so that the commands always fit into the buffer of the socket."""
END_TIMEOUT_S = 5.0
"""The longest wait for the process to end after its socket is closed."""
KILLED = -9
"""The exit status of processes that ended because the nursery did."""

# The nursery finds the same modules as the worker. PYTHONPATH would do this for other programs that a task starts, too.
_PROGRAM = "import sys; sys.path[:] = {path!r}; from kcli.connect.tasks.nursery import main; main()"

Ended = Callable[[int], None]
"""Takes the exit status of a process: a signal is a negative number."""


class Nursery:
    """Starts processes in a few milliseconds. If the nursery itself ends, the next fork starts another one."""

    def __init__(self, preloaded: Sequence[str] = ()) -> None:
        self._preloaded = preloaded
        self._control: socket.socket | None = None
        self._process: asyncio.subprocess.Process | None = None
        self._starting = asyncio.Lock()
        self._forks = asyncio.Semaphore(FORKS_MAX)
        self._answers: deque[tuple[asyncio.Future[int], Ended]] = deque()
        self._ended: dict[int, Ended] = {}
        self._closed = False

    async def start(self) -> socket.socket:
        """Starts the process if it does not run."""
        async with self._starting:
            if self._closed:
                raise ConnectException("The worker stops")
            if self._control is not None:
                return self._control
            ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
            with theirs:
                ours.setblocking(False)
                self._process = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-c",
                    _PROGRAM.format(path=sys.path),
                    str(theirs.fileno()),
                    *self._preloaded,
                    pass_fds=(theirs.fileno(),),
                    # The terminal's Ctrl-C is for the worker, which stops the tasks in its own order.
                    start_new_session=True,
                )
            asyncio.get_running_loop().add_reader(ours.fileno(), self._read, ours)
            self._control = ours
            return ours

    async def fork(self, descriptors: Sequence[int], ended: Ended) -> int:
        """Starts a process that has these file descriptors. Returns its id. `ended` is called when it has ended."""
        async with self._forks:
            control = await self.start()
            answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
            self._answers.append((answer, ended))
            try:
                socket.send_fds(control, [b"fork"], descriptors)
            except OSError as error:
                self._lost(control)
                raise ConnectException(f"No process could be started: {error}") from error
            return await answer

    def kill(self, pid: int) -> None:
        """Ends a process at once. The nursery knows whether the id still belongs to it."""
        if self._control is not None and pid in self._ended:
            with contextlib.suppress(OSError):
                self._control.send(f"kill {pid}".encode())

    async def close(self) -> None:
        """Ends the nursery, and all processes that still run."""
        self._closed = True
        if self._control is not None:
            self._lost(self._control)
        if self._process is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(END_TIMEOUT_S):
                    await self._process.wait()

    def _read(self, control: socket.socket) -> None:
        try:
            packet = control.recv(PACKET_BYTES)
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        if not packet:
            self._lost(control)
            return
        what, *texts = packet.decode().split(" ")
        pid, *status = map(parse_int, texts)
        if what == "forked":
            answer, ended = self._answers.popleft()
            self._ended[pid] = ended
            if answer.done():
                self.kill(pid)  # the caller was cancelled while it waited
            else:
                answer.set_result(pid)
        elif what == "refused":
            answer, _ = self._answers.popleft()
            if not answer.done():
                answer.set_exception(ConnectException(f"No process could be started: {os.strerror(*status)}"))
        elif pid in self._ended:
            self._ended.pop(pid)(*status)

    def _lost(self, control: socket.socket) -> None:
        """The nursery has ended, and so have its children."""
        if self._control is not control:
            return
        self._control = None
        asyncio.get_running_loop().remove_reader(control.fileno())
        control.close()
        for answer, _ in self._answers:
            if not answer.done():
                answer.set_exception(ConnectException("The process that starts tasks has ended"))
        self._answers.clear()
        ended, self._ended = self._ended, {}
        for call in ended.values():
            call(KILLED)
