"""Checks a cluster: its brokers, one topic, one group, and a record that is written and read."""

from __future__ import annotations

import time
import uuid
from collections.abc import AsyncIterator, Iterable

from kcli.client.client import Client, Node, raise_for
from kcli.client.coordinator import at_coordinator
from kcli.client.diagnosis.finding import Finding, ok, warning, wrong
from kcli.client.records.fetch import FetchLimits
from kcli.client.records.records import Records, value_of
from kcli.errors import (
    ErrorCode,
    GroupAuthorizationException,
    GroupIdNotFoundException,
    KafkaError,
    TopicAuthorizationException,
)
from kcli.model.acl import AclOperation
from kcli.model.command_words import quoted_option
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record, encode_batch, iter_batches, read_records
from kcli.protocol.messages.describe_groups import (
    DescribedGroup,
    DescribeGroupsRequest,
    DescribeGroupsResponse,
)
from kcli.protocol.messages.metadata import (
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    MetadataResponseTopic,
)
from kcli.protocol.wire.api import ApiKey
from kcli.security.acls.grants import TYPES, Right, granting

CLUSTER, TOPIC, RIGHTS, GROUP, WRITE, READ = "cluster", "topic", "rights", "group", "write", "read"
NOT_REPORTED = -(1 << 31)
"""The value that a broker sends if it does not report the allowed operations (KIP-430)."""
FETCH_MAX_BYTES = 1 << 20
READ_WAIT_MS = 5000


class ClusterWalk:
    """Checks the cluster of one client. `principal` is the client's own name in ACLs, as far as its settings show
    it."""

    def __init__(self, client: Client, principal: str) -> None:
        self._client = client
        self._records = Records(client)
        self._principal = principal

    async def brokers(self) -> AsyncIterator[Finding | Node]:
        """Yields a finding about the metadata, and then a finding about each broker."""
        subject = "cluster"
        try:
            response = await self._client.call("metadata", self._client.metadata)
        except KafkaError as error:
            yield wrong(CLUSTER, subject, error.message, "see the findings about the servers")
            return
        count = len(response.brokers)
        named = response.cluster_id or "unknown"
        yield ok(CLUSTER, subject, f"id {named}, {count} broker{'s' * (count != 1)}")
        for node in await self._client.nodes():
            yield node

    async def topic(self, name: str) -> AsyncIterator[Finding]:
        """Checks one topic: that it exists, that it has its leaders and replicas, and that the client has the
        permissions."""
        topics = (MetadataRequestTopic(name=name),)
        request = MetadataRequest(
            topics=topics, allow_auto_topic_creation=False, include_topic_authorized_operations=True
        )
        try:
            response = await self._client.send(request, ApiKey.METADATA)
            assert isinstance(response, MetadataResponse)
            (topic,) = response.topics
            raise_for(topic.error_code)
        except TopicAuthorizationException:
            yield wrong(
                TOPIC,
                name,
                f"{self._principal} may not see this topic, or it does not exist",
                self._grant(AclOperation.DESCRIBE, "topic", name),
            )
            return
        except KafkaError as error:
            advice = f"kcli topics --create {quoted_option('topic', name)}"
            is_missing = error.code is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            yield wrong(TOPIC, name, error.message, advice if is_missing else "see the broker's log")
            return
        yield _replicas(topic)
        yield self._rights(
            topic.topic_authorized_operations,
            "topic",
            name,
            (AclOperation.READ, AclOperation.WRITE),
        )

    async def group(self, group_id: str) -> AsyncIterator[Finding]:
        """Checks whether the client may join a consumer group."""
        request = DescribeGroupsRequest(groups=(group_id,), include_authorized_operations=True)

        async def ask(node: Node) -> DescribedGroup:
            answer = await self._client.send(request, ApiKey.DESCRIBE_GROUPS, to=node.id)
            assert isinstance(answer, DescribeGroupsResponse)
            (group,) = answer.groups
            raise_for(group.error_code)
            return group

        try:
            group = await at_coordinator(self._client, "describeGroups", group_id, ask)
        except GroupIdNotFoundException:
            yield ok(GROUP, group_id, "there is no classic group with this name, so its rights are unknown")
            return
        except GroupAuthorizationException as error:
            reason = error.message or error.default_message
            yield wrong(GROUP, group_id, reason, self._grant(AclOperation.READ, "group", group_id))
            return
        except KafkaError as error:
            yield wrong(GROUP, group_id, error.message or error.default_message, "see the broker's log")
            return
        yield self._rights(group.authorized_operations, "group", group_id, (AclOperation.READ,))

    async def write_and_read(self, name: str) -> AsyncIterator[Finding]:
        """Writes one record to the first partition with a leader, and reads the record again."""
        marker = f"kcli doctor {uuid.uuid4()}".encode()
        try:
            partition = await self._first_partition(name)
            began = time.monotonic()
            offset = await self._produce(partition, marker)
            taken_ms = (time.monotonic() - began) * 1000
        except KafkaError as error:
            yield wrong(WRITE, name, error.message, self._grant(AclOperation.WRITE, "topic", name))
            return
        yield ok(WRITE, name, f"a record was written at offset {offset} of {partition} in {taken_ms:.0f} ms")
        try:
            values = await self._read(partition, offset)
        except KafkaError as error:
            yield wrong(READ, name, error.message, self._grant(AclOperation.READ, "topic", name))
            return
        if marker in values:
            yield ok(READ, name, f"the record was read from {partition}")
        else:
            yield wrong(
                READ,
                name,
                f"the record cannot be read from {partition}",
                "compare the replicas in sync with min.insync.replicas",
            )

    async def _first_partition(self, name: str) -> TopicPartition:
        response = await self._client.metadata([name])
        (topic,) = response.topics
        raise_for(topic.error_code)
        for part in sorted(topic.partitions, key=lambda candidate: candidate.partition_index):
            if part.leader_id >= 0:
                return TopicPartition(name, part.partition_index)
        raise KafkaError("no partition of this topic has a leader")

    async def _produce(self, partition: TopicPartition, value: bytes) -> int:
        batch = encode_batch([Record(-1, int(time.time() * 1000), None, value)])
        timeout_ms = self._client.config.request_timeout_ms
        part = value_of((await self._records.produce({partition: batch}, timeout_ms=timeout_ms))[partition])
        raise_for(part.error_code, part.error_message)
        return part.base_offset

    async def _read(self, partition: TopicPartition, offset: int) -> list[bytes]:
        limits = FetchLimits(
            max_wait_ms=READ_WAIT_MS, max_bytes=FETCH_MAX_BYTES, partition_max_bytes=FETCH_MAX_BYTES
        )
        answer = await self._records.read_now(partition, offset, limits)
        content = bytes(answer.records or b"")
        return [
            record.value
            for position, _ in iter_batches(content)
            for record in read_records(content, position)
            if record.value is not None
        ]

    def _rights(self, bits: int, kind: str, name: str, operations: Iterable[AclOperation]) -> Finding:
        if bits == NOT_REPORTED:
            return ok(RIGHTS, name, "the broker does not report the rights of its clients")
        missing = [operation for operation in operations if not bits & (1 << operation)]
        if not missing:
            shown = " and ".join(operation.name.capitalize() for operation in operations)
            return ok(RIGHTS, name, f"{self._principal} may {shown} this {kind}")
        shown = " or ".join(operation.name for operation in missing)
        return warning(
            RIGHTS,
            name,
            f"{self._principal} may not {shown} this {kind}",
            self._grant(missing[0], kind, name),
        )

    def _grant(self, operation: AclOperation, kind: str, name: str) -> str:
        return granting(self._principal, Right(operation, TYPES[kind], name))


def _replicas(topic: MetadataResponseTopic) -> Finding:
    name = topic.name or ""
    parts = topic.partitions
    leaderless = sorted(part.partition_index for part in parts if part.leader_id < 0)
    behind = sorted(part.partition_index for part in parts if len(part.isr_nodes) < len(part.replica_nodes))
    if leaderless:
        return wrong(
            TOPIC,
            name,
            f"partitions without a leader: {_listed(leaderless)}",
            "start the brokers of their replicas: kcli topics --describe --unavailable-partitions",
        )
    if behind:
        return warning(
            TOPIC,
            name,
            f"partitions with replicas that are not in sync: {_listed(behind)}",
            "kcli topics --describe --under-replicated-partitions",
        )
    count = len(parts)
    return ok(TOPIC, name, f"{count} partition{'s' * (count != 1)}, each with a leader, all replicas in sync")


def _listed(numbers: list[int]) -> str:
    shown_max = 10
    more = f" and {len(numbers) - shown_max} more" if len(numbers) > shown_max else ""
    return ", ".join(map(str, numbers[:shown_max])) + more
