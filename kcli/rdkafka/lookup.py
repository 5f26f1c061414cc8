"""Asks for topics and offsets with librdkafka's blocking calls, so that Ctrl-C can end the wait.

Python handles a signal only between two calls of librdkafka. So a long wait consists of several short calls.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from kcli.rdkafka.objects import Consumer

T = TypeVar("T")

LOOKUP_TIMEOUT_S = 30.0
"""The longest wait for topics and offsets."""
SLICE_S = 1.0
"""The first time-out of a single call. If a server accepts a request but is slow, each next call waits longer."""
LONGEST_SLICE_S = 5.0


def looked_up(consumer: Consumer, ask: Callable[[float], T], limit_s: float = LOOKUP_TIMEOUT_S) -> T:
    """Calls `ask` with short time-outs until it returns an answer. Raises its last KafkaException after `limit_s`.

    An error that waiting does not resolve is raised at once.
    """
    from confluent_kafka import KafkaError, KafkaException

    slow, absent = KafkaError._TIMED_OUT, (KafkaError._TRANSPORT, KafkaError._ALL_BROKERS_DOWN)
    deadline = time.monotonic() + limit_s
    slice_s = SLICE_S
    while True:
        try:
            return ask(min(slice_s, max(0.0, deadline - time.monotonic())))
        except KafkaException as error:
            code = error.args[0].code()
            if code not in (slow, *absent) or time.monotonic() >= deadline:
                raise
            if code == slow:
                slice_s = min(slice_s + SLICE_S, LONGEST_SLICE_S)
            consumer.poll(0)  # calls the callbacks of librdkafka, which report why no server answers
