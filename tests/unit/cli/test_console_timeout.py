"""The end of console-consumer while errors arrive, but no record."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import KafkaError

from kcli.cli.main import run
from kcli.rdkafka.log import logger

POLLS_MAX = 1000


class Failed:
    """A message that reports an error in place of a record."""

    def __init__(self, code: int) -> None:
        self.code = code

    def error(self) -> KafkaError:
        return KafkaError(self.code, "it failed")

    def topic(self) -> str:
        return "t"


class Consumer:
    """A consumer that gets an error from each poll."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.polls = 0

    def assign(self, *_: object) -> None: ...

    def assignment(self) -> list[object]:
        return [object()]

    def poll(self, timeout_s: float) -> Failed:
        self.polls += 1
        assert self.polls < POLLS_MAX
        time.sleep(0.01)
        return Failed(self.code)

    def consume(self, *_: Any) -> list[Failed]:
        return [Failed(self.code)]

    def close(self) -> None: ...


def test_errors_do_not_prolong_the_wait(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    consumer = Consumer(KafkaError._TRANSPORT)
    monkeypatch.setattr("confluent_kafka.Consumer", lambda _: consumer)
    words = "--topic t --partition 0 --offset 0 --timeout-ms 50 --bootstrap-server 127.0.0.1:1"
    assert run(["console-consumer", *words.split()]) == 0
    assert consumer.polls > 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("Processed a total of 0 messages\n")


def test_a_batch_that_cannot_be_decompressed_ends_the_tool(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    consumer = Consumer(KafkaError._BAD_COMPRESSION)
    told: list[str] = []
    monkeypatch.setattr(logger(), "error", lambda text, *parts: told.append(text % parts))
    monkeypatch.setattr("confluent_kafka.Consumer", lambda _: consumer)
    words = "--topic t --partition 0 --offset 0 --bootstrap-server 127.0.0.1:1"
    assert run(["console-consumer", *words.split()]) == 0, "as in Kafka"
    assert consumer.polls == 1
    assert told == ["Error processing message, terminating consumer process: it failed"]
