"""The answer to a request: the bytes, or a wait for them."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from kcli.errors import ProtocolError
from kcli.model.buffers import Buffer, Part
from kcli.runtime.turns import Timer

Answer = Buffer | list[Part] | None
"""A whole response frame, as one buffer or several parts. None if the client expects no answer (Produce with
acks=0)."""


async def answered(answer: Answer | Waiting) -> Answer:
    """Returns the answer when it is ready. If the caller is cancelled, ends the wait."""
    if not isinstance(answer, Waiting):
        return answer
    try:
        await asyncio.wait([answer.task])
    except asyncio.CancelledError:
        answer.drop()
        raise
    return answer.take()


@dataclass(slots=True)
class Stopwatch:
    """Adds up the time during which the node works on a request, without the time during which the request waits."""

    now: Callable[[], float]
    worked_seconds: float = 0.0
    _since: float = field(default=0.0, init=False)

    def resume(self) -> None:
        self._since = self.now()

    def pause(self) -> None:
        self.worked_seconds += self.now() - self._since


@dataclass(slots=True, kw_only=True)
class Waiting:
    """An answer that is not ready, because the handler of its request has suspended. A task runs the rest of the
    handler and encodes the answer.

    `name` is the request in messages. `only_waits` is True if the work is done, and the request waits only for an event
    such as the commit of its records. The handler may come to this point before or after it first suspends.

    `may_be_dropped` is True if the rest of the work has no effect except the answer. In this case the work ends if the
    client disconnects.

    `reads_frame` is True while the handler needs the bytes of the request. The connection leaves their buffer to the
    task until `frame_is_read`. `timers` run while the task works. A timer that is added at once runs from the first
    step of the task on.
    """

    name: str
    task: asyncio.Future[Answer]
    timers: list[Timer] = field(default_factory=list)
    only_waits: bool = False
    may_be_dropped: bool = False
    reads_frame: bool = False
    on_wait: Callable[[], None] | None = None
    """Called if the handler comes to its wait after it has suspended, and the client is still connected."""
    on_read: list[Callable[[], None]] = field(default_factory=list)
    """Functions that are called once, when the handler no longer reads the bytes of the request."""
    on_taken: list[Callable[[asyncio.Future[Answer]], None]] = field(default_factory=list)
    """Functions that are called with the task when the connection takes its answer, which may be an error."""

    _is_dropped: bool = field(default=False, init=False)

    def begin_to_wait(self) -> None:
        """Notes that the work is done. The handler calls this if it has suspended before."""
        self.only_waits = self.may_be_dropped = True
        self.frame_is_read()
        if self._is_dropped:
            self.task.cancel()
        elif self.on_wait is not None:
            self.on_wait()

    def frame_is_read(self, _task: asyncio.Future[Answer] | None = None) -> None:
        """Gives the buffer of the request back, because its handler does not read it any longer."""
        self.reads_frame = False
        callbacks, self.on_read = self.on_read, []
        for callback in callbacks:
            callback()

    def take(self) -> Answer:
        """Returns the answer of the task, which has ended. Raises ProtocolError if the request fails without an
        answer."""
        try:
            if self.task.cancelled():
                raise ProtocolError(f"{self.name} was cancelled because the broker is stopping")
            return self.task.result()
        finally:
            for taken in self.on_taken:
                taken(self.task)

    def drop(self) -> None:
        """Ends the wait because the client has disconnected. If the work still has an effect, its task runs until it
        only waits."""
        self._is_dropped = True
        if self.may_be_dropped:
            self.task.cancel()
