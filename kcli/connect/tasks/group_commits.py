"""Commits offsets of a group that has no members, because another program reads the topics."""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from typing import cast

from kcli.connectors.interface import Offsets
from kcli.formats.connect.errors import ConnectException
from kcli.rdkafka.client import kafka_error, new_client
from kcli.rdkafka.configuration import translate
from kcli.rdkafka.consumer import JAVA_DEFAULTS
from kcli.rdkafka.objects import ClientError, Consumer, PartitionOffset

LOG = logging.getLogger("org.apache.kafka.connect.runtime.WorkerTask")

POLL_S = 0.05
"""The time between two looks for the answers of commits, when a task ends."""


class GroupCommits:
    """Commits with a consumer that never subscribes. `properties` are those of Java's consumer."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        from confluent_kafka import Consumer as RdConsumer

        config = {**JAVA_DEFAULTS, **translate(properties), "on_commit": self._committed}
        self._group = properties["group.id"]
        self._client = cast("Consumer", new_client(RdConsumer, config))
        self._waiting = 0
        self._has_failed = False

    def commit(self, offsets: Offsets) -> None:
        """Commits in the background. Raises ConnectException."""
        from confluent_kafka import KafkaException, TopicPartition

        if not offsets:
            return
        places = [TopicPartition(topic, partition, offset) for (topic, partition), offset in offsets.items()]
        try:
            self._client.commit(offsets=places, asynchronous=True)
        except KafkaException as error:
            raise ConnectException(f"group {self._group}") from kafka_error(error.args[0])
        self._waiting += 1

    def _committed(self, error: ClientError | None, places: list[PartitionOffset]) -> None:
        self._waiting -= 1
        errors = [error, *(place.error for place in places)]
        failure = next((one for one in errors if one is not None), None)
        if failure is not None:
            self._has_failed = True
            LOG.warning(
                "Failed to commit the offsets of group %s", self._group, exc_info=kafka_error(failure)
            )

    def turn(self) -> bool:
        """Handles the answers of commits. Returns whether all commits since the last call have succeeded."""
        self._client.poll(0)
        failed, self._has_failed = self._has_failed, False
        return not failed

    def close(self, timeout_s: float) -> None:
        """Waits for the answers of commits, but not longer than the time-out."""
        deadline = time.monotonic() + timeout_s
        while self._waiting > 0 and time.monotonic() < deadline:
            self._client.poll(POLL_S)
        self._client.close()
