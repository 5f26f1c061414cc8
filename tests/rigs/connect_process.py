"""Processes of connectors and tasks whose code is a test."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
from collections.abc import Callable
from dataclasses import dataclass, field

from kcli.connect.tasks.frames import Decoder, Frame


@dataclass(slots=True)
class Forked:
    """One process. `channel` is its end of the channel to the worker."""

    channel: socket.socket
    ended: Callable[[int], None]
    _frames: Decoder = field(default_factory=Decoder)

    def send(self, *frames: Frame) -> None:
        self.channel.sendall(b"".join(frame.encoded() for frame in frames))

    def received(self) -> list[Frame]:
        """The frames that have come since the last call."""
        try:
            self._frames.add(self.channel.recv(1 << 20))
        except BlockingIOError:
            return []
        return list(self._frames.frames())

    def end(self, status: int = -signal.SIGKILL) -> None:
        self.channel.close()
        self.ended(status)


class ScriptedNursery:
    """Stands for the nursery. `forked` are the processes that it has started, and `killed` the ids of killed ones."""

    def __init__(self, *, ends_killed: bool = True) -> None:
        self.forked: list[Forked] = []
        self.killed: list[int] = []
        self.forks_begun = 0
        self.may_fork = asyncio.Event()
        """A fork waits for it. It is set at first."""
        self.may_fork.set()
        self._ends_killed = ends_killed

    async def fork(self, descriptors: tuple[int, int], ended: Callable[[int], None]) -> int:
        self.forks_begun += 1
        channel = socket.socket(fileno=os.dup(descriptors[0]))
        channel.setblocking(False)
        await self.may_fork.wait()
        self.forked.append(Forked(channel, ended))
        return len(self.forked)

    def kill(self, pid: int) -> None:
        self.killed.append(pid)
        if self._ends_killed:
            self.forked[pid - 1].end()
