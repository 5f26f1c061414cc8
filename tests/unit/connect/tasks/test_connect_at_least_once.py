"""Sending the records of a source task, and storing their offsets."""

from __future__ import annotations

from typing import cast

import pytest

from kcli.connect.tasks.channel import Channel
from kcli.connect.tasks.control import Control
from kcli.connect.tasks.conversion import Outgoing
from kcli.connect.tasks.metrics import TaskMetrics
from kcli.connect.tasks.sources.at_least_once import AtLeastOnce
from kcli.connect.tasks.sources.producing import RecordProducer
from kcli.connect.tasks.sources.submitted import Acknowledgements
from kcli.connect.tasks.spec import ErrorSpec
from kcli.connect.tasks.tolerance import Failure, Tolerance
from kcli.connect.tasks.topics import TopicCreation
from kcli.connectors.interface import RecordMetadata, SourceTask
from kcli.connectors.records import SourceRecord
from kcli.errors import RecordTooLargeException
from kcli.formats.connect.errors import ConnectException
from rigs.connect_tasks import FakeRecordProducer, RdError, RdProducer, WorkerChannel, failing, source_spec

KEY = '["c",{"p":1}]'


class Task(SourceTask):
    commits = 0

    def commit(self) -> None:
        self.commits += 1


class Following(Task):
    """Wants to know of each record."""

    def __init__(self) -> None:
        self.known: list[tuple[object, int | None]] = []

    def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
        self.known.append((record.value, None if metadata is None else metadata.offset))


class World:
    def __init__(self, task: Task | None = None, *, tolerance: str = "none") -> None:
        errors = ErrorSpec(tolerance=tolerance)
        self.spec = source_spec(errors=errors)
        self.channel = WorkerChannel()
        self.task = task or Task()
        self.client = RdProducer(acknowledges_on_flush=False)
        self.producer = FakeRecordProducer(self.client)
        self.reports: list[Failure] = []
        channel = cast("Channel", self.channel)
        self.delivery = AtLeastOnce(
            self.spec,
            channel,
            self.task,
            cast("RecordProducer", self.producer),
            TopicCreation(channel, None),
            Tolerance(errors, Control(), [self]),
            TaskMetrics(),
        )

    def report(self, failure: Failure) -> None:
        self.reports.append(failure)

    def send(self, *values: str, left_out: str = "") -> None:
        partition = {"p": 1}
        records = [SourceRecord(partition, {"at": value}, "t", value) for value in values]
        outgoing = [
            None if value == left_out else Outgoing("t", value.encode(), None, -1, 0, None)
            for value in values
        ]
        self.delivery.send(records, outgoing)

    def stored(self) -> list[object]:
        """The offsets that were stored, in their order."""
        return self.channel.bodies("put_offsets")


def offset(value: str) -> list[list[str]]:
    return [[KEY, f'{{"at":"{value}"}}']]


@pytest.mark.parametrize("task", [Task(), Following()])
def test_an_offset_is_stored_only_after_its_record_is_in_the_topic(task: Task) -> None:
    it = World(task)
    it.send("a", "b")
    it.delivery.finish(failed=False)
    assert it.stored() == []
    it.client.acknowledge(2)
    it.delivery.finish(failed=False)
    assert it.stored() == [offset("b")]
    assert task.commits == 2, "a commit without new offsets counts too"


def test_a_task_that_follows_its_records_stores_the_offset_before_the_first_missing_one() -> None:
    task = Following()
    it = World(task)
    it.send("a", "b", "drop", "c", left_out="drop")
    it.client.acknowledge(2)
    it.delivery.finish(failed=False)
    assert it.stored() == [offset("b")]
    assert task.known == [("drop", None), ("a", 0), ("b", 1)]


@pytest.mark.parametrize(("task", "tolerance"), [(Following(), "none"), (Task(), "all")])
def test_each_turn_forgets_acknowledged_records(
    task: Task, tolerance: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    it = World(task, tolerance=tolerance)
    ledger = Acknowledgements()
    monkeypatch.setattr(it.delivery, "_acknowledgements", ledger)
    it.send("a", "b", "c")
    it.client.acknowledge(2)
    it.delivery.turn()
    assert ledger.pending == 1
    assert it.stored() == [], "the flush is not due"
    it.delivery.finish(failed=False)
    assert it.stored() == [offset("b")]


def test_the_offset_of_a_dropped_record_is_not_stored_by_itself() -> None:
    it = World()
    it.send("a", "drop", left_out="drop")
    it.client.acknowledge()
    it.delivery.finish(failed=False)
    assert it.stored() == [offset("a")]


def test_offsets_that_the_worker_cannot_store_are_stored_later() -> None:
    it = World()
    it.channel.answers["put_offsets"] = failing("no broker")
    it.send("a")
    it.client.acknowledge()
    it.delivery.finish(failed=False)
    assert it.task.commits == 0
    del it.channel.answers["put_offsets"]
    it.delivery.finish(failed=False)
    assert it.stored() == [offset("a"), offset("a")]
    assert it.task.commits == 1


def test_a_refused_record_fails_the_task_and_its_offset_is_not_stored() -> None:
    it = World()
    it.send("a", "b")
    it.client.acknowledge(1)
    it.client.acknowledge(1, RdError(10))
    with pytest.raises(
        ConnectException, match="Unrecoverable exception from producer send callback"
    ) as raised:
        it.delivery.turn()
    assert isinstance(raised.value.__cause__, RecordTooLargeException)
    it.delivery.finish(failed=True)
    assert it.stored() == []


def test_records_before_a_record_that_is_too_large_are_sent_and_counted() -> None:
    it = World()
    it.producer.refusals[b"b"] = RecordTooLargeException("too large")
    with pytest.raises(ConnectException, match="Unrecoverable"):
        it.send("a", "b", "c")
    assert [record.value() for record in it.client.produced] == [b"a"]
    it.client.acknowledge()
    it.delivery.finish(failed=True)
    assert it.stored() == [offset("a")]


def test_with_tolerance_a_refused_record_is_reported_and_left_out() -> None:
    task = Following()
    it = World(task, tolerance="all")
    it.producer.refusals[b"b"] = RecordTooLargeException("too large")
    it.send("a", "b", "c")
    it.client.acknowledge(1)
    it.client.acknowledge(1, RdError(10))
    it.delivery.turn()
    it.delivery.finish(failed=False)
    assert [(failure.stage, failure.class_name) for failure in it.reports] == [
        ("KAFKA_PRODUCE", "org.apache.kafka.connect.runtime.WorkerSourceTask")
    ] * 2
    assert it.stored() == [offset("c")]
    assert task.known == [("b", None), ("a", 0), ("c", None)]


def test_an_error_of_commit_record_does_not_fail_the_task() -> None:
    class Clumsy(Following):
        def commit_record(self, record: SourceRecord, metadata: RecordMetadata | None) -> None:
            raise ValueError("oh")

    it = World(Clumsy())
    it.send("a")
    it.client.acknowledge()
    it.delivery.turn()
    it.delivery.finish(failed=False)
    assert it.stored() == [offset("a")]


def test_the_worker_learns_of_each_topic_once() -> None:
    it = World()
    it.send("a", "b")
    it.send("c")
    assert it.channel.notes == [("used_topic", {"topic": "t"})]
