"""Clients that try to get past the login and the rights with requests that no library sends."""

from __future__ import annotations

import asyncio
import struct
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kcli.errors import ErrorCode
from kcli.model.acl import AclOperation, ResourceType
from kcli.model.configs import ConfigResourceType
from kcli.model.topic_names import CLUSTER_METADATA_TOPIC
from kcli.protocol.messages import create_topics, describe_configs, fetch
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest
from kcli.protocol.wire import codec
from kcli.protocol.wire.api import API, ApiKey
from kcli.server.requests.apis import served_on_broker, served_on_controller
from rigs.loops import PATIENCE_S, on_a_loop
from rigs.node import RunningNode, connect, create, offset_at, read, running, send
from rigs.rights import secured
from rigs.rights_sweep import BATCH, SWEEP, Row
from rigs.sasl import BOB, SASL_LISTENER, handshake, log_in
from rigs.wire_client import Client

METADATA_ID = uuid.UUID(int=1)
"""The id of the metadata topic, which is the same in every cluster."""


@on_a_loop
async def test_the_metadata_log_has_passwords_and_is_not_read_by_clients(tmp_path: Path) -> None:
    """Even with every right on every topic, a client of a broker gets nothing of it."""
    async with secured(tmp_path) as it:
        await it.allow(AclOperation.ALL, ResourceType.TOPIC, "*")
        await it.allow(AclOperation.ALL, ResourceType.CLUSTER)
        for client in (it.alice, it.admin):
            assert (await read(client, CLUSTER_METADATA_TOPIC)).error_code is not ErrorCode.NONE
            assert (await offset_at(client, CLUSTER_METADATA_TOPIC, -2)).error_code is not ErrorCode.NONE
            written = await send(client, CLUSTER_METADATA_TOPIC, BATCH)
            assert written.error_code is not ErrorCode.NONE
            part = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1_000_000)
            wanted = fetch.FetchTopic(topic_id=METADATA_ID, partitions=(part,))
            answer = await client.call(fetch.FetchRequest(max_wait_ms=0, topics=(wanted,)), ApiKey.FETCH, 17)
            assert all(not each.records for topic in answer.responses for each in topic.partitions)
            topic = create_topics.CreatableTopic(
                name=CLUSTER_METADATA_TOPIC, num_partitions=1, replication_factor=1
            )
            made = await client.call(
                create_topics.CreateTopicsRequest(topics=(topic,), timeout_ms=5000), ApiKey.CREATE_TOPICS, 7
            )
            assert made.topics[0].error_code is not ErrorCode.NONE


@on_a_loop
async def test_a_listener_closes_the_connection_for_apis_of_the_other_kind(tmp_path: Path) -> None:
    """Such as Envelope on a broker, and Produce on a controller. No answer shows what the client has sent."""
    served = {"PLAINTEXT": served_on_broker(), "CONTROLLER": served_on_controller()}
    async with running(tmp_path) as node:
        for place, keys in served.items():
            for key in API.keys() - keys.keys():
                client = await connect(node, place)
                body = struct.pack(">hhih", key, API[key].max_version, 1, -1) + bytes(50)
                client.writer.write(struct.pack(">i", len(body)) + body)
                assert await client.at_end(), f"{key.name} on {place}"


@on_a_loop
async def test_an_answer_before_the_login_has_only_the_refusal(tmp_path: Path) -> None:
    """Kafka answers other requests between the handshake and the password with their own kind of error. The answer
    must be the same whether the resources of the request exist or not."""
    found = []
    for existing in ("t", "unknown"):
        async with running(tmp_path / existing, **SASL_LISTENER) as node:
            await create(await connect(node), existing)
            found.append([await early(node, row) for row in SWEEP if "SASL" in row.places()])
    assert found[0] == found[1]


async def early(node: RunningNode, row: Row) -> object:
    """The answer to a request in place of the password, or None if the connection is closed without one."""
    client = await connect(node, "SASL")
    assert (await handshake(client, "PLAIN")).error_code is ErrorCode.NONE
    client.post(row.message(), row.key, row.version)
    try:
        _, answer = await client.receive(row.key, row.version)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None
    assert set(codes(answer)) <= {ErrorCode.ILLEGAL_SASL_STATE, ErrorCode.NONE}, (row.key, answer)
    assert await client.at_end()
    return answer


def codes(value: Any) -> Iterator[ErrorCode]:
    """Every error code in a message."""
    if isinstance(value, ErrorCode):
        yield value
    elif isinstance(value, tuple):
        for each in value:
            yield from codes(each)
    elif hasattr(value, "__dataclass_fields__"):
        for name in value.__dataclass_fields__:
            yield from codes(getattr(value, name))


@on_a_loop
async def test_the_fetch_session_of_another_user_gives_no_rights(tmp_path: Path) -> None:
    async with secured(tmp_path) as it:
        await create(it.admin, "a")
        await send(it.admin, "a", BATCH)
        await it.allow(AclOperation.READ, ResourceType.TOPIC, "a")
        part = fetch.FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
        opens = fetch.FetchRequest(
            max_wait_ms=0, session_epoch=0, topics=(fetch.FetchTopic(topic="a", partitions=(part,)),)
        )
        opened = await it.alice.call(opens, ApiKey.FETCH, 12)
        assert opened.session_id and opened.responses[0].partitions[0].records
        bob = await connect(it.node, "SASL")
        await log_in(bob, BOB)
        stolen = fetch.FetchRequest(max_wait_ms=0, session_id=opened.session_id, session_epoch=1)
        answer = await bob.call(stolen, ApiKey.FETCH, 12)
        assert [each.error_code for topic in answer.responses for each in topic.partitions] == [
            ErrorCode.TOPIC_AUTHORIZATION_FAILED
        ]
        assert not answer.responses[0].partitions[0].records


SECRET = "dont-show"


@on_a_loop
async def test_no_secret_of_the_configuration_is_described(tmp_path: Path) -> None:
    module = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="{SECRET}";'
    secrets = {
        "listener.name.sasl.plain.sasl.jaas.config": module,
        "delegation.token.secret.key": SECRET,
        "kcli.metrics.users": f"ann:{SECRET}",
        "our.guard.password": SECRET,
        "listener.name.other.ssl.keystore.password": SECRET,
        "ssl.key.password": SECRET,
        "sasl.oauthbearer.client.credentials.client.secret": SECRET,
    }
    async with running(tmp_path, **SASL_LISTENER | secrets) as node:
        client = await connect(node)
        for name in ("1", ""):
            resource = describe_configs.DescribeConfigsResource(
                resource_type=ConfigResourceType.BROKER, resource_name=name, configuration_keys=None
            )
            request = describe_configs.DescribeConfigsRequest(
                resources=(resource,), include_synonyms=True, include_documentation=True
            )
            answer = await client.call(request, ApiKey.DESCRIBE_CONFIGS, 4)
            assert answer.results[0].error_code is ErrorCode.NONE
            assert SECRET not in repr(answer)


TARGETS = (
    "/metrics", "//metrics", "/./metrics", "/x/../metrics", "/%6detrics", "/metrics/", "/metrics?a=/",
    "http://127.0.0.1/metrics", "/jmx?qry=*:*", "/requests", "*",
)  # fmt: skip
HEADERS = (
    "", "Authorization: Basic", "Authorization: Basic Og==", "Authorization: Basic YW5uOg==",
    "Authorization: Bearer YW5uOm9uZS1zZWNyZXQ=", "Authorization: Basic YW5uOm9uZS1zZWNyZXQ=x",
    "X-Authorization: Basic YW5uOm9uZS1zZWNyZXQ=", "X-Forwarded-For: 127.0.0.1",
)  # fmt: skip


@on_a_loop
async def test_no_path_and_no_header_of_the_metrics_gets_past_the_login(tmp_path: Path) -> None:
    settings = {"kcli_metrics_listener": "127.0.0.1:0", "kcli_metrics_users": "ann:one-secret"}
    async with running(tmp_path, **settings) as node:
        assert node.metrics_endpoint is not None
        port = node.metrics_endpoint.port

        async def status(method: str, target: str, header: str) -> str:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            lines = [f"{method} {target} HTTP/1.1", "Host: 127.0.0.1", "Connection: close", header]
            writer.write(("\r\n".join(line for line in lines if line) + "\r\n\r\n").encode())
            answer = (await asyncio.wait_for(reader.read(), PATIENCE_S)).decode()
            writer.close()
            return answer

        tries = [(method, target, "") for method in ("GET", "HEAD", "OPTIONS", "POST") for target in TARGETS]
        tries += [("GET", "/metrics", header) for header in HEADERS]
        for answer in await asyncio.gather(*(status(*each) for each in tries)):
            assert answer.split()[1] in {"400", "401", "405"}, answer
            assert "kafka_" not in answer
        right = await status("GET", "/metrics", "Authorization: Basic YW5uOm9uZS1zZWNyZXQ=")
        assert right.split()[1] == "200"


@pytest.mark.parametrize("version", [0, 1])
@on_a_loop
async def test_a_request_behind_an_unfinished_login_is_never_served(tmp_path: Path, version: int) -> None:
    """The request arrives in the same segment as the handshake, in place of the password."""
    created = codec.encode_request(
        create_topics.CreateTopicsRequest(
            topics=(create_topics.CreatableTopic(name="new", num_partitions=1, replication_factor=1),),
            timeout_ms=5000,
        ),
        ApiKey.CREATE_TOPICS, 7, 2, "x",
    )  # fmt: skip
    async with running(tmp_path, **SASL_LISTENER) as node:
        client: Client = await connect(node, "SASL")
        client.post(SaslHandshakeRequest(mechanism="PLAIN"), ApiKey.SASL_HANDSHAKE, version)
        client.writer.write(created * 3)
        await asyncio.wait_for(client.reader.read(), PATIENCE_S)
        assert "new" not in node.metadata.topics
