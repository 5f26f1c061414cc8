"""Consumer groups as librdkafka lives them: cooperative rebalancing, static members, silent deaths, the admin calls."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator

import pytest
from confluent_kafka import Consumer, ConsumerGroupState, ConsumerGroupTopicPartitions, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kcli.testing.broker_process import BrokerProcess
from rigs.kafka_clients import PATIENCE_S

pytestmark = pytest.mark.compat

PARTITIONS = 4
_NAMES = itertools.count()


class Member:
    """A consumer that counts its rebalances."""

    def __init__(self, broker: BrokerProcess, group: str, topic: str, **settings: str) -> None:
        self.assigned = 0
        self.revoked = 0
        properties = {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "session.timeout.ms": "6000",
            "heartbeat.interval.ms": "500",
            "auto.offset.reset": "earliest",
        } | {name.replace("_", "."): value for name, value in settings.items()}
        self.consumer = Consumer(properties)
        self.consumer.subscribe([topic], on_assign=self._on_assign, on_revoke=self._on_revoke)

    def _on_assign(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.assigned += len(partitions)

    def _on_revoke(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.revoked += len(partitions)

    @property
    def owned(self) -> list[int]:
        return sorted(each.partition for each in self.consumer.assignment())


def spin(members: list[Member], until: Callable[[], bool], seconds: float = PATIENCE_S) -> None:
    """Polls everybody until it is so."""
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end, f"after {seconds} s: {[member.owned for member in members]}"
        for member in members:
            message = member.consumer.poll(0.02)
            assert message is None or message.error() is None


@pytest.fixture
def topic(broker: BrokerProcess) -> str:
    name = f"groups-{next(_NAMES)}"
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(PATIENCE_S)
    return name


@pytest.fixture
def group() -> str:
    return f"group-{next(_NAMES)}"


@pytest.fixture
def members() -> Iterator[list[Member]]:
    """A list of members; each is closed at the end of the test."""
    made: list[Member] = []
    yield made
    for member in made:
        member.consumer.close()


@pytest.mark.parametrize("strategy", ["range", "roundrobin", "cooperative-sticky"])
def test_members_come_and_go(
    broker: BrokerProcess, topic: str, group: str, members: list[Member], strategy: str
) -> None:
    def join() -> None:
        members.append(Member(broker, group, topic, partition_assignment_strategy=strategy))

    def shared() -> bool:
        owned = sorted(partition for member in members for partition in member.owned)
        return owned == list(range(PARTITIONS)) and all(member.owned for member in members)

    for _ in range(3):
        join()
        spin(members, shared)
    members.pop(0).consumer.close()
    spin(members, shared)
    if strategy == "cooperative-sticky":
        # No member gave up more than the other members took (KIP-429).
        assert all(member.revoked < PARTITIONS for member in members)


def test_a_static_member_returns_without_a_rebalance(
    broker: BrokerProcess, topic: str, group: str, members: list[Member]
) -> None:
    # Its session outlasts the time until it is back, on a busy machine too.
    static = {"session_timeout_ms": "30000"}
    members.extend(Member(broker, group, topic, group_instance_id=name, **static) for name in ("one", "two"))
    spin(members, lambda: all(len(member.owned) == PARTITIONS // 2 for member in members))
    stays, leaves = members
    before = (stays.assigned, stays.revoked, leaves.owned)
    leaves.consumer.close()  # a static member does not say goodbye
    members[1] = Member(broker, group, topic, group_instance_id="two", **static)
    spin(members, lambda: members[1].owned == before[2])
    assert (stays.assigned, stays.revoked) == before[:2]


def test_a_second_instance_of_a_name_fences_the_first(
    broker: BrokerProcess, topic: str, group: str, members: list[Member]
) -> None:
    first = Member(broker, group, topic, group_instance_id="same")
    spin([first], lambda: len(first.owned) == PARTITIONS)
    second = Member(broker, group, topic, group_instance_id="same")
    members.append(second)
    spin(members, lambda: len(second.owned) == PARTITIONS)
    end = time.monotonic() + PATIENCE_S
    fenced = False
    while not fenced and time.monotonic() < end:
        message = first.consumer.poll(0.1)
        fenced = message is not None and message.error() is not None and "instance" in message.error().str()
    assert fenced
    first.consumer.close()


def test_the_partitions_of_a_silent_member_go_to_the_others(
    broker: BrokerProcess, topic: str, group: str, members: list[Member]
) -> None:
    stays = Member(broker, group, topic)
    # It stops polling, and librdkafka leaves the group for it: as dead as a process that hangs.
    silent = Member(broker, group, topic, max_poll_interval_ms="6000")
    members += [stays, silent]
    spin(members, lambda: all(len(member.owned) == PARTITIONS // 2 for member in members))
    spin([stays], lambda: len(stays.owned) == PARTITIONS)


def test_offsets_and_groups_by_the_admin_calls(
    broker: BrokerProcess, topic: str, group: str, members: list[Member]
) -> None:
    admin = AdminClient({"bootstrap.servers": broker.bootstrap})
    member = Member(broker, group, topic, client_id="me")
    spin([member], lambda: len(member.owned) == PARTITIONS)
    member.consumer.commit(offsets=[TopicPartition(topic, 1, 7, "note")], asynchronous=False)

    described = admin.describe_consumer_groups([group])[group].result(PATIENCE_S)
    assert described.state is ConsumerGroupState.STABLE
    assert described.partition_assignor == "range"
    (only,) = described.members
    assert (only.client_id, only.host) == ("me", "/127.0.0.1")
    assert len(only.assignment.topic_partitions) == PARTITIONS
    listed = {each.group_id: each for each in admin.list_consumer_groups().result(PATIENCE_S).valid}
    assert listed[group].state is ConsumerGroupState.STABLE
    assert not listed[group].is_simple_consumer_group
    with pytest.raises(Exception, match="NON_EMPTY_GROUP"):
        admin.delete_consumer_groups([group])[group].result(PATIENCE_S)

    member.consumer.close()
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 2, 9)])
    admin.alter_consumer_group_offsets([wanted])[group].result(PATIENCE_S)
    offsets = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(
        PATIENCE_S
    )
    found = {each.partition: (each.offset, each.metadata or "") for each in offsets.topic_partitions}
    assert found == {1: (7, "note"), 2: (9, "")}
    admin.delete_consumer_groups([group])[group].result(PATIENCE_S)
    assert group not in {each.group_id for each in admin.list_consumer_groups().result(PATIENCE_S).valid}
