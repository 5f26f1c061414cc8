"""A process of a connector or a task, as the worker sees it: its channel, its output, and its end."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections.abc import Coroutine, Mapping
from typing import Protocol, cast

from kcli.connect.model import CONNECTOR
from kcli.connect.tasks.frames import Decoder, Frame, FrameError
from kcli.connect.tasks.traces import java_class
from kcli.connect.workers.nursery import Nursery
from kcli.runtime.log_text import name, one_line

FRAMES_PER_TURN = 50
"""The most frames of one process that are handled before the event loop serves others: about a millisecond."""
REQUESTS_MAX = 32
"""The most requests of one process that wait for an answer. More are not read."""
OUTPUT_BYTES_PER_TURN = 256
"""The most output of one process that becomes log lines before the event loop serves others. The log takes a few
milliseconds for it, even if each byte is a line."""
LINE_BYTES_MAX = 16_384
"""The longest line of the output in the log. The rest becomes the next line."""
LOGGER_NAMES_MAX = 1000
"""The most loggers that tasks can create in the worker, because Python never forgets a logger."""
LAST_FRAMES_S = 1.0
"""The longest wait for the last frames of a process that has ended. A process that it has started may keep the channel
open."""
LAST_READS_MAX = 65_536 // OUTPUT_BYTES_PER_TURN
"""So many reads empty the pipe of a process that has ended."""

OUTPUT_LOG = logging.getLogger("kcli.connect.output")
_FOREIGN = logging.getLogger("kcli.connect.tasks")
_names: set[str] = set()


def log_context(connector: str, task: int = CONNECTOR) -> str:
    """The beginning of each log line of a task or a connector. A user chooses the name of a connector."""
    return f"[{name(connector)}|{'worker' if task == CONNECTOR else f'task-{task}'}] "


class Owner(Protocol):
    """Handles what a process sends."""

    def answer(self, method: str, body: object) -> Coroutine[object, object, object]:
        """Answers a request. An exception becomes the answer, too."""
        ...

    def noted(self, method: str, body: object) -> None: ...


class Child(asyncio.Protocol):
    """A running process. `context` begins its log lines, for example "[C|task-0] "."""

    def __init__(self, owner: Owner, context: str) -> None:
        self._owner = owner
        self._context = context
        self._transport: asyncio.Transport
        self._decoder = Decoder()
        self._answering: set[asyncio.Task[None]] = set()
        self._draining = False
        self._eof = asyncio.Event()
        self._is_killed = False
        self._nursery: Nursery
        self._output = bytearray()
        self._output_fd = -1
        self.pid = 0
        self.status: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        """The exit status, when the process has ended and its last frames are handled."""

    async def start(self, nursery: Nursery) -> None:
        """Forks the process, which then waits for its first frame."""
        loop = asyncio.get_running_loop()
        self._nursery = nursery
        ours, theirs = socket.socketpair()
        reading, writing = os.pipe()
        try:
            self.pid = await nursery.fork((theirs.fileno(), writing), self._ended)
        except BaseException:
            ours.close()
            os.close(reading)
            raise
        finally:
            theirs.close()
            os.close(writing)
        os.set_blocking(reading, False)
        self._output_fd = reading
        loop.add_reader(reading, self._read_output)
        await loop.create_unix_connection(lambda: self, sock=ours)

    def run(self, spec: object, levels: Mapping[str, int]) -> None:
        """Sends the first frame. Raises FrameError for a `spec` that is too large, and ends the process."""
        try:
            self.note("run", {"spec": spec, "levels": dict(levels)})
        except FrameError:
            self.kill()
            raise

    def note(self, method: str, body: object = None) -> None:
        self._send(Frame(method, body))

    def kill(self) -> None:
        """Ends the process at once. What it still sends is ignored, because its successor may already run."""
        self._is_killed = True
        self._nursery.kill(self.pid)

    def _send(self, frame: Frame) -> None:
        if not self._transport.is_closing():
            self._transport.write(frame.encoded())

    # asyncio calls these three methods.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self._decoder.add(data)
        if not self._draining:
            self._drain()

    def connection_lost(self, exc: Exception | None) -> None:
        self._eof.set()

    def _drain(self) -> None:
        """Handles the frames that have come, a few in each turn of the event loop."""
        self._draining = True
        handled = 0
        try:
            for frame in self._decoder.frames():
                self._handle(frame)
                handled += 1
                if handled == FRAMES_PER_TURN or len(self._answering) >= REQUESTS_MAX:
                    self._transport.pause_reading()
                    if len(self._answering) < REQUESTS_MAX:
                        asyncio.get_running_loop().call_soon(self._drain)
                    return
        except FrameError as error:
            OUTPUT_LOG.error("%sThe process of the task sent %s", self._context, error)
            self.kill()
        self._draining = False
        if not self._transport.is_closing():
            self._transport.resume_reading()

    def _handle(self, frame: Frame) -> None:
        if frame.method is None:
            return
        if frame.method == "log":
            self._log(frame.body)
        elif self._is_killed:
            return
        elif frame.id is not None:
            task = asyncio.get_running_loop().create_task(self._answer(frame.method, frame.body, frame.id))
            self._answering.add(task)
            task.add_done_callback(self._answered)
        else:
            self._owner.noted(frame.method, frame.body)

    async def _answer(self, method: str, body: object, number: int) -> None:
        try:
            self._send(Frame(None, await self._owner.answer(method, body), number))
        except Exception as error:  # of the owner, or because the answer is too large for a frame
            self._send(Frame(None, None, number, {"class": java_class(error), "message": str(error)}))

    def _answered(self, task: asyncio.Task[None]) -> None:
        was_full = len(self._answering) >= REQUESTS_MAX
        self._answering.discard(task)
        if was_full and self._draining:
            asyncio.get_running_loop().call_soon(self._drain)

    def _log(self, body: object) -> None:
        """Writes a log record of the process to the worker's log."""
        match body:
            case {"logger": str(logger), "level": int(level), "text": str(text)}:
                _logger(logger).log(level, "%s%s", self._context, text)

    def _read_output(self) -> None:
        """Writes the output of the process to the worker's log."""
        try:
            content = os.read(self._output_fd, OUTPUT_BYTES_PER_TURN)
        except BlockingIOError:
            return
        except OSError:
            content = b""
        self._output += content
        if not content:
            self._close_output()
            return
        while (end := self._output.find(b"\n")) >= 0 or len(self._output) >= LINE_BYTES_MAX:
            end = LINE_BYTES_MAX if end < 0 else min(end, LINE_BYTES_MAX)
            self._log_output(bytes(self._output[:end]))
            del self._output[: end + (self._output[end : end + 1] == b"\n")]

    def _close_output(self) -> None:
        if self._output_fd < 0:
            return
        asyncio.get_running_loop().remove_reader(self._output_fd)
        os.close(self._output_fd)
        self._output_fd = -1
        if self._output:
            self._log_output(bytes(self._output))
            self._output.clear()

    def _log_output(self, line: bytes) -> None:
        OUTPUT_LOG.info("%s%s", self._context, one_line(line.decode("utf-8", "replace")))

    def _ended(self, status: int) -> None:
        self._last = asyncio.get_running_loop().create_task(self._finish(status))

    async def _finish(self, status: int) -> None:
        try:
            with contextlib.suppress(FrameError):  # nothing after an invalid frame can be read
                await self._handle_last_frames()
            await self._read_last_output()
        finally:
            # A stop of the task waits for the status, so no error may leave it out.
            self._close_output()
            self._transport.abort()
            for task in self._answering:
                task.cancel()
            if not self.status.done():
                self.status.set_result(status)

    async def _handle_last_frames(self) -> None:
        """Handles the frames that are left, which may be more than those of one turn."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(LAST_FRAMES_S):
                await self._eof.wait()
        for frame in self._decoder.frames():
            self._handle(frame)
            await asyncio.sleep(0)

    async def _read_last_output(self) -> None:
        for _ in range(LAST_READS_MAX):
            if self._output_fd < 0:
                break
            self._read_output()
            await asyncio.sleep(0)


def _logger(logger: str) -> logging.Logger:
    if logger not in _names:
        if len(_names) >= LOGGER_NAMES_MAX:
            return _FOREIGN
        _names.add(logger)
    return logging.getLogger(logger)
