"""The source against a running broker: columns, positions, planning, streams."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from rigs.librdkafka import produce

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from kcli.testing.broker_process import BrokerProcess

Make = Callable[..., str]


def read(spark: SparkSession, broker: BrokerProcess, schema: str | None = None, **options: str) -> DataFrame:
    reader = spark.read.format("kcli").option("kafka.bootstrap.servers", broker.bootstrap).options(**options)
    return (reader.schema(schema) if schema else reader).load()


def numbered(count: int, partition: int = 0, first_ms: int = 1_700_000_000_000) -> list[dict[str, Any]]:
    return [
        {"value": f"v{nth}", "partition": partition, "timestamp": first_ms + nth * 1000}
        for nth in range(count)
    ]


@pytest.mark.parametrize("codec", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_every_column_as_it_was_produced(
    spark: SparkSession, broker: BrokerProcess, topic: Make, codec: str
) -> None:
    name = topic(2)
    records: list[dict[str, Any]] = [
        {"key": b"k\xff", "value": b"v" * 300, "headers": [("a", b"1"), ("a", None), ("ü", b"")]},
        {"key": None, "value": None},
        {"key": b"", "value": b""},
    ]
    sent = [
        record | {"partition": nth % 2, "timestamp": 1_700_000_000_123 + nth}
        for nth, record in enumerate(records * 20)
    ]
    produce(broker.bootstrap, name, sent, **{"compression.type": codec})
    frame = read(spark, broker, subscribe=name, includeHeaders="true")
    assert frame.columns == [
        "key",
        "value",
        "topic",
        "partition",
        "offset",
        "timestamp",
        "timestampType",
        "headers",
    ]
    rows = sorted(frame.collect(), key=lambda row: (row.offset, row.partition))
    assert len(rows) == len(sent)
    for nth, (row, record) in enumerate(zip(rows, sent, strict=True)):
        assert (row.key, row.value) == (record["key"], record["value"])
        assert (row.topic, row.partition, row.offset, row.timestampType) == (name, nth % 2, nth // 2, 0)
        assert round(row.timestamp.timestamp() * 1000) == record["timestamp"]
        headers = [(header.key, header.value) for header in row.headers] if row.headers is not None else None
        assert headers == record.get("headers")


def test_positions_and_a_schema_of_ones_own(spark: SparkSession, broker: BrokerProcess, topic: Make) -> None:
    name = topic(2)
    produce(broker.bootstrap, name, numbered(100, 0) + numbered(50, 1))
    whole = "offset bigint, partition int"

    def counts(**options: str) -> dict[int, int]:
        rows = read(spark, broker, whole, subscribe=name, **options).groupBy("partition").count().collect()
        return {row.partition: row["count"] for row in rows}

    assert counts() == {0: 100, 1: 50}
    starts = json.dumps({name: {"0": 90, "1": -2}})
    ends = json.dumps({name: {"0": 95, "1": -1}})
    assert counts(startingOffsets=starts, endingOffsets=ends) == {0: 5, 1: 50}
    assert counts(startingTimestamp=str(1_700_000_000_000 + 45_000)) == {0: 55, 1: 5}
    by_time = json.dumps({name: {"0": 1_700_000_080_000, "1": 1_700_000_040_000}})
    assert counts(startingOffsetsByTimestamp=by_time, endingTimestamp="1700000090000") == {0: 10, 1: 10}
    beyond = json.dumps({name: {"0": 101, "1": 50}})
    with pytest.raises(Exception, match=f"{name}-0 ends at offset 100, before the wanted end 101"):
        counts(endingOffsets=beyond)
    assert counts(endingOffsets=beyond, failOnDataLoss="false") == {0: 100, 1: 50}
    assert counts(endingOffsets=json.dumps({name: {"0": 0, "1": 0}})) == {}
    values = read(spark, broker, "value binary", subscribe=name, startingOffsets=starts, endingOffsets=ends)
    assert sorted(row.value for row in values.collect())[-1] == b"v94"


def test_which_partitions_and_how_many_tasks(spark: SparkSession, broker: BrokerProcess, topic: Make) -> None:
    first, second = topic(1, "same"), topic(3, "same")
    produce(broker.bootstrap, first, numbered(10))
    produce(broker.bootstrap, second, numbered(10, 2))
    whole = "offset bigint, partition int, topic string"
    both = read(spark, broker, whole, subscribePattern=f"{first}|{second}")
    assert {row.topic for row in both.select("topic").distinct().collect()} == {first, second}
    assigned = read(spark, broker, whole, assign=json.dumps({second: [2]}))
    assert assigned.count() == 10
    split = read(spark, broker, whole, assign=json.dumps({second: [2]}), minPartitions="4")
    assert split.rdd.getNumPartitions() == 4
    assert sorted(row.offset for row in split.collect()) == list(range(10))


def test_wrong_options_and_topics_are_named(spark: SparkSession, broker: BrokerProcess, topic: Make) -> None:
    with pytest.raises(Exception, match="topic nosuch does not exist"):
        read(spark, broker, subscribe="nosuch").count()
    with pytest.raises(Exception, match="column value is binary, not string"):
        read(spark, broker, "value string", subscribe="nosuch").count()
    with pytest.raises(Exception, match="startingOffsets must name every partition that is read"):
        name = topic(2)
        read(spark, broker, subscribe=name, startingOffsets=json.dumps({name: {"0": 1}})).count()


def test_deleted_records_are_data_loss_unless_the_option_allows_it(
    spark: SparkSession, broker: BrokerProcess, topic: Make
) -> None:
    from confluent_kafka import TopicPartition
    from confluent_kafka.admin import AdminClient

    name = topic(1)
    produce(broker.bootstrap, name, numbered(20))
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    for future in admin.delete_records([TopicPartition(name, 0, 12)]).values():
        future.result(30)
    assert read(spark, broker, "offset bigint", subscribe=name).count() == 8
    starts = json.dumps({name: {"0": 5}})
    lost = read(spark, broker, "offset bigint", subscribe=name, startingOffsets=starts)
    with pytest.raises(Exception, match=f"offset 5 of {name}-0 cannot be read: the log begins at 12"):
        lost.count()
    going_on = read(
        spark, broker, "offset bigint", subscribe=name, startingOffsets=starts, failOnDataLoss="false"
    )
    assert sorted(row.offset for row in going_on.collect()) == list(range(12, 20))


def test_a_stream_in_limited_batches_continues_where_it_stopped(
    spark: SparkSession, broker: BrokerProcess, topic: Make, tmp_path: Path
) -> None:
    name = topic(2)
    produce(broker.bootstrap, name, numbered(40, 0) + numbered(20, 1))
    batches: list[list[tuple[int, int]]] = []

    def run() -> None:
        reader = spark.readStream.format("kcli").option("kafka.bootstrap.servers", broker.bootstrap)
        frame = reader.options(subscribe=name, startingOffsets="earliest", maxOffsetsPerTrigger="25").load()
        writer = frame.select("partition", "offset").writeStream.foreachBatch(
            lambda rows, _: batches.append([tuple(row) for row in rows.collect()])
        )
        query = writer.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
        assert query.awaitTermination(120)

    run()
    assert [len(batch) for batch in batches] == [25, 25, 10]
    assert sorted(row for batch in batches for row in batch) == [(0, nth) for nth in range(40)] + [
        (1, nth) for nth in range(20)
    ]
    batches.clear()
    produce(broker.bootstrap, name, numbered(5, 1))
    run()
    assert [row for batch in batches for row in batch] == [(1, nth) for nth in range(20, 25)]


def test_a_live_log_directory_without_its_broker(
    spark: SparkSession, broker: BrokerProcess, topic: Make, tmp_path: Path
) -> None:
    name = topic(2)
    values = [{"value": "v" * 400, "partition": nth % 2} for nth in range(3000)]
    produce(broker.bootstrap, name, values, **{"batch.size": 8000})
    files = {"subscribe": name, "path": str(broker.directory / "data"), "readUpTo": "logEnd"}
    frame = spark.read.format("kcli").options(**files).load()
    columns = ["partition", "offset", "value", "timestamp"]
    served = read(spark, broker, subscribe=name).select(columns)
    assert frame.select(columns).exceptAll(served).count() == 0
    assert frame.count() == 3000
    batches: list[int] = []
    stream = spark.readStream.format("kcli").options(
        **files, startingOffsets="earliest", maxBytesPerTrigger="500000", minOffsetsPerTrigger="10"
    )
    query = stream.load().writeStream.foreachBatch(lambda rows, _: batches.append(rows.count()))
    started = query.option("checkpointLocation", str(tmp_path)).trigger(availableNow=True).start()
    assert started.awaitTermination(120)
    assert sum(batches) == 3000
    assert len(batches) in (3, 4)  # of 1.2 MB and what surrounds it
