"""Twenty members of librdkafka that start together: the generations and requests until all have a share."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from confluent_kafka import Consumer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

from kcli.client.admin.admin import AdminClient as KcliAdminClient
from kcli.client.admin.groups import GroupDescription
from kcli.client.config import client_config
from kcli.errors import KafkaError
from kcli.testing.broker_process import BrokerProcess
from rigs.kafka_clients import PATIENCE_S

pytestmark = pytest.mark.compat

MEMBERS = 20
PARTITIONS = 40


class Member:
    """A consumer, with the partitions that it owns and the number of its requests by API."""

    def __init__(self, broker: BrokerProcess, group: str, **settings: str) -> None:
        self.owned: set[int] = set()
        self.requests: Counter[str] = Counter()
        properties: dict[str, object] = {
            "bootstrap.servers": broker.bootstrap,
            "group.id": group,
            "statistics.interval.ms": 200,
            "stats_cb": self._count,
        }
        self.consumer = Consumer(
            properties | {name.replace("_", "."): value for name, value in settings.items()}
        )
        self.consumer.subscribe(["joins"], on_assign=self._given, on_revoke=self._taken)

    def _given(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned |= {each.partition for each in partitions}

    def _taken(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned -= {each.partition for each in partitions}

    def _count(self, statistics: str) -> None:
        self.requests = Counter()
        for broker in json.loads(statistics)["brokers"].values():
            self.requests.update(broker["req"])


@pytest.fixture
def undelayed(tmp_path: Path) -> Iterator[BrokerProcess]:
    with BrokerProcess(tmp_path, overrides={"group.initial.rebalance.delay.ms": "0"}) as broker:
        admin = AdminClient({"bootstrap.servers": broker.bootstrap})
        admin.create_topics([NewTopic("joins", PARTITIONS, 1)])["joins"].result(PATIENCE_S)
        yield broker


def shared(members: list[Member]) -> Counter[str]:
    """Polls until each member owns its share. Returns the number of requests until then."""
    end = time.monotonic() + PATIENCE_S
    while any(len(each.owned) != PARTITIONS // MEMBERS for each in members):
        assert time.monotonic() < end, [sorted(each.owned) for each in members]
        for member in members:
            member.consumer.poll(0.001)
    statistics = time.monotonic() + 0.5
    while time.monotonic() < statistics:
        for member in members:
            member.consumer.poll(0.001)
    return sum((each.requests for each in members), Counter())


@pytest.mark.parametrize("strategy", ["range", "cooperative-sticky"])
def test_classic_members_that_join_together_send_few_requests(
    undelayed: BrokerProcess, strategy: str
) -> None:
    members = [Member(undelayed, "g", partition_assignment_strategy=strategy) for _ in range(MEMBERS)]
    requests = shared(members)
    generations = undelayed.log_path.read_text().count("Stabilized group g generation")
    # One generation. A busy machine may stop the clients for longer than the broker waits, which costs another one.
    assert 1 <= generations <= 3
    # One JoinGroup without a member id, then one per generation.
    assert requests["JoinGroup"] <= MEMBERS * (1 + generations)
    assert requests["SyncGroup"] <= MEMBERS * generations
    for member in members:
        member.consumer.close()


def test_consumer_members_that_join_raise_the_epoch_once_each(undelayed: BrokerProcess) -> None:
    members = [Member(undelayed, "g", group_protocol="consumer") for _ in range(MEMBERS)]
    shared(members)

    async def described() -> GroupDescription | KafkaError:
        async with KcliAdminClient(client_config({}, bootstrap_servers=undelayed.bootstrap)) as admin:
            return (await admin.describe_groups(["g"]))["g"]

    group = asyncio.run(described())
    # Each member that joins raises the epoch once, and the moves of partitions do not raise it.
    assert isinstance(group, GroupDescription)
    assert (group.epoch, group.target_assignment_epoch) == (MEMBERS, MEMBERS)
    for member in members:
        member.consumer.close()
