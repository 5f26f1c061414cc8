"""Rights of clients on a whole node: what changes while a session lasts, and what must stay hidden."""

from __future__ import annotations

import logging
import uuid
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from kcli.errors import ErrorCode
from kcli.metadata.image import Topics
from kcli.model.acl import AclOperation, PatternType, ResourceType
from kcli.model.pace import at_once, no_pause
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.messages import consumer_group_describe, describe_topic_partitions, describe_transactions
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kcli.protocol.messages.create_topics import CreatableTopic, CreateTopicsRequest
from kcli.protocol.messages.envelope import EnvelopeRequest
from kcli.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from kcli.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestGroup
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.wire import codec
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.turns import turns_given
from kcli.security.acls.audit import AUDIT_LOG
from kcli.security.authorizer import AUDIT_LINES_MAX, Asker
from kcli.security.principal import Principal
from kcli.security.principal_bytes import encode_principal
from kcli.server.handlers.shared import visible_topics
from kcli.server.handlers.shared.visible_topics import VisibleTopics
from kcli.server.requests.rights import Rights
from rigs.loops import on_a_loop, until
from rigs.node import connect, create, send
from rigs.rights import Secured, secured
from rigs.sasl import ALICE, log_in

FETCH_VERSION = 12
READ, WRITE, DESCRIBE = AclOperation.READ, AclOperation.WRITE, AclOperation.DESCRIBE
TOPIC, GROUP = ResourceType.TOPIC, ResourceType.GROUP
BATCH = bytes(encode_batch([Record(0, 1_760_000_000_000, None, b"v", ())]))


def fetch(session_id: int, epoch: int, *topics: str, replica_id: int = -1) -> FetchRequest:
    partition = FetchPartition(partition=0, fetch_offset=0, partition_max_bytes=1000)
    return FetchRequest(
        replica_id=replica_id,
        max_wait_ms=0,
        max_bytes=100_000,
        session_id=session_id,
        session_epoch=epoch,
        topics=tuple(FetchTopic(topic=name, partitions=(partition,)) for name in topics),
    )


def codes(response: Any) -> dict[str, ErrorCode]:
    return {topic.topic: topic.partitions[0].error_code for topic in response.responses}


@on_a_loop
async def test_a_large_refused_request_writes_a_bounded_number_of_lines(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with secured(tmp_path) as it:
        names = tuple(f"t{number}" for number in range(5_000))
        with caplog.at_level(logging.INFO, AUDIT_LOG.name):
            await it.alice.call(fetch(0, -1, *names), ApiKey.FETCH, FETCH_VERSION)
    lines = [each.getMessage() for each in caplog.records if each.name == AUDIT_LOG.name]
    assert len(lines) == AUDIT_LINES_MAX + 1
    assert lines[-1].startswith(f"{5_000 - AUDIT_LINES_MAX} more checks of this request are not shown: ")


@on_a_loop
async def test_a_fetch_session_follows_the_rights_of_its_client(tmp_path: Path) -> None:
    """Also for partitions without new records, which the session does not read again."""
    names = tuple("abcdef")
    async with secured(tmp_path) as it:
        for name in names:
            await create(it.admin, name)
        await it.allow(READ, TOPIC, "*")
        full = await it.alice.call(fetch(0, 0, *names), ApiKey.FETCH, FETCH_VERSION)
        assert set(codes(full).values()) == {ErrorCode.NONE}
        for epoch in (1, 2):
            quiet = await it.alice.call(fetch(full.session_id, epoch), ApiKey.FETCH, FETCH_VERSION)
            assert quiet.responses == ()
        await it.take_all()
        await it.allow(READ, TOPIC, "a")
        refused = await it.alice.call(fetch(full.session_id, 3), ApiKey.FETCH, FETCH_VERSION)
        assert codes(refused) == dict.fromkeys("bcdef", ErrorCode.TOPIC_AUTHORIZATION_FAILED)
        assert (await send(it.admin, "b", BATCH)).error_code is ErrorCode.NONE
        await it.allow(READ, TOPIC, "b")
        again = await it.alice.call(fetch(full.session_id, 4), ApiKey.FETCH, FETCH_VERSION)
        assert codes(again)["b"] is ErrorCode.NONE
        assert next(topic for topic in again.responses if topic.topic == "b").partitions[0].records


@on_a_loop
async def test_a_session_checks_its_partitions_again_only_if_a_right_may_have_changed(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with secured(tmp_path) as it:
        for name in "abc":
            await create(it.admin, name)
        await it.allow(READ, TOPIC, "*")
        checks: list[str] = []
        decide = it.node.listeners.authorizer.authorize

        def counted(asker: Any, operation: Any, resource: Any, **more: Any) -> bool:
            checks.append(resource.name)
            return decide(asker, operation, resource, **more)

        it.node.listeners.authorizer.authorize = counted
        full = await it.alice.call(fetch(0, 0, "a", "b"), ApiKey.FETCH, FETCH_VERSION)

        async def checked(epoch: int, *more: str) -> list[str]:
            checks.clear()
            response = await it.alice.call(fetch(full.session_id, epoch, *more), ApiKey.FETCH, FETCH_VERSION)
            assert response.error_code is ErrorCode.NONE
            return sorted(checks)

        assert await checked(1) == ["a", "b"]
        assert await checked(2) == []
        assert await checked(3, "c") == ["a", "b", "c"]
        assert await checked(4) == []
        await it.allow(READ, TOPIC, "z")
        assert await checked(5) == ["a", "b", "c"]
        caplog.set_level(logging.DEBUG, AUDIT_LOG.name)
        assert await checked(6) == ["a", "b", "c"], "the audit log needs the lines"


@on_a_loop
async def test_a_session_may_change_while_its_rights_are_checked(tmp_path: Path) -> None:
    async with secured(tmp_path) as it:
        names = tuple(f"t{number}" for number in range(1000))
        full = await it.alice.call(fetch(0, 0, *names), ApiKey.FETCH, FETCH_VERSION)
        other = await connect(it.node, "SASL")
        await log_in(other, ALICE)
        turns = turns_given()
        it.alice.post(fetch(full.session_id, 1), ApiKey.FETCH, FETCH_VERSION)
        await until(lambda: turns_given() > turns)
        changed = await other.call(fetch(full.session_id, 2, "new"), ApiKey.FETCH, FETCH_VERSION)
        assert codes(changed)["new"] is ErrorCode.TOPIC_AUTHORIZATION_FAILED
        _, checked = await it.alice.receive(ApiKey.FETCH, FETCH_VERSION)
        assert (checked.error_code, checked.responses) == (ErrorCode.INVALID_FETCH_SESSION_EPOCH, ())


@on_a_loop
async def test_a_fetch_that_waits_does_not_read_the_topics_of_the_next_fetch(tmp_path: Path) -> None:
    async with secured(tmp_path) as it:
        for name in ("mine", "secret"):
            await create(it.admin, name)
        await it.allow(READ, TOPIC, "mine")
        full = await it.alice.call(fetch(0, 0, "mine"), ApiKey.FETCH, FETCH_VERSION)
        await it.alice.call(fetch(full.session_id, 1), ApiKey.FETCH, FETCH_VERSION)  # keeps her permissions
        other = await connect(it.node, "SASL")
        await log_in(other, ALICE)
        waiting = replace(fetch(full.session_id, 2), max_wait_ms=600_000, min_bytes=1)
        it.alice.post(waiting, ApiKey.FETCH, FETCH_VERSION)
        assert it.node.broker is not None
        parked = it.node.broker.replicas.get("mine", 0).parked_fetches
        await until(lambda: parked)
        refused = await other.call(fetch(full.session_id, 3, "secret"), ApiKey.FETCH, FETCH_VERSION)
        assert codes(refused) == {"secret": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        for name in ("secret", "mine"):
            assert (await send(it.admin, name, BATCH)).error_code is ErrorCode.NONE
        _, woken = await it.alice.receive(ApiKey.FETCH, FETCH_VERSION)
        assert woken.responses == ()
        assert woken.error_code is ErrorCode.INVALID_FETCH_SESSION_EPOCH


@on_a_loop
async def test_a_client_that_calls_itself_a_follower_changes_nothing(tmp_path: Path) -> None:
    async with secured(tmp_path) as it:
        await create(it.admin, "a")
        await it.allow(READ, TOPIC, "*")
        request = fetch(0, 0, "a", replica_id=5)
        response = await it.alice.call(request, ApiKey.FETCH, FETCH_VERSION)
        assert codes(response) == {"a": ErrorCode.TOPIC_AUTHORIZATION_FAILED}
        assert response.session_id == 0
        assert it.node.broker is not None
        assert len(it.node.broker.fetch_sessions) == 0
        later = await it.alice.call(fetch(77, 3, replica_id=5), ApiKey.FETCH, FETCH_VERSION)
        assert later.error_code is ErrorCode.FETCH_SESSION_ID_NOT_FOUND


def envelope(inner: bytes, principal: bytes) -> EnvelopeRequest:
    return EnvelopeRequest(request_data=inner, request_principal=principal, client_host_address=bytes(4))


@on_a_loop
async def test_an_envelope_needs_the_right_of_a_broker(tmp_path: Path) -> None:
    """The principal in an envelope counts only if a broker has sent it."""
    admin = encode_principal(Principal("User", "ANONYMOUS"))
    topic = CreatableTopic(name="new", num_partitions=1, replication_factor=1)
    inner = codec.encode_request(
        CreateTopicsRequest(topics=(topic,), timeout_ms=10_000), ApiKey.CREATE_TOPICS, 7, 1, "x"
    )[4:]
    async with secured(tmp_path) as it:
        client = await it.at_controller()
        for principal in (admin, b"\xff"):
            response = await client.call(envelope(inner, principal), ApiKey.ENVELOPE, 0)
            assert response.error_code is ErrorCode.CLUSTER_AUTHORIZATION_FAILED
        assert "new" not in it.node.metadata.topics
        await it.allow(AclOperation.CLUSTER_ACTION, ResourceType.CLUSTER)
        nested = codec.encode_request(envelope(inner, admin), ApiKey.ENVELOPE, 0, 1, "x")[4:]
        response = await client.call(envelope(nested, admin), ApiKey.ENVELOPE, 0)
        assert response.error_code is ErrorCode.INVALID_REQUEST
        assert "new" not in it.node.metadata.topics
        response = await client.call(envelope(inner, admin), ApiKey.ENVELOPE, 0)
        assert response.error_code is ErrorCode.NONE
        assert "new" in it.node.metadata.topics


@on_a_loop
async def test_a_page_of_topics_names_no_hidden_topic(tmp_path: Path) -> None:
    async with secured(tmp_path) as it:
        for name in ("a", "hidden", "z"):
            await create(it.admin, name)
        await it.allow(DESCRIBE, TOPIC, "a")
        await it.allow(DESCRIBE, TOPIC, "z")
        request = describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=(), response_partition_limit=1
        )
        response = await it.alice.call(request, ApiKey.DESCRIBE_TOPIC_PARTITIONS, 0)
        assert [topic.name for topic in response.topics] == ["a"]
        assert response.next_cursor.topic_name == "z"


@on_a_loop
async def test_an_expression_finds_only_topics_that_its_member_may_describe(tmp_path: Path) -> None:
    async with secured(tmp_path) as it:
        for name in ("wanted-1", "wanted-2"):
            await create(it.admin, name)
        await it.allow(READ, GROUP, "g")
        await it.allow(DESCRIBE, TOPIC, "wanted-2")
        await it.admin.call(FindCoordinatorRequest(key="g", key_type=0), ApiKey.FIND_COORDINATOR, 3)
        member = str(uuid.UUID(int=7))
        joins = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=member,
            rebalance_timeout_ms=10_000,
            subscribed_topic_names=None,
            subscribed_topic_regex="wanted-.*",
            topic_partitions=(),
        )
        response = await it.alice.call(joins, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)
        assert response.error_code is ErrorCode.NONE
        ids = it.node.metadata.topics.ids
        epoch = response.member_epoch

        async def assigned() -> set[uuid.UUID]:
            nonlocal epoch
            beat = ConsumerGroupHeartbeatRequest(group_id="g", member_id=member, member_epoch=epoch)
            answer = await it.alice.call(beat, ApiKey.CONSUMER_GROUP_HEARTBEAT, 1)
            assert answer.error_code is ErrorCode.NONE
            epoch = answer.member_epoch
            if answer.assignment is None:
                return set()
            return {each.topic_id for each in answer.assignment.topic_partitions}

        found: set[uuid.UUID] = set()

        async def is_assigned() -> bool:
            found.update(await assigned())
            return bool(found)

        await until(is_assigned)
        assert found == {ids["wanted-2"]}
        await _a_group_with_a_hidden_topic_is_not_described(it)


async def _a_group_with_a_hidden_topic_is_not_described(it: Secured) -> None:
    await it.take_all()
    await it.allow(DESCRIBE, GROUP, "g")
    request = consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=("g",))
    (group,) = (await it.alice.call(request, ApiKey.CONSUMER_GROUP_DESCRIBE, 1)).groups
    assert (group.error_code, group.members) == (ErrorCode.TOPIC_AUTHORIZATION_FAILED, ())
    await it.allow(DESCRIBE, TOPIC, "wanted", pattern=PatternType.PREFIXED)
    (group,) = (await it.alice.call(request, ApiKey.CONSUMER_GROUP_DESCRIBE, 1)).groups
    assert (group.error_code, len(group.members)) == (ErrorCode.NONE, 1)


@on_a_loop
async def test_a_transaction_gets_only_partitions_that_its_client_may_write(tmp_path: Path) -> None:
    async with secured(tmp_path) as it:
        for name in ("open", "closed"):
            await create(it.admin, name)
        await it.admin.call(FindCoordinatorRequest(key="x", key_type=1), ApiKey.FIND_COORDINATOR, 3)
        await it.allow(WRITE, ResourceType.TRANSACTIONAL_ID, "x")
        await it.allow(WRITE, TOPIC, "open")
        init = InitProducerIdRequest(transactional_id="x", transaction_timeout_ms=60_000)
        producer = await it.alice.call(init, ApiKey.INIT_PRODUCER_ID, 5)
        assert producer.error_code is ErrorCode.NONE
        batch = bytes(
            encode_batch(
                [Record(0, 1_760_000_000_000, None, b"v", ())],
                transactional=True,
                producer_id=producer.producer_id,
                producer_epoch=producer.producer_epoch,
                base_sequence=0,
            )
        )
        data = (PartitionProduceData(index=0, records=batch),)
        request = ProduceRequest(
            transactional_id="x",
            acks=-1,
            timeout_ms=5000,
            topic_data=tuple(TopicProduceData(name=name, partition_data=data) for name in ("open", "closed")),
        )
        response = await it.alice.call(request, ApiKey.PRODUCE, 12)
        assert {topic.name: topic.partition_responses[0].error_code for topic in response.responses} == {
            "open": ErrorCode.NONE,
            "closed": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        }
        describe = describe_transactions.DescribeTransactionsRequest(transactional_ids=("x",))
        (state,) = (await it.admin.call(describe, ApiKey.DESCRIBE_TRANSACTIONS, 0)).transaction_states
        assert [topic.topic for topic in state.topics] == ["open"]
        await it.take_all()
        await it.allow(DESCRIBE, ResourceType.TRANSACTIONAL_ID, "x")
        (state,) = (await it.alice.call(describe, ApiKey.DESCRIBE_TRANSACTIONS, 0)).transaction_states
        assert (state.error_code, state.topics) == (ErrorCode.NONE, ())


@on_a_loop
async def test_a_topic_is_created_automatically_only_with_the_right_of_the_client(tmp_path: Path) -> None:
    async with secured(tmp_path) as it:
        await it.allow(DESCRIBE, TOPIC, "*")
        names = tuple(MetadataRequestTopic(name=name) for name in ("mine", "other"))
        request = MetadataRequest(topics=names, allow_auto_topic_creation=True)
        await it.allow(AclOperation.CREATE, TOPIC, "mine")
        response = await it.alice.call(request, ApiKey.METADATA, 12)
        assert {topic.name: topic.error_code for topic in response.topics} == {
            "mine": ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
            "other": ErrorCode.TOPIC_AUTHORIZATION_FAILED,
        }
        await until(lambda: "mine" in it.node.metadata.topics)
        assert "other" not in it.node.metadata.topics


@on_a_loop
async def test_a_refused_fetch_of_offsets_does_not_wait_for_the_writes_of_the_group(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time of the answer would show to a client without rights that the group is in use."""
    async with secured(tmp_path) as it:
        waited: list[str] = []
        broker = it.node.broker
        assert broker is not None
        runner = broker.groups.shards.runner

        def looked_up(group_id: str) -> Any:
            waited.append(group_id)
            return runner(group_id)

        await it.allow(AclOperation.DESCRIBE, ResourceType.GROUP, "mine")
        await it.admin.call(FindCoordinatorRequest(key="g", key_type=0), ApiKey.FIND_COORDINATOR, 3)
        monkeypatch.setattr(broker.groups.shards, "runner", looked_up)
        groups = tuple(OffsetFetchRequestGroup(group_id=name, topics=None) for name in ("other", "mine"))
        request = OffsetFetchRequest(groups=groups, require_stable=True)
        response = await it.alice.call(request, ApiKey.OFFSET_FETCH, 8)
        codes = {each.group_id: each.error_code for each in response.groups}
        assert codes["other"] is ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert codes["mine"] is not ErrorCode.GROUP_AUTHORIZATION_FAILED
        assert set(waited) == {"mine"}


@on_a_loop
async def test_visible_topics_are_checked_again_only_if_an_acl_or_the_topics_change(tmp_path: Path) -> None:
    async with secured(tmp_path) as it:
        for name in "ab":
            await create(it.admin, name)
        await it.allow(AclOperation.DESCRIBE, TOPIC, "a")
        checks: list[str] = []
        decide = it.node.listeners.authorizer.authorize

        def counted(asker: Any, operation: Any, resource: Any, **more: Any) -> bool:
            if resource.type is TOPIC:
                checks.append(resource.name)
            return decide(asker, operation, resource, **more)

        it.node.listeners.authorizer.authorize = counted

        async def seen(client: Any) -> tuple[list[str], list[str]]:
            checks.clear()
            response = await client.call(MetadataRequest(topics=None), ApiKey.METADATA, 9)
            return [topic.name for topic in response.topics], sorted(checks)

        assert await seen(it.alice) == (["a"], ["a", "b"])
        assert await seen(it.alice) == (["a"], [])
        assert await seen(it.admin) == (["a", "b"], ["a", "b"])
        assert await seen(it.alice) == (["a"], [])
        await it.allow(AclOperation.DESCRIBE, TOPIC, "b")
        assert await seen(it.alice) == (["a", "b"], ["a", "b"])
        await it.take_all()
        assert await seen(it.alice) == ([], ["a", "b"])
        await create(it.admin, "c")
        assert await seen(it.alice) == ([], ["a", "b", "c"])
        await it.allow(AclOperation.DESCRIBE, TOPIC, "c")
        assert await seen(it.alice) == (["c"], ["a", "b", "c"])


def test_names_that_are_kept_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(visible_topics, "NAMES_MAX", 10)
    kept = VisibleTopics()
    topics = Topics({}, {name: uuid.uuid4() for name in "abc"})
    checks: list[str] = []

    class Counting:
        is_open = False
        decisions_version = 1

        def authorize(self, asker: Asker, _operation: object, resource: Any, **_more: object) -> bool:
            checks.append(asker.principal.name)
            return True

    def ask(user: str) -> None:
        rights = Rights(Counting(), Asker(Principal("User", user), "h", "Metadata"))
        at_once(kept.of(rights, topics, no_pause))

    for user in "xyz":
        ask(user)
    checks.clear()
    for user in "zyx":
        ask(user)
    assert set(checks) == {"x"}, "each client takes 4 of 10, so the first one is dropped"
