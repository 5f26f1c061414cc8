"""Short forms of calls to a `GroupShard`."""

from __future__ import annotations

from typing import Any

from kcli.coordinator.group.classic.requests import (
    DESCRIBE_CLASSIC_GROUP,
    HEARTBEAT,
    JOIN_GROUP,
    LEAVE_GROUP,
    SYNC_GROUP,
)
from kcli.coordinator.group.consumer.requests import CONSUMER_HEARTBEAT, DESCRIBE_CONSUMER_GROUP
from kcli.coordinator.group.requests import Call, Caller, Describe
from kcli.coordinator.group.shard import GroupShard
from kcli.errors import ErrorCode
from kcli.protocol.messages import consumer_group_describe as cgd
from kcli.protocol.messages.describe_groups import DescribedGroup
from kcli.protocol.messages.heartbeat import HeartbeatRequest
from rigs.answers import result_of

LEAVE_VERSION = 5


def caller(api_version: int, client_id: str = "c") -> Caller:
    return Caller(api_version=api_version, client_id=client_id, client_host="/10.0.0.1")


def join_group(shard: GroupShard, request: Any, client: Caller, token: Any, now_ms: int) -> Any:
    return shard.serve(JOIN_GROUP, Call(request, client, token), now_ms)


def sync(shard: GroupShard, request: Any, token: Any, now_ms: int) -> Any:
    return shard.serve(SYNC_GROUP, Call(request, caller(5), token), now_ms)


def leave(shard: GroupShard, request: Any, version: int, token: Any, now_ms: int) -> Any:
    return shard.serve(LEAVE_GROUP, Call(request, caller(version), token), now_ms)


def consumer_beat(shard: GroupShard, request: Any, client: Caller, token: Any, now_ms: int) -> Any:
    return shard.serve(CONSUMER_HEARTBEAT, Call(request, client, token), now_ms)


def beat(
    shard: GroupShard, group: str, member: str, instance: str | None, generation: int, now_ms: int
) -> ErrorCode:
    request = HeartbeatRequest(
        group_id=group, member_id=member, group_instance_id=instance, generation_id=generation
    )
    return shard.ask(HEARTBEAT, request, now_ms)


def describe(shard: GroupShard, group: str, version: int = 6) -> DescribedGroup:
    return shard.ask(DESCRIBE_CLASSIC_GROUP, Describe(group, version), 0)


def describing_consumers(shard: GroupShard, group: str) -> Any:
    """The description of a consumer group in steps."""
    return shard.ask(DESCRIBE_CONSUMER_GROUP, Describe(group, 1), 0)


def describe_consumers(shard: GroupShard, group: str) -> cgd.DescribedGroup:
    described: cgd.DescribedGroup = result_of(describing_consumers(shard, group))
    return described
