"""A process of a task, as the worker sees it: its log lines and its requests."""

from __future__ import annotations

import asyncio
import logging
import signal
from typing import cast

import pytest

from kcli.connect.tasks import frames
from kcli.connect.tasks.frames import Decoder, Frame
from kcli.connect.workers import child
from kcli.connect.workers.child import Child, log_context
from kcli.connect.workers.nursery import Nursery
from kcli.formats.connect.errors import DataException
from rigs.connect_process import ScriptedNursery
from rigs.loops import on_a_loop, until


class Transport:
    """Stands for the channel to the process."""

    def __init__(self) -> None:
        self.sent = Decoder()
        self.reading = True

    def write(self, content: bytes) -> None:
        self.sent.add(content)

    def is_closing(self) -> bool:
        return False

    def pause_reading(self) -> None:
        self.reading = False

    def resume_reading(self) -> None:
        self.reading = True


class Owner:
    def __init__(self) -> None:
        self.notes: list[object] = []
        self.go_on = asyncio.Event()

    async def answer(self, method: str, body: object) -> object:
        await self.go_on.wait()
        if method == "fail":
            raise DataException("bad")
        if method == "double":
            return [body, body]
        return body

    def noted(self, method: str, body: object) -> None:
        self.notes.append(body)


def connected(owner: Owner) -> tuple[Child, Transport]:
    it, transport = Child(owner, "[c|task-0] "), Transport()
    it.connection_made(cast("asyncio.Transport", transport))
    return it, transport


def test_the_name_of_a_connector_cannot_forge_a_line() -> None:
    assert log_context("orders", 3) == "[orders|task-3] "
    assert log_context("a\nERROR [b") == "[a\\x0aERROR [b|worker] "


@on_a_loop
async def test_the_frames_of_a_flood_are_handled_in_several_turns() -> None:
    owner = Owner()
    it, transport = connected(owner)
    it.data_received(b"".join(Frame("note", number).encoded() for number in range(120)))
    assert len(owner.notes) == child.FRAMES_PER_TURN
    assert not transport.reading
    it.data_received(Frame("note", 120).encoded())
    await until(lambda: owner.notes == list(range(121)))
    assert transport.reading


@on_a_loop
async def test_a_process_with_too_many_open_requests_is_not_read() -> None:
    owner = Owner()
    it, transport = connected(owner)
    requests = [
        Frame("echo" if number else "fail", number, number) for number in range(child.REQUESTS_MAX + 1)
    ]
    it.data_received(b"".join(frame.encoded() for frame in requests))
    assert not transport.reading
    owner.go_on.set()
    replies: list[Frame] = []

    def all_replied() -> bool:
        replies.extend(transport.sent.frames())
        return len(replies) == len(requests)

    await until(all_replied)
    assert sorted(frame.id or 0 for frame in replies) == list(range(len(requests)))
    (failure,) = (frame for frame in replies if frame.error is not None)
    assert failure.error == {"class": DataException.java_class, "message": "bad"}
    await until(lambda: transport.reading)


@on_a_loop
async def test_an_answer_that_is_too_large_becomes_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "FRAME_BYTES_MAX", 200)
    owner = Owner()
    owner.go_on.set()
    it, transport = connected(owner)
    it.data_received(Frame("double", "x" * 150, 7).encoded())
    replies: list[Frame] = []

    def replied() -> bool:
        replies.extend(transport.sent.frames())
        return bool(replies)

    await until(replied)
    (reply,) = replies
    assert (reply.id, reply.body) == (7, None)
    assert reply.error is not None
    assert "expected at most 200" in reply.error["message"]


@on_a_loop
async def test_log_records_keep_their_logger_and_level(caplog: pytest.LogCaptureFixture) -> None:
    it, _ = connected(Owner())
    records = [
        {"logger": "org.x.Y", "level": logging.WARNING, "text": "hot\nCaused by: x"},
        {"logger": 5, "level": "x"},
    ]
    it.data_received(b"".join(Frame("log", record).encoded() for record in records))
    assert caplog.record_tuples == [("org.x.Y", logging.WARNING, "[c|task-0] hot\nCaused by: x")]


@on_a_loop
async def test_a_process_can_make_a_limited_number_of_loggers(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(child, "_names", {"a", "b"})
    monkeypatch.setattr(child, "LOGGER_NAMES_MAX", 2)
    it, _ = connected(Owner())
    for name in ("a", "new"):
        it.data_received(Frame("log", {"logger": name, "level": logging.ERROR, "text": "t"}).encoded())
    assert [logger for logger, _, _ in caplog.record_tuples] == ["a", "kcli.connect.tasks"]


@on_a_loop
async def test_a_process_that_sends_no_frame_ends(caplog: pytest.LogCaptureFixture) -> None:
    it, nursery = Child(Owner(), "[c|task-0] "), ScriptedNursery()
    await it.start(cast("Nursery", nursery))
    nursery.forked[0].channel.sendall(b"\xff\xff\xff\xff rubbish")
    async with asyncio.timeout(5):
        assert await asyncio.shield(it.status) == -signal.SIGKILL
    assert "[c|task-0] The process of the task sent a message of 4294967295 bytes" in caplog.text


@on_a_loop
async def test_the_frames_of_a_killed_process_are_only_logged(caplog: pytest.LogCaptureFixture) -> None:
    owner = Owner()
    it, nursery = Child(owner, "[c|worker] "), ScriptedNursery(ends_killed=False)
    await it.start(cast("Nursery", nursery))
    it.kill()
    log = {"logger": "a", "level": logging.ERROR, "text": "the last words"}
    (process,) = nursery.forked
    process.send(Frame("result", {"value": 1}), Frame("get", "x", 1), Frame("log", log))
    process.end()
    async with asyncio.timeout(5):
        await asyncio.shield(it.status)
    assert owner.notes == []
    assert "[c|worker] the last words" in caplog.text


@on_a_loop
async def test_a_process_whose_first_frame_is_too_large_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "FRAME_BYTES_MAX", 200)
    it, nursery = Child(Owner(), "[c|worker] "), ScriptedNursery()
    await it.start(cast("Nursery", nursery))
    with pytest.raises(frames.FrameError):
        it.run("x" * 200, {})
    async with asyncio.timeout(5):
        assert await asyncio.shield(it.status) == -signal.SIGKILL
