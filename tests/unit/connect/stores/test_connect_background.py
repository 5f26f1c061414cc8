"""Records that are written in the background."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from kcli.connect.decisions.json_values import Entry
from kcli.connect.stores import background
from kcli.connect.stores.background import BackgroundWriter
from kcli.errors import ErrorCode, error_for
from rigs.loops import on_a_loop, some_turns, until


def always() -> bool:
    return True


class Topic:
    """Takes writes, or fails them with the errors in `errors`."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.writes: list[list[Entry]] = []
        self.writer = BackgroundWriter(self.write, self.read_to_end, 0)
        self.foreign: set[bytes] = set()
        """The keys that another worker has written, when they are read."""

    async def read_to_end(self) -> None:
        self.foreign.add(b"x")

    async def write(self, entries: Sequence[Entry]) -> None:
        if self.errors:
            raise self.errors.pop(0)
        self.writes.append(list(entries))


@on_a_loop
async def test_records_are_written_in_their_order_and_a_flush_waits_for_them() -> None:
    topic = Topic()
    topic.writer.start()
    await topic.writer.flush()
    topic.writer.send((b"a", b"1"), always)
    topic.writer.send((b"a", b"2"), always)
    topic.writer.send((b"b", b"3"), lambda: False)
    await topic.writer.flush()
    assert topic.writes == [[(b"a", b"1"), (b"a", b"2")]]
    topic.writer.send((b"c", None), always)
    await topic.writer.flush()
    assert topic.writes[1:] == [[(b"c", None)]]
    await topic.writer.stop()


@on_a_loop
async def test_after_an_error_only_the_last_record_of_a_key_is_written() -> None:
    topic = Topic(error_for(ErrorCode.REQUEST_TIMED_OUT), ConnectionError("cut"))
    for value in (b"1", b"2"):
        topic.writer.send((b"a", value), always)
        topic.writer.send((b"b", value), always)
    topic.writer.start()
    await topic.writer.flush()
    assert topic.writes == [[(b"a", b"2"), (b"b", b"2")]]
    await topic.writer.stop()


@on_a_loop
async def test_after_a_final_error_the_next_records_are_written() -> None:
    topic = Topic(error_for(ErrorCode.TOPIC_AUTHORIZATION_FAILED))
    topic.writer.start()
    topic.writer.send((b"a", b"1"), always)
    await until(lambda: not topic.errors)
    topic.writer.send((b"b", b"2"), always)
    await topic.writer.flush()
    assert topic.writes == [[(b"b", b"2")]]
    await topic.writer.stop()


@on_a_loop
async def test_the_queue_is_bounded_by_the_number_of_keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(background, "QUEUE_MAX", 10)
    topic = Topic()
    for number in range(100):
        topic.writer.send((b"%d" % (number % 3), b"%d" % number), always)
    topic.writer.start()
    await topic.writer.flush()
    assert sum(map(len, topic.writes)) <= 13
    assert topic.writes[-1][-1] == (b"0", b"99")
    await topic.writer.stop()


@on_a_loop
async def test_a_flush_gives_up_if_nothing_can_be_written(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(background, "FLUSH_TIMEOUT_S", 0.01)
    topic = Topic(*[error_for(ErrorCode.REQUEST_TIMED_OUT)] * 100_000)
    topic.writer.start()
    topic.writer.send((b"a", b"1"), always)
    await topic.writer.flush()
    assert "The statuses were not written" in caplog.text
    topic.errors.clear()
    await some_turns()
    assert topic.writes[-1] == [(b"a", b"1")]
    await topic.writer.stop()


@on_a_loop
async def test_records_of_other_workers_are_read_before_a_record_is_checked() -> None:
    topic = Topic()
    topic.writer.start()
    topic.writer.send((b"x", b"1"), lambda: b"x" not in topic.foreign)
    topic.writer.send((b"y", b"2"), lambda: b"y" not in topic.foreign)
    await topic.writer.flush()
    assert topic.writes == [[(b"y", b"2")]]
    await topic.writer.stop()
