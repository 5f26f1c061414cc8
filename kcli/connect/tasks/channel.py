"""The side of the channel to the worker that is in the process of a task."""

from __future__ import annotations

import itertools
import os
import select
import socket
import threading
import time
from collections.abc import Callable, Mapping
from queue import Empty, SimpleQueue

from kcli.connect.tasks.frames import Decoder, Frame, FrameError
from kcli.formats.connect.errors import ConnectException

READ_BYTES = 65_536
REPLY_TIMEOUT_S = 90.0
"""The longest wait for a reply of the worker: longer than any time-out of its own clients."""

Handler = Callable[[str, object], None]
"""Takes the method and the body of a note from the worker, in the thread that reads."""


class WorkerError(ConnectException):
    """The worker could not do what the task has asked for. `java_class` is the class of the worker's exception."""

    def __init__(self, java_class: str, message: str) -> None:
        super().__init__(message)
        self.java_class = java_class  # type: ignore[misc]  # of the instance


class Channel:
    """Sends requests and notes to the worker. Callable from any thread.

    If the worker ends, the process ends at once, because another worker may soon run the same task. A frozen worker
    does not prolong the lease of the task, so the process then ends with the lease.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._sending = threading.Lock()
        self._ids = itertools.count(1)
        self._waiting: dict[int, SimpleQueue[Frame]] = {}
        self._decoder = Decoder()
        self.lease_end_s: float | None = None
        """The time of the monotonic clock at which this process must end. Set by the thread that reads."""

    def first(self) -> Frame:
        """Waits for the first frame, which says what to run. Call it before `listen`."""
        while True:
            content = self._socket.recv(READ_BYTES)
            if not content:
                end_process()
            self._decoder.add(content)
            for frame in self._decoder.frames():
                return frame

    def listen(self, handler: Handler) -> None:
        """Begins to read, in a thread of its own."""
        threading.Thread(target=self._read, args=(handler,), name="worker-channel", daemon=True).start()

    def note(self, method: str, body: object = None) -> None:
        self._send(Frame(method, body))

    def ask(self, method: str, body: object = None, timeout_s: float = REPLY_TIMEOUT_S) -> object:
        """Sends a request, and returns the body of its reply. Raises WorkerError or ConnectException."""
        number = next(self._ids)
        replies = self._waiting[number] = SimpleQueue[Frame]()
        try:
            self._send(Frame(method, body, number))
            reply = replies.get(timeout=timeout_s)
        except Empty:
            raise ConnectException(f"The worker did not answer '{method}' in time") from None
        finally:
            del self._waiting[number]
        if reply.error is not None:
            raise WorkerError(reply.error["class"], reply.error["message"])
        return reply.body

    def _send(self, frame: Frame) -> None:
        try:
            content = frame.encoded()
        except FrameError as error:
            raise ConnectException(str(error)) from None
        with self._sending:
            try:
                self._socket.sendall(content)
            except OSError:
                end_process()

    def _read(self, handler: Handler) -> None:
        while True:
            # The first frames may have come together with the one that `first` has returned.
            for frame in self._decoder.frames():
                if frame.method is not None:
                    handler(frame.method, frame.body)
                elif frame.id is not None and (replies := self._waiting.get(frame.id)) is not None:
                    replies.put(frame)
            content = self._received()
            if not content:
                end_process()
                return
            self._decoder.add(content)

    def _received(self) -> bytes:
        """The next bytes of the worker. Empty if the worker has ended, or the lease is over."""
        try:
            while not select.select([self._socket], [], [], self._seconds_left())[0]:
                # This process may have been frozen too, so it looks once more for a longer lease that has come.
                if self._seconds_left() == 0 and not select.select([self._socket], [], [], 0)[0]:
                    return b""
            return self._socket.recv(READ_BYTES)
        except OSError:
            return b""

    def _seconds_left(self) -> float | None:
        return None if self.lease_end_s is None else max(self.lease_end_s - time.monotonic(), 0.0)


def end_process() -> None:
    """Ends this process at once, because the worker has ended."""
    os._exit(0)


def mapping(body: object) -> Mapping[str, object]:
    """The body of a frame that must be an object."""
    if not isinstance(body, dict):
        raise ConnectException("a message of the worker that is not an object")
    return body
