"""The frames between a worker and the process of a task."""

from __future__ import annotations

import socket
import threading
import time

import pytest

from kcli.connect.tasks import frames
from kcli.connect.tasks.channel import Channel, WorkerError
from kcli.connect.tasks.frames import Decoder, Frame, FrameError


def test_frames_come_whole_however_the_bytes_are_cut() -> None:
    sent = [Frame("note", {"text": "é\ud800"}), Frame("ask", [1, None], 7), Frame(None, "reply", 7)]
    content = b"".join(frame.encoded() for frame in sent)
    for size in (1, 3, len(content)):
        decoder = Decoder()
        received = []
        for start in range(0, len(content), size):
            decoder.add(content[start : start + size])
            received += decoder.frames()
        assert received == sent


def test_a_frame_that_is_too_large_is_refused_on_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(frames, "FRAME_BYTES_MAX", 100)
    with pytest.raises(FrameError, match="expected at most 100"):
        Frame("note", "x" * 100).encoded()
    decoder = Decoder()
    decoder.add(b"\xff\xff\xff\xff")
    with pytest.raises(FrameError, match="4294967295 bytes"):
        next(decoder.frames())


@pytest.mark.parametrize("content", [b"{", b"[1]", b"\xff", b'{"a":1}', b"null"])
def test_bytes_that_are_no_frame_are_refused(content: bytes) -> None:
    decoder = Decoder()
    decoder.add(len(content).to_bytes(4, "big") + content)
    with pytest.raises(FrameError):
        next(decoder.frames())


def test_a_task_asks_and_the_worker_replies(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = threading.Event()
    monkeypatch.setattr("kcli.connect.tasks.channel.end_process", ended.set)
    ours, theirs = socket.socketpair()
    replies = {
        "may_start": Frame(None, "yes", 1),
        "create_topic": Frame(None, None, 2, {"class": "java.lang.X", "message": "no"}),
    }

    def worker() -> None:
        decoder = Decoder()
        for _ in replies:
            decoder.add(ours.recv(65_536))
            for frame in decoder.frames():
                ours.sendall(replies[frame.method or ""].encoded())

    with ours, theirs:
        channel = Channel(theirs)
        notes: list[tuple[str, object]] = []
        ours.sendall(Frame("run", "spec").encoded() + Frame("pause").encoded())
        assert channel.first().body == "spec"
        channel.listen(lambda method, body: notes.append((method, body)))
        threading.Thread(target=worker, daemon=True).start()
        assert channel.ask("may_start", timeout_s=60) == "yes"
        with pytest.raises(WorkerError, match="no") as raised:
            channel.ask("create_topic", timeout_s=60)
        assert raised.value.java_class == "java.lang.X"
        assert notes == [("pause", None)], "a frame that came with the first one is not lost"
        ours.shutdown(socket.SHUT_RDWR)
        assert ended.wait(60), "a task ends with its worker"


def test_a_task_ends_with_its_lease_but_not_before_it_has_read_all_of_the_worker(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    ended = threading.Event()
    monkeypatch.setattr("kcli.connect.tasks.channel.end_process", ended.set)
    ours, theirs = socket.socketpair()
    with ours, theirs:
        channel = Channel(theirs)
        leases: list[float | None] = []

        def take(method: str, body: object) -> None:
            assert method == "lease"
            channel.lease_end_s = None if body is None else float(str(body))
            leases.append(channel.lease_end_s)

        channel.lease_end_s = 0.0  # long over, but a longer lease is on its way
        ours.sendall(Frame("lease").encoded())
        channel.listen(take)
        while not leases:
            time.sleep(0.001)
        assert not ended.is_set()
        ours.sendall(Frame("lease", 0.0).encoded())
        assert ended.wait(60)
        assert leases == [None, 0.0]
