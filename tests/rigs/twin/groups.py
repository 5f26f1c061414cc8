"""Groups and their offsets."""
# ruff: noqa: E501  (a table reads best with one case to a line)

from __future__ import annotations

from kcli.protocol.wire.api import ApiKey
from rigs.twin.case import Case, Data, Since

_PROTOCOLS: list[Data] = [{"name": "range", "metadata": b"\0\0"}]


def _join(**about: Data) -> dict[str, Data]:
    return {
        "group_id": "twin-g",
        "session_timeout_ms": 30_000,
        "rebalance_timeout_ms": 30_000,
        "protocol_type": "consumer",
        "protocols": _PROTOCOLS,
        **about,
    }


_MISSING: dict[str, Data | Since] = {
    "generation_id": -1,
    "protocol_name": Since({0: "", 7: None}),
    "protocol_type": None,
    "leader": "",
    "members": (),
}

_CLASSIC = (
    Case("of a group", ApiKey.FIND_COORDINATOR, {"key": "twin-g"}, {"error_code": 0}, until=3),
    Case(
        "of groups",
        ApiKey.FIND_COORDINATOR,
        {"coordinator_keys": ["twin-g", "twin-h"]},
        {"coordinators.error_code": (0, 0), "coordinators.key": ("twin-g", "twin-h")},
        since=4,
    ),
    Case("of a key of no kind", ApiKey.FIND_COORDINATOR, {"key": "x", "key_type": 9}, {"error_code": 42}, since=1, until=3),
    Case("no group", ApiKey.JOIN_GROUP, _join(group_id=""), {"error_code": 24} | _MISSING),
    Case("a short session", ApiKey.JOIN_GROUP, _join(session_timeout_ms=1), {"error_code": 26} | _MISSING),
    Case("no protocol", ApiKey.JOIN_GROUP, _join(protocols=[]), {"error_code": 23} | _MISSING),
    Case("an unknown member", ApiKey.JOIN_GROUP, _join(member_id="nobody"), {"error_code": 25} | _MISSING),
    Case("a member without an id", ApiKey.JOIN_GROUP, _join(group_id="twin-g{v}"), {"error_code": 79} | _MISSING, since=4),
    Case(
        "the member with its id",
        ApiKey.JOIN_GROUP,
        _join(group_id="twin-g9", member_id="{member}"),
        {"error_code": 0, "generation_id": 1, "protocol_name": "range", "leader": "{member}", "members.member_id": "{member}"},
        since=9,
    ),
    Case(
        "a wrong generation",
        ApiKey.SYNC_GROUP,
        {"group_id": "twin-g9", "generation_id": 7, "member_id": "{member}", "protocol_type": "consumer", "protocol_name": "range"},
        {"error_code": 22},
    ),
    Case(
        "an assignment",
        ApiKey.SYNC_GROUP,
        {
            "group_id": "twin-g9", "generation_id": 1, "member_id": "{member}",
            "protocol_type": "consumer", "protocol_name": "range",
            "assignments": [{"member_id": "{member}", "assignment": b"mine"}],
        },
        {"error_code": 0, "assignment": b"mine", "protocol_name": Since({0: None, 5: "range"})},
    ),
    Case("of no protocol", ApiKey.SYNC_GROUP, {"group_id": "twin-g9", "generation_id": 1, "member_id": "{member}"},
         {"error_code": 23, "protocol_name": None, "assignment": b""}, since=5),
    Case("an unknown group", ApiKey.SYNC_GROUP, {"group_id": "twin-none", "member_id": "x", "protocol_type": "consumer", "protocol_name": "range"}, {"error_code": 25}),
    Case("the member", ApiKey.HEARTBEAT, {"group_id": "twin-g9", "generation_id": 1, "member_id": "{member}"}, {"error_code": 0}),
    Case("a wrong generation", ApiKey.HEARTBEAT, {"group_id": "twin-g9", "generation_id": 2, "member_id": "{member}"}, {"error_code": 22}),
    Case("an unknown member", ApiKey.HEARTBEAT, {"group_id": "twin-g9", "generation_id": 1, "member_id": "x"}, {"error_code": 25}),
    Case("a group with a member", ApiKey.DESCRIBE_GROUPS, {"groups": ["twin-g9"]},
         {"groups.error_code": 0, "groups.group_state": "Stable", "groups.members.member_assignment": b"mine"}),
    Case("an unknown group", ApiKey.DESCRIBE_GROUPS, {"groups": ["twin-none"]},
         {"groups.error_code": Since({0: 0, 6: 69}), "groups.group_state": "Dead"}),
    Case("all groups", ApiKey.LIST_GROUPS, {}, {"error_code": 0}),
    Case("groups in a state", ApiKey.LIST_GROUPS, {"states_filter": ["Stable"]}, {"groups.group_id": "twin-g9"}, since=4),
    Case("groups of no type", ApiKey.LIST_GROUPS, {"types_filter": ["cat"]}, {"groups": ()}, since=5),
    Case("a group with a member, an unknown one", ApiKey.DELETE_GROUPS, {"groups_names": ["twin-g9", "twin-none"]},
         {"results.error_code": (68, 69)}),
)  # fmt: skip


def _commit(**about: Data) -> dict[str, Data]:
    return {
        "group_id": "twin-o",
        "topics": [
            {
                "name": "twin-a",
                "partitions": [{"partition_index": number, "committed_offset": 5} for number in (0, 9)],
            },
            {"name": "twin-nope", "partitions": [{"partition_index": 0, "committed_offset": 5}]},
        ],
        **about,
    }


_CODES = "topics.partitions.error_code"
_ASKED: list[Data] = [{"name": "twin-a", "partition_indexes": [0, 1]}]

_OFFSETS = (
    Case("offsets of no member; missing partitions", ApiKey.OFFSET_COMMIT, _commit(), {_CODES: (0, 3, 3)}),
    Case("no topic", ApiKey.OFFSET_COMMIT, {"group_id": "twin-none"}, {"topics": ()}),
    Case(
        "an unknown member",
        ApiKey.OFFSET_COMMIT,
        _commit(group_id="twin-g9", member_id="x", generation_id_or_member_epoch=1),
        {_CODES: (25, 3, 3)},
    ),
    Case(
        "a generation of an unknown group",
        ApiKey.OFFSET_COMMIT,
        _commit(group_id="twin-none", member_id="x", generation_id_or_member_epoch=1),
        {_CODES: Since({2: (22, 3, 3), 9: (69, 3, 3)})},
    ),
    Case(
        "the offsets",
        ApiKey.OFFSET_FETCH,
        {"group_id": "twin-o", "topics": _ASKED},
        {"error_code": 0, "topics.partitions.committed_offset": (5, -1), _CODES: (0, 0)},
        until=7,
    ),
    Case("all offsets", ApiKey.OFFSET_FETCH, {"group_id": "twin-o", "topics": None},
         {"topics.partitions.committed_offset": 5}, since=2, until=7),
    Case(
        "the offsets of groups",
        ApiKey.OFFSET_FETCH,
        {"groups": [{"group_id": "twin-o", "topics": _ASKED}, {"group_id": "twin-none", "topics": None}]},
        {"groups.error_code": (0, 0), "groups.topics.partitions.committed_offset": (5, -1)},
        since=8,
    ),
    Case(
        "offsets to delete: one, a missing partition",
        ApiKey.OFFSET_DELETE,
        {"group_id": "twin-o", "topics": [{"name": "twin-a", "partitions": [{"partition_index": number} for number in (1, 9)]}]},
        {"error_code": 0, _CODES: (0, 3)},
    ),
    Case("an unknown group", ApiKey.OFFSET_DELETE, {"group_id": "twin-none"}, {"error_code": 69}),
    Case("the member", ApiKey.LEAVE_GROUP, {"group_id": "twin-g9", "member_id": "{member}"}, {"error_code": 0}, until=0),
    Case("the member again", ApiKey.LEAVE_GROUP, {"group_id": "twin-g9", "member_id": "{member}"}, {"error_code": 25}, until=2),
    Case("members", ApiKey.LEAVE_GROUP, {"group_id": "twin-g9", "members": [{"member_id": "x"}]},
         {"error_code": 0, "members.error_code": 25}, since=3),
    Case("an unknown group", ApiKey.LEAVE_GROUP, {"group_id": "twin-none", "members": [{"member_id": "x"}]},
         {"error_code": 0, "members.error_code": 25}, since=3),
    Case("a group without members", ApiKey.DELETE_GROUPS, {"groups_names": ["twin-o"]}, {"results.error_code": 0}, until=0),
)  # fmt: skip


def _beat(**about: Data) -> dict[str, Data]:
    return {
        "group_id": "twin-c",
        "member_id": "AAAAAAAAAAAAAAAAAAAAAA",
        "member_epoch": 0,
        "rebalance_timeout_ms": 30_000,
        "subscribed_topic_names": ["twin-a"],
        "topic_partitions": [],
        **about,
    }


_CONSUMER = (
    Case("no group", ApiKey.CONSUMER_GROUP_HEARTBEAT, _beat(group_id=""), {"error_code": 42}),
    Case("an unknown member", ApiKey.CONSUMER_GROUP_HEARTBEAT, _beat(member_epoch=5)),
    Case("no topics", ApiKey.CONSUMER_GROUP_HEARTBEAT, _beat(subscribed_topic_names=None), {"error_code": 42}),
    Case("no assignor", ApiKey.CONSUMER_GROUP_HEARTBEAT, _beat(server_assignor="cat"), {"error_code": 112}),
    Case("a member", ApiKey.CONSUMER_GROUP_HEARTBEAT, _beat(), {"error_code": 0, "error_message": None}, since=1),
    Case("an epoch ahead", ApiKey.CONSUMER_GROUP_HEARTBEAT, _beat(member_epoch=50), {"error_code": 110}, since=1),
    Case("two groups", ApiKey.CONSUMER_GROUP_DESCRIBE, {"group_ids": ["twin-c", "twin-none"]}, {"groups.error_code": (0, 69)}),
    Case("the member leaves", ApiKey.CONSUMER_GROUP_HEARTBEAT, _beat(member_epoch=-1), {"error_code": 0}, since=1),
)  # fmt: skip

GROUPS = (*_CLASSIC, *_OFFSETS, *_CONSUMER)
