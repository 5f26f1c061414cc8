"""The creation of internal topics: one request to the controller for many clients, and refusals."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kcli.controller.api import OWN_REQUEST
from kcli.errors import ErrorCode, KafkaError, TimeoutException
from kcli.protocol.messages.create_topics import (
    CreatableTopicResult,
    CreateTopicsRequest,
    CreateTopicsResponse,
)
from kcli.server.coordinators import topic_creation
from kcli.server.coordinators.internal_topics import GROUP_TOPIC, TRANSACTION_TOPIC
from kcli.server.coordinators.topic_creation import TopicCreator
from rigs.loops import on_a_loop
from rigs.quorum import broker_config


class Channel:
    """A controller that answers when the gate is open."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, int]] = []
        self.code = ErrorCode.NONE
        self.failure: KafkaError | None = None
        self.gate = asyncio.Event()
        self.gate.set()

    async def send(self, _api: Any, request: CreateTopicsRequest, _context: Any) -> CreateTopicsResponse:
        (topic,) = request.topics
        self.asked.append((topic.name, topic.num_partitions, topic.replication_factor))
        await self.gate.wait()
        if self.failure is not None:
            raise self.failure
        result = CreatableTopicResult(name=topic.name, error_code=self.code, error_message="too few brokers")
        return CreateTopicsResponse(topics=(result,))


def creator_on(channel: Any, **config: str) -> TopicCreator:
    return TopicCreator(channel, broker_config(**config))


@on_a_loop
async def test_an_internal_topic_has_the_configured_partitions_and_replicas() -> None:
    channel = Channel()
    config = {
        "offsets.topic.num.partitions": "7",
        "offsets.topic.replication.factor": "3",
        "transaction.state.log.replication.factor": "2",
    }
    creator = creator_on(channel, **config)
    assert await creator.create_internal(GROUP_TOPIC, OWN_REQUEST)
    assert await creator.create_internal(TRANSACTION_TOPIC, OWN_REQUEST)
    assert channel.asked == [("__consumer_offsets", 7, 3), ("__transaction_state", 50, 2)]


@on_a_loop
async def test_one_creation_serves_all_requests_that_wait() -> None:
    channel = Channel()
    channel.gate.clear()
    creator = creator_on(channel)
    waiting = [asyncio.ensure_future(creator.create_internal(GROUP_TOPIC, OWN_REQUEST)) for _ in range(3)]
    await asyncio.sleep(0.01)
    waiting.pop().cancel()  # a client that leaves does not end the creation
    channel.gate.set()
    assert await asyncio.gather(*waiting) == [True, True]
    assert len(channel.asked) == 1


@on_a_loop
async def test_a_topic_that_exists_already_is_created() -> None:
    channel = Channel()
    channel.code = ErrorCode.TOPIC_ALREADY_EXISTS
    assert await creator_on(channel).create_internal(GROUP_TOPIC, OWN_REQUEST)


@on_a_loop
async def test_a_refused_creation_is_tried_again_and_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    channel = Channel()
    channel.code = ErrorCode.INVALID_REPLICATION_FACTOR
    creator = creator_on(channel)
    for _ in range(3):
        assert not await creator.create_internal(GROUP_TOPIC, OWN_REQUEST)
    assert len(channel.asked) == 3
    assert caplog.text.count("Topic __consumer_offsets cannot be created yet: too few brokers") == 1
    channel.code = ErrorCode.NONE
    assert await creator.create_internal(GROUP_TOPIC, OWN_REQUEST)


@on_a_loop
async def test_without_a_controller_a_client_is_not_held_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(topic_creation, "INTERNAL_WAIT_SECONDS", 0.01)
    channel = Channel()
    channel.gate.clear()
    creator = creator_on(channel)
    assert not await creator.create_internal(GROUP_TOPIC, OWN_REQUEST)
    channel.failure = TimeoutException("No active controller answered")
    channel.gate.set()
    assert not await creator.create_internal(GROUP_TOPIC, OWN_REQUEST)
    assert len(channel.asked) == 1, "the creation of the first request went on"
    channel.gate.clear()
    assert not await creator.create_internal(GROUP_TOPIC, OWN_REQUEST)
    await creator.stop()
