"""The end of console-consumer while errors arrive, but no record."""

from __future__ import annotations

import time
from typing import Any

import pytest
from confluent_kafka import KafkaError

from kcli.cli.main import run

POLLS_MAX = 1000


class Failed:
    """A message that reports an error in place of a record."""

    def __init__(self, code: int) -> None:
        self.code = code

    def error(self) -> KafkaError:
        return KafkaError(self.code, "it failed")

    def topic(self) -> str:
        return "t"

    def partition(self) -> int:
        return 0

    def offset(self) -> int:
        return 7


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


@pytest.mark.usefixtures("kafkas_script")
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


@pytest.mark.usefixtures("kafkas_script")
def test_a_batch_that_cannot_be_decompressed_ends_the_tool_with_its_place(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    consumer = Consumer(KafkaError._BAD_COMPRESSION)
    monkeypatch.setattr("confluent_kafka.Consumer", lambda _: consumer)
    words = "--topic t --partition 0 --offset 0 --bootstrap-server 127.0.0.1:1"
    assert run(["console-consumer", *words.split()]) == 1
    assert consumer.polls == 1
    assert (
        "The batch of topic t, partition 0 at offset 7 cannot be read: it failed" in capsys.readouterr().err
    )
