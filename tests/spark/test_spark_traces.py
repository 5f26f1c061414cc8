"""Traces of Spark: spans of tasks, and the trace headers of records that pass through a stream."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from rigs.collector import Collector, collector
from rigs.librdkafka import consume, produce

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from kcli.testing.broker_process import BrokerProcess

TRACE, PARENT = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
CONTEXT = f"00-{TRACE}-{PARENT}-01".encode()
PRODUCER, CLIENT = 4, 3  # the kinds in OTLP


@pytest.fixture
def traces() -> Iterator[Collector]:
    with collector() as collected:
        yield collected


def test_a_stream_passes_trace_headers_on_and_its_tasks_have_spans(
    spark: SparkSession, broker: BrokerProcess, traces: Collector, tmp_path: Path
) -> None:
    from pyspark.sql import functions as F

    from kcli.spark.streams import Streams, Text

    records = [
        {"value": b"a", "headers": [("other", b"x"), ("traceparent", CONTEXT), ("tracestate", b"k=v")]},
        {"value": b"b"},
        {"value": b"dropped", "headers": [("traceparent", CONTEXT)]},
    ]
    produce(broker.bootstrap, "traced-in", records)
    options = {name: {"kcli.trace": traces.url} for name in ("source_options", "sink_options")}
    app = Streams(spark, "traced", bootstrap_servers=broker.bootstrap, checkpoint=str(tmp_path), **options)
    lines = app.stream("traced-in", value=Text()).filter(lambda r: r.value != "dropped")
    lines.map(key=lambda r: r.value, value=lambda r: F.upper(r.value)).to("traced-out")
    app.run_available()

    headers = {message.value(): message.headers() for message in consume(broker.bootstrap, "traced-out", 2)}
    [poll], [send] = traces.wait_for("poll traced-in"), traces.wait_for("send traced-out")
    assert headers == {
        b"A": [("traceparent", CONTEXT), ("tracestate", b"k=v")],
        b"B": [("traceparent", f"00-{send.trace_id}-{send.span_id}-01".encode())],
    }
    assert (poll.kind, send.kind, poll.service) == (CLIENT, PRODUCER, "kcli-spark")
    assert poll.trace_id == send.trace_id, "the tasks of a micro-batch are one trace"
    assert poll.links == send.links == [(TRACE, PARENT)]
    assert (
        poll.attributes["messaging.batch.message_count"],
        send.attributes["messaging.batch.message_count"],
    ) == (3, 2)
    assert poll.attributes["spark.batch.id"] == send.attributes["spark.batch.id"] == "0"


def test_the_option_takes_precedence_and_off_adds_nothing(
    spark: SparkSession, broker: BrokerProcess, traces: Collector
) -> None:
    rows = spark.createDataFrame([("a",)], "value string")
    for option, topic in (("false", "spark-untraced"), (traces.url, "spark-traced")):
        write = rows.write.format("kcli").option("topic", topic).option("kcli.trace", option)
        write.option("kafka.bootstrap.servers", broker.bootstrap).mode("append").save()
    [message] = consume(broker.bootstrap, "spark-untraced", 1)
    assert message.headers() is None
    [message] = consume(broker.bootstrap, "spark-traced", 1)
    traces.wait_for("send spark-traced")
    [span] = [span for span in traces.spans if span.attributes["messaging.batch.message_count"]]
    assert len({task_span.trace_id for task_span in traces.spans}) == 1, (
        "the tasks of a batch job are one trace"
    )
    assert message.headers() == [("traceparent", f"00-{span.trace_id}-{span.span_id}-01".encode())]
