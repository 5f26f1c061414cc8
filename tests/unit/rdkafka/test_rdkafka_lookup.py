"""A wait for topics and offsets that Ctrl-C can end: many short calls of librdkafka in place of a long one."""

from __future__ import annotations

from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from kcli.rdkafka import lookup
from kcli.rdkafka.lookup import LONGEST_SLICE_S, SLICE_S, looked_up


class Clock:
    """A consumer without an answer, and the clock that its calls move."""

    def __init__(self, code: int) -> None:
        self.code = code
        self.now_s = 0.0
        self.waits: list[float] = []

    def monotonic(self) -> float:
        return self.now_s

    def ask(self, timeout_s: float) -> str:
        self.waits.append(timeout_s)
        self.now_s += timeout_s
        raise KafkaException(KafkaError(self.code))

    def poll(self, timeout_s: float) -> None:
        assert timeout_s == 0


def waits(monkeypatch: pytest.MonkeyPatch, code: int) -> list[float]:
    """The time-outs of the calls until the error is raised."""
    clock: Any = Clock(code)
    monkeypatch.setattr(lookup, "time", clock)
    with pytest.raises(KafkaException):
        looked_up(clock, clock.ask)
    return list(clock.waits)


def test_a_dead_server_is_asked_with_short_calls_until_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    found = waits(monkeypatch, KafkaError._TRANSPORT)
    assert found == [SLICE_S] * round(lookup.LOOKUP_TIMEOUT_S / SLICE_S)


def test_a_slow_server_gets_more_time(monkeypatch: pytest.MonkeyPatch) -> None:
    found = waits(monkeypatch, KafkaError._TIMED_OUT)
    assert max(found) == LONGEST_SLICE_S
    assert sum(found) == lookup.LOOKUP_TIMEOUT_S


def test_an_error_that_stays_is_raised_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    assert waits(monkeypatch, KafkaError._UNKNOWN_PARTITION) == [SLICE_S]
