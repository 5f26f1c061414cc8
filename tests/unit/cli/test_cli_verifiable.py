"""verifiable-producer, verifiable-consumer and e2e-latency, as far as they go without a broker."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kcli.cli.main import run
from kcli.cli.output import Output
from kcli.cli.syntax.options import CommandError
from kcli.cli.tools import e2e_latency
from kcli.cli.tools.e2e_latency import E2eLatencyOptions
from kcli.cli.tools.verifiable import consumer as verifiable_consumer
from kcli.cli.tools.verifiable import producer as verifiable_producer
from kcli.cli.tools.verifiable.consumer import VerifiableConsumerOptions
from kcli.cli.tools.verifiable.producer import VerifiableProducerOptions


class Message:
    """A delivered or read record."""

    def __init__(self, partition: int, offset: int, key: bytes | None = None) -> None:
        self._at = (partition, offset)
        self._key = key

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return self._at[0]

    def offset(self) -> int:
        return self._at[1]

    def key(self) -> bytes | None:
        return self._key

    def value(self) -> bytes:
        return str(self._at[1]).encode()


def _events(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


def test_the_producer_does_not_try_again() -> None:
    options = VerifiableProducerOptions(topic="t", bootstrap_server="h:1", acks=1)
    config = verifiable_producer.configuration(options)
    assert (config["request.required.acks"], config["message.send.max.retries"]) == ("1", "0")
    assert config["enable.idempotence"] is False
    assert "delivery.report.only.error" not in config, "every delivery is told"


def test_the_producers_file_goes_before_its_options(tmp_path: Path) -> None:
    path = tmp_path / "producer.properties"
    path.write_text("retries=5\nacks=all\n")
    config = verifiable_producer.configuration(
        VerifiableProducerOptions(topic="t", bootstrap_server="h:1", acks=1, producer_config=str(path))
    )
    assert (config["request.required.acks"], config["message.send.max.retries"]) == ("all", "5")
    assert config["enable.idempotence"] is True


@pytest.mark.usefixtures("kafkas_script")
@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        ("--topic t", "verifiable-producer: error: one of the arguments --bootstrap-server is required"),
        ("--bootstrap-server h:1 --topic t --acks 5", "invalid choice: '5' (choose from {0,1,-1})"),
        (
            "--bootstrap-server h:1 --topic t --producer.config a --command-config b",
            "Options --producer.config and --command-config are mutually exclusive.",
        ),
    ],
)
def test_the_producer_refuses_wrong_arguments(
    capsys: pytest.CaptureFixture[str], words: str, complaint: str
) -> None:
    assert run(["verifiable-producer", *words.split()]) == 1
    assert complaint in capsys.readouterr().err


@pytest.mark.parametrize(
    ("repeating", "keys"), [(2, ["0", "1", "0"]), (0, ["0", "1", "2"]), (None, [None] * 3)]
)
def test_keys_come_around(repeating: int | None, keys: list[str | None]) -> None:
    options = VerifiableProducerOptions(
        topic="t", bootstrap_server="127.0.0.1:1", max_messages=3, repeating_keys=repeating
    )
    producer = verifiable_producer._Run(options, Output())
    sent: list[str | None] = []
    producer._produce = lambda key, value: sent.append(key)
    producer.send()
    assert sent == keys


def test_the_producer_tells_each_delivery(capsys: pytest.CaptureFixture[str]) -> None:
    options = VerifiableProducerOptions(topic="t", bootstrap_server="127.0.0.1:1", throughput=5)
    producer = verifiable_producer._Run(options, Output())
    producer._reports.delivered(None, Message(1, 7, b"k"))
    refused = SimpleNamespace(code=lambda: 10, str=lambda: "too large")
    producer._reports.delivered(refused, Message(0, -1))
    producer.close()
    out = capsys.readouterr().out
    assert (
        ',"name":"producer_send_success","key":"k","value":"7","offset":7,"topic":"t","partition":1}\n' in out
    )
    started, _, failed, stopped, totals = _events(out)
    assert (started["name"], stopped["name"]) == ("startup_complete", "shutdown_complete")
    assert failed["exception"] == "class org.apache.kafka.common.errors.RecordTooLargeException"
    assert failed["key"] is None and failed["message"].startswith("The request included a message larger")
    assert list(totals)[1:] == ["name", "sent", "acked", "target_throughput", "avg_throughput"]
    assert (totals["acked"], totals["target_throughput"]) == (1, 5)


def _consumer(**settings: Any) -> VerifiableConsumerOptions:
    return VerifiableConsumerOptions(bootstrap_server="127.0.0.1:1", topic="t", group_id="g", **settings)


def test_the_consumer_of_either_protocol() -> None:
    classic = verifiable_consumer.configuration(_consumer(reset_policy="none", group_instance_id="i"))
    assert (classic["session.timeout.ms"], classic["partition.assignment.strategy"]) == ("30000", "range")
    assert (classic["auto.offset.reset"], classic["group.instance.id"]) == ("error", "i")
    new = verifiable_consumer.configuration(
        _consumer(group_protocol="consumer", group_remote_assignor="uniform")
    )
    assert "session.timeout.ms" not in new and new["group.remote.assignor"] == "uniform"


def test_the_consumer_takes_no_more_than_its_maximum(capsys: pytest.CaptureFixture[str]) -> None:
    consumer = verifiable_consumer._Run(_consumer(max_messages=3, verbose=True), Output())
    ends = consumer._take([Message(1, 0), Message(0, 5), Message(1, 1), Message(0, 6)])
    consumer.consumer.close()
    assert ends == {("t", 1): 2, ("t", 0): 6}
    *records, summary = _events(capsys.readouterr().out)
    assert [(record["partition"], record["offset"]) for record in records] == [(1, 0), (1, 1), (0, 5)]
    assert summary["count"] == 4
    assert summary["partitions"] == [
        {"topic": "t", "partition": 1, "count": 2, "minOffset": 0, "maxOffset": 1},
        {"topic": "t", "partition": 0, "count": 1, "minOffset": 5, "maxOffset": 5},
    ]
    assert consumer._is_finished()


@pytest.mark.parametrize("tool", ["verifiable-producer", "verifiable-consumer"])
def test_no_words_show_the_help(tool: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run([tool]) == 0
    assert capsys.readouterr().out.startswith(f"usage: {tool} [-h]")
    assert run([tool, "--help"]) == 0
    assert run([tool, "--topic", "t"]) == 1
    assert "is required" in capsys.readouterr().err


def test_latency_is_planned_by_position_or_by_name() -> None:
    by_position = e2e_latency.planned(E2eLatencyOptions(arguments=("h:1", "t", "5", "all", "10", "f")))
    names = frozenset({"bootstrap-server", "topic", "num-records", "producer-acks", "record-size"})
    by_name = e2e_latency.planned(
        E2eLatencyOptions(
            given=names,
            bootstrap_server="h:1",
            topic="t",
            num_records=5,
            producer_acks="all",
            record_size=10,
            command_config="f",
        )
    )
    assert by_position == by_name


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (("h:1", "t", "5"), "USAGE: java org.apache.kafka.tools.EndToEndLatency broker_list"),
        (("h:1", "t", "x", "all", "1"), 'For input string: "x"'),
        (("h:1", "t", "1", "0", "1"), "Latency testing requires synchronous acknowledgement"),
        (("h:1", "t", "0", "1", "1"), "At least one record"),
    ],
)
def test_the_latency_tool_refuses_wrong_arguments(words: tuple[str, ...], message: str) -> None:
    with pytest.raises(CommandError) as refused:
        e2e_latency.planned(E2eLatencyOptions(arguments=words))
    assert str(refused.value).startswith(message)


def test_latency_is_summed_up_as_kafka_does() -> None:
    row = e2e_latency.summary([86.9, 11.2, 12.8, 10.5, 11.9])
    assert (row.p50_ms, row.p99_ms, row.p999_ms) == (11, 86, 86)
    assert round(row.average_ms, 4) == 26.66
