"""The table of group types: every type has a row, and a group is served by the protocol of its type."""

from __future__ import annotations

from typing import Any

import pytest

from kcli.coordinator.group.classic.group import ClassicGroup
from kcli.coordinator.group.classic.protocol import ClassicProtocol
from kcli.coordinator.group.config import GroupConfig
from kcli.coordinator.group.group_type import GroupType
from kcli.coordinator.group.other.group import OtherGroup
from kcli.coordinator.group.other.missing import MissingGroups
from kcli.coordinator.group.other.protocol import OtherProtocol
from kcli.coordinator.group.protocol import Groups, Protocols
from kcli.coordinator.group.shard import GroupShard
from kcli.coordinator.group.step import GroupTimers
from kcli.errors import ErrorCode
from kcli.protocol.messages.offset_commit import OffsetCommitRequest
from kcli.runtime.rng import SystemRng
from rigs.answers import result_of
from rigs.group_world import GroupWorld


def test_a_group_is_served_by_the_protocol_of_its_type() -> None:
    groups: Groups = {"old": ClassicGroup("old", 0), "shared": OtherGroup("shared", GroupType.SHARE)}
    classic = ClassicProtocol(GroupConfig(), groups, GroupTimers(), SystemRng(1).uuid)
    other, missing = OtherProtocol(groups), MissingGroups(classic)
    table = dict.fromkeys(GroupType, other) | {GroupType.CLASSIC: classic}
    protocols = Protocols(groups, table, missing)
    assert protocols.of("old") is protocols.requests("old") is classic
    assert protocols.of("shared") is protocols.requests("shared") is other
    assert protocols.of("unknown") is None
    assert protocols.requests("unknown") is missing


def test_every_type_of_group_has_a_row() -> None:
    groups: Groups = {}
    other = OtherProtocol(groups)
    classic = ClassicProtocol(GroupConfig(), groups, GroupTimers(), SystemRng(1).uuid)
    with pytest.raises(AssertionError, match="every type"):
        Protocols(groups, {GroupType.SHARE: other}, MissingGroups(classic))


@pytest.mark.parametrize(
    ("generation", "member", "version", "code"),
    [
        (-1, "", 9, ErrorCode.NONE),
        (-1, "m", 8, ErrorCode.NONE),
        (0, "m", 8, ErrorCode.ILLEGAL_GENERATION),
        (0, "m", 9, ErrorCode.GROUP_ID_NOT_FOUND),
    ],
)
def test_offsets_make_a_group_but_a_generation_does_not(
    generation: Any, member: Any, version: Any, code: Any
) -> None:
    classic = ClassicProtocol(GroupConfig(), {}, GroupTimers(), SystemRng(1).uuid)
    request = OffsetCommitRequest(group_id="g", generation_id_or_member_epoch=generation, member_id=member)
    assert MissingGroups(classic).admit_commit(request, version, 0) is code


def test_a_shard_without_groups_refuses_what_needs_one() -> None:
    shard = GroupShard(GroupConfig(), SystemRng(1))
    assert shard.heartbeat("g", "m", None, 1, 0) is ErrorCode.UNKNOWN_MEMBER_ID
    assert list(shard.list_groups()) == []
    assert result_of(shard.describe_consumer_group("g")).error_code is ErrorCode.GROUP_ID_NOT_FOUND


def test_a_description_in_turns_is_the_group_of_its_beginning() -> None:
    world = GroupWorld()
    world.run("topic t 4")
    for member in ("m1", "m2", "m3"):
        world.run(f"hb {member} group=g member={member} epoch=0")
    steps = world.shard.describe_consumer_group("g")
    next(steps)
    world.run("hb left group=g member=m2 epoch=-1")
    group = result_of(steps)
    assert [member.member_id for member in group.members] == ["m1", "m2", "m3"]
    assert group.group_epoch == 3
    assert [each.member_id for each in result_of(world.shard.describe_consumer_group("g")).members] == [
        "m1",
        "m3",
    ]
