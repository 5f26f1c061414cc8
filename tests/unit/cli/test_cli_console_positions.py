"""The start of console-consumer for --last and --from-time: partitions that are missing, and servers that are."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kcli.cli import unreachable
from kcli.cli.main import run
from kcli.cli.tools.console.consumer import ConsoleConsumerOptions, configuration

COMMAND = ["console-consumer", "--topic", "t", "--bootstrap-server", "127.0.0.1:1"]


class Consumer:
    """A consumer that knows a topic with two partitions, or that no server answers."""

    waits: list[float]

    def __init__(self, *, is_up: bool) -> None:
        self.is_up = is_up
        self.waits = []

    def list_topics(self, topic: str, timeout: float) -> Any:
        self.waits.append(timeout)
        if len(self.waits) == 3:
            raise KeyboardInterrupt  # Ctrl-C between two calls
        if not self.is_up:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        partitions = {number: SimpleNamespace(id=number, leader=1) for number in range(2)}
        return SimpleNamespace(topics={topic: SimpleNamespace(error=None, partitions=partitions)})

    def poll(self, timeout: float) -> None: ...

    def close(self) -> None: ...


@pytest.mark.parametrize("start", [("--last", "2"), ("--from-time", "1h"), ("--offset", "0")])
def test_a_partition_that_is_missing_has_one_message(
    start: tuple[str, str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("confluent_kafka.Consumer", lambda _: Consumer(is_up=True))
    assert run([*COMMAND, "--partition", "7", *start]) == 1
    text = "Partition t-7 does not exist: topic t has 2 partitions, numbers 0 to 1"
    assert capsys.readouterr().err.splitlines()[-1].endswith(text)


@pytest.mark.parametrize("start", [("--last", "2"), ("--from-time", "1h")])
def test_ctrl_c_ends_the_search_for_the_start(
    start: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    consumer = Consumer(is_up=False)
    monkeypatch.setattr("confluent_kafka.Consumer", lambda _: consumer)
    assert run([*COMMAND, *start]) == 130
    assert max(consumer.waits) <= 1


def test_the_line_about_a_wait_names_the_limit_of_the_search(monkeypatch: pytest.MonkeyPatch) -> None:
    limits: list[str] = []
    monkeypatch.setattr(unreachable, "watch_servers", lambda _, limit: limits.append(limit))
    configuration(ConsoleConsumerOptions(topic="t", bootstrap_server="127.0.0.1:1", last=2))
    configuration(ConsoleConsumerOptions(topic="t", bootstrap_server="127.0.0.1:1"))
    assert limits == [
        "The command gives up after 30 s.",
        "The command waits until you stop it with Ctrl-C.",
    ]
