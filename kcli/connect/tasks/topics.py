"""Creates the topics of a source task by the rules of its connector (KIP-158)."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterable, Sequence

from kcli.connect.tasks.channel import Channel, WorkerError
from kcli.connect.tasks.reports import TOPIC_EXISTS
from kcli.connect.tasks.spec import TopicGroup
from kcli.formats.connect.errors import ConnectException
from kcli.model.java_regex import compile_java

_LOG = logging.getLogger("org.apache.kafka.connect.runtime.AbstractWorkerSourceTask")


USE_INTERVAL_S = 1.0
"""The time after which a topic that is still used is reported again, because a user may have reset the list."""


class UsedTopics:
    """Reports the topics that a task uses (KIP-558)."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._reported: set[str] = set()
        self._forget_at = 0.0

    def add(self, topics: Iterable[str]) -> None:
        """Reports topics, each at most once in USE_INTERVAL_S."""
        now = time.monotonic()
        if now >= self._forget_at:
            self._reported.clear()
            self._forget_at = now + USE_INTERVAL_S
        for topic in topics:
            if topic not in self._reported:
                self._reported.add(topic)
                self._channel.note("used_topic", {"topic": topic})


class TopicCreation:
    """Creates a topic before its first record is sent, if it does not exist."""

    def __init__(self, channel: Channel, groups: Sequence[TopicGroup] | None) -> None:
        self._channel = channel
        self._groups = groups
        self._ready: set[str] = set()
        self._used = UsedTopics(channel)
        self._patterns = {
            group.name: (list(map(compile_java, group.include)), list(map(compile_java, group.exclude)))
            for group in groups or ()
        }

    def ensure(self, topic: str) -> None:
        """Creates a topic if it does not exist, and reports its use. Raises ConnectException."""
        self._used.add((topic,))
        if topic in self._ready:
            return
        if self._groups is not None:
            self._ensure(topic, self._groups)
        self._ready.add(topic)

    def _ensure(self, topic: str, groups: Sequence[TopicGroup]) -> None:
        if self._channel.ask("topic_exists", {"topic": topic}):
            _LOG.info("The topic '%s' already exists.", topic)
            return
        group = next((group for group in groups[:-1] if self._matches(group, topic)), groups[-1])
        _LOG.info("Creating topic '%s'", topic)
        body = {
            "topic": topic,
            "partitions": group.partitions,
            "replication_factor": group.replication_factor,
            "configs": dict(group.configs),
        }
        try:
            self._channel.ask("create_topic", body)
        except WorkerError as error:
            if error.java_class == TOPIC_EXISTS:
                return
            described = (
                f"(name={topic}, numPartitions={group.partitions}, "
                f"replicationFactor={group.replication_factor}, replicasAssignments=null, "
                f"configs={{{', '.join(f'{key}={value}' for key, value in group.configs.items())}}})"
            )
            raise ConnectException(
                f"Task failed to create new topic {described}. Ensure that the task is authorized to create "
                "topics or that the topic exists and restart the task"
            ) from error

    def _matches(self, group: TopicGroup, topic: str) -> bool:
        include, exclude = self._patterns[group.name]
        return any(pattern.fullmatch(topic) for pattern in include) and not any(
            pattern.fullmatch(topic) for pattern in exclude
        )
