"""Consumer groups as librdkafka lives them with group.protocol=consumer (KIP-848): rebalances, static members, regular
expressions, the admin calls, and groups that change from the classic protocol and back while they read."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing

import pytest
from confluent_kafka import (
    Consumer,
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    Producer,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    NewPartitions,
    NewTopic,
)
from kafka import KafkaConsumer

from kcli.testing.broker_process import BrokerProcess
from rigs.kafka_clients import PATIENCE_S, subscribe_kafka_python

pytestmark = pytest.mark.compat

PARTITIONS = 4
_NAMES = itertools.count()


class Member:
    def __init__(
        self, broker: BrokerProcess, group: str, topics: list[str], protocol: str = "consumer", **more: str
    ) -> None:
        classic = {"session.timeout.ms": "6000", "heartbeat.interval.ms": "300"}
        self.read: list[bytes] = []
        self.errors: list[KafkaError] = []
        self.consumer = Consumer(
            {
                "bootstrap.servers": broker.bootstrap,
                "group.id": group,
                "group.protocol": protocol,
                "auto.offset.reset": "earliest",
                "auto.commit.interval.ms": "200",
                "topic.metadata.refresh.interval.ms": "500",
                **(classic if protocol == "classic" else {}),
                **{name.replace("_", "."): value for name, value in more.items()},
            }
        )
        self.consumer.subscribe(topics)

    @property
    def owned(self) -> list[tuple[str, int]]:
        return sorted((each.topic, each.partition) for each in self.consumer.assignment())

    def poll(self) -> None:
        message = self.consumer.poll(0.02)
        if message is None:
            return
        if message.error() is not None:
            self.errors.append(message.error())
        else:
            self.read.append(message.value())


class KafkaPythonMember:
    """One of kafka-python, which speaks the classic protocol alone."""

    def __init__(self, broker: BrokerProcess, group: str, topic: str) -> None:
        self.errors: list[KafkaError] = []
        self.consumer = KafkaConsumer(
            bootstrap_servers=broker.bootstrap,
            group_id=group,
            session_timeout_ms=6000,
            heartbeat_interval_ms=300,
            request_timeout_ms=20_000,
        )
        subscribe_kafka_python(self.consumer, topic)

    @property
    def owned(self) -> list[tuple[str, int]]:
        return sorted((each.topic, each.partition) for each in self.consumer.assignment())

    def poll(self) -> None:
        self.consumer.poll(20)


AnyMember = Member | KafkaPythonMember


def spin(members: Sequence[AnyMember], until: Callable[[], bool], seconds: float = PATIENCE_S) -> None:
    """Polls everybody until it is so."""
    end = time.monotonic() + seconds
    while not until():
        assert time.monotonic() < end, f"after {seconds} s: {[member.owned for member in members]}"
        for member in members:
            member.poll()


def shares(members: Sequence[AnyMember], everything: list[tuple[str, int]]) -> bool:
    """Everybody has something, and together they have all."""
    owned = sorted(each for member in members for each in member.owned)
    return owned == everything and all(member.owned for member in members)


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    """A broker that asks consumers for many heartbeats."""
    overrides = {
        "group.initial.rebalance.delay.ms": "0",
        "offsets.topic.num.partitions": "3",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "300",
        "group.consumer.min.session.timeout.ms": "1000",
    }
    with BrokerProcess(tmp_path_factory.mktemp("quick"), overrides=overrides) as process:
        yield process


@pytest.fixture
def admin(quick: BrokerProcess) -> AdminClient:
    return AdminClient({"bootstrap.servers": quick.bootstrap})


@pytest.fixture
def topic(admin: AdminClient) -> str:
    name = f"topic-{next(_NAMES)}"
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


def everything_of(topic: str, count: int = PARTITIONS) -> list[tuple[str, int]]:
    return [(topic, number) for number in range(count)]


@pytest.mark.parametrize("assignor", ["uniform", "range"])
def test_members_come_and_go(
    quick: BrokerProcess, topic: str, group: str, members: list[Member], assignor: str
) -> None:
    for _ in range(3):
        members.append(Member(quick, group, [topic], group_remote_assignor=assignor))
        spin(members, lambda: shares(members, everything_of(topic)))
    members.pop(0).consumer.close()
    spin(members, lambda: shares(members, everything_of(topic)))
    assert not any(member.errors for member in members)


def test_a_new_member_does_not_read_committed_records_again(
    quick: BrokerProcess, topic: str, group: str, members: list[Member]
) -> None:
    producer = Producer({"bootstrap.servers": quick.bootstrap})
    for number in range(200):
        producer.produce(topic, str(number), partition=number % PARTITIONS)
    producer.flush(PATIENCE_S)
    first = Member(quick, group, [topic])
    spin([first], lambda: len(first.read) == 200)
    first.consumer.close()
    producer.produce(topic, "last", partition=0)
    producer.flush(PATIENCE_S)
    members.append(Member(quick, group, [topic]))
    spin(members, lambda: bool(members[0].read))
    assert members[0].read == [b"last"]


def test_a_static_member_returns_to_its_place(
    quick: BrokerProcess, topic: str, group: str, members: list[Member]
) -> None:
    members.extend(Member(quick, group, [topic], group_instance_id=name) for name in ("one", "two"))
    spin(members, lambda: shares(members, everything_of(topic)))
    had = members[1].owned
    members[1].consumer.close()
    members[1] = Member(quick, group, [topic], group_instance_id="two")
    spin(members, lambda: members[1].owned == had)
    assert len(members[0].owned) == PARTITIONS // 2


def test_topics_by_expression_appear_and_grow(
    quick: BrokerProcess, admin: AdminClient, group: str, members: list[Member]
) -> None:
    prefix = f"wanted-{next(_NAMES)}-"
    names = [f"{prefix}{letter}" for letter in "ab"]
    admin.create_topics([NewTopic(names[0], 1, 1)])[names[0]].result(PATIENCE_S)
    members.append(Member(quick, group, [f"^{prefix}[ab]"]))
    spin(members, lambda: members[0].owned == [(names[0], 0)])
    admin.create_partitions([NewPartitions(names[0], 3)])[names[0]].result(PATIENCE_S)
    spin(members, lambda: members[0].owned == everything_of(names[0], 3))
    admin.create_topics([NewTopic(names[1], 1, 1)])[names[1]].result(PATIENCE_S)
    # A group's expressions are matched again after ten seconds at the earliest.
    spin(members, lambda: members[0].owned == [*everything_of(names[0], 3), (names[1], 0)])


def test_groups_by_the_admin_calls(
    quick: BrokerProcess, admin: AdminClient, topic: str, group: str, members: list[Member]
) -> None:
    member = Member(quick, group, [topic], client_id="me")
    spin([member], lambda: member.owned == everything_of(topic))
    member.consumer.commit(offsets=[TopicPartition(topic, 1, 7)], asynchronous=False)
    described = admin.describe_consumer_groups([group])[group].result(PATIENCE_S)
    assert (described.state, described.type) == (ConsumerGroupState.STABLE, ConsumerGroupType.CONSUMER)
    assert described.partition_assignor == "uniform"
    (only,) = described.members
    assert (only.client_id, only.host) == ("me", "/127.0.0.1")
    assert len(only.assignment.topic_partitions) == len(only.target_assignment.topic_partitions) == PARTITIONS
    found = admin.list_consumer_groups(types={ConsumerGroupType.CONSUMER}).result(PATIENCE_S).valid
    assert group in {each.group_id for each in found}
    with pytest.raises(Exception, match="NON_EMPTY_GROUP"):
        admin.delete_consumer_groups([group])[group].result(PATIENCE_S)
    member.consumer.close()
    wanted = ConsumerGroupTopicPartitions(group, [TopicPartition(topic, 2, 9)])
    admin.alter_consumer_group_offsets([wanted])[group].result(PATIENCE_S)
    offsets = admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(group)])[group].result(
        PATIENCE_S
    )
    assert {each.partition: each.offset for each in offsets.topic_partitions} == {1: 7, 2: 9}
    admin.delete_consumer_groups([group])[group].result(PATIENCE_S)
    assert group not in {each.group_id for each in admin.list_consumer_groups().result(PATIENCE_S).valid}


def test_a_silent_member_is_removed_after_its_groups_own_session(
    quick: BrokerProcess, admin: AdminClient, topic: str, group: str, members: list[Member]
) -> None:
    entry = ConfigEntry("consumer.session.timeout.ms", "3000", incremental_operation=AlterConfigOpType.SET)
    resource = ConfigResource(ConfigResource.Type.GROUP, group, incremental_configs=[entry])
    next(iter(admin.incremental_alter_configs([resource]).values())).result(PATIENCE_S)
    silent = Member(quick, group, [topic], group_instance_id="silent")
    members.append(Member(quick, group, [topic]))
    spin([silent, *members], lambda: shares([silent, *members], everything_of(topic)))
    silent.consumer.close()  # a static member does not say goodbye for good
    began = time.monotonic()
    spin(members, lambda: members[0].owned == everything_of(topic))
    assert time.monotonic() - began > 0.5


def test_a_group_survives_the_broker(tmp_path_factory: pytest.TempPathFactory) -> None:
    overrides = {
        "offsets.topic.num.partitions": "1",
        "group.consumer.min.heartbeat.interval.ms": "100",
        "group.consumer.heartbeat.interval.ms": "300",
    }
    with BrokerProcess(tmp_path_factory.mktemp("survivor"), overrides=overrides) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("t", PARTITIONS, 1)])["t"].result(PATIENCE_S)
        both = [Member(broker, "g", ["t"]) for _ in range(2)]
        spin(both, lambda: shares(both, everything_of("t")))
        owned = [member.owned for member in both]
        broker.kill()
        broker.start()
        end = time.monotonic() + 2
        spin(both, lambda: time.monotonic() > end)
        assert [member.owned for member in both] == owned
        described = admin.describe_consumer_groups(["g"])["g"].result(PATIENCE_S)
        assert described.state is ConsumerGroupState.STABLE
        for member in both:
            member.consumer.close()


@pytest.mark.parametrize("strategy", ["range", "roundrobin"])
def test_a_group_changes_its_protocol_and_back_while_it_reads(
    quick: BrokerProcess,
    admin: AdminClient,
    topic: str,
    group: str,
    members: list[Member],
    strategy: str,
) -> None:
    """A rolling upgrade and downgrade: no record is lost, and only the replaced members leave."""
    producer = Producer({"bootstrap.servers": quick.bootstrap})
    numbers = itertools.count()
    read: set[bytes] = set()

    def member(protocol: str) -> Member:
        more = {"partition_assignment_strategy": strategy} if protocol == "classic" else {}
        return Member(quick, group, [topic], protocol, **more)

    def settle() -> str:
        """Everything written is read by the members that share the topic; the group's type."""
        spin(members, lambda: shares(members, everything_of(topic)))
        wanted = {str(next(numbers)).encode() for _ in range(40)}
        for nth, value in enumerate(sorted(wanted)):
            producer.produce(topic, value, partition=nth % PARTITIONS)
        producer.flush(PATIENCE_S)
        spin(members, lambda: wanted <= {*read, *(each for one in members for each in one.read)})
        found = admin.list_consumer_groups().result(PATIENCE_S).valid
        return next(each.type for each in found if each.group_id == group)

    def exchange(nth: int, protocol: str) -> None:
        members.append(member(protocol))
        spin(members, lambda: shares(members, everything_of(topic)))
        leaving = members.pop(nth)
        read.update(leaving.read)
        leaving.consumer.close()

    members.extend(member("classic") for _ in range(2))
    assert settle() is ConsumerGroupType.CLASSIC
    exchange(0, "consumer")
    assert settle() is ConsumerGroupType.CONSUMER
    exchange(0, "consumer")
    assert settle() is ConsumerGroupType.CONSUMER
    exchange(0, "classic")
    assert settle() is ConsumerGroupType.CONSUMER
    exchange(0, "classic")
    assert settle() is ConsumerGroupType.CLASSIC


def test_a_client_that_knows_only_the_classic_protocol_stays_throughout(
    quick: BrokerProcess, admin: AdminClient, topic: str, group: str
) -> None:
    old = KafkaPythonMember(quick, group, topic)
    everything = everything_of(topic)
    with closing(old.consumer):
        spin([old], lambda: old.owned == everything)
        new = Member(quick, group, [topic])
        with closing(new.consumer):
            spin([old, new], lambda: shares([old, new], everything))
            described = admin.describe_consumer_groups([group])[group].result(PATIENCE_S)
            assert (described.type, len(described.members)) == (ConsumerGroupType.CONSUMER, 2)
        spin([old], lambda: old.owned == everything)
        described = admin.describe_consumer_groups([group])[group].result(PATIENCE_S)
        assert described.type is ConsumerGroupType.CLASSIC


def test_a_broker_that_does_not_speak_the_protocol_says_so(tmp_path_factory: pytest.TempPathFactory) -> None:
    overrides = {"group.coordinator.rebalance.protocols": "classic", "offsets.topic.num.partitions": "1"}
    with BrokerProcess(tmp_path_factory.mktemp("classic"), overrides=overrides) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("t", 1, 1)])["t"].result(PATIENCE_S)
        member = Member(broker, "g", ["t"])
        spin([member], lambda: bool(member.errors))
        assert "version" in member.errors[0].str().lower()
        member.consumer.close()


def test_a_group_with_data_of_the_sticky_assignor_stays_classic_until_it_is_empty(
    quick: BrokerProcess, admin: AdminClient, topic: str, group: str, members: list[Member]
) -> None:
    """It puts data of its own into assignments. Kafka does not turn such a group into a consumer group while it has
    members, since these data would be lost (KIP-848); once it is empty it does."""
    sticky: list[Member] = []
    for _ in range(3):  # what it keeps is of the generation before
        sticky.append(
            Member(quick, group, [topic], "classic", partition_assignment_strategy="cooperative-sticky")
        )
        spin(sticky, lambda: shares(sticky, everything_of(topic)))
    newcomer = Member(quick, group, [topic])
    spin([*sticky, newcomer], lambda: bool(newcomer.errors))
    assert "group id does not exist" in newcomer.errors[0].str()
    assert shares(sticky, everything_of(topic))
    for member in (newcomer, *sticky):
        member.consumer.close()
    members.append(Member(quick, group, [topic]))
    spin(members, lambda: shares(members, everything_of(topic)))
