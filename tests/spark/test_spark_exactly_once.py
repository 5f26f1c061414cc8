"""The sink's transactions on a running broker: what each attempt, crash and zombie leaves for readers.

The tasks and the driver's part of a batch are called one by one here, in the orders that crashes make of them.
"""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import pytest

from kcli.errors import KafkaError
from kcli.spark.client.cluster import Cluster
from kcli.spark.options import sink_options

pa = pytest.importorskip("pyarrow")
pytest.importorskip("pyspark")

if TYPE_CHECKING:
    from kcli.spark.sink.writers import StreamWriter, Work, Written
    from kcli.testing.broker_process import BrokerProcess

Make = Callable[..., str]
BATCH = 7


class Query:
    """A stream whose driver and tasks the test plays."""

    def __init__(self, bootstrap: str, topic: str, **options: str) -> None:
        from pyspark.sql.types import StructType

        self.topic, self.bootstrap = topic, bootstrap
        sink = sink_options({"kafka.bootstrap.servers": bootstrap, "topic": topic, **options})
        from kcli.spark.sink.writers import StreamWriter

        self.writer: StreamWriter = StreamWriter(sink, StructType().add("value", "string"))
        self.id = uuid.uuid4().hex

    def work(self, batch: int = BATCH) -> Work:
        from kcli.spark.sink.writers import Work

        return Work(f"kcli-{self.id}", self.id, batch)

    def task(self, number: int, *values: str, batch: int = BATCH, fail: bool = False) -> Written:
        def rows() -> Any:
            yield pa.RecordBatch.from_pydict({"value": list(values)})
            if fail:
                raise RuntimeError("the job is wrong")

        with Cluster(self.writer.options.client) as cluster:
            return self.writer.write_once(cluster, rows(), self.work(batch), number)

    def commit(self, messages: Sequence[Written]) -> None:
        self.writer.commit(messages, BATCH)

    def commit_only(self, messages: Sequence[Written], count: int) -> None:
        """A driver that dies when `count` tasks are committed."""
        from kcli.spark.sink import transaction

        left = [count]
        whole = transaction.end

        def end(cluster: Cluster, transactions: Any, **how: Any) -> None:
            for ended in transactions:
                if not left[0]:
                    raise MemoryError("killed")
                left[0] -= 1
                whole(cluster, [ended], **how)

        with pytest.MonkeyPatch.context() as patch, contextlib.suppress(MemoryError):
            patch.setattr(transaction, "end", end)
            self.commit(messages)
        assert not left[0]

    def visible(self) -> list[str]:
        """What a read_committed reader sees; every transaction must be ended."""
        from confluent_kafka import Consumer, TopicPartition

        settings = {
            "bootstrap.servers": self.bootstrap,
            "group.id": uuid.uuid4().hex,
            "enable.partition.eof": True,
        }
        consumer = Consumer(settings | {"isolation.level": "read_committed"})
        try:
            consumer.assign([TopicPartition(self.topic, 0, 0)])
            values = []
            while (message := consumer.poll(20)) is not None and message.error() is None:
                values.append(message.value().decode())
            assert message is not None, "the end of the topic was not reached"
            return sorted(values)
        finally:
            consumer.close()


@pytest.fixture
def query(broker: BrokerProcess, topic: Make) -> Query:
    return Query(broker.bootstrap, topic(1))


def test_nothing_is_visible_before_the_driver_commits(query: Query) -> None:
    written = [query.task(0, "a", "b"), query.task(1, "c")]
    assert query.visible() == []
    query.commit(written)
    assert query.visible() == ["a", "b", "c"]
    query.commit([query.task(0, "d", batch=8), query.task(1, batch=8)])
    assert query.visible() == ["a", "b", "c", "d"]


def test_a_batch_that_comes_again_is_skipped(query: Query) -> None:
    query.commit([query.task(0, "a"), query.task(1, "b")])
    again = [query.task(0, "a"), query.task(1, "b")]
    assert [message.transaction for message in again] == [None, None]
    query.commit(again)
    earlier = [query.task(nth, "x", batch=3) for nth in range(4)]  # a checkpoint brought back from a copy
    assert [message.transaction for message in earlier] == [None] * 4
    query.commit(earlier)
    assert query.visible() == ["a", "b"]


@pytest.mark.parametrize("committed", [0, 1, 2])
def test_a_driver_that_dies_while_it_commits(query: Query, committed: int) -> None:
    query.commit_only([query.task(nth, value) for nth, value in enumerate("abc")], committed)
    again = [query.task(nth, value) for nth, value in enumerate("abc")]
    assert [message.transaction is None for message in again] == [nth < committed for nth in range(3)]
    query.commit(again)
    assert query.visible() == ["a", "b", "c"]


def test_other_tasks_after_a_crash(query: Query) -> None:
    """Before the first commit a batch may have other tasks; after it that is refused."""
    [query.task(nth, value) for nth, value in enumerate("abc")]  # the driver dies before it commits
    query.commit_only([query.task(0, "a", "b"), query.task(1, "c"), query.task(2)], 1)
    again = [query.task(0, "a"), query.task(1, "b", "c")]
    with pytest.raises(Exception, match="committed in part by an earlier run with 3 tasks and has 2 now"):
        query.commit(again)
    assert query.visible() == ["a", "b"]
    query.commit([query.task(0, "a", "b"), query.task(1, "c"), query.task(2)])
    assert query.visible() == ["a", "b", "c"]


def test_fewer_tasks_after_a_crash_lose_nothing(query: Query) -> None:
    """Both tasks find their notes; that of the third is missing."""
    query.commit_only([query.task(nth, value) for nth, value in enumerate("abc")], 2)
    again = [query.task(0, "a", "b"), query.task(1, "c")]
    assert [message.transaction for message in again] == [None, None]
    with pytest.raises(Exception, match="committed in part by an earlier run with 3 tasks and has 2 now"):
        query.commit(again)
    query.commit([query.task(nth, value) for nth, value in enumerate("abc")])
    assert query.visible() == ["a", "b", "c"]


def test_as_many_tasks_with_other_rows_after_a_crash(query: Query) -> None:
    """The second task is committed, and the third may have some of its rows now."""
    query.commit_only([query.task(0, "a"), query.task(1, "b"), query.task(2, "c", "d")], 2)
    again = [query.task(0, "a"), query.task(1, "b", "c"), query.task(2, "d")]
    with pytest.raises(Exception, match="by an earlier run whose task 1 had 1 rows and has 2 now"):
        query.commit(again)
    assert query.visible() == ["a", "b"]
    query.commit([query.task(0, "a"), query.task(1, "b"), query.task(2, "c", "d")])
    assert query.visible() == ["a", "b", "c", "d"]


@pytest.mark.parametrize("tasks", [1, 2, 3, 5])
def test_a_batch_that_is_committed_whole_may_come_again_in_any_tasks(query: Query, tasks: int) -> None:
    query.commit_only([query.task(nth, value) for nth, value in enumerate("abc")], 3)
    query.commit([query.task(nth, "abc", "more") for nth in range(tasks)])
    assert query.visible() == ["a", "b", "c"]
    query.commit([query.task(0, "d", batch=BATCH + 1)])
    assert query.visible() == ["a", "b", "c", "d"]


def test_a_batch_of_its_own(broker: BrokerProcess, topic: Make) -> None:
    """As in foreachBatch, with ids; and a job in transactions without."""
    from pyspark.sql.types import StructType

    from kcli.spark.sink.writers import BatchWriter

    target = Query(broker.bootstrap, topic(1))
    settings = {"kafka.bootstrap.servers": broker.bootstrap, "topic": target.topic}
    ids = {"kafka.transactional.id": target.topic, "kcli.batch.id": "4"}
    for more, value in ((ids, "a"), (ids, "never"), ({"kcli.transactional": "true"}, "b")):
        writer = BatchWriter(sink_options(settings | more), StructType().add("value", "string"))
        assert writer.is_transactional
        with Cluster(writer.options.client) as cluster:
            rows = iter([pa.RecordBatch.from_pydict({"value": [value]})])
            written = [writer.write_once(cluster, rows, writer.work(None), 0)]
            written.append(writer.write_once(cluster, iter([]), writer.work(None), 1))
        writer.commit(written)
    assert target.visible() == ["a", "b"]
    assert not BatchWriter(sink_options(settings), StructType().add("value", "string")).is_transactional
    with pytest.raises(ValueError, match=r"kcli.batch.id needs kafka.transactional.id"):
        BatchWriter(sink_options(settings | {"kcli.batch.id": "1"}), StructType().add("value", "string"))


def test_topics_by_column(broker: BrokerProcess, topic: Make) -> None:
    """Without a topic the sink keeps its notes elsewhere, also where a task has no rows."""
    from pyspark.sql.types import StructType

    from kcli.spark.sink.writers import StreamWriter

    target = Query(broker.bootstrap, topic(1))
    schema = StructType().add("topic", "string").add("value", "string")
    writer = StreamWriter(sink_options({"kafka.bootstrap.servers": broker.bootstrap}), schema)
    for transactions in (2, 0):
        with Cluster(writer.options.client) as cluster:
            rows = pa.RecordBatch.from_pydict({"topic": [target.topic], "value": ["a"]})
            written = [
                writer.write_once(cluster, iter(task_rows), target.work(), nth)
                for nth, task_rows in enumerate(([], [rows]))
            ]
        assert sum(message.transaction is not None for message in written) == transactions
        writer.commit(written, BATCH)
    assert target.visible() == ["a"]


def test_zombies_are_fenced(query: Query) -> None:
    old = [query.task(0, "a"), query.task(1, "b")]
    new = [query.task(0, "a")]
    with pytest.raises(KafkaError, match="is no longer open: another attempt of this task has begun"):
        query.commit(old)  # of a driver that does not know it was replaced
    query.writer.abort(old, BATCH)
    assert query.visible() == []
    query.commit([*new, query.task(1, "b")])
    assert query.visible() == ["a", "b"]


def test_a_task_that_fails_takes_its_rows_back(query: Query) -> None:
    with pytest.raises(RuntimeError, match="the job is wrong"):
        query.task(0, "a", fail=True)
    assert query.visible() == []
    other = query.task(1, "b")
    query.writer.abort([other, None], BATCH)
    assert query.visible() == []


def test_a_transaction_that_cannot_last_is_refused(broker: BrokerProcess, topic: Make) -> None:
    target = Query(broker.bootstrap, topic(1), **{"kafka.transaction.timeout.ms": "900001"})
    with pytest.raises(KafkaError, match="the broker allows less"):
        target.task(0, "a")
    brief = Query(broker.bootstrap, topic(1), **{"kafka.transaction.timeout.ms": "1"})
    written = brief.task(0, "a")
    with pytest.raises(Exception, match=r"its transactions end after kafka.transaction.timeout.ms = 1: "):
        brief.commit([written])
    assert brief.visible() == []
