"""The process from which a worker forks the processes of tasks."""

from __future__ import annotations

import asyncio
import errno
import os
import socket

import pytest

from kcli.connect.tasks import nursery as forking
from kcli.connect.workers.nursery import KILLED, Nursery
from kcli.formats.connect.errors import ConnectException
from rigs.loops import on_a_loop, until


def test_a_fork_that_the_system_refuses_ends_no_other_process(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> int:
        raise OSError(errno.EAGAIN, "no more processes")

    monkeypatch.setattr("kcli.connect.tasks.nursery.os.fork", refuse)
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with ours, theirs:
        reading, writing = os.pipe()
        socket.send_fds(ours, [b"fork"], [reading, writing])
        assert forking._serve(theirs, {5}, (0, 0))
        assert ours.recv(forking.PACKET_BYTES) == f"refused 0 {errno.EAGAIN}".encode()
        os.close(reading)
        os.close(writing)


@on_a_loop
async def test_the_caller_of_a_refused_fork_learns_the_reason() -> None:
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setblocking(False)
    nursery = Nursery()
    nursery._control = ours
    asyncio.get_running_loop().add_reader(ours.fileno(), nursery._read, ours)
    with theirs:
        fork = asyncio.create_task(nursery.fork((), lambda status: None))
        await until(lambda: nursery._answers)
        theirs.send(f"refused 0 {errno.EAGAIN}".encode())
        with pytest.raises(
            ConnectException, match="No process could be started: Resource temporarily unavailable"
        ):
            await fork
        ended: list[int] = []
        fork = asyncio.create_task(nursery.fork((), ended.append))
        await until(lambda: nursery._answers)
        theirs.send(b"forked 77")
        assert await fork == 77
        theirs.send(b"ended 78 1")  # of a process that this worker does not know
        theirs.send(b"ended 77 3")
        await until(lambda: ended == [3])
        fork = asyncio.create_task(nursery.fork((), ended.append))
        await until(lambda: nursery._answers)
        theirs.send(b"forked 79")
        await fork
    await until(lambda: ended == [3, KILLED])
    assert nursery._control is None, "the next fork starts another process"
