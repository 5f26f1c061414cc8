"""Reading every topic whose name matches, as Java's consumer does it in both group protocols: it looks for the topics
itself, now and again, and leaves the internal ones out. (librdkafka has expressions of another kind in the classic
protocol; in the newer one brokers match, by RE2, and internal topics too.)"""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

from kcli.cli import rdkafka
from kcli.cli.syntax.options import CommandError
from kcli.model.topic_names import INTERNAL_TOPICS

METADATA_MAX_AGE_MS = 300_000
"""Java's default of metadata.max.age.ms: how often a consumer looks for new topics."""
LOOKUP_TIMEOUT_S = 5.0
RETRY_S = 1.0

Subscribe = Callable[[list[str]], None]


def matcher(include: str) -> Callable[[str], bool]:
    """Whether the topic of a name is wanted. Raises CommandError for an expression that is none."""
    try:
        compiled = re.compile(include)
    except re.error as error:
        raise CommandError(f"--include {include}: not a regular expression: {error}") from None
    return lambda name: name not in INTERNAL_TOPICS and compiled.fullmatch(name) is not None


def max_age_s(config: dict[str, object]) -> float:
    """How often to look, by a consumer's configuration."""
    return int(str(config.get("metadata.max.age.ms", METADATA_MAX_AGE_MS))) / 1000


class MatchingTopics:
    """Keeps a consumer subscribed to what matches. `subscribe` is told all the names whenever they change."""

    def __init__(
        self, consumer: Any, wanted: Callable[[str], bool], subscribe: Subscribe, *, every_s: float
    ) -> None:
        self._consumer = consumer
        self._wanted = wanted
        self._subscribe = subscribe
        self._every_s = every_s
        self._names: list[str] = []
        self._due = time.monotonic()

    def refresh(self) -> None:
        """To be called again and again: it looks when it is time."""
        if time.monotonic() < self._due:
            return
        from confluent_kafka import KafkaException

        try:
            there = self._consumer.list_topics(timeout=LOOKUP_TIMEOUT_S).topics
        except KafkaException as error:
            why = rdkafka.kafka_error(error.args[0]).message
            rdkafka.logger().warning("The topics cannot be listed: %s", why)
            self._due = time.monotonic() + RETRY_S
            return
        self._due = time.monotonic() + self._every_s
        names = sorted(filter(self._wanted, there))
        if names == self._names:
            return
        self._names = names
        if names:
            self._subscribe(names)
        else:
            self._consumer.unsubscribe()
