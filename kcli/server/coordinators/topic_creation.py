"""Creates topics automatically: the internal topics of coordinators, and missing topics that clients use.

If auto.create.topics.enable is set, topics that clients use are created in the background. If many clients ask for the
same topic, the broker sends only one request to the controller.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Sequence
from dataclasses import replace

from kcli.config.broker import BrokerConfig
from kcli.controller.api import CREATE_TOPICS, ControllerRequestContext
from kcli.controller.topics import DEFAULT, MAX_PARTITIONS_PER_REQUEST, too_many_partitions
from kcli.errors import ErrorCode, KafkaError
from kcli.model import topic_names
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.runtime import log_text
from kcli.runtime.limited_lines import LimitedLines
from kcli.server.coordinators.internal_topics import INTERNAL, InternalTopic
from kcli.server.quorum.channel import ControllerChannel

_log = logging.getLogger("kcli.server.AutoTopicCreation")

CREATE_TIMEOUT_MS = 30_000
"""The time limit for the creation of a topic: the default of request.timeout.ms."""

INTERNAL_WAIT_SECONDS = 5.0
"""The longest time for which FindCoordinator waits for an internal topic. The creation of 50 partitions takes less than
a second."""


class TopicCreator:
    """Asks the controller to create topics.

    The creation counts against the quota of the client whose request needs the topic."""

    def __init__(self, channel: ControllerChannel, config: BrokerConfig) -> None:
        self._channel = channel
        self._config = config
        self._creating: set[str] = set()
        self._lines = LimitedLines()
        self._tasks: set[asyncio.Task[None]] = set()
        self._internal: dict[str, asyncio.Task[bool]] = {}
        """The creations of internal topics that are in progress."""
        self._refusals: dict[str, str] = {}
        """For each internal topic that could not be created, the last reason."""

    async def create_internal(self, topic: InternalTopic, context: ControllerRequestContext) -> bool:
        """Creates an internal topic. If other requests need the topic too, one creation serves all of them.

        Returns False if the controller refuses the topic, or if the creation takes longer than INTERNAL_WAIT_SECONDS.
        In both cases, clients send their request again.
        """
        creation = self._internal.get(topic.name)
        if creation is None:
            work = self._create_internal(topic, context)
            creation = asyncio.get_running_loop().create_task(work, name=f"create {topic.name}")
            self._internal[topic.name] = creation
            creation.add_done_callback(lambda _: self._internal.pop(topic.name, None))
        await asyncio.wait((creation,), timeout=INTERNAL_WAIT_SECONDS)
        return creation.done() and not creation.cancelled() and creation.result()

    async def _create_internal(self, topic: InternalTopic, context: ControllerRequestContext) -> bool:
        creation = topic.creation(self._config)
        request = CreateTopicsRequest(topics=(creation,), timeout_ms=CREATE_TIMEOUT_MS)
        try:
            # The broker needs the topic for all clients, so its own rights count and not those of the client.
            response = await self._channel.send(CREATE_TOPICS, request, replace(context, client=None))
        except KafkaError as error:
            self._refused(topic, error.message)
            return False
        for result in response.topics:
            if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                self._refused(topic, result.error_message or result.error_code.name)
                return False
        return True

    def _refused(self, topic: InternalTopic, reason: str) -> None:
        """Logs why a topic cannot be created. The same reason is logged only once, because clients may ask several
        times a second, for example while too few brokers run."""
        if self._refusals.get(topic.name) != reason:
            self._refusals[topic.name] = reason
            _log.warning("Topic %s cannot be created yet: %s", topic.name, reason)

    def create_missing(self, names: Sequence[str], context: ControllerRequestContext) -> None:
        """Creates topics with these names in the background, if their automatic creation is allowed. Errors are
        logged."""
        # The controller refuses a request with more names than this, and each name would take 5 µs.
        if len(names) > MAX_PARTITIONS_PER_REQUEST:
            self._warn(f"Topics are not created: {too_many_partitions().message}")
            return
        new = tuple(
            self._creation(name)
            for name in names
            if topic_names.is_valid(name) and name not in self._creating
        )
        if new:
            self._creating.update(topic.name for topic in new)
            task = asyncio.get_running_loop().create_task(self._create(new, context), name="create-topics")
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _warn(self, text: str) -> None:
        """Logs why topics are not created. The lines are limited, because each client can ask for any topic."""
        ending = self._lines.ending(asyncio.get_running_loop().time())
        if ending is not None:
            _log.warning("%s%s", log_text.reason(text), ending)

    async def stop(self) -> None:
        tasks = (*self._tasks, *self._internal.values())
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _create(self, topics: tuple[CreatableTopic, ...], context: ControllerRequestContext) -> None:
        try:
            request = CreateTopicsRequest(topics=topics)
            response = await self._channel.send(CREATE_TOPICS, request, context)
            for result in response.topics:
                if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    self._warn(f"Topic '{result.name}' is not created: {result.error_message}")
        except KafkaError as error:
            self._warn(f"Topics are not created: {error.message}")
        finally:
            self._creating.difference_update(topic.name for topic in topics)

    def _creation(self, name: str) -> CreatableTopic:
        """Returns the settings of a new topic.

        Internal topics have their own settings. Other topics get the settings in this broker's file. If the file has no
        such settings, the controller's settings apply.
        """
        internal = INTERNAL.get(name)
        if internal is not None:
            return internal.creation(self._config)
        config = self._config
        partitions = config.integer("num.partitions") if config.is_set("num.partitions") else DEFAULT
        replicas = DEFAULT
        if config.is_set("default.replication.factor"):
            replicas = config.integer("default.replication.factor")
        return CreatableTopic(name=name, num_partitions=partitions, replication_factor=replicas)
