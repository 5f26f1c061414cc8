"""The loop of a sink task: puts, retries, commits, and changes of its partitions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import cast

import pytest

from kcli.connect.tasks.channel import Channel
from kcli.connect.tasks.control import Control
from kcli.connect.tasks.plugins import Plugins
from kcli.connect.tasks.reports import DeadLetters
from kcli.connect.tasks.sinks import loop as sink
from kcli.connect.tasks.sinks.consuming import UNKNOWN_OFFSET, Owner
from kcli.connect.tasks.sinks.loop import SinkLoop
from kcli.connect.tasks.spec import ErrorSpec, SinkSpec
from kcli.connect.tasks.tolerance import ErrorCounts, Failure, Stage
from kcli.connectors.interface import Offsets, SinkTask
from kcli.connectors.records import SinkRecord
from kcli.errors import KafkaError, RebalanceInProgressException
from kcli.formats.connect.errors import ConnectException, RetriableException
from kcli.model.topic_partition import TopicPartition
from kcli.rdkafka.objects import Message, Producer
from rigs.connect_plugins import PlainText
from rigs.connect_tasks import RdProducer, WorkerChannel, messages, sink_spec

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


class GroupConsumer:
    """Stands for `SinkConsumer`. Each poll runs the next step of the test; after the last one, the task stops."""

    def __init__(self, spec: SinkSpec, owner: Owner) -> None:
        self.owner = owner
        self.assignment: set[TopicPartition] = set()
        self.paused: set[TopicPartition] = set()
        self.seeks: list[tuple[TopicPartition, int]] = []
        self.commits: list[dict[TopicPartition, int]] = []
        self.results: list[Callable[[KafkaError | None], None]] = []
        self.closed = False
        self.timeouts: list[float] = []

    def subscribe(self) -> None: ...

    def poll(self, timeout_s: float, is_interrupted: Callable[[], bool]) -> list[Message]:
        self.timeouts.append(timeout_s)
        assert not self.closed
        return next(world.steps)()

    def assign(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]:
        self.assignment |= set(offsets)
        places = self.owner.assigned(offsets)
        self.owner.positioned()
        return places

    def revoke(self, *partitions: TopicPartition, lost: bool = False) -> None:
        self.owner.revoked(partitions, lost=lost)
        self.assignment -= set(partitions)

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        self.paused |= set(partitions)

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        self.paused -= set(partitions)

    def seek(self, partition: TopicPartition, offset: int) -> None:
        self.seeks.append((partition, offset))

    def commit(self, offsets: Mapping[TopicPartition, int]) -> KafkaError | None:
        self.commits.append(dict(offsets))
        return None

    def commit_in_background(
        self, offsets: Mapping[TopicPartition, int], on_result: Callable[[KafkaError | None], None]
    ) -> None:
        self.commits.append(dict(offsets))
        self.results.append(on_result)

    def close(self) -> None:
        self.closed = True


class Task(SinkTask):
    def __init__(self) -> None:
        self.log: list[object] = []
        self.error: Exception | None = None
        self.may_commit: Offsets | Exception | None = None
        self.rewind: Offsets = {}

    def open(self, partitions: Sequence[TopicPartition]) -> None:
        self.log.append(("open", *map(str, partitions)))
        self.context.offset(self.rewind)

    def put(self, records: Sequence[SinkRecord]) -> None:
        if self.error is not None:
            raise self.error
        if records:
            self.log.append([record.value for record in records])

    def pre_commit(self, offsets: Offsets) -> Offsets:
        if isinstance(self.may_commit, Exception):
            raise self.may_commit
        return offsets if self.may_commit is None else self.may_commit

    def close(self, partitions: Sequence[TopicPartition]) -> None:
        self.log.append(("close", *map(str, partitions)))

    def stop(self) -> None:
        self.log.append("stop")


Step = Callable[[], list[Message] | None]


class World:
    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sink, "SinkConsumer", GroupConsumer)
        self.now = 0.0
        monkeypatch.setattr("kcli.connect.tasks.sinks.loop.time.monotonic", lambda: self.now)
        self.channel = WorkerChannel()
        self.control = Control()
        self.task = Task()
        text = PlainText()
        plugins = Plugins(text, text, text, "", "", "", ())
        self.loop = SinkLoop(sink_spec(), cast("Channel", self.channel), self.control, self.task, plugins)

    def run(self, *steps: Step) -> None:
        """Runs a loop whose polls do these steps."""
        self.steps = iter([*(lambda step=step: step() or [] for step in steps), self._stop])
        self.loop.start()
        self.loop.run()
        self.loop.stop()

    def _stop(self) -> list[Message]:
        self.control.stop()
        return []

    @property
    def consumer(self) -> GroupConsumer:
        return cast("GroupConsumer", self.loop._consumer)

    def assign(self, offsets: Mapping[TopicPartition, int] | None = None) -> Step:
        def step() -> None:
            self.consumer.assign({T0: 0} if offsets is None else offsets)

        return step

    def commit_due(self) -> None:
        """The time of the next commit has come."""
        self.now += 60.0


world: World


@pytest.fixture
def it(monkeypatch: pytest.MonkeyPatch) -> World:
    global world
    world = World(monkeypatch)
    return world


def records(*values: str, first: int = 0) -> Step:
    return lambda: messages(values, first=first)


def test_records_are_put_and_their_offsets_are_committed_at_the_end(it: World) -> None:
    it.run(it.assign(), records("a", "b"), records("c", first=2))
    assert it.task.log == [("open", "t-0"), ["a", "b"], ["c"], ("close", "t-0"), "stop"]
    assert it.consumer.commits == [{T0: 3}]
    assert it.consumer.closed
    assert ("used_topic", {"topic": "t"}) in it.channel.notes


def test_without_new_records_nothing_is_committed(it: World) -> None:
    it.run(it.assign({T0: 5}), it.commit_due, lambda: None)
    assert it.consumer.commits == []


def test_a_batch_is_put_again_after_a_retriable_error(it: World) -> None:
    def fail() -> list[Message]:
        it.task.error = RetriableException("not now")
        return messages(["a"])

    def recover() -> None:
        assert it.consumer.paused == {T0}
        it.task.context.timeout(200)

    def wait() -> None:
        it.task.error = None

    it.run(it.assign(), fail, recover, wait, records("b", first=1))
    assert it.task.log == [("open", "t-0"), ["a"], ["b"], ("close", "t-0"), "stop"]
    assert it.consumer.timeouts[3] == 0.2, "the time-out that the task has set"
    assert it.consumer.paused == set()


def test_a_waiting_batch_stays_when_the_task_resumes_its_partitions(it: World) -> None:
    def fail() -> list[Message]:
        it.task.error = RetriableException("not now")
        it.task.context.pause(T0)
        return messages(["a"])

    def resume() -> list[Message]:
        it.task.context.resume(T0)
        assert it.consumer.paused == {T0}, "a batch waits"
        it.task.error = None
        return messages(["b"], first=1)

    it.run(it.assign(), fail, resume)
    assert it.task.log == [("open", "t-0"), ["a", "b"], ("close", "t-0"), "stop"]
    assert it.consumer.commits == [{T0: 2}]
    assert it.consumer.paused == set()


def test_another_error_fails_the_task_which_is_closed_without_the_batch(it: World) -> None:
    def fail() -> list[Message]:
        it.task.error = ConnectException("boom")
        return messages(["b"], first=1)

    with pytest.raises(
        ConnectException, match="Exiting WorkerSinkTask due to unrecoverable exception"
    ) as raised:
        it.run(it.assign(), records("a"), fail)
    assert str(raised.value.__cause__) == "boom"
    assert it.task.log == [("open", "t-0"), ["a"], ("close", "t-0")]
    assert it.consumer.commits == [{T0: 1}]
    assert it.consumer.closed


def test_commits_run_in_the_background_one_at_a_time(it: World) -> None:
    it.run(
        it.assign(),
        records("a"),
        it.commit_due,
        records("b", first=1),
        lambda: it.consumer.results[0](None),
        it.commit_due,
        lambda: it.consumer.results[1](RebalanceInProgressException()),
    )
    assert it.consumer.commits == [{T0: 1}, {T0: 2}, {T0: 2}], "a failed commit is made again at the end"


def test_a_late_result_of_a_commit_changes_nothing(it: World) -> None:
    def time_out() -> None:
        it.now += 6.0

    def answer() -> None:
        it.consumer.results[0](None)
        assert it.loop._offsets.committed == {T0: 0}

    it.run(it.assign(), records("a"), it.commit_due, time_out, lambda: None, answer)
    assert it.consumer.commits[0] == {T0: 1}


def test_a_task_may_hold_back_offsets_and_may_not_invent_any(
    it: World, caplog: pytest.LogCaptureFixture
) -> None:
    it.task.may_commit = {T0: 1, T1: 4}
    it.run(it.assign(), records("a", "b"))
    assert it.consumer.commits == [{T0: 1}]
    assert "Ignoring invalid task provided offset t-1/4 -- partition not assigned" in caplog.text
    caplog.clear()


def test_an_offset_beyond_the_records_is_ignored(it: World, caplog: pytest.LogCaptureFixture) -> None:
    it.task.may_commit = {T0: 9}
    it.run(it.assign(), records("a"))
    assert it.consumer.commits == []
    assert "Ignoring invalid task provided offset t-0/9 -- not yet consumed" in caplog.text


def test_a_failed_flush_rewinds_to_the_last_commit(it: World) -> None:
    def fail_next() -> None:
        it.task.may_commit = ConnectException("disk full")
        it.commit_due()

    def recover() -> None:
        assert it.consumer.seeks == [(T0, 0)]
        it.task.may_commit = None

    it.run(it.assign(), records("a"), fail_next, recover)
    assert it.consumer.commits == [], "the records come again"


def test_a_failed_flush_fails_the_task_where_the_last_commit_is_not_known(it: World) -> None:
    def fail_next() -> None:
        it.task.may_commit = ConnectException("disk full")
        it.commit_due()

    with pytest.raises(ConnectException, match="last committed offset of t-0 is not known"):
        it.run(it.assign({T0: UNKNOWN_OFFSET}), records("a"), fail_next)
    assert it.consumer.seeks == [], "the offset would be the end of the partition"


def test_nothing_is_committed_before_the_dead_letters_are_written(it: World) -> None:
    producer = RdProducer(acknowledges_on_flush=False)
    letters = DeadLetters(
        sink_spec(errors=ErrorSpec(dead_letter_topic="dead")), cast("Producer", producer), ErrorCounts()
    )

    def report() -> list[Message]:
        it.loop._letters = letters
        (message,) = messages(["bad"])
        letters.report(Failure(message, Stage.VALUE_CONVERTER, "PlainText", ConnectException("no text")))
        it.commit_due()
        return [message]

    with pytest.raises(ConnectException, match="not written to dead in 30 s: 1"):
        it.run(it.assign(), report, lambda: None)
    assert it.consumer.commits == []
    assert it.consumer.closed


def test_a_task_reads_on_from_the_offset_that_it_has_stored_itself(it: World) -> None:
    it.task.rewind = {T0: 7}
    places = []

    def assign() -> None:
        places.append(it.consumer.assign({T0: 2, T1: 3}))
        it.task.context.offset({T1: 1})

    it.run(assign, lambda: None)
    assert places == [{T0: 7, T1: 3}]
    assert it.consumer.seeks == [(T1, 1)]


def test_revoked_partitions_are_committed_and_lost_ones_are_not(it: World) -> None:
    def take_some() -> None:
        it.consumer.revoke(T0)
        it.consumer.revoke(T1, lost=True)

    it.run(it.assign({T0: 0, T1: 0}), records("a"), take_some, records())
    assert it.consumer.commits == [{T0: 1}]
    assert it.task.log == [("open", "t-0", "t-1"), ["a"], ("close", "t-0"), ("close", "t-1"), "stop"]


def test_a_waiting_batch_loses_the_records_of_revoked_partitions(it: World) -> None:
    def fail() -> list[Message]:
        it.task.error = RetriableException("not now")
        return messages(["a"])

    def take() -> None:
        it.consumer.revoke(T0)
        it.task.error = None

    it.run(it.assign({T0: 0, T1: 0}), fail, take)
    assert it.consumer.commits == []
    assert it.task.log == [("open", "t-0", "t-1"), ("close", "t-0"), ("close", "t-1"), "stop"]


def test_a_pause_keeps_the_partitions_and_commits(it: World) -> None:
    def pause() -> None:
        it.control.handle("pause", None)

    def check() -> None:
        assert it.consumer.paused == {T0, T1}
        it.control.handle("resume", None)

    def resumed() -> None:
        assert it.consumer.paused == {T1}, "the task has paused this one itself"

    it.run(
        it.assign({T0: 0, T1: 0}),
        lambda: it.task.context.pause(T1),
        records("a"),
        pause,
        check,
        resumed,
    )
    names = [method for method, _ in it.channel.notes if method in ("paused", "resumed")]
    assert names == ["paused", "resumed"]
    assert it.consumer.commits[0] == {T0: 1, T1: 0}


def test_a_task_that_is_paused_cannot_resume_a_partition(it: World) -> None:
    def resume() -> None:
        it.task.context.resume(T0)
        assert it.consumer.paused == {T0}
        it.control.handle("resume", None)

    it.run(it.assign(), lambda: it.control.handle("pause", None), resume, lambda: None)
    assert it.consumer.paused == set()
