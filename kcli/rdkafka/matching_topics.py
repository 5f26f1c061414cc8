"""Subscribes to every topic whose name matches a pattern, as Java's consumer does in both group protocols.

This module lists the topics from time to time, and ignores internal topics. This module does not use librdkafka's own
patterns, for two reasons. In the classic protocol, librdkafka's patterns have another syntax. In the newer protocol,
brokers match the patterns with RE2, and internal topics match too.
"""

from __future__ import annotations

import time
from collections.abc import Callable

from kcli.model.java_text import parse_int
from kcli.model.topic_names import is_internal
from kcli.rdkafka.client import kafka_error
from kcli.rdkafka.errors import PatternError
from kcli.rdkafka.log import logger
from kcli.rdkafka.objects import Consumer

METADATA_MAX_AGE_MS = 300_000
"""Java's default of metadata.max.age.ms: the interval at which a consumer looks for new topics."""
LOOKUP_TIMEOUT_S = 5.0
RETRY_S = 1.0

Subscribe = Callable[[list[str]], None]


def matcher(include: str) -> Callable[[str], bool]:
    """Returns a function that tests whether a topic name matches `include`. It returns False for internal topics.
    Raises PatternError if `include` is not a regular expression."""
    from kcli.model.java_regex import JavaRegexError, compile_java

    try:
        compiled = compile_java(include, ascii_only=True)
    except JavaRegexError as error:
        raise PatternError(f"{include}: not a regular expression: {error}") from None
    return lambda name: not is_internal(name) and compiled.fullmatch(name) is not None


def max_age_s(config: dict[str, object]) -> float:
    """Returns the interval in seconds at which the list of topics is requested, from a consumer's configuration."""
    return parse_int(str(config.get("metadata.max.age.ms", METADATA_MAX_AGE_MS))) / 1000


class MatchingTopics:
    """Keeps a consumer subscribed to the matching topics.

    When the matching topics change, this class calls `subscribe` with the names of all matching topics.
    """

    def __init__(
        self, consumer: Consumer, matches: Callable[[str], bool], subscribe: Subscribe, *, every_s: float
    ) -> None:
        self._consumer = consumer
        self._matches = matches
        self._subscribe = subscribe
        self._every_s = every_s
        self._names: list[str] = []
        self._due = time.monotonic()

    def refresh(self) -> None:
        """Requests the list of topics if it is due. The caller must call this method regularly."""
        if time.monotonic() < self._due:
            return
        from confluent_kafka import KafkaException

        try:
            there = self._consumer.list_topics(timeout=LOOKUP_TIMEOUT_S).topics
        except KafkaException as error:
            why = kafka_error(error.args[0]).message
            logger().warning("The topics cannot be listed: %s", why)
            self._due = time.monotonic() + RETRY_S
            return
        self._due = time.monotonic() + self._every_s
        names = sorted(filter(self._matches, there))
        if names == self._names:
            return
        self._names = names
        if names:
            self._subscribe(names)
        else:
            self._consumer.unsubscribe()
