"""A tool whose producer may not continue ends with the error of Kafka's tool and the missing permission, and without a
traceback."""

from __future__ import annotations

import io
import json
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from confluent_kafka import KafkaError, KafkaException

from kcli.cli.main import run
from kcli.cli.missing_rights import shown_at_end
from kcli.cli.tools.e2e_latency import _Run as Measurement
from kcli.errors import ClusterAuthorizationException
from kcli.rdkafka.delivery import DeliveryReports
from kcli.rdkafka.errors import TransactionError
from kcli.rdkafka.transactions import DEFAULT_DURATION_MS, Transactions

MISSING = "kcli acls --add --allow-principal User:ANONYMOUS --operation Write --topic t"


def not_allowed() -> None:
    raise KafkaException(KafkaError(KafkaError.CLUSTER_AUTHORIZATION_FAILED, "no right", True))


def with_a_due_report() -> None:
    """Raises what confluent-kafka raises for a fatal error, if a delivery report is due at the same time."""
    try:
        not_allowed()
    except KafkaException as fatal:
        try:
            raise SystemError("the report was due") from fatal
        except SystemError as error:
            raise SystemError("the callback returned a result") from error


class Forbidden:
    """A producer of librdkafka that the broker does not allow to continue."""

    def __init__(self, *_: object) -> None: ...

    def list_topics(self, topic: str = "t", timeout: float = 0) -> Any:
        partition = SimpleNamespace(id=0, leader=1)
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions={0: partition})})

    def produce(self, *_: object, **__: object) -> None: ...

    def poll(self, timeout_s: float = 0) -> None:
        not_allowed()

    flush = poll


def test_the_perf_test_reports_the_refusal_and_its_summary(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("confluent_kafka.Producer", Forbidden)
    words = "--topic t --num-records 1 --record-size 1 --throughput -1 --bootstrap-server 127.0.0.1:1"
    assert run(["producer-perf-test", *words.split()]) == 1
    out, err = capsys.readouterr()
    assert out.startswith("0 records sent")
    assert "ClusterAuthorizationException: Cluster authorization failed." in err
    assert MISSING in err


@pytest.mark.usefixtures("kafkas_script")
def test_kafkas_perf_test_ends_with_0_after_a_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("confluent_kafka.Producer", Forbidden)
    words = "--topic t --num-records 1 --record-size 1 --throughput -1 --bootstrap-server 127.0.0.1:1"
    assert run(["producer-perf-test", *words.split()]) == 0


class Purging(Forbidden):
    """Its delivery reports are due together with the fatal error, as in librdkafka."""

    def __init__(self, config: dict[str, Any], *_: object) -> None:
        self.on_delivery = config["on_delivery"]

    def poll(self, timeout_s: float = 0) -> None: ...

    def flush(self, timeout_s: float = 0) -> None:
        record = SimpleNamespace(key=lambda: None, value=lambda: b"x")
        self.on_delivery(KafkaError(KafkaError._PURGE_QUEUE), record)
        with_a_due_report()


def test_the_console_producer_reports_the_refusal_and_not_the_emptied_queue(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("confluent_kafka.Producer", Purging)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"x\n")))
    assert run(["console-producer", "--topic", "t", "--bootstrap-server", "127.0.0.1:1"]) == 1
    err = capsys.readouterr().err
    assert "to topic t with key: null, value: 1 bytes with error:" in err
    assert "ClusterAuthorizationException: Cluster authorization failed." in err
    assert "Purged" not in err


@pytest.mark.parametrize(
    "words",
    [
        "producer-perf-test --num-records 1 --record-size 1 --throughput -1",
        "verifiable-producer --max-messages 1",
        "e2e-latency --num-records 1 --producer-acks all --record-size 1",
    ],
)
def test_nothing_is_reported_before_a_fatal_error_is_raised(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[str] = []

    class Watched(Purging):
        def __init__(self, config: dict[str, Any], *_: object) -> None:
            self.delivered = config.get("on_delivery")

        def produce(self, *words: Any, **_: Any) -> None:
            self.delivered = self.delivered or words[4]

        def on_delivery(self, *report: Any) -> None:
            capsys.readouterr()
            self.delivered(*report)
            said.extend(capsys.readouterr())

    monkeypatch.setattr("confluent_kafka.Producer", Watched)
    monkeypatch.setattr("kcli.cli.tools.e2e_latency._Run._go_to_ends", lambda *_: None)
    monkeypatch.setattr("kcli.cli.tools.e2e_latency._partitions", no_partitions)
    run([*words.split(), "--topic", "t", "--bootstrap-server", "127.0.0.1:1"])
    shown = "".join(capsys.readouterr())
    assert said and not any(said)
    assert "Cluster authorization failed." in shown
    assert "Purged" not in shown


@pytest.mark.parametrize(
    "step", ["init_transactions", "begin_transaction", "commit_transaction", "abort_transaction"]
)
def test_a_fatal_error_with_a_due_report_is_an_error_of_the_transaction(step: str) -> None:
    producer = MagicMock()
    producer.configure_mock(**{f"{step}.side_effect": with_a_due_report})

    def one_transaction(end: str) -> None:
        transactions = Transactions(producer, DEFAULT_DURATION_MS)
        transactions.begin()
        getattr(transactions, end)()

    if step == "abort_transaction":
        one_transaction("abort")
        producer.purge.assert_called_once_with()
    else:
        with pytest.raises(TransactionError, match="no right") as raised:
            one_transaction("commit")
        assert isinstance(raised.value.__cause__, ClusterAuthorizationException)


def test_a_system_error_without_an_error_of_librdkafka_is_passed_on() -> None:
    producer = MagicMock()
    producer.init_transactions.side_effect = SystemError("a defect")
    with pytest.raises(SystemError, match="a defect"):
        Transactions(producer, DEFAULT_DURATION_MS)


async def no_partitions(*_: object) -> int:
    return 0


class Refused(Forbidden):
    """The fatal error comes first, and the reports of the removed records follow. The producer accepts no record
    then."""

    records = 20

    def __init__(self, config: dict[str, Any], *_: object) -> None:
        self.waiting: list[Any] = []
        self.on_delivery = config.get("on_delivery")
        self.is_told = False

    def produce(self, *words: Any, **_: Any) -> None:
        if len(self.waiting) == self.records:
            raise KafkaException(KafkaError(KafkaError._FATAL, "fatal error", True))
        value, more = words[1], words[4:5]
        on_delivery = self.on_delivery or more[0]
        message = SimpleNamespace(
            key=lambda: None, value=lambda: value, topic=lambda: "t", partition=lambda: 0
        )
        self.waiting.append((on_delivery, message))

    def poll(self, timeout_s: float = 0) -> None:
        if self.waiting and not self.is_told and len(self.waiting) == self.records:
            self.is_told = True
            super().poll()

    def flush(self, timeout_s: float = 0) -> None:
        self.poll()
        for on_delivery, message in self.waiting:
            on_delivery(KafkaError(KafkaError._PURGE_QUEUE), message)
        self.waiting = []


def test_the_console_producer_tells_a_fatal_error_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("confluent_kafka.Producer", Refused)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"x\n" * 30)))
    assert run(["console-producer", "--topic", "t", "--bootstrap-server", "127.0.0.1:1"]) == 1
    err = capsys.readouterr().err
    assert err.count("Cluster authorization failed.") == 1
    assert "Purged" not in err and "Fatal error" not in err


def test_the_perf_test_reports_each_record_with_the_fatal_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("confluent_kafka.Producer", Refused)
    words = "--topic t --num-records 30 --record-size 1 --throughput -1 --bootstrap-server 127.0.0.1:1"
    assert run(["producer-perf-test", *words.split()]) == 1
    err = capsys.readouterr().err
    assert err.count("Cluster authorization failed.") == Refused.records
    assert "Purged" not in err and "Fatal error" not in err


def test_the_verifiable_producer_reports_each_record_with_the_fatal_error(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("confluent_kafka.Producer", Refused)
    words = "--max-messages 30 --topic t --bootstrap-server 127.0.0.1:1"
    assert run(["verifiable-producer", *words.split()]) == 0
    events = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    failed = [event for event in events if event["name"] == "producer_send_error"]
    assert sorted(int(event["value"]) for event in failed) == list(range(30))
    assert {event["message"] for event in failed} == {"Cluster authorization failed."}


class RefusedAtOnce(Forbidden):
    """The fatal error comes before the first record. `produce` does not tell its reason."""

    def produce(self, *_: Any, **__: Any) -> None:
        raise KafkaException(KafkaError(KafkaError._FATAL, "fatal error", True))

    def poll(self, timeout_s: float = 0) -> None: ...

    def flush(self, timeout_s: float = 0) -> None:
        super().poll()


@pytest.mark.parametrize(
    "words",
    [
        "console-producer",
        "console-producer --sync",
        "producer-perf-test --num-records 1 --record-size 1 --throughput -1",
        "verifiable-producer --max-messages 1",
        "e2e-latency --num-records 1 --producer-acks all --record-size 1",
    ],
)
def test_a_tool_whose_first_record_is_refused_shows_the_reason(
    words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("confluent_kafka.Producer", RefusedAtOnce)
    monkeypatch.setattr("kcli.cli.tools.e2e_latency._Run._go_to_ends", lambda *_: None)
    monkeypatch.setattr("kcli.cli.tools.e2e_latency._partitions", no_partitions)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"x\n")))
    run([*words.split(), "--topic", "t", "--bootstrap-server", "127.0.0.1:1"])
    shown = "".join(capsys.readouterr())
    assert "Cluster authorization failed." in shown
    assert "Fatal error" not in shown


def test_the_latency_test_ends_with_the_refusal(capsys: pytest.CaptureFixture[str]) -> None:
    measurement: Any = object.__new__(Measurement)
    measurement.plan, measurement.producer = SimpleNamespace(topic="t"), Forbidden()
    measurement._reports = DeliveryReports()
    with pytest.raises(ClusterAuthorizationException), shown_at_end():
        measurement._send(b"", None, [])
    assert MISSING in capsys.readouterr().err
