"""Topics by the wire: created, grown and deleted on a whole node, in every version."""

from __future__ import annotations

import uuid
from dataclasses import replace
from pathlib import Path

from kcli.config.topic import TOPIC
from kcli.errors import ErrorCode, PolicyViolationException
from kcli.protocol.messages.create_partitions import CreatePartitionsRequest, CreatePartitionsTopic
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.messages.delete_topics import DeleteTopicsRequest, DeleteTopicState
from kcli.protocol.wire.api import ApiKey
from kcli.server.handlers import create_partitions, create_topics, delete_topics
from rigs.handlers import call, context_of, create
from rigs.loops import on_a_loop
from rigs.node import RunningNode, running


async def grow(node: RunningNode, name: str, count: int) -> ErrorCode:
    """Asks for a topic of `count` partitions."""
    request = CreatePartitionsRequest(
        topics=(CreatePartitionsTopic(name=name, count=count, assignments=None),), timeout_ms=5000
    )
    response = await call(node, create_partitions, request, ApiKey.CREATE_PARTITIONS, 3)
    code: ErrorCode = response.results[0].error_code
    return code


async def delete(node: RunningNode, name: str) -> uuid.UUID:
    """Deletes a topic and returns the id that it had."""
    request = DeleteTopicsRequest(topics=(DeleteTopicState(name=name),), timeout_ms=5000)
    response = await call(node, delete_topics, request, ApiKey.DELETE_TOPICS, 6)
    topic_id: uuid.UUID = response.responses[0].topic_id
    return topic_id


@on_a_loop
async def test_topics_live_from_creation_to_deletion(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        created = await create(node, "t", 2, retention_ms="9")
        assert {each.name for each in created.configs} == {
            key.name for key in TOPIC.values() if not key.internal
        }
        assert node.broker.replicas.get("t", 1).leader_epoch == 0
        assert await grow(node, "t", 3) is ErrorCode.NONE
        assert node.broker.replicas.get("t", 2)
        assert await delete(node, "t") == created.topic_id
        assert "t" not in node.metadata.topics


@on_a_loop
async def test_every_version_of_create_topics_creates_one(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        for version in range(2, 8):
            name = f"t{version}"
            topic = CreatableTopic(name=name, num_partitions=2, replication_factor=1)
            request = CreateTopicsRequest(topics=(topic, replace(topic, name="")))
            response = await call(node, create_topics, request, ApiKey.CREATE_TOPICS, version)
            assert [(each.name, each.error_code.name) for each in response.topics] == [
                (name, "NONE"),
                ("", "INVALID_TOPIC_EXCEPTION"),
            ]
            assert response.topics[0].error_message is None
            assert response.topics[0].num_partitions == (2 if version >= 5 else -1)


@on_a_loop
async def test_an_error_of_the_whole_request_is_returned_for_each_topic(tmp_path: Path) -> None:
    async with running(tmp_path) as node:
        error = PolicyViolationException("too much")
        context = context_of(node, ApiKey.CREATE_TOPICS, 7)
        request = CreateTopicsRequest(topics=(CreatableTopic(name="t"),))
        answer = await create_topics.error_response(context, request, error)
        assert [(each.name, each.error_code, each.error_message) for each in answer.topics] == [
            ("t", ErrorCode.POLICY_VIOLATION, "too much")
        ]
        request = DeleteTopicsRequest(topic_names=("t",), timeout_ms=5000)
        context = context_of(node, ApiKey.DELETE_TOPICS, 5)
        assert (await delete_topics.error_response(context, request, error)).responses[0].name == "t"
        request = CreatePartitionsRequest(topics=(CreatePartitionsTopic(name="t"),), timeout_ms=5000)
        assert (await create_partitions.error_response(context, request, error)).results[0].name == "t"
