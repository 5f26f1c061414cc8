"""Quotas by the user of a login, and the limits of connections, which count before a login."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kcli.errors import ErrorCode
from kcli.protocol.messages import alter_client_quotas as aq
from kcli.protocol.messages import fetch, produce
from kcli.protocol.messages.alter_client_quotas import AlterClientQuotasRequest
from kcli.protocol.wire.api import ApiKey
from kcli.security.mechanisms.client import Credentials
from rigs.data_path import batch
from rigs.loops import until
from rigs.node import RunningNode, connect, create, with_node
from rigs.sasl import ALICE, BOB, SASL_LISTENER, log_in
from rigs.wire_client import Client

TOPIC = "paid"
RATE = 1_000.0
RECORDS_BYTES = 100_000
"""The size of a Produce that exceeds RATE for the whole window."""


async def limit(
    node: RunningNode, key: str = "producer_byte_rate", value: float = RATE, **entity: str | None
) -> None:
    """Sets a quota for an entity. None is the default user or client id."""
    names = {"user": "user", "client": "client-id"}
    entry = aq.RequestEntryData(
        entity=tuple(
            aq.RequestEntityData(entity_type=names[kind], entity_name=name) for kind, name in entity.items()
        ),
        ops=(aq.OpData(key=key, value=value, remove=False),),
    )
    client = await connect(node)
    response = await client.call(AlterClientQuotasRequest(entries=(entry,)), ApiKey.ALTER_CLIENT_QUOTAS, 1)
    assert response.entries[0].error_code is ErrorCode.NONE
    await until(lambda: node.metadata.client_quotas)


async def client_of(node: RunningNode, credentials: Credentials) -> Client:
    client = await connect(node, "SASL")
    assert (await log_in(client, credentials)).error_code is ErrorCode.NONE
    return client


async def throttled(client: Client, client_id: str = "app") -> bool:
    """Whether a large Produce of this client is throttled."""
    data = produce.PartitionProduceData(index=0, records=batch(b"x" * RECORDS_BYTES))
    request = produce.ProduceRequest(
        acks=1, timeout_ms=1000, topic_data=(produce.TopicProduceData(name=TOPIC, partition_data=(data,)),)
    )
    response: Any = await client.call(request, ApiKey.PRODUCE, 9, client_id)
    assert response.responses[0].partition_responses[0].error_code is ErrorCode.NONE
    return bool(response.throttle_time_ms > 0)


@pytest.mark.parametrize(
    ("entity", "alice", "alice_other", "bob"),
    [
        ({"user": "alice"}, True, True, False),
        ({"user": None}, True, True, True),
        ({"user": "alice", "client": "app"}, True, False, False),
        ({"user": "alice", "client": None}, True, True, False),
        ({"client": "app"}, True, False, True),
        ({"user": "ANONYMOUS"}, False, False, False),
    ],
    ids=str,
)
def test_a_quota_limits_the_user_of_the_login(
    tmp_path: Path, entity: dict[str, str | None], alice: bool, alice_other: bool, bob: bool
) -> None:
    async def story(node: RunningNode) -> None:
        await create(await connect(node), TOPIC)
        await limit(node, **entity)
        assert await throttled(await client_of(node, ALICE)) is alice
        assert await throttled(await client_of(node, ALICE), "other") is alice_other
        assert await throttled(await client_of(node, BOB)) is bob

    with_node(tmp_path, story, **SASL_LISTENER)


def test_a_client_that_calls_itself_a_follower_is_not_exempt(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        await create(await connect(node), TOPIC)
        await limit(node, "request_percentage", 0.000001, user="alice")
        client = await client_of(node, ALICE)
        wanted = fetch.FetchPartition(partition=0, partition_max_bytes=100)
        request = fetch.FetchRequest(
            replica_id=5, max_wait_ms=0, topics=(fetch.FetchTopic(topic=TOPIC, partitions=(wanted,)),)
        )
        response = await client.call(request, ApiKey.FETCH, 12)
        refused = response.responses[0].partitions[0].error_code
        assert refused is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        assert response.throttle_time_ms > 0

    rights = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": "User:ANONYMOUS",
    }
    with_node(tmp_path, story, **SASL_LISTENER | rights)


def test_connections_count_before_their_login(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        silent = [await connect(node, "SASL") for _ in range(2)]
        await until(lambda: len(list(node.sockets.connections)) == 2)
        refused = await connect(node, "SASL")
        assert await refused.at_end()
        silent[0].close()
        await until(lambda: len(list(node.sockets.connections)) == 1)
        await client_of(node, ALICE)

    with_node(tmp_path, story, **SASL_LISTENER | {"max.connections.per.ip": "2"})


def test_failed_logins_give_their_place_back(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        for _ in range(3):
            client = await connect(node, "SASL")
            refused = await log_in(client, Credentials("PLAIN", "alice", "wrong"))
            assert refused.error_code is ErrorCode.SASL_AUTHENTICATION_FAILED
            assert await client.at_end()
        await client_of(node, ALICE)

    with_node(tmp_path, story, **SASL_LISTENER | {"max.connections.per.ip": "1"})
