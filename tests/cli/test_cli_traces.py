"""The traces of the tools and of the broker: a record is one trace, from its producer through the broker to its
consumer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import pytest

from kcli.cli.main import run
from kcli.testing.broker_process import BrokerProcess
from rigs.collector import Collector, Received, collector
from rigs.librdkafka import consume, produce

INTERNAL, SERVER, CLIENT, PRODUCER, CONSUMER = 1, 2, 3, 4, 5  # the kinds in OTLP
OF_USER = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"


@pytest.fixture(scope="module")
def traces() -> Iterator[Collector]:
    with collector() as collected:
        yield collected


@pytest.fixture(scope="module")
def traced(traces: Collector, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that traces a request if the first record of the request is sampled."""
    overrides = {
        "kcli.trace.headers": "true",
        "kcli.trace.endpoint": traces.url,
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "1",
    }
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_BSP_SCHEDULE_DELAY", "20")
        with BrokerProcess(tmp_path_factory.mktemp("traced"), overrides=overrides) as process:
            yield process


def tool(
    name: str, broker: BrokerProcess, *words: str, stdin: str = "", **environment: str
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "kcli", name, "--bootstrap-server", broker.bootstrap, *words],
        input=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, **environment},
    )


def children(traces: Collector, parent: Received) -> dict[str, Received]:
    return {span.name: span for span in traces.spans if span.parent_id == parent.span_id}


def test_a_record_is_one_trace_from_its_producer_through_the_broker_to_its_consumer(
    traced: BrokerProcess, traces: Collector, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = "traced"
    sent = tool("console-producer", traced, "--topic", topic, stdin="a\n", **traces.environment)
    assert (sent.returncode, "ERROR" in sent.stderr) == (0, False)  # a warning says that the topic is new
    words = ("--topic", topic, "--from-beginning", "--max-messages", "1", "--group", "readers")
    read = tool("console-consumer", traced, *words, **traces.environment)
    assert read.stdout == "a\n"

    [send] = traces.wait_for(f"send {topic}")
    [poll] = traces.wait_for(f"poll {topic}")
    [process] = traces.wait_for(f"process {topic}")
    [request] = traces.wait_for("kafka.Produce", trace_id=send.trace_id)
    traces.wait_for("send", trace_id=send.trace_id)
    created = (send.trace_id, send.span_id)
    assert (send.kind, send.parent_id, send.links) == (PRODUCER, "", [])
    for span, kind in ((request, SERVER), (process, CONSUMER)):
        assert (span.trace_id, span.parent_id, span.links, span.kind) == (*created, [created], kind)
    assert (poll.kind, poll.links) == (CLIENT, [created])
    assert send.attributes == {
        "messaging.system": "kafka",
        "messaging.operation.name": "send",
        "messaging.operation.type": "send",
        "messaging.destination.name": topic,
        "messaging.destination.partition.id": "0",
        "messaging.kafka.offset": 0,
        "messaging.client.id": "console-producer",
    }
    assert poll.attributes["messaging.batch.message_count"] == 1
    assert process.attributes["messaging.consumer.group.name"] == "readers"
    assert process.attributes["messaging.kafka.offset"] == 0
    assert [span.service for span in (send, request, process)] == [
        "kcli-console-producer",
        "kcli-broker",
        "kcli-console-consumer",
    ]
    stages = children(traces, request)
    append = children(traces, stages["work"])["append"]
    assert append.attributes["messaging.destination.name"] == topic
    assert request.start_ns <= stages["work"].start_ns <= append.start_ns <= append.end_ns <= request.end_ns

    words = ("trace", "--bootstrap-server", traced.bootstrap, "--topic", topic, "--offset", "0", "--traces")
    for style in ("", "/tempo"):
        assert run([*words, f"{traces.url}{style}"]) == 0
        text = capsys.readouterr().out
        lines = [line.strip() for line in text.splitlines()]
        assert f"trace      {send.trace_id} (header traceparent)" in lines
        tree = [
            line[26:].partition(" [")[0] for line in text.splitlines() if line.startswith(" ") and "+" in line
        ]
        assert tree[:4] == [f"send {topic}", "  kafka.Produce", "    work", "      append"]
        assert f"  process {topic}" in tree
        way = lines[lines.index("The time of this record:") + 1 :]
        names = [line.split("  ", 1)[1].partition(" [")[0].strip() for line in way]
        assert names == ["sent", "in the broker", "work", "send", "waited for a consumer", "processed"]
    assert run([*words, traces.url, "--output", "json"]) == 0
    rows = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert rows[0]["trace_id"] == send.trace_id
    assert {row["span_id"] for row in rows if row.get("is_record")} == {send.span_id, process.span_id}


def test_a_trace_that_is_not_there_is_reported(
    traced: BrokerProcess, traces: Collector, capsys: pytest.CaptureFixture[str]
) -> None:
    topic = "lookups"
    hostile = [("\x1b[2J", b"\x1b[31m"), ("traceparent", b"00-" + b"a" * 32 + b"-" + b"b" * 16 + b"-00")]
    produce(traced.bootstrap, topic, [{"value": b"x", "headers": hostile}, {"value": b"y", "key": b"\xff"}])

    def asked(*words: str) -> tuple[int, str, str]:
        code = run(["trace", "--bootstrap-server", traced.bootstrap, "--topic", topic, *words])
        return code, *capsys.readouterr()

    code, out, err = asked("--offset", "0")
    assert (code, "\x1b" in out + err, "--traces URL" in err) == (0, False, True)
    code, out, err = asked("--offset", "0", "--traces", traces.url)
    assert (code, f"has no trace {'a' * 32}" in err, "did not sample it" in err) == (1, True, True)
    code, out, err = asked("--offset", "1", "--traces", traces.url)
    assert (code, "The record has no trace" in err, "\\xff" in out) == (0, True, True)
    assert "end offset is 2" in asked("--offset", "2")[2]
    assert f"Partition {topic}-7 does not exist" in asked("--offset", "0", "--partition", "7")[2]
    assert "http://127.0.0.1:1" in asked("--offset", "0", "--traces", "http://u:secret@127.0.0.1:1")[2]
    assert "secret" not in asked("--offset", "0", "--traces", "http://u:secret@127.0.0.1:1")[2]
    assert "expected http://HOST:PORT" in asked("--offset", "0", "--traces", "jaeger:16686")[2]
    assert run(["trace", "--bootstrap-server", traced.bootstrap, "--topic", "no-topic", "--offset", "0"]) == 1
    assert "topic no-topic: " in capsys.readouterr().err


def test_headers_of_the_sender_stay(traced: BrokerProcess, traces: Collector) -> None:
    topic = "traced-by-user"
    headers = ("--property", "parse.headers=true")
    line = f"traceparent:{OF_USER}\tvalue\n"
    environment = {**traces.environment, "OTEL_SERVICE_NAME": "mine"}
    assert (
        tool("console-producer", traced, "--topic", topic, *headers, stdin=line, **environment).returncode
        == 0
    )
    [message] = consume(traced.bootstrap, topic, 1)
    assert message.headers() == [("traceparent", OF_USER.encode())]
    [span] = traces.wait_for(f"send {topic}")
    assert (span.kind, span.service) == (CLIENT, "mine")
    assert span.links == [("0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331")]


def test_without_the_variables_records_have_no_headers(traced: BrokerProcess) -> None:
    assert tool("console-producer", traced, "--topic", "untraced", stdin="a\n").returncode == 0
    [message] = consume(traced.bootstrap, "untraced", 1)
    assert message.headers() is None


def test_an_unsampled_record_has_a_context_and_no_spans(traced: BrokerProcess, traces: Collector) -> None:
    never = {**traces.environment, "OTEL_TRACES_SAMPLER": "parentbased_always_off"}
    assert tool("console-producer", traced, "--topic", "unsampled", stdin="a\n", **never).returncode == 0
    [message] = consume(traced.bootstrap, "unsampled", 1)
    [(name, value)] = message.headers()
    assert (name, value[-3:]) == ("traceparent", b"-00")
    assert value.split(b"-")[1].decode() not in {span.trace_id for span in traces.spans}


def test_hostile_headers_change_nothing(traced: BrokerProcess, traces: Collector) -> None:
    topic = "hostile"
    values = [b"", b"\xff" * 70, b"00-" + b"0" * 32 + b"-" + b"0" * 16 + b"-01", b"x" * 100_000, None]
    for number, value in enumerate(values):
        produce(traced.bootstrap, topic, [{"value": b"%d" % number, "headers": [("traceparent", value)]}])
    words = ("--topic", topic, "--from-beginning", "--max-messages", str(len(values)))
    read = tool("console-consumer", traced, *words, **traces.environment)
    assert read.stdout.split() == ["0", "1", "2", "3", "4"]
    polls = traces.wait_for(f"poll {topic}")
    assert all(not span.links for span in polls)
    assert not traces.named(f"process {topic}")
    assert topic not in {
        span.attributes.get("messaging.destination.name") for span in traces.named("kafka.Produce")
    }


def test_a_collector_that_does_not_answer_is_reported_once(traced: BrokerProcess) -> None:
    dead = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "1",
        "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": "10",
    }
    lines = "".join(f"{n}\n" for n in range(20))
    sent = tool("console-producer", traced, "--topic", "to-nobody", stdin=lines, **dead)
    assert sent.returncode == 0
    assert sent.stderr.count("Traces cannot be exported") == 1
    assert "20 of 20 spans were not exported." in sent.stderr
    assert len(consume(traced.bootstrap, "to-nobody", 20)) == 20


def test_the_verifiable_tools_have_spans(traced: BrokerProcess, traces: Collector) -> None:
    topic, count = "verifiable-traced", 4
    words = ("--topic", topic, "--max-messages", str(count))
    sent = tool("verifiable-producer", traced, *words, **traces.environment)
    assert sent.returncode == 0, sent.stderr
    read = tool("verifiable-consumer", traced, *words, "--group-id", "g", **traces.environment)
    assert read.returncode == 0, read.stderr
    sends, processes = traces.wait_for(f"send {topic}", count), traces.wait_for(f"process {topic}", count)
    assert {span.parent_id for span in processes} == {span.span_id for span in sends}
    assert {span.attributes["messaging.consumer.group.name"] for span in processes} == {"g"}
