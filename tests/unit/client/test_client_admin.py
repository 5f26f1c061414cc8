from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any, TypeVar

import pytest

from kcli.client import client as client_module
from kcli.client.admin.admin import AdminClient
from kcli.client.admin.configs import AlterConfig
from kcli.client.admin.groups import CommittedOffset
from kcli.client.admin.topics import NewPartitions, NewTopic, TopicDescription
from kcli.client.config import ClientConfig
from kcli.client.coordinator import GROUPS_PER_REQUEST
from kcli.errors import (
    ErrorCode,
    GroupIdNotFoundException,
    KafkaError,
    OffsetOutOfRangeException,
    TimeoutException,
    TopicExistsException,
    UnknownTopicOrPartitionException,
    UnsupportedVersionException,
)
from kcli.model.addresses import Address
from kcli.model.configs import ConfigOperation, ConfigResource, ConfigResourceType, ConfigSource
from kcli.model.request_values import OffsetSpec
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.messages import (
    consumer_group_describe,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    describe_configs,
    describe_groups,
    describe_topic_partitions,
    find_coordinator,
    incremental_alter_configs,
    list_groups,
    list_offsets,
    metadata,
    offset_commit,
    offset_fetch,
)
from kcli.protocol.wire.api import ApiKey
from rigs.scripted_server import ScriptedAnswer, ScriptedServer

T = TypeVar("T")
TOPIC_ID = uuid.UUID(int=7)


def cluster_of(server_box: list[ScriptedServer], *topics: metadata.MetadataResponseTopic) -> ScriptedAnswer:
    def answer(request: metadata.MetadataRequest, version: int) -> metadata.MetadataResponse:
        wanted = None if request.topics is None else {each.name for each in request.topics}
        known = {topic.name: topic for topic in topics}
        if wanted is None:
            shown = tuple(topics)
        else:
            missing = metadata.MetadataResponseTopic(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION)
            shown = tuple(known.get(name) or replace(missing, name=name) for name in sorted(wanted, key=str))
        node = metadata.MetadataResponseBroker(node_id=1, host="127.0.0.1", port=server_box[0].port)
        return metadata.MetadataResponse(brokers=(node,), controller_id=1, topics=shown)

    return answer


def topic(name: str, partitions: int = 1) -> metadata.MetadataResponseTopic:
    return metadata.MetadataResponseTopic(
        name=name,
        topic_id=TOPIC_ID,
        partitions=tuple(
            metadata.MetadataResponsePartition(
                partition_index=number, leader_id=1, replica_nodes=(1,), isr_nodes=(1,)
            )
            for number in range(partitions)
        ),
    )


def asked(
    script: dict[ApiKey, ScriptedAnswer],
    call: Callable[[AdminClient], Awaitable[T]],
    *,
    topics: tuple[metadata.MetadataResponseTopic, ...] = (),
    versions: dict[ApiKey, tuple[int, int]] | None = None,
    timeout_ms: int = 3000,
) -> tuple[T, ScriptedServer]:
    box: list[ScriptedServer] = []
    server = ScriptedServer({ApiKey.METADATA: cluster_of(box, *topics)} | script, versions or {})
    box.append(server)

    async def scenario() -> T:
        config = ClientConfig(
            servers=(Address("127.0.0.1", 1), Address("127.0.0.1", server.port)),
            default_api_timeout_ms=timeout_ms,
            retry_backoff_ms=1,
            retry_backoff_max_ms=5,
        )
        async with AdminClient(config) as client:
            return await call(client)

    with server:
        return asyncio.run(scenario()), server


def test_the_second_bootstrap_server_is_tried(caplog: pytest.LogCaptureFixture) -> None:
    listed, _ = asked({}, lambda client: client.list_topics(), topics=(topic("b"), topic("a")))
    assert [each.name for each in listed] == ["a", "b"]
    assert "127.0.0.1:1 could not be established" in caplog.text


def test_create_topics_is_tried_again_until_the_controller_is_found() -> None:
    answers = iter([ErrorCode.NOT_CONTROLLER, ErrorCode.NONE])

    def create(request: create_topics.CreateTopicsRequest, version: int) -> Any:
        code = next(answers)
        return create_topics.CreateTopicsResponse(
            topics=tuple(
                create_topics.CreatableTopicResult(name=each.name, error_code=code) for each in request.topics
            )
        )

    new = NewTopic(name="t", assignments={0: (1, 2)}, configs={"retention.ms": "5"})
    results, server = asked({ApiKey.CREATE_TOPICS: create}, lambda client: client.create_topics([new]))
    assert results == {"t": None}
    sent = server.sent(ApiKey.CREATE_TOPICS)
    assert len(sent) == 2
    assert sent[0].topics[0].num_partitions == -1
    assert sent[0].topics[0].assignments[0].broker_ids == (1, 2)


def test_errors_are_values_with_the_servers_words() -> None:
    def create(request: create_topics.CreateTopicsRequest, version: int) -> Any:
        failed = create_topics.CreatableTopicResult(
            name="t", error_code=ErrorCode.TOPIC_ALREADY_EXISTS, error_message="Topic 't' already exists."
        )
        return create_topics.CreateTopicsResponse(topics=(failed,))

    results, _ = asked(
        {ApiKey.CREATE_TOPICS: create}, lambda client: client.create_topics([NewTopic(name="t")])
    )
    error = results["t"]
    assert isinstance(error, TopicExistsException)
    assert error.message == "Topic 't' already exists."


def test_create_partitions_sends_the_new_assignments() -> None:
    def grow(request: create_partitions.CreatePartitionsRequest, version: int) -> Any:
        return create_partitions.CreatePartitionsResponse(
            results=(create_partitions.CreatePartitionsTopicResult(name="t"),)
        )

    wanted = NewPartitions(topic="t", count=2, assignments=((1,),))
    results, server = asked(
        {ApiKey.CREATE_PARTITIONS: grow},
        lambda client: client.create_partitions([wanted], validate_only=True),
    )
    assert results == {"t": None}
    (request,) = server.sent(ApiKey.CREATE_PARTITIONS)
    assert request.validate_only and request.topics[0].assignments[0].broker_ids == (1,)


def test_describe_follows_the_cursor_and_joins_pages() -> None:
    def page(request: describe_topic_partitions.DescribeTopicPartitionsRequest, version: int) -> Any:
        first = request.cursor.partition_index if request.cursor is not None else 0
        partition = describe_topic_partitions.DescribeTopicPartitionsResponsePartition(
            partition_index=first, leader_id=-1, eligible_leader_replicas=(), last_known_elr=None
        )
        cursor = describe_topic_partitions.ResponseCursor(topic_name="t", partition_index=first + 1)
        return describe_topic_partitions.DescribeTopicPartitionsResponse(
            topics=(
                describe_topic_partitions.DescribeTopicPartitionsResponseTopic(
                    name="t", topic_id=TOPIC_ID, partitions=(partition,)
                ),
            ),
            next_cursor=cursor if first < 2 else None,
        )

    found, _ = asked(
        {ApiKey.DESCRIBE_TOPIC_PARTITIONS: page}, lambda client: client.describe_topics(["t", "gone"])
    )
    described = found["t"]
    assert isinstance(described, TopicDescription)
    assert [each.partition for each in described.partitions] == [0, 1, 2]
    assert described.partitions[0].leader is None
    assert (described.partitions[0].elr, described.partitions[0].last_known_elr) == ((), None)
    assert isinstance(found["gone"], UnknownTopicOrPartitionException)


def test_describe_falls_back_to_metadata() -> None:
    found, _ = asked({}, lambda client: client.describe_topics(["t"]), topics=(topic("t", 2),))
    described = found["t"]
    assert isinstance(described, TopicDescription)
    assert len(described.partitions) == 2 and described.partitions[0].elr is None


def test_configs_of_a_broker_are_asked_of_that_broker() -> None:
    def describe(request: describe_configs.DescribeConfigsRequest, version: int) -> Any:
        entry = describe_configs.DescribeConfigsResourceResult(name="k", value=None, config_source=99)
        return describe_configs.DescribeConfigsResponse(
            results=tuple(
                describe_configs.DescribeConfigsResult(
                    resource_type=each.resource_type, resource_name=each.resource_name, configs=(entry,)
                )
                for each in request.resources
            )
        )

    one, default = (
        ConfigResource(ConfigResourceType.BROKER, "1"),
        ConfigResource(ConfigResourceType.BROKER, ""),
    )
    found, server = asked(
        {ApiKey.DESCRIBE_CONFIGS: describe}, lambda client: client.describe_configs([one, default])
    )
    assert set(found) == {one, default}
    entries = found[one]
    assert not isinstance(entries, KafkaError) and entries[0].source is ConfigSource.UNKNOWN
    assert len(server.sent(ApiKey.DESCRIBE_CONFIGS)) == 2


def test_incremental_changes_name_their_operation() -> None:
    def alter(request: incremental_alter_configs.IncrementalAlterConfigsRequest, version: int) -> Any:
        (resource,) = request.resources
        return incremental_alter_configs.IncrementalAlterConfigsResponse(
            responses=(
                incremental_alter_configs.AlterConfigsResourceResponse(
                    resource_type=resource.resource_type, resource_name=resource.resource_name
                ),
            )
        )

    resource = ConfigResource(ConfigResourceType.TOPIC, "t")
    changes = [AlterConfig(name="a", value="1"), AlterConfig(name="b", value="", op=ConfigOperation.DELETE)]
    results, server = asked(
        {ApiKey.INCREMENTAL_ALTER_CONFIGS: alter},
        lambda client: client.incremental_alter_configs({resource: changes}),
    )
    assert results == {resource: None}
    (request,) = server.sent(ApiKey.INCREMENTAL_ALTER_CONFIGS)
    assert [op.config_operation for op in request.resources[0].configs] == [0, 1]


def test_offsets_come_from_leaders_and_moved_partitions_are_asked_again() -> None:
    codes = iter([ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.NONE])

    def offsets(request: list_offsets.ListOffsetsRequest, version: int) -> Any:
        topics = []
        for each in request.topics:
            parts = []
            for partition in each.partitions:
                code = next(codes) if partition.partition_index == 1 else ErrorCode.NONE
                parts.append(
                    list_offsets.ListOffsetsPartitionResponse(
                        partition_index=partition.partition_index, error_code=code, offset=5
                    )
                )
            topics.append(list_offsets.ListOffsetsTopicResponse(name=each.name, partitions=tuple(parts)))
        return list_offsets.ListOffsetsResponse(topics=tuple(topics))

    wanted = {TopicPartition("t", 0): int(OffsetSpec.LATEST), TopicPartition("t", 1): int(OffsetSpec.LATEST)}
    found, server = asked(
        {ApiKey.LIST_OFFSETS: offsets}, lambda client: client.list_offsets(wanted), topics=(topic("t", 2),)
    )
    assert {key: value.offset for key, value in found.items() if not isinstance(value, KafkaError)} == {
        ("t", 0): 5,
        ("t", 1): 5,
    }
    first, second = server.sent(ApiKey.LIST_OFFSETS)
    assert [each.partition_index for each in first.topics[0].partitions] == [0, 1]
    assert [each.partition_index for each in second.topics[0].partitions] == [1]


def test_offsets_of_a_topic_that_is_not_there_fail_at_once() -> None:
    found, _ = asked(
        {}, lambda client: client.list_offsets({TopicPartition("nope", 0): int(OffsetSpec.LATEST)})
    )
    error = found[TopicPartition("nope", 0)]
    assert isinstance(error, UnknownTopicOrPartitionException)
    assert error.message == (
        "Failed to fetch metadata for partition nope-0 because metadata for topic `nope` could not be found"
    )


def test_a_partition_that_a_topic_does_not_have_is_an_error_if_the_client_does_not_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(client_module, "MISSING_PARTITION_S", 0.0)
    missing = TopicPartition("t", 9)

    async def call(client: AdminClient) -> tuple[Any, Any]:
        client._waits_for_partitions = False
        found = await client.list_offsets({missing: int(OffsetSpec.LATEST)})
        return found[missing], await client.describe_producers([missing])

    async def scenario(client: AdminClient) -> tuple[Any, Any]:
        try:
            return await call(client)
        except KafkaError as error:
            return error, error

    (listed, described), _ = asked({}, scenario, topics=(topic("t", 2),))
    for error in (listed, described):
        assert isinstance(error, UnknownTopicOrPartitionException)
        assert error.message == "Partition t-9 does not exist: topic t has 2 partitions, numbers 0 to 1"


def test_a_special_time_is_not_sent_to_a_broker_that_would_take_it_for_a_timestamp() -> None:
    found, _ = asked(
        {ApiKey.LIST_OFFSETS: lambda *_: None},
        lambda client: client.list_offsets({TopicPartition("t", 0): int(OffsetSpec.MAX_TIMESTAMP)}),
        topics=(topic("t"),),
        versions={ApiKey.LIST_OFFSETS: (0, 6)},
    )
    assert isinstance(found[TopicPartition("t", 0)], UnsupportedVersionException)


def test_delete_records_tells_what_failed_and_waits_for_what_may_come() -> None:
    def delete(request: delete_records.DeleteRecordsRequest, version: int) -> Any:
        result = delete_records.DeleteRecordsPartitionResult(
            partition_index=0, error_code=ErrorCode.OFFSET_OUT_OF_RANGE
        )
        return delete_records.DeleteRecordsResponse(
            topics=(delete_records.DeleteRecordsTopicResult(name="t", partitions=(result,)),)
        )

    found, _ = asked(
        {ApiKey.DELETE_RECORDS: delete},
        lambda client: client.delete_records({TopicPartition("t", 0): 9, TopicPartition("nope", 0): 1}),
        topics=(topic("t"),),
        timeout_ms=200,
    )
    assert isinstance(found[TopicPartition("t", 0)], OffsetOutOfRangeException)
    missing = found[TopicPartition("nope", 0)]
    assert isinstance(missing, TimeoutException)
    assert missing.message == "Timed out waiting for a node assignment. Call: deleteRecords(api=METADATA)"


def coordinator(request: find_coordinator.FindCoordinatorRequest, version: int) -> Any:
    if version >= 4:
        found = (
            find_coordinator.Coordinator(key=key, node_id=1, host="127.0.0.1", port=PORT[0])
            for key in request.coordinator_keys
        )
        return find_coordinator.FindCoordinatorResponse(coordinators=tuple(found))
    return find_coordinator.FindCoordinatorResponse(node_id=1, host="127.0.0.1", port=PORT[0])


PORT = [0]


def group_asked(
    script: dict[ApiKey, ScriptedAnswer],
    call: Callable[[AdminClient], Awaitable[T]],
    versions: dict[ApiKey, tuple[int, int]] | None = None,
) -> tuple[T, ScriptedServer]:
    """As `asked`; the coordinator is the server itself, by the address that metadata gave first."""

    async def call_with_nodes(client: AdminClient) -> T:
        PORT[0] = (await client.nodes())[0].port
        return await call(client)

    return asked({ApiKey.FIND_COORDINATOR: coordinator} | script, call_with_nodes, versions=versions)


@pytest.mark.parametrize("version", [3, 9])
def test_group_offsets_in_the_old_and_the_batched_form(version: int) -> None:
    def fetch(request: offset_fetch.OffsetFetchRequest, asked_version: int) -> Any:
        assert asked_version == version
        if version < 8:
            old = offset_fetch.OffsetFetchResponsePartition(partition_index=0, committed_offset=4)
            return offset_fetch.OffsetFetchResponse(
                topics=(offset_fetch.OffsetFetchResponseTopic(name="t", partitions=(old,)),)
            )
        parts = (
            offset_fetch.OffsetFetchResponsePartitions(partition_index=0, committed_offset=4),
            offset_fetch.OffsetFetchResponsePartitions(partition_index=1, committed_offset=-1),
        )
        group = offset_fetch.OffsetFetchResponseGroup(
            group_id="g", topics=(offset_fetch.OffsetFetchResponseTopics(name="t", partitions=parts),)
        )
        return offset_fetch.OffsetFetchResponse(groups=(group,))

    found, _ = group_asked(
        {ApiKey.OFFSET_FETCH: fetch},
        lambda client: client.list_group_offsets("g"),
        versions={ApiKey.OFFSET_FETCH: (1, version), ApiKey.FIND_COORDINATOR: (0, 2 if version < 8 else 6)},
    )
    assert found[TopicPartition("t", 0)] == CommittedOffset(offset=4)
    assert version < 8 or found[TopicPartition("t", 1)] is None


@pytest.mark.parametrize("version", [7, 9])
def test_the_offsets_of_many_groups(version: int) -> None:
    def fetch(request: offset_fetch.OffsetFetchRequest, asked_version: int) -> Any:
        if version < 8:
            if request.group_id == "denied":
                return offset_fetch.OffsetFetchResponse(error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED)
            old = offset_fetch.OffsetFetchResponsePartition(partition_index=0, committed_offset=4)
            topics = (offset_fetch.OffsetFetchResponseTopic(name="t", partitions=(old,)),)
            return offset_fetch.OffsetFetchResponse(topics=topics)
        part = offset_fetch.OffsetFetchResponsePartitions(partition_index=0, committed_offset=4)
        topic = offset_fetch.OffsetFetchResponseTopics(name="t", partitions=(part,))
        answers = {
            "denied": offset_fetch.OffsetFetchResponseGroup(
                group_id="denied", error_code=ErrorCode.GROUP_AUTHORIZATION_FAILED
            ),
            "none": offset_fetch.OffsetFetchResponseGroup(group_id="none"),
        }
        usual = offset_fetch.OffsetFetchResponseGroup(group_id="g", topics=(topic,))
        return offset_fetch.OffsetFetchResponse(
            groups=tuple(answers.get(each.group_id, usual) for each in request.groups)
        )

    names = ["g", "denied"] if version < 8 else ["g", "denied", "none"]
    found, server = group_asked(
        {ApiKey.OFFSET_FETCH: fetch},
        lambda client: client.list_all_offsets(names),
        versions={ApiKey.OFFSET_FETCH: (1, version)},
    )
    assert found["g"] == {("t", 0): CommittedOffset(offset=4)}
    denied = found["denied"]
    assert isinstance(denied, KafkaError) and denied.code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert version < 8 or found["none"] == {}
    assert len(server.sent(ApiKey.OFFSET_FETCH)) == (len(names) if version < 8 else 1)


def test_a_group_that_is_not_a_consumer_group_is_described_as_classic() -> None:
    assignment = bytes.fromhex("0003 00000001 0001 74 00000002 00000000 00000001 ffffffff")

    def classic(request: describe_groups.DescribeGroupsRequest, version: int) -> Any:
        member = describe_groups.DescribedGroupMember(
            member_id="m", client_id="c", client_host="/1.2.3.4", member_assignment=assignment
        )
        group = describe_groups.DescribedGroup(
            group_id="g",
            group_state="Stable",
            protocol_type="consumer",
            protocol_data="range",
            members=(member,),
        )
        return describe_groups.DescribeGroupsResponse(groups=(group,))

    def consumer(request: consumer_group_describe.ConsumerGroupDescribeRequest, version: int) -> Any:
        group = consumer_group_describe.DescribedGroup(group_id="g", error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        return consumer_group_describe.ConsumerGroupDescribeResponse(groups=(group,))

    script: dict[ApiKey, ScriptedAnswer] = {
        ApiKey.CONSUMER_GROUP_DESCRIBE: consumer,
        ApiKey.DESCRIBE_GROUPS: classic,
    }
    found, _ = group_asked(script, lambda client: client.describe_groups(["g"]))
    group = found["g"]
    assert not isinstance(group, KafkaError)
    assert (group.type, group.state, group.assignor, group.coordinator.id) == (
        "Classic",
        "Stable",
        "range",
        1,
    )
    assert group.members[0].assignment == (("t", 0), ("t", 1))


def test_an_unknown_group_is_an_error() -> None:
    def classic(request: describe_groups.DescribeGroupsRequest, version: int) -> Any:
        group = describe_groups.DescribedGroup(group_id="g", error_code=ErrorCode.GROUP_ID_NOT_FOUND)
        return describe_groups.DescribeGroupsResponse(groups=(group,))

    found, _ = group_asked({ApiKey.DESCRIBE_GROUPS: classic}, lambda client: client.describe_groups(["g"]))
    assert isinstance(found["g"], GroupIdNotFoundException)


def test_a_group_of_another_type_is_an_error_in_the_words_of_the_first_answer() -> None:
    def not_classic(request: describe_groups.DescribeGroupsRequest, version: int) -> Any:
        said = "Group g is not a classic group."
        group = describe_groups.DescribedGroup(
            group_id="g", error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=said
        )
        return describe_groups.DescribeGroupsResponse(groups=(group,))

    def not_consumer(request: consumer_group_describe.ConsumerGroupDescribeRequest, version: int) -> Any:
        said = "Group g is not a consumer group."
        group = consumer_group_describe.DescribedGroup(
            group_id="g", error_code=ErrorCode.GROUP_ID_NOT_FOUND, error_message=said
        )
        return consumer_group_describe.ConsumerGroupDescribeResponse(groups=(group,))

    script: dict[ApiKey, ScriptedAnswer] = {
        ApiKey.CONSUMER_GROUP_DESCRIBE: not_consumer,
        ApiKey.DESCRIBE_GROUPS: not_classic,
    }
    found, _ = group_asked(script, lambda client: client.describe_groups(["g"]))
    error = found["g"]
    assert isinstance(error, GroupIdNotFoundException)
    assert error.message == "Group g is not a consumer group."


def test_many_groups_in_few_requests_and_again_for_those_that_moved() -> None:
    count = 2 * GROUPS_PER_REQUEST + 1
    moved = {"group-3", "group-700"}

    def classic(request: describe_groups.DescribeGroupsRequest, version: int) -> Any:
        groups = []
        for name in request.groups:
            code = ErrorCode.NOT_COORDINATOR if name in moved else ErrorCode.NONE
            moved.discard(name)
            if name == "group-5":
                code = ErrorCode.GROUP_AUTHORIZATION_FAILED
            broken = describe_groups.DescribedGroupMember(member_id="m", member_assignment=b"\0")
            members = (broken,) if name == "group-6" else ()
            groups.append(
                describe_groups.DescribedGroup(
                    group_id=name, error_code=code, protocol_type="consumer", members=members
                )
            )
        return describe_groups.DescribeGroupsResponse(groups=tuple(groups))

    names = [f"group-{number}" for number in range(count)]
    found, server = group_asked(
        {ApiKey.DESCRIBE_GROUPS: classic}, lambda client: client.describe_groups(names)
    )
    assert list(found) == names
    failed = {name: each for name, each in found.items() if isinstance(each, KafkaError)}
    assert failed.keys() == {"group-5"}, "one group never sinks the others"
    assert failed["group-5"].code is ErrorCode.GROUP_AUTHORIZATION_FAILED
    assert [each.assignment for each in found["group-6"].members] == [()], "its bytes are no assignment"
    sizes = [len(request.groups) for request in server.sent(ApiKey.DESCRIBE_GROUPS)]
    assert sizes == [GROUPS_PER_REQUEST, GROUPS_PER_REQUEST, 1, 2]


def test_groups_of_a_broker_that_looks_up_one_coordinator_at_a_time() -> None:
    def deleted(request: delete_groups.DeleteGroupsRequest, version: int) -> Any:
        results = (
            delete_groups.DeletableGroupResult(group_id=name) for name in request.groups_names if name != "c"
        )
        return delete_groups.DeleteGroupsResponse(results=tuple(results))

    results, server = group_asked(
        {ApiKey.DELETE_GROUPS: deleted},
        lambda client: client.delete_groups(["a", "b", "c", "a"]),
        versions={ApiKey.FIND_COORDINATOR: (0, 3)},
    )
    assert (results["a"], results["b"]) == (None, None)
    assert results["c"] is not None and "does not mention group c" in results["c"].message
    assert [request.key for request in server.sent(ApiKey.FIND_COORDINATOR)] == ["a", "b", "c"]
    assert len(server.sent(ApiKey.DELETE_GROUPS)) == 1


def test_a_coordinator_that_moves_is_looked_up_again() -> None:
    codes = iter([ErrorCode.NOT_COORDINATOR, ErrorCode.NONE])

    def commit(request: offset_commit.OffsetCommitRequest, version: int) -> Any:
        part = offset_commit.OffsetCommitResponsePartition(partition_index=0, error_code=next(codes))
        return offset_commit.OffsetCommitResponse(
            topics=(offset_commit.OffsetCommitResponseTopic(name="t", partitions=(part,)),)
        )

    results, server = group_asked(
        {ApiKey.OFFSET_COMMIT: commit},
        lambda client: client.alter_group_offsets(
            "g", {TopicPartition("t", 0): CommittedOffset(offset=3, metadata="m")}
        ),
    )
    assert results == {("t", 0): None}
    assert len(server.sent(ApiKey.FIND_COORDINATOR)) == 2
    assert server.sent(ApiKey.OFFSET_COMMIT)[0].topics[0].partitions[0].committed_metadata == "m"


def test_groups_are_listed_from_every_broker_and_deleted_together() -> None:
    def listed(request: list_groups.ListGroupsRequest, version: int) -> Any:
        groups = [list_groups.ListedGroup(group_id=name, group_type="classic") for name in ("b", "a")]
        return list_groups.ListGroupsResponse(groups=tuple(groups))

    def deleted(request: delete_groups.DeleteGroupsRequest, version: int) -> Any:
        assert sorted(request.groups_names) == ["a", "b"]
        codes = {"a": ErrorCode.NONE, "b": ErrorCode.NON_EMPTY_GROUP}
        results = (
            delete_groups.DeletableGroupResult(group_id=name, error_code=codes[name])
            for name in request.groups_names
        )
        return delete_groups.DeleteGroupsResponse(results=tuple(results))

    async def both(client: AdminClient) -> tuple[list[str], dict[str, KafkaError | None]]:
        names = [group.group_id for group in await client.list_groups(states=["Empty"])]
        return names, await client.delete_groups(names)

    (names, results), _ = group_asked({ApiKey.LIST_GROUPS: listed, ApiKey.DELETE_GROUPS: deleted}, both)
    assert names == ["a", "b"]
    assert results["a"] is None
    assert results["b"] is not None and results["b"].code is ErrorCode.NON_EMPTY_GROUP
