"""The sink: what it writes is what other clients read, in the partitions they would choose."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigs.librdkafka import consume, produce

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kcli.testing.broker_process import BrokerProcess

Make = Callable[..., str]
HEADERS = "array<struct<key: string, value: binary>>"


def write(frame: DataFrame, broker: BrokerProcess, **options: str) -> None:
    writer = frame.write.format("kcli").option("kafka.bootstrap.servers", broker.bootstrap).options(**options)
    writer.mode("append").save()


@pytest.mark.parametrize("codec", ["none", "zstd"])
def test_rows_arrive_with_key_value_and_headers(
    spark: SparkSession, broker: BrokerProcess, topic: Make, codec: str
) -> None:
    name = topic(1)
    rows = [
        (b"k1", b"v1", [("h", b"x"), ("h", None)]),
        (None, b"", None),
        (b"", None, []),
        (b"k2", b"v" * 2000, [("long", b"y" * 300)]),
    ]
    frame = spark.createDataFrame(rows, f"key binary, value binary, headers {HEADERS}").coalesce(1)
    write(frame, broker, topic=name, **{"kafka.compression.type": codec})
    records = [
        (message.key(), message.value(), message.headers())
        for message in consume(broker.bootstrap, name, len(rows))
    ]
    assert records == [(key, value, headers or None) for key, value, headers in rows]


def test_keys_go_where_the_java_client_sends_them(
    spark: SparkSession, broker: BrokerProcess, topic: Make
) -> None:
    keys = [f"key-{nth}" for nth in range(200)]
    theirs, ours = topic(7), topic(7)
    sent = [{"key": key, "value": "v"} for key in keys]
    produce(broker.bootstrap, theirs, sent, partitioner="murmur2_random")
    write(spark.createDataFrame([(key, "v") for key in keys], "key string, value string"), broker, topic=ours)

    def placed(name: str) -> dict[bytes, int]:
        return {message.key(): message.partition() for message in consume(broker.bootstrap, name, len(keys))}

    assert placed(ours) == placed(theirs)


def test_topic_partition_and_timestamp_columns(
    spark: SparkSession, broker: BrokerProcess, topic: Make
) -> None:
    first, second = topic(1), topic(4)
    rows = [(first, 0, 1_700_000_000, "a"), (second, 3, 1_700_000_001, "b"), (second, 3, 1_600_000_000, "c")]
    frame = spark.createDataFrame(
        [*rows, (second, None, None, "d")], "topic string, partition int, at bigint, value string"
    )
    timed = frame.selectExpr("topic", "partition", "timestamp_seconds(at) as timestamp", "value")
    write(timed.coalesce(1), broker, **{"kcli.transactional": "true"})
    assert [message.value() for message in consume(broker.bootstrap, first, 1)] == [b"a"]
    messages = {message.value(): message for message in consume(broker.bootstrap, second, 3)}
    assert (messages[b"b"].partition(), messages[b"c"].partition()) == (3, 3)
    assert (messages[b"b"].timestamp()[1], messages[b"c"].timestamp()[1]) == (
        1_700_000_001_000,
        1_600_000_000_000,
    )
    assert abs(messages[b"d"].timestamp()[1] / 1000 - time.time()) < 600


def test_many_batches_keep_their_order(spark: SparkSession, broker: BrokerProcess, topic: Make) -> None:
    name = topic(3)
    frame = spark.range(60_000).selectExpr(
        "cast(id % 50 as string) as key", "repeat(cast(id as string), 20) as value"
    )
    write(frame.coalesce(1), broker, topic=name)
    last: dict[bytes, int] = {}
    for message in consume(broker.bootstrap, name, 60_000):
        number = int(message.value()[: len(message.value()) // 20])
        assert number > last.get(message.key(), -1)
        last[message.key()] = number
    assert len(last) == 50


@pytest.mark.parametrize(
    "columns, options, message",
    [
        ("'k' as key", {"topic": "t"}, "Required attribute 'value' not found"),
        ("'v' as value", {}, "topic option required when no 'topic' attribute is present"),
        ("1 as value", {"topic": "t"}, "column value is int; expected binary or string"),
        ("'v' as value, 1 as colour", {"topic": "t"}, "column colour cannot be written to a topic"),
        (
            "'v' as value, 9 as partition",
            {"topic": "TOPIC"},
            "partition 9 of topic .*: expected 0 to 0",
        ),
    ],
)
def test_the_sink_names_the_wrong_column_or_option(
    spark: SparkSession,
    broker: BrokerProcess,
    topic: Make,
    columns: str,
    options: dict[str, str],
    message: str,
) -> None:
    options = {name: topic(1) if value == "TOPIC" else value for name, value in options.items()}
    with pytest.raises(Exception, match=message):
        write(spark.sql(f"select {columns}"), broker, **options)


def test_a_stream_from_topic_to_topic(
    spark: SparkSession, broker: BrokerProcess, topic: Make, tmp_path: Path
) -> None:
    source, target = topic(2), f"made-{uuid.uuid4().hex[:8]}"  # the sink lets the broker make it
    produce(broker.bootstrap, source, [{"key": f"k{nth}", "value": f"v{nth}"} for nth in range(300)])
    servers = {"kafka.bootstrap.servers": broker.bootstrap}
    reader = spark.readStream.format("kcli").options(subscribe=source, startingOffsets="earliest", **servers)
    frame = reader.load().select("key", "value")
    writer = frame.writeStream.format("kcli").options(
        topic=target, checkpointLocation=str(tmp_path), **servers
    )
    assert writer.trigger(availableNow=True).start().awaitTermination(120)
    results = {message.key(): message.value() for message in consume(broker.bootstrap, target, 300)}
    assert results == {b"k%d" % nth: b"v%d" % nth for nth in range(300)}

    def twice(rows: DataFrame, batch: int) -> None:
        """As after a crash, or because a user's function failed behind the write."""
        for _ in range(2):
            write(rows, broker, topic=again, **{"kafka.transactional.id": again, "kcli.batch.id": str(batch)})

    again = topic(1)
    writer = frame.writeStream.foreachBatch(twice).option("checkpointLocation", str(tmp_path / "again"))
    assert writer.trigger(availableNow=True).start().awaitTermination(120)
    produce(broker.bootstrap, again, [{"value": "last"}])
    results = [message.value() for message in consume(broker.bootstrap, again, 301)]
    assert (len(results), results[-1]) == (301, b"last")
