"""The largest requests: each gets Kafka's full answer, and the clients beside it are served meanwhile.

Work is counted, not timed: the calls in one iteration of the event loop, and the turns until a neighbour's ping is
answered.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from collections import Counter
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from kcli.coordinator.transaction.records import TransactionRecord
from kcli.coordinator.transaction.shard import TransactionShard
from kcli.coordinator.transaction.state import new_transactional_id
from kcli.errors import ErrorCode
from kcli.protocol.messages import (
    add_partitions_to_txn,
    alter_client_quotas,
    alter_configs,
    alter_partition_reassignments,
    alter_replica_log_dirs,
    alter_user_scram_credentials,
    api_versions,
    consumer_group_describe,
    create_partitions,
    create_topics,
    delete_groups,
    delete_records,
    delete_topics,
    describe_client_quotas,
    describe_configs,
    describe_groups,
    describe_log_dirs,
    describe_producers,
    describe_topic_partitions,
    describe_transactions,
    describe_user_scram_credentials,
    find_coordinator,
    incremental_alter_configs,
    join_group,
    leave_group,
    list_offsets,
    list_partition_reassignments,
    list_transactions,
    metadata,
    offset_commit,
    offset_delete,
    offset_fetch,
    offset_for_leader_epoch,
    produce,
    txn_offset_commit,
    write_txn_markers,
)
from kcli.protocol.wire import codec
from kcli.protocol.wire.api import ApiKey
from kcli.protocol.wire.codec import Message
from kcli.security.acls.audit import AUDIT_LOG
from kcli.security.acls.configured import STANDARD
from rigs.data_path import batch
from rigs.loops import PATIENCE_S, on_a_loop, until
from rigs.node import RunningNode, connect, create, running
from rigs.turn_counter import CALLS_PER_TURN_MAX, TurnCounter
from rigs.wire_client import Client

PARTS = 20_000
"""Parts of a request: few enough for a quick test, and far more than any turn takes."""
QUOTAS = 4000
"""Users with quotas. To store a quota takes longer than the work that is counted."""
PING_TURNS_MAX = 20
"""Turns of the loop until a ping is answered. The sockets of both sides take about six."""

NUMBERS = range(PARTS)
NAMES = [f"unknown-{number}" for number in NUMBERS]
NONE, UNKNOWN = ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@dataclass(frozen=True, slots=True)
class Row:
    """One large request. `codes`: the error code of each part of its answer."""

    key: ApiKey
    version: int
    request: Message
    codes: Callable[[Any], list[ErrorCode]]
    expected: dict[ErrorCode, int]
    prepare: Callable[[RunningNode, Client], Awaitable[None]] | None = None
    """Makes the state that the answer lists."""


def topics_and_partitions(topics: str, partitions: str, code: str) -> Callable[[Any], list[ErrorCode]]:
    def codes(response: Any) -> list[ErrorCode]:
        return [
            getattr(part, code) for topic in getattr(response, topics) for part in getattr(topic, partitions)
        ]

    return codes


def each(array: str, code: str = "error_code") -> Callable[[Any], list[ErrorCode]]:
    return lambda response: [getattr(part, code) for part in getattr(response, array)]


ONE_FOUND = {NONE: 1, UNKNOWN: PARTS - 1}
"""Topic "t" has partition 0 alone."""


async def store_quotas(_node: RunningNode, client: Client) -> None:
    entries = tuple(
        alter_client_quotas.RequestEntryData(
            entity=(alter_client_quotas.RequestEntityData(entity_type="user", entity_name=name),),
            ops=(alter_client_quotas.OpData(key="request_percentage", value=1.0),),
        )
        for name in NAMES[:QUOTAS]
    )
    request = alter_client_quotas.AlterClientQuotasRequest(entries=entries)
    await client.call(request, ApiKey.ALTER_CLIENT_QUOTAS, 1)


async def begin_transactions(node: RunningNode, _client: Client) -> None:
    """All transactional ids are in one shard."""
    known = new_transactional_id(1, 60_000, 0)

    def begin(shard: TransactionShard, _now_ms: int) -> None:
        for name in NAMES:
            shard.replay(TransactionRecord(name, known))

    next(iter(node.broker.transactions.shards.runners())).look(begin)


MANY = 1000
IN_TRANSACTION = batch(b"v", transactional=True, producer_id=77, producer_epoch=0, base_sequence=0)


async def make_partitions(node: RunningNode, client: Client) -> None:
    await create(client, "many", partitions=MANY)
    await until(lambda: all(node.broker.replicas.find("many", index) for index in range(MANY)))


ROWS = [
    Row(
        ApiKey.PRODUCE,
        9,
        produce.ProduceRequest(
            acks=1,
            timeout_ms=1000,
            topic_data=tuple(
                produce.TopicProduceData(
                    name=name, partition_data=(produce.PartitionProduceData(index=0, records=batch(b"v")),)
                )
                for name in ["t", *NAMES[1:]]
            ),
        ),
        topics_and_partitions("responses", "partition_responses", "error_code"),
        ONE_FOUND,
    ),
    Row(
        ApiKey.PRODUCE,
        12,
        produce.ProduceRequest(
            transactional_id="unknown",
            acks=-1,
            timeout_ms=1000,
            topic_data=(
                produce.TopicProduceData(
                    name="many",
                    partition_data=tuple(
                        produce.PartitionProduceData(index=number % MANY, records=IN_TRANSACTION)
                        for number in NUMBERS
                    ),
                ),
            ),
        ),
        topics_and_partitions("responses", "partition_responses", "error_code"),
        {ErrorCode.INVALID_PRODUCER_ID_MAPPING: PARTS},
        make_partitions,
    ),
    Row(
        ApiKey.METADATA,
        12,
        metadata.MetadataRequest(
            topics=tuple(metadata.MetadataRequestTopic(name=name) for name in NAMES),
            allow_auto_topic_creation=False,
        ),
        each("topics"),
        {UNKNOWN: PARTS},
    ),
    Row(
        ApiKey.LIST_OFFSETS,
        7,
        list_offsets.ListOffsetsRequest(
            replica_id=-1,
            topics=(
                list_offsets.ListOffsetsTopic(
                    name="t",
                    partitions=tuple(
                        list_offsets.ListOffsetsPartition(partition_index=number, timestamp=-1)
                        for number in NUMBERS
                    ),
                ),
            ),
        ),
        topics_and_partitions("topics", "partitions", "error_code"),
        ONE_FOUND,
    ),
    Row(
        ApiKey.DESCRIBE_CONFIGS,
        4,
        describe_configs.DescribeConfigsRequest(
            resources=tuple(
                describe_configs.DescribeConfigsResource(
                    resource_type=2, resource_name=name, configuration_keys=None
                )
                for name in ["t"] * (PARTS // 10) + NAMES[PARTS // 10 :]
            ),
            include_synonyms=True,
            include_documentation=True,
        ),
        each("results"),
        {NONE: PARTS // 10, UNKNOWN: PARTS - PARTS // 10},
    ),
    Row(
        ApiKey.OFFSET_FETCH,
        8,
        offset_fetch.OffsetFetchRequest(
            groups=(
                offset_fetch.OffsetFetchRequestGroup(
                    group_id="g",
                    topics=(
                        offset_fetch.OffsetFetchRequestTopics(name="t", partition_indexes=tuple(NUMBERS)),
                    ),
                ),
            )
        ),
        lambda response: [
            part.error_code
            for group in response.groups
            for topic in group.topics
            for part in topic.partitions
            if part.committed_offset == -1
        ],
        {NONE: PARTS},
    ),
    Row(
        ApiKey.OFFSET_COMMIT,
        8,
        offset_commit.OffsetCommitRequest(
            group_id="g",
            topics=(
                offset_commit.OffsetCommitRequestTopic(
                    name="t",
                    partitions=tuple(
                        offset_commit.OffsetCommitRequestPartition(partition_index=number, committed_offset=5)
                        for number in NUMBERS
                    ),
                ),
            ),
        ),
        topics_and_partitions("topics", "partitions", "error_code"),
        ONE_FOUND,
    ),
    Row(
        ApiKey.OFFSET_COMMIT,
        8,
        offset_commit.OffsetCommitRequest(
            group_id="g",
            topics=(
                offset_commit.OffsetCommitRequestTopic(
                    name="t",
                    partitions=(
                        offset_commit.OffsetCommitRequestPartition(partition_index=0, committed_offset=5),
                    )
                    * PARTS,
                ),
            ),
        ),
        topics_and_partitions("topics", "partitions", "error_code"),
        {NONE: PARTS},
    ),
    Row(
        ApiKey.OFFSET_DELETE,
        0,
        offset_delete.OffsetDeleteRequest(
            group_id="h",
            topics=(
                offset_delete.OffsetDeleteRequestTopic(
                    name="u",
                    partitions=tuple(
                        offset_delete.OffsetDeleteRequestPartition(partition_index=number)
                        for number in NUMBERS
                    ),
                ),
            ),
        ),
        lambda response: [response.error_code],
        {ErrorCode.GROUP_ID_NOT_FOUND: 1},
    ),
    Row(
        ApiKey.FIND_COORDINATOR,
        4,
        find_coordinator.FindCoordinatorRequest(key_type=0, coordinator_keys=tuple(NAMES)),
        each("coordinators"),
        {NONE: PARTS},
    ),
    Row(
        ApiKey.DESCRIBE_GROUPS,
        6,
        describe_groups.DescribeGroupsRequest(groups=tuple(NAMES)),
        each("groups"),
        {ErrorCode.GROUP_ID_NOT_FOUND: PARTS},
    ),
    Row(
        ApiKey.CONSUMER_GROUP_DESCRIBE,
        1,
        consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=tuple(NAMES)),
        each("groups"),
        {ErrorCode.GROUP_ID_NOT_FOUND: PARTS},
    ),
    Row(
        ApiKey.DELETE_GROUPS,
        2,
        delete_groups.DeleteGroupsRequest(groups_names=tuple(NAMES)),
        each("results"),
        {ErrorCode.GROUP_ID_NOT_FOUND: PARTS},
    ),
    Row(
        ApiKey.JOIN_GROUP,
        6,
        join_group.JoinGroupRequest(
            group_id="g",
            session_timeout_ms=30_000,
            rebalance_timeout_ms=30_000,
            protocol_type="consumer",
            protocols=tuple(join_group.JoinGroupRequestProtocol(name=name) for name in NAMES),
        ),
        lambda response: [response.error_code],
        {ErrorCode.INCONSISTENT_GROUP_PROTOCOL: 1},
    ),
    Row(
        ApiKey.LEAVE_GROUP,
        4,
        leave_group.LeaveGroupRequest(
            group_id="g", members=tuple(leave_group.MemberIdentity(member_id=name) for name in NAMES)
        ),
        each("members"),
        {ErrorCode.UNKNOWN_MEMBER_ID: PARTS},
    ),
    Row(
        ApiKey.DESCRIBE_CLIENT_QUOTAS,
        1,
        describe_client_quotas.DescribeClientQuotasRequest(),
        lambda response: [NONE] * len(response.entries),
        {NONE: QUOTAS},
        store_quotas,
    ),
    Row(
        ApiKey.LIST_TRANSACTIONS,
        1,
        list_transactions.ListTransactionsRequest(),
        lambda response: [NONE] * len(response.transaction_states),
        {NONE: PARTS},
        begin_transactions,
    ),
    Row(
        ApiKey.LIST_PARTITION_REASSIGNMENTS,
        0,
        list_partition_reassignments.ListPartitionReassignmentsRequest(
            topics=(
                list_partition_reassignments.ListPartitionReassignmentsTopics(
                    name="t", partition_indexes=tuple(NUMBERS)
                ),
                *(list_partition_reassignments.ListPartitionReassignmentsTopics(name=name) for name in NAMES),
            ),
        ),
        lambda response: [response.error_code],
        {NONE: 1},
    ),
    Row(
        ApiKey.OFFSET_FOR_LEADER_EPOCH,
        4,
        offset_for_leader_epoch.OffsetForLeaderEpochRequest(
            replica_id=-1,
            topics=(
                offset_for_leader_epoch.OffsetForLeaderTopic(
                    topic="t",
                    partitions=tuple(
                        offset_for_leader_epoch.OffsetForLeaderPartition(
                            partition=number, current_leader_epoch=-1
                        )
                        for number in NUMBERS
                    ),
                ),
            ),
        ),
        topics_and_partitions("topics", "partitions", "error_code"),
        ONE_FOUND,
    ),
    Row(
        ApiKey.DELETE_RECORDS,
        2,
        delete_records.DeleteRecordsRequest(
            topics=(
                delete_records.DeleteRecordsTopic(
                    name="t",
                    partitions=tuple(
                        delete_records.DeleteRecordsPartition(partition_index=number, offset=-1)
                        for number in NUMBERS
                    ),
                ),
            )
        ),
        topics_and_partitions("topics", "partitions", "error_code"),
        ONE_FOUND,
    ),
    Row(
        ApiKey.DESCRIBE_PRODUCERS,
        0,
        describe_producers.DescribeProducersRequest(
            topics=(describe_producers.TopicRequest(name="t", partition_indexes=tuple(NUMBERS)),)
        ),
        topics_and_partitions("topics", "partitions", "error_code"),
        ONE_FOUND,
    ),
    Row(
        ApiKey.DESCRIBE_TRANSACTIONS,
        0,
        describe_transactions.DescribeTransactionsRequest(transactional_ids=tuple(NAMES)),
        lambda response: [NONE] * len(response.transaction_states),
        {NONE: PARTS},
    ),
    Row(
        ApiKey.DESCRIBE_TOPIC_PARTITIONS,
        0,
        describe_topic_partitions.DescribeTopicPartitionsRequest(
            topics=tuple(describe_topic_partitions.TopicRequest(name=name) for name in NAMES),
            response_partition_limit=2000,
        ),
        each("topics"),
        {UNKNOWN: PARTS},
    ),
    Row(
        ApiKey.DESCRIBE_LOG_DIRS,
        4,
        describe_log_dirs.DescribeLogDirsRequest(
            topics=(describe_log_dirs.DescribableLogDirTopic(topic="t", partitions=tuple(NUMBERS)),)
        ),
        lambda response: [NONE for result in response.results for topic in result.topics],
        {NONE: 1},
    ),
    Row(
        ApiKey.DESCRIBE_USER_SCRAM_CREDENTIALS,
        0,
        describe_user_scram_credentials.DescribeUserScramCredentialsRequest(
            users=tuple(describe_user_scram_credentials.UserName(name=name) for name in NAMES)
        ),
        each("results"),
        {ErrorCode.RESOURCE_NOT_FOUND: PARTS},
    ),
    Row(
        ApiKey.ADD_PARTITIONS_TO_TXN,
        3,
        add_partitions_to_txn.AddPartitionsToTxnRequest(
            v3_and_below_transactional_id="x",
            v3_and_below_topics=(
                add_partitions_to_txn.AddPartitionsToTxnTopic(name="t", partitions=tuple(NUMBERS)),
            ),
        ),
        topics_and_partitions(
            "results_by_topic_v3_and_below", "results_by_partition", "partition_error_code"
        ),
        {ErrorCode.OPERATION_NOT_ATTEMPTED: 1, UNKNOWN: PARTS - 1},
    ),
    Row(
        ApiKey.WRITE_TXN_MARKERS,
        1,
        write_txn_markers.WriteTxnMarkersRequest(
            markers=(
                write_txn_markers.WritableTxnMarker(
                    producer_id=1,
                    topics=(
                        write_txn_markers.WritableTxnMarkerTopic(name="u", partition_indexes=tuple(NUMBERS)),
                    ),
                ),
            )
        ),
        lambda response: topics_and_partitions("topics", "partitions", "error_code")(response.markers[0]),
        {UNKNOWN: PARTS},
    ),
    Row(
        ApiKey.CREATE_TOPICS,
        7,
        create_topics.CreateTopicsRequest(
            topics=tuple(
                create_topics.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
                for name in NAMES
            )
        ),
        each("topics"),
        {ErrorCode.POLICY_VIOLATION: PARTS},
    ),
    Row(
        ApiKey.CREATE_PARTITIONS,
        3,
        create_partitions.CreatePartitionsRequest(
            topics=tuple(
                create_partitions.CreatePartitionsTopic(name=name, count=2, assignments=None)
                for name in ["t", *NAMES[1:]]
            ),
            timeout_ms=60_000,
        ),
        each("results"),
        ONE_FOUND,
    ),
    Row(
        ApiKey.DELETE_TOPICS,
        6,
        delete_topics.DeleteTopicsRequest(
            topics=tuple(delete_topics.DeleteTopicState(name=name) for name in ["t", *NAMES[1:]]),
            timeout_ms=60_000,
        ),
        each("responses"),
        ONE_FOUND,
    ),
    Row(
        ApiKey.ALTER_PARTITION_REASSIGNMENTS,
        0,
        alter_partition_reassignments.AlterPartitionReassignmentsRequest(
            topics=tuple(
                alter_partition_reassignments.ReassignableTopic(
                    name=name,
                    partitions=(alter_partition_reassignments.ReassignablePartition(replicas=(1,)),),
                )
                for name in ["t", *NAMES[1:]]
            ),
            timeout_ms=60_000,
        ),
        topics_and_partitions("responses", "partitions", "error_code"),
        ONE_FOUND,
    ),
    Row(
        ApiKey.ALTER_USER_SCRAM_CREDENTIALS,
        0,
        alter_user_scram_credentials.AlterUserScramCredentialsRequest(
            deletions=tuple(
                alter_user_scram_credentials.ScramCredentialDeletion(name=name, mechanism=1) for name in NAMES
            )
        ),
        each("results"),
        {ErrorCode.RESOURCE_NOT_FOUND: PARTS},
    ),
    Row(
        ApiKey.ALTER_CONFIGS,
        2,
        alter_configs.AlterConfigsRequest(
            resources=tuple(
                alter_configs.AlterConfigsResource(resource_type=4, resource_name=str(number + 2))
                for number in NUMBERS
            )
        ),
        each("responses"),
        {ErrorCode.INVALID_REQUEST: PARTS},
    ),
    Row(
        ApiKey.INCREMENTAL_ALTER_CONFIGS,
        1,
        incremental_alter_configs.IncrementalAlterConfigsRequest(
            resources=tuple(
                incremental_alter_configs.AlterConfigsResource(resource_type=4, resource_name=str(number + 2))
                for number in NUMBERS
            )
        ),
        each("responses"),
        {ErrorCode.INVALID_REQUEST: PARTS},
    ),
    Row(
        ApiKey.ALTER_REPLICA_LOG_DIRS,
        2,
        alter_replica_log_dirs.AlterReplicaLogDirsRequest(
            dirs=(
                alter_replica_log_dirs.AlterReplicaLogDir(
                    path="/nowhere",
                    topics=(
                        alter_replica_log_dirs.AlterReplicaLogDirTopic(name="t", partitions=tuple(NUMBERS)),
                    ),
                ),
            )
        ),
        topics_and_partitions("results", "partitions", "error_code"),
        {ErrorCode.LOG_DIR_NOT_FOUND: PARTS},
    ),
    Row(
        ApiKey.TXN_OFFSET_COMMIT,
        3,
        txn_offset_commit.TxnOffsetCommitRequest(
            transactional_id="x",
            group_id="g",
            producer_id=77,
            topics=(
                txn_offset_commit.TxnOffsetCommitRequestTopic(
                    name="t",
                    partitions=tuple(
                        txn_offset_commit.TxnOffsetCommitRequestPartition(
                            partition_index=number, committed_offset=1
                        )
                        for number in NUMBERS
                    ),
                ),
            ),
        ),
        topics_and_partitions("topics", "partitions", "error_code"),
        {ErrorCode.INVALID_PRODUCER_ID_MAPPING: 1, UNKNOWN: PARTS - 1},
    ),
]


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.key.name)
@on_a_loop
async def test_a_large_request_is_answered_in_full_beside_its_neighbours(tmp_path: Path, row: Row) -> None:
    async with running(tmp_path, transaction_state_log_replication_factor="1") as node:
        client = await connect(node)
        await create(client, "t")
        await find(client)
        if row.prepare is not None:
            await row.prepare(node, client)
        neighbour = await Neighbour.of(node)
        frame = codec.encode_request(row.request, row.key, row.version, 5, "large")
        with TurnCounter() as counter:
            answering = asyncio.create_task(answer_of(node, frame))
            await neighbour.ping_until(answering, counter)
        _, response = codec.decode_response(row.key, row.version, answering.result())
    assert Counter(row.codes(response)) == row.expected
    assert counter.calls_in_one_turn <= CALLS_PER_TURN_MAX
    assert neighbour.answered > 5, "the neighbour was served while the large request was"
    assert neighbour.turns_max <= PING_TURNS_MAX


REFUSED_OFTEN = (
    ApiKey.PRODUCE,
    ApiKey.METADATA,
    ApiKey.OFFSET_COMMIT,
    ApiKey.DESCRIBE_GROUPS,
    ApiKey.ALTER_REPLICA_LOG_DIRS,
)
"""The requests that are refused in each run. All other requests are refused only in `make full`."""


@pytest.mark.parametrize(
    "row",
    [pytest.param(row, marks=() if row.key in REFUSED_OFTEN else pytest.mark.full) for row in ROWS],
    ids=lambda row: row.key.name,
)
@on_a_loop
async def test_a_large_request_without_rights_is_refused_beside_its_neighbours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, row: Row
) -> None:
    """The audit log gets a line for each refused name."""
    monkeypatch.setattr(AUDIT_LOG, "propagate", False)
    AUDIT_LOG.setLevel(logging.INFO)
    try:
        async with running(tmp_path, authorizer_class_name=STANDARD, super_users="User:admin") as node:
            neighbour = await Neighbour.of(node)
            frame = codec.encode_request(row.request, row.key, row.version, 5, "large")
            with TurnCounter() as counter:
                answering = asyncio.create_task(answer_of(node, frame))
                await neighbour.ping_until(answering, counter)
            codec.decode_response(row.key, row.version, answering.result())
    finally:
        AUDIT_LOG.setLevel(logging.NOTSET)
    assert counter.calls_in_one_turn <= CALLS_PER_TURN_MAX
    assert neighbour.turns_max <= PING_TURNS_MAX


async def find(client: Client) -> None:
    """Makes the coordinators of groups and of transactions ready."""
    for key_type in (0, 1):
        request = find_coordinator.FindCoordinatorRequest(key_type=key_type, coordinator_keys=("g", "h", "x"))
        await client.call(request, ApiKey.FIND_COORDINATOR, 4)


async def answer_of(node: RunningNode, frame: bytes) -> bytes:
    """The answer to a frame, not decoded, because the client shares the loop with the node."""
    reader, writer = await asyncio.open_connection("127.0.0.1", node.port())
    try:
        writer.write(frame)
        (size,) = struct.unpack(">i", await asyncio.wait_for(reader.readexactly(4), PATIENCE_S))
        return await asyncio.wait_for(reader.readexactly(size), PATIENCE_S)
    finally:
        writer.close()


class Neighbour:
    """A client that asks small questions, one after the other."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.answered = 0
        self.turns_max = 0

    @classmethod
    async def of(cls, node: RunningNode) -> Neighbour:
        return cls(await connect(node))

    async def ping_until(self, done: asyncio.Task[bytes], counter: TurnCounter) -> None:
        while not done.done():
            begun = counter.turns
            await self._client.call(api_versions.ApiVersionsRequest(), ApiKey.API_VERSIONS, 0)
            self.answered += 1
            self.turns_max = max(self.turns_max, counter.turns - begun)
