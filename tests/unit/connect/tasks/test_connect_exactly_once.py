"""Transactions of source tasks, and their boundaries."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import pytest

from kcli.connect.tasks.channel import Channel
from kcli.connect.tasks.conversion import Outgoing
from kcli.connect.tasks.metrics import TaskMetrics
from kcli.connect.tasks.sources.exactly_once import ExactlyOnce
from kcli.connect.tasks.sources.producing import RecordProducer
from kcli.connect.tasks.tolerance import Stopping
from kcli.connect.tasks.topics import TopicCreation
from kcli.connectors.interface import RecordMetadata, SourceTask
from kcli.connectors.records import SourceRecord
from kcli.errors import RecordTooLargeException
from kcli.formats.connect.errors import ConnectException
from rigs.connect_tasks import FakeRecordProducer, RdError, RdProducer, WorkerChannel, source_spec


class Task(SourceTask):
    def __init__(self) -> None:
        self.known: list[tuple[object, int | None]] = []

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        self.known.append((record.value, None if metadata is None else metadata.offset))


class World:
    def __init__(self, boundary: str) -> None:
        self.channel = WorkerChannel(answers={"may_start": True})
        self.task = Task()
        self.client = RdProducer()
        channel = cast("Channel", self.channel)
        self.producer = FakeRecordProducer(self.client)
        producer = cast("RecordProducer", self.producer)
        spec = source_spec(boundary=boundary)
        topics = TopicCreation(channel, None)
        self.delivery = ExactlyOnce(spec, channel, self.task, producer, topics, TaskMetrics())

    def records(self, *values: str) -> list[SourceRecord]:
        return [SourceRecord({"p": 1}, {"at": value}, "t", value) for value in values]

    def send(self, records: list[SourceRecord], topic: str = "t") -> None:
        self.delivery.send(
            records, [Outgoing(topic, str(record.value).encode(), None, -1, 0, None) for record in records]
        )

    @property
    def calls(self) -> list[str]:
        return self.client.calls


def test_each_poll_is_a_transaction_with_its_offset_at_the_end() -> None:
    it = World("poll")
    it.delivery.initialize()
    it.send(it.records("a", "b"))
    it.send(it.records("c"))
    it.delivery.finish(failed=False)
    assert it.calls == [
        "init",
        *("begin", "produce t a", "produce t b", 'produce offsets {"at":"b"}', "commit"),
        *("begin", "produce t c", 'produce offsets {"at":"c"}', "commit"),
    ]
    assert it.client.produced[2].key() == b'["c",{"p":1}]'
    assert it.task.known == [("a", 0), ("b", 1), ("c", 3)], "after the commit"


def test_a_task_that_is_no_longer_current_does_not_start() -> None:
    it = World("poll")
    it.channel.answers["may_start"] = False
    with pytest.raises(ConnectException, match="Cannot start source task c-0"):
        it.delivery.initialize()


def test_a_transaction_may_last_for_an_interval(monkeypatch: pytest.MonkeyPatch) -> None:
    it = World("interval")
    it.send(it.records("a"))
    it.send(it.records("b"))
    it.delivery.turn()
    assert "commit" not in it.calls
    monkeypatch.setattr(it.delivery, "_due", 0.0)
    it.delivery.turn()
    assert it.calls == ["begin", "produce t a", "produce t b", 'produce offsets {"at":"b"}', "commit"]
    it.send(it.records("c"))
    it.delivery.finish(failed=False)
    assert it.calls[-1] == "commit", "a stop commits the open transaction"


def test_a_task_ends_its_transactions_after_records_or_batches() -> None:
    it = World("connector")
    context = it.delivery.boundaries
    assert context is not None
    records = it.records("a", "b", "c")
    context.commit_transaction(records[1])
    it.send(records)
    assert it.calls == [
        "begin",
        "produce t a",
        "produce t b",
        'produce offsets {"at":"b"}',
        "commit",
        "begin",
        "produce t c",
    ]
    it.calls.clear()
    context.commit_transaction()
    it.send(it.records("d"))
    assert it.calls == ["produce t d", 'produce offsets {"at":"d"}', "commit"]


def test_the_offsets_of_aborted_records_are_committed_in_a_transaction_of_their_own() -> None:
    it = World("connector")
    context = it.delivery.boundaries
    assert context is not None
    context.abort_transaction()
    it.send(it.records("a"))
    assert it.calls == ["begin", "produce t a", "abort", "begin", 'produce offsets {"at":"a"}', "commit"]
    assert it.task.known == []
    it.calls.clear()
    records = it.records("b", "c")
    context.abort_transaction(records[0])
    it.send(records)
    assert it.calls == [
        *("begin", "produce t b", "abort", "begin", 'produce offsets {"at":"b"}', "commit"),
        *("begin", "produce t c"),
    ]


def test_a_stop_aborts_what_the_task_has_not_committed() -> None:
    it = World("connector")
    it.send(it.records("a"))
    it.delivery.finish(failed=False)
    assert it.calls == ["begin", "produce t a", "abort"]


def test_a_failed_task_commits_nothing_more() -> None:
    it = World("interval")
    it.send(it.records("a"))
    it.delivery.finish(failed=True)
    assert it.calls == ["begin", "produce t a", "abort"]


def test_a_task_may_not_write_to_its_own_offsets_topic() -> None:
    it = World("poll")
    with pytest.raises(ConnectException, match="Source tasks may not produce to their own offsets topics"):
        it.send(it.records("a"), "offsets")


def test_a_refused_record_fails_the_task() -> None:
    it = World("interval")
    it.send(it.records("a"))
    it.client.acknowledge(1, RdError(29))
    with pytest.raises(ConnectException, match="Unrecoverable exception from producer send callback"):
        it.delivery.turn()


@pytest.mark.parametrize("boundary", ["poll", "interval", "connector"])
def test_no_offset_behind_a_record_that_librdkafka_did_not_take_is_committed(boundary: str) -> None:
    it = World(boundary)
    it.producer.refusals[b"b"] = RecordTooLargeException("too large")
    if it.delivery.boundaries is not None:
        it.delivery.boundaries.commit_transaction()
    with pytest.raises(ConnectException, match="Unrecoverable exception from producer send callback"):
        it.send(it.records("a", "b", "c"))
    it.delivery.finish(failed=True)
    assert it.calls == ["begin", "produce t a", "abort"]


def test_a_transaction_is_not_committed_after_a_refused_record() -> None:
    it = World("interval")
    it.send(it.records("a"))
    it.client.acknowledge(1, RdError(29))
    with pytest.raises(ConnectException, match="Failed to flush offsets and/or records for task c-0"):
        it.delivery.finish(failed=False)
    assert it.calls == ["begin", "produce t a"]


@pytest.mark.parametrize("boundary", ["poll", "interval"])
def test_a_stop_in_the_middle_of_a_batch_commits_the_offsets_of_what_is_written(boundary: str) -> None:
    it = World(boundary)
    records = it.records("a", "b")

    def converted() -> Iterator[Outgoing]:
        yield Outgoing("t", b"a", None, -1, 0, None)
        raise Stopping

    with pytest.raises(Stopping):
        it.delivery.send(records, converted())
    it.delivery.finish(failed=False)
    assert it.calls == ["begin", "produce t a", 'produce offsets {"at":"a"}', "commit"]
