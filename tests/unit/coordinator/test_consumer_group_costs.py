"""The work of one decision about a group that reads many partitions. The loop serves no other client meanwhile, so the
decision must make few Python calls for each partition."""

from __future__ import annotations

import sys
import uuid
from collections.abc import Callable, Iterable
from functools import partial
from types import FrameType

import pytest

from kcli.coordinator.group.config import GroupConfig
from kcli.coordinator.group.records import encode
from kcli.coordinator.group.requests import Caller
from kcli.coordinator.group.shard import GroupShard
from kcli.coordinator.group.topics import Topic
from kcli.protocol.messages.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest
from kcli.runtime.rng import SystemRng
from rigs.group_calls import consumer_beat

TOPICS, PARTITIONS, MEMBERS = 3, 2_000, 12
CALLS_PER_PARTITION_MAX = 10


class Topics:
    version = 5

    def __init__(self) -> None:
        names = [f"t{number}" for number in range(TOPICS)]
        self._topics = {
            name: Topic(name, uuid.UUID(int=number), [()] * PARTITIONS)
            for number, name in enumerate(names, 100)
        }

    def topic(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def topic_by_id(self, topic_id: uuid.UUID) -> Topic | None:
        return next((each for each in self._topics.values() if each.topic_id == topic_id), None)

    def names(self) -> tuple[str, ...]:
        return tuple(self._topics)

    def existing(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if name in self._topics]


def calls_of(work: Callable[[], object]) -> int:
    calls = 0

    def count(_frame: FrameType, event: str, _argument: object) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return calls


@pytest.mark.parametrize("assignor", ["uniform", "range"])
@pytest.mark.parametrize("is_homogeneous", [True, False])
def test_a_join_makes_few_calls_for_each_partition(assignor: str, is_homogeneous: bool) -> None:
    shard = GroupShard(GroupConfig(), SystemRng(1))
    shard.topics_changed(Topics(), (), has_new=True)
    shard.start(0)

    def join(number: int) -> None:
        names = tuple(
            f"t{each}" for each in range(TOPICS) if is_homogeneous or (number + each) % 3 or number % 2
        )
        request = ConsumerGroupHeartbeatRequest(
            group_id="g",
            member_id=f"member-{number}",
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            subscribed_topic_names=names,
            topic_partitions=(),
            server_assignor=assignor,
        )
        caller = Caller(api_version=1, client_id="c", client_host="/h")
        ready = consumer_beat(shard, request, caller, "token", number)
        for offset, record in enumerate(ready.records):
            encode(record)
            shard.replay(record, offset)

    costs = [calls_of(partial(join, number)) for number in range(MEMBERS)]
    assert max(costs) < CALLS_PER_PARTITION_MAX * TOPICS * PARTITIONS, costs
