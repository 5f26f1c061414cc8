"""--timeout-ms of console-consumer while errors arrive, but no record."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import KafkaError

from kcli.cli.main import run


class Damaged:
    """A message with the error of a batch that cannot be read."""

    def error(self) -> KafkaError:
        return KafkaError(KafkaError._BAD_COMPRESSION, "it cannot be decompressed")

    def topic(self) -> str:
        return "t"


class Consumer:
    """A consumer whose next batch is damaged, so that each fetch ends with an error."""

    polls = 0

    def __init__(self, *_: object) -> None: ...

    def assign(self, *_: object) -> None: ...

    def assignment(self) -> list[object]:
        return [object()]

    def poll(self, timeout_s: float) -> Damaged:
        Consumer.polls += 1
        time.sleep(0.01)
        return Damaged()

    def consume(self, *_: Any) -> list[Damaged]:
        return [Damaged()]

    def close(self) -> None: ...


def test_errors_do_not_prolong_the_wait(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("confluent_kafka.Consumer", Consumer)
    words = "--topic t --partition 0 --offset 0 --timeout-ms 50 --bootstrap-server 127.0.0.1:1"
    assert run(["console-consumer", *words.split()]) == 0
    assert 1 < Consumer.polls < 1000
    out, err = capsys.readouterr()
    assert out == ""
    assert err.endswith("Processed a total of 0 messages\n")
