"""Real librdkafka members that start together: the time until the group is stable, and the requests until then.

`bench/run.py --only joins` runs it. With `group.initial.rebalance.delay.ms=0` these rounds are expected:

- classic and cooperative-sticky: one generation (two JoinGroups and one SyncGroup for each member). More generations
  would take seconds. A member that is not the leader sends at most one JoinGroup per second, and notices a rebalance
  only by a heartbeat (3 s);
- KIP-848: one heartbeat interval (5 s). The first members get too many partitions, and the other members get their
  partitions at their second heartbeat. If a member sends this heartbeat before the owner has given up the partitions,
  the rounds take two intervals.
"""

from __future__ import annotations

import json
import time
from collections import Counter
from dataclasses import dataclass

from confluent_kafka import Consumer, Producer, TopicPartition

MEMBERS = 20
PARTITIONS_PER_MEMBER = 2
PATIENCE_S = 60.0
# Shorter than the quiet time after the group is stable, so that the last statistics have all requests of the joins.
STATISTICS_MS = 100
SETTLE_S = 0.3
PROTOCOLS = {
    "classic eager": {"partition.assignment.strategy": "range"},
    "cooperative-sticky": {"partition.assignment.strategy": "cooperative-sticky"},
    "KIP-848": {"group.protocol": "consumer"},
}
COUNTED = ("JoinGroup", "SyncGroup", "Heartbeat", "FindCoordinator", "OffsetFetch")
"""librdkafka's statistics do not count ConsumerGroupHeartbeat. OffsetFetch has one request per assignment."""


@dataclass(frozen=True, slots=True)
class Joined:
    seconds: float
    """Until each member has its share, and each partition has been read."""
    rebalances: int
    """How often a member was given partitions. The least is the number of members."""
    requests: Counter[str]


class Member:
    """A consumer, with the partitions that it owns and the number of its requests by API."""

    def __init__(self, bootstrap: str, group: str, topic: str, settings: dict[str, str]) -> None:
        self.owned: set[int] = set()
        self.rebalances = 0
        self.requests: Counter[str] = Counter()
        properties: dict[str, object] = {
            "bootstrap.servers": bootstrap,
            "group.id": group,
            "auto.offset.reset": "earliest",
            "statistics.interval.ms": STATISTICS_MS,
            "stats_cb": self._count,
            **settings,
        }
        self.consumer = Consumer(properties)
        self.consumer.subscribe([topic], on_assign=self._given, on_revoke=self._taken)

    def _given(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.rebalances += bool(partitions)
        self.owned |= {each.partition for each in partitions}

    def _taken(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned -= {each.partition for each in partitions}

    def _count(self, statistics: str) -> None:
        self.requests = Counter()
        for broker in json.loads(statistics)["brokers"].values():
            self.requests.update(broker["req"])


def fill(bootstrap: str, topic: str, partitions: int) -> None:
    """Writes one record to each partition."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(partitions):
        producer.produce(topic, b"x", partition=partition)
    producer.flush()


def joined(bootstrap: str, topic: str, group: str, settings: dict[str, str]) -> Joined:
    """Starts all members, and waits until the group is stable. The topic has two partitions per member."""
    partitions = set(range(MEMBERS * PARTITIONS_PER_MEMBER))
    read: set[int] = set()
    begun = time.perf_counter()
    members = [Member(bootstrap, group, topic, settings) for _ in range(MEMBERS)]
    while read != partitions or any(len(each.owned) != PARTITIONS_PER_MEMBER for each in members):
        if time.perf_counter() > begun + PATIENCE_S:
            raise SystemExit(f"{group}: not stable after {PATIENCE_S:g} s")
        read |= _polled(members)
    seconds = time.perf_counter() - begun
    while time.perf_counter() < begun + seconds + SETTLE_S:
        _polled(members)
    requests: Counter[str] = Counter()
    for member in members:
        requests.update(member.requests)
        member.consumer.close()
    return Joined(seconds, sum(each.rebalances for each in members), requests)


def _polled(members: list[Member]) -> set[int]:
    """Polls each member once. Returns the partitions of the records."""
    messages = [each.consumer.poll(0.001) for each in members]
    return {each.partition() for each in messages if each is not None and each.error() is None}
