"""Descriptions of large groups: a bounded number of members is described in one iteration of the event loop."""

from __future__ import annotations

import asyncio
from collections.abc import Generator
from types import SimpleNamespace
from typing import Any

import pytest

from kcli.coordinator.group.classic.requests import DESCRIBE_CLASSIC_GROUP
from kcli.coordinator.group.consumer.requests import DESCRIBE_CONSUMER_GROUP
from kcli.coordinator.group.requests import Describe
from kcli.protocol.messages import consumer_group_describe, describe_groups
from kcli.runtime.turns import TURN_COST_MAX, Turn
from kcli.security.authorizer import ALLOW_ALL, Asker
from kcli.security.principal import ANONYMOUS
from kcli.server.handlers import consumer_group_describe as consumer_handler
from kcli.server.handlers import describe_groups as classic_handler
from kcli.server.requests.rights import Rights
from rigs.loops import on_a_loop

MEMBERS = 400
GROUPS = tuple(f"g{number}" for number in range(50))


class Shard:
    """A shard whose groups have many members. It counts the members that it has described."""

    def __init__(self) -> None:
        self.described = 0

    def ask(self, question: object, describe: Describe, _now_ms: int) -> Any:
        if question is DESCRIBE_CLASSIC_GROUP:
            return self.describe_group(describe.group_id)
        assert question is DESCRIBE_CONSUMER_GROUP
        return self.describe_consumer_group(describe.group_id)

    def describe_group(self, group_id: str) -> describe_groups.DescribedGroup:
        self.described += MEMBERS
        members = (describe_groups.DescribedGroupMember(member_id="m"),) * MEMBERS
        return describe_groups.DescribedGroup(group_id=group_id, members=members)

    def describe_consumer_group(
        self, group_id: str
    ) -> Generator[None, None, consumer_group_describe.DescribedGroup]:
        for _ in range(MEMBERS):
            self.described += 1
            yield
        members = (consumer_group_describe.Member(member_id="m"),) * MEMBERS
        return consumer_group_describe.DescribedGroup(group_id=group_id, members=members)


CLASSIC = (classic_handler, describe_groups.DescribeGroupsRequest(groups=GROUPS))
CONSUMER = (consumer_handler, consumer_group_describe.ConsumerGroupDescribeRequest(group_ids=GROUPS))


@pytest.mark.parametrize(("handler", "request_of_all"), [CLASSIC, CONSUMER], ids=["classic", "consumer"])
@on_a_loop
async def test_large_groups_are_described_in_turns(handler: Any, request_of_all: Any) -> None:
    shard = Shard()
    runner = SimpleNamespace(ask=lambda question: question(shard, 0))
    shards = SimpleNamespace(runner=lambda _: runner)
    groups = SimpleNamespace(shards=shards, serves_consumer_protocol=True)
    rights = Rights(ALLOW_ALL, Asker(ANONYMOUS, "127.0.0.1", "DescribeGroups"))
    context = SimpleNamespace(ports=SimpleNamespace(groups=groups), api_version=5, rights=rights, pace=Turn())
    answering = asyncio.ensure_future(handler.handle(context, request_of_all))
    most = before = 0
    while not answering.done():
        await asyncio.sleep(0)
        most, before = max(most, shard.described - before), shard.described
    assert [(group.group_id, len(group.members)) for group in answering.result().groups] == [
        (group_id, MEMBERS) for group_id in GROUPS
    ]
    # A turn may begin in the middle of one group and end with another one.
    assert 0 < most <= TURN_COST_MAX // handler.MEMBER_COST + MEMBERS
