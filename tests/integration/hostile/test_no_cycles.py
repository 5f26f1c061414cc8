"""The objects of connections, requests, topics and groups are freed by their reference counts.

The collector seldom visits old objects (kcli/runtime/garbage.py), so old objects must not end in cycles.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import ssl
from collections import Counter
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest
import uvloop

from kcli.errors import ErrorCode
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.messages import delete_groups, delete_topics, fetch, leave_group, metadata, produce
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.turns import turns_given
from rigs import groups
from rigs.certificates import Certificates
from rigs.groups import Speaker
from rigs.loops import PATIENCE_S, until
from rigs.node import RunningNode, connect, create, running, send
from rigs.sasl import ALICE, BOB, PLAIN_MODULE, SASL_LISTENER, log_in
from rigs.tls import context_of
from rigs.wire_client import Client

LIVES = 30
PARTITIONS = 200


@contextlib.contextmanager
def cycles() -> Iterator[Counter[str]]:
    """Counts the objects of kcli's classes that became part of unused cycles in the block.

    The collector keeps all objects that it finds in `gc.garbage`, because of `gc.DEBUG_SAVEALL`.
    """
    found: Counter[str] = Counter()
    gc.collect()
    gc.disable()
    gc.set_debug(gc.DEBUG_SAVEALL)
    try:
        yield found
        gc.collect()
        found.update(
            type(each).__qualname__ for each in gc.garbage if type(each).__module__.startswith("kcli.")
        )
    finally:
        gc.set_debug(0)
        gc.garbage.clear()
        gc.enable()


async def visit(node: RunningNode, topic: str) -> None:
    """Connects, produces, fetches with a long wait, asks for metadata, and leaves while the fetch waits."""
    client = await connect(node)
    node.clients.remove(client)
    row = await send(client, topic, encode_batch([Record(0, 1_700_000_000_000, b"k", b"v")]))
    assert row.error_code is ErrorCode.NONE
    await client.call(metadata.MetadataRequest(topics=None), ApiKey.METADATA, 12)
    wants = fetch.FetchPartition(partition=0, fetch_offset=row.base_offset + 1, partition_max_bytes=1000)
    waits = fetch.FetchRequest(
        max_wait_ms=600_000, min_bytes=1, topics=(fetch.FetchTopic(topic=topic, partitions=(wants,)),)
    )
    client.post(waits, ApiKey.FETCH, 12)
    leader = node.broker.replicas.get(topic, 0)
    await until(lambda: leader.parked_fetches)
    client.close()
    await until(lambda: not leader.parked_fetches)


async def create_and_delete(client: Client, name: str) -> None:
    await create(client, name, partitions=2)
    row = await send(client, name, encode_batch([Record(0, 1_700_000_000_000, b"k", b"v")]))
    assert row.error_code is ErrorCode.NONE
    request = delete_topics.DeleteTopicsRequest(topic_names=(name,), timeout_ms=10_000)
    response = await client.call(request, ApiKey.DELETE_TOPICS, 5)
    assert response.responses[0].error_code is ErrorCode.NONE


async def join_and_leave(it: Speaker, group: str) -> None:
    joined = await it.member(group)
    of_member: dict[str, Any] = {
        "member_id": joined.member_id,
        "generation_id_or_member_epoch": joined.generation_id,
    }
    assert await it.commit({("t", 0): 1}, group=group, **of_member) == ["NONE"]
    left = leave_group.LeaveGroupRequest(
        group_id=group, members=(leave_group.MemberIdentity(member_id=joined.member_id),)
    )
    response = await it.call(ApiKey.LEAVE_GROUP, left)
    assert response.error_code is ErrorCode.NONE
    deleted = await it.call(ApiKey.DELETE_GROUPS, delete_groups.DeleteGroupsRequest(groups_names=(group,)))
    assert deleted.results[0].error_code is ErrorCode.NONE


def run(story: Coroutine[None, None, None]) -> None:
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(story)


def test_clients_that_come_and_go_leave_no_cycles(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as node:
            await create(await connect(node), "t")
            await visit(node, "t")
            with cycles() as found:
                for _ in range(LIVES):
                    await asyncio.wait_for(visit(node, "t"), PATIENCE_S)
            assert not [name for name, count in found.items() if count >= LIVES], found

    run(main())


async def fail_after_a_pause(node: RunningNode) -> None:
    """Produces without an answer to many partitions that do not exist. The request takes turns, and then closes its
    connection."""
    client = await connect(node)
    node.clients.remove(client)
    data = tuple(produce.PartitionProduceData(index=index, records=b"x") for index in range(PARTITIONS))
    topics = (produce.TopicProduceData(name="t", partition_data=data),)
    turns = turns_given()
    client.post(produce.ProduceRequest(acks=0, topic_data=topics), ApiKey.PRODUCE, 9)
    assert await client.at_end()
    assert turns_given() > turns
    client.close()


def test_requests_that_fail_after_a_pause_leave_no_cycles(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path) as node:
            await create(await connect(node), "t")
            await fail_after_a_pause(node)
            with cycles() as found:
                for _ in range(LIVES):
                    await asyncio.wait_for(fail_after_a_pause(node), PATIENCE_S)
            assert not [name for name, count in found.items() if count >= LIVES], found

    run(main())


async def log_in_and_out(node: RunningNode, tls: ssl.SSLContext, *, wrong: bool) -> None:
    """Connects with TLS, logs in, possibly with a wrong password, and leaves."""
    client = await connect(node, "SASL", tls)
    node.clients.remove(client)
    refused = await log_in(client, BOB if wrong else ALICE)
    assert (refused.error_code is ErrorCode.NONE) != wrong
    if not wrong:
        await client.call(metadata.MetadataRequest(topics=None), ApiKey.METADATA, 12)
    client.close()
    await until(lambda: not any(each.listener == "SASL" for each in node.sockets.connections))


@pytest.mark.parametrize("wrong", [False, True], ids=["right", "wrong"])
def test_logins_over_tls_leave_no_cycles(tmp_path: Path, certificates: Certificates, wrong: bool) -> None:
    settings = SASL_LISTENER | certificates.broker_config()
    settings["listener.security.protocol.map"] = "PLAINTEXT:PLAINTEXT,SASL:SASL_SSL,CONTROLLER:PLAINTEXT"
    settings["listener.name.sasl.plain.sasl.jaas.config"] = PLAIN_MODULE.replace("bob-secret", "other")
    settings["connection.failed.authentication.delay.ms"] = "1"
    settings["connections.max.reauth.ms"] = "3600000"

    async def main() -> None:
        async with running(tmp_path, **settings) as node:
            tls = context_of(certificates)
            await log_in_and_out(node, tls, wrong=wrong)
            with cycles() as found:
                for _ in range(LIVES):
                    await asyncio.wait_for(log_in_and_out(node, tls, wrong=wrong), PATIENCE_S)
            assert not [name for name, count in found.items() if count >= LIVES], found

    run(main())


def test_topics_that_come_and_go_leave_no_cycles(tmp_path: Path) -> None:
    async def main() -> None:
        async with running(tmp_path, file_delete_delay_ms="0", log_segment_delete_delay_ms="0") as node:
            client = await connect(node)
            await create_and_delete(client, "first")
            with cycles() as found:
                for number in range(LIVES):
                    await asyncio.wait_for(create_and_delete(client, f"t{number}"), PATIENCE_S)
                await until(lambda: not node.logs.directories[0].deletions)
            assert not [name for name, count in found.items() if count >= LIVES], found

    run(main())


def test_groups_that_come_and_go_leave_no_cycles(tmp_path: Path) -> None:
    async def main() -> None:
        async with groups.running(tmp_path) as it:
            await it.create("t")
            await it.find()
            await join_and_leave(it, "first")
            with cycles() as found:
                for number in range(LIVES):
                    await asyncio.wait_for(join_and_leave(it, f"g{number}"), PATIENCE_S)
            assert not [name for name, count in found.items() if count >= LIVES], found

    run(main())
