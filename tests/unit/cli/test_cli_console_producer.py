"""The count of the lines that failed, by what is known about them, and the exit code."""

from __future__ import annotations

import io
import re
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError

from kcli.cli.main import run
from kcli.cli.script_form import SCRIPT_VARIABLE

COMMAND = ["console-producer", "--topic", "t", "--bootstrap-server", "127.0.0.1:1"]


class Scripted:
    """A producer of librdkafka whose records fail with the given codes, one after another."""

    codes: tuple[int | None, ...] = ()
    topic_errors: tuple[int, ...] = ()

    def __init__(self, config: dict[str, Any], *_: object) -> None:
        self.on_delivery = config["on_delivery"]
        self.topics = list(self.topic_errors)

    def list_topics(self, topic: str | None = None, timeout: float = 0) -> Any:
        if topic is None:
            return SimpleNamespace(topics={"t": None})
        if self.topics:
            error = KafkaError(self.topics.pop(0))
            return SimpleNamespace(topics={topic: SimpleNamespace(error=error, partitions={})})
        partition = SimpleNamespace(id=0, leader=1)
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions={0: partition})})

    def produce(self, *_: object, **__: object) -> None: ...

    def poll(self, timeout_s: float = 0) -> None: ...

    def flush(self, timeout_s: float = 0) -> int:
        codes, Scripted.codes = Scripted.codes, ()
        for code in codes:
            if code is not None:
                self.on_delivery(KafkaError(code), SimpleNamespace(key=lambda: None, value=lambda: b"x"))
        return 0

    def __len__(self) -> int:
        return 0


def sent(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    *codes: int | None,
    script: bool = False,
    topic_errors: tuple[int, ...] = (),
    more: tuple[str, ...] = (),
) -> tuple[int, list[str]]:
    """Sends a line for each code. Returns the exit code and the lines of stderr about all lines."""
    monkeypatch.setattr("confluent_kafka.Producer", Scripted)
    monkeypatch.setattr(Scripted, "codes", codes)
    monkeypatch.setattr(Scripted, "topic_errors", topic_errors)
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(b"x\n" * len(codes))))
    if script:
        monkeypatch.setenv(SCRIPT_VARIABLE, "kafka-console-producer.sh")
    code = run([*COMMAND, *more])
    return code, [
        line for line in capsys.readouterr().err.splitlines() if re.match(r"\d+ of|\[.*WARN|\[.* of ", line)
    ]


def test_a_time_out_does_not_say_that_the_record_is_lost(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = (None, KafkaError._MSG_TIMED_OUT, KafkaError.REQUEST_TIMED_OUT)
    line = "2 of 3 lines were not acknowledged. They may be in topic t."
    assert sent(monkeypatch, capsys, *codes) == (1, [line])


def test_a_refused_record_is_not_in_the_topic(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    codes = (KafkaError.INVALID_RECORD, KafkaError.MSG_SIZE_TOO_LARGE, KafkaError._MSG_TIMED_OUT)
    refused = "2 of 3 lines were refused, and are not in topic t."
    unknown = "1 of 3 lines were not acknowledged. They may be in topic t."
    assert sent(monkeypatch, capsys, *codes) == (1, [refused, unknown])
    code, lines = sent(monkeypatch, capsys, *codes, script=True)
    assert (code, len(lines)) == (0, 2), "Kafka's exit code"
    assert lines[0].endswith(f"] ERROR {refused} (kcli.console-producer)")


def test_without_metadata_nothing_is_sent(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    errors = (
        (KafkaError.INVALID_TOPIC_EXCEPTION,) if hasattr(KafkaError, "INVALID_TOPIC_EXCEPTION") else (17,)
    )
    code, lines = sent(monkeypatch, capsys, None, None, topic_errors=errors * 2)
    assert (code, lines[-1]) == (1, "2 of 2 lines were not sent to topic t.")


def test_no_input_is_a_success(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert sent(monkeypatch, capsys, more=("--max-block-ms", "1")) == (0, [])
    assert sent(monkeypatch, capsys, script=True) == (0, [])


def test_a_topic_that_does_not_exist_yet_is_reported_as_in_kafka(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    missing, no_leader = KafkaError.UNKNOWN_TOPIC_OR_PART, KafkaError.LEADER_NOT_AVAILABLE
    code, lines = sent(monkeypatch, capsys, None, topic_errors=(missing, missing, no_leader))
    assert code == 0
    reported = "The metadata response from the cluster reported a recoverable issue with correlation id 1"
    assert [line.partition(" WARN ")[2] for line in lines] == [
        f"[Producer clientId=console-producer] {reported} : {{t={name}}} (org.apache.kafka.clients.NetworkClient)"
        for name in ("UNKNOWN_TOPIC_OR_PARTITION", "LEADER_NOT_AVAILABLE")
    ]
