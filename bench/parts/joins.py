"""The part `joins`: real librdkafka members that start together.

It measures the time until the group is stable, and counts the requests until then. With
`group.initial.rebalance.delay.ms=0` these rounds are expected:

- classic and cooperative-sticky: one generation (two JoinGroups and one SyncGroup for each member). More generations
  would take seconds. A member that is not the leader sends at most one JoinGroup per second, and notices a rebalance
  only by a heartbeat (3 s);
- KIP-848: one heartbeat interval (5 s). The first members get too many partitions, and the other members get their
  partitions at their second heartbeat. If a member sends this heartbeat before the owner has given up the partitions,
  the rounds take two intervals. This happens if librdkafka starts some members 20 to 50 ms after the others. Kafka 4.1
  had one such round in twelve.

A group is stable when each member has its share. The first record of each partition comes later, because of librdkafka:

- a partition without a committed offset waits 100 ms before librdkafka asks for its first offset;
- librdkafka sends one Fetch at a time to a broker. A partition that becomes ready after this Fetch was sent waits until
  the Fetch ends, up to `fetch.wait.max.ms` (500 ms). This happens to one of the members in one of several rounds.
"""

from __future__ import annotations

import json
import statistics
import threading
import time
from collections import Counter
from dataclasses import dataclass

from confluent_kafka import Consumer, Producer, TopicPartition
from measure import Bench

MEMBERS = 20
PARTITIONS_PER_MEMBER = 2
ROUNDS = 10
"""Rounds of each protocol. A round of KIP-848 takes about 6 s."""
PATIENCE_S = 60.0
# Shorter than the quiet time after the group is stable, so that the last statistics have all requests of the joins.
STATISTICS_MS = 100
SETTLE_S = 0.3
POLL_S = 0.1
LOOK_S = 0.002
PROTOCOLS = {
    "classic eager": {"partition.assignment.strategy": "range"},
    "cooperative-sticky": {"partition.assignment.strategy": "cooperative-sticky"},
    "KIP-848": {"group.protocol": "consumer"},
}
GOAL = "<= Kafka"
COUNTED = ("JoinGroup", "SyncGroup", "Heartbeat", "FindCoordinator", "OffsetFetch")
"""librdkafka's statistics do not count ConsumerGroupHeartbeat. OffsetFetch has one request per assignment."""


@dataclass(frozen=True, slots=True)
class Joined:
    stable_s: float
    """Until each member has its share."""
    read_s: float
    """Until each partition has also been read."""
    rebalances: int
    """How often a member was given partitions. The least is the number of members."""
    requests: Counter[str]


class Member:
    """A consumer with a thread that polls it, as in an application.

    It knows the partitions that it owns, the partitions that it has read, and the number of its requests by API.
    """

    def __init__(self, bootstrap: str, group: str, topic: str, settings: dict[str, str]) -> None:
        self.owned: set[int] = set()
        self.read: set[int] = set()
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
        self._leaves = threading.Event()
        self._thread = threading.Thread(target=self._poll, daemon=True)
        self._thread.start()

    def leave(self) -> None:
        self._leaves.set()
        self._thread.join()
        self.consumer.close()

    def _poll(self) -> None:
        while not self._leaves.is_set():
            message = self.consumer.poll(POLL_S)
            if message is not None and message.error() is None:
                self.read.add(message.partition())

    def _given(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.rebalances += bool(partitions)
        self.owned |= {each.partition for each in partitions}

    def _taken(self, _consumer: Consumer, partitions: list[TopicPartition]) -> None:
        self.owned -= {each.partition for each in partitions}

    def _count(self, statistics: str) -> None:
        self.requests = Counter()
        for broker in json.loads(statistics)["brokers"].values():
            self.requests.update(broker["req"])


def joins(bench: Bench) -> None:
    """Starts 20 members of each protocol, several times.

    The first round also waits for the creation of `__consumer_offsets`.
    """
    partitions = MEMBERS * PARTITIONS_PER_MEMBER
    bootstrap, topic = bench.broker.bootstrap, bench.topic("joins", partitions)
    fill(bootstrap, topic, partitions)
    for protocol, settings in PROTOCOLS.items():
        rounds = [joined(bootstrap, topic, f"joins-{protocol}-{nth}", settings) for nth in range(ROUNDS)]
        name = f"{MEMBERS} members, {protocol}"
        _spread(bench, f"{name}: stable", [each.stable_s for each in rounds], GOAL)
        _spread(bench, f"{name}: read", [each.read_s for each in rounds])
        bench.add(f"{name}: assignments, worst", max(each.rebalances for each in rounds), "")
        for api in COUNTED:
            most = max(each.requests[api] for each in rounds)
            if most:
                bench.add(f"{name}: {api}, worst", most, "requests")


def _spread(bench: Bench, name: str, seconds: list[float], goal: str = "") -> None:
    """Adds the best, the middle and the worst of several times. The goal is for the worst."""
    bench.add(f"{name}, best", min(seconds), "s")
    bench.add(f"{name}, median", statistics.median(seconds), "s")
    bench.add(f"{name}, worst", max(seconds), "s", goal)


def fill(bootstrap: str, topic: str, partitions: int) -> None:
    """Writes one record to each partition."""
    producer = Producer({"bootstrap.servers": bootstrap})
    for partition in range(partitions):
        producer.produce(topic, b"x", partition=partition)
    producer.flush()


def joined(bootstrap: str, topic: str, group: str, settings: dict[str, str]) -> Joined:
    """Starts all members, and waits until the group is stable and read. The topic has two partitions per member."""
    partitions = set(range(MEMBERS * PARTITIONS_PER_MEMBER))
    stable_s: float | None = None
    begun = time.perf_counter()
    members = [Member(bootstrap, group, topic, settings) for _ in range(MEMBERS)]
    while stable_s is None or set().union(*(each.read for each in members)) != partitions:
        time.sleep(LOOK_S)
        elapsed_s = time.perf_counter() - begun
        if elapsed_s > PATIENCE_S:
            raise SystemExit(f"{group}: not stable and read after {PATIENCE_S:g} s")
        if any(len(each.owned) != PARTITIONS_PER_MEMBER for each in members):
            stable_s = None
        elif stable_s is None:
            stable_s = elapsed_s
    time.sleep(SETTLE_S)
    requests: Counter[str] = Counter()
    for member in members:
        requests.update(member.requests)
        member.leave()
    return Joined(stable_s, elapsed_s, sum(each.rebalances for each in members), requests)
