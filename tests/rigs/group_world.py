"""A world of one group shard, for the scenarios of classic and of consumer groups.

Bytes are written as text, a subscription of the consumer protocol as `@topic+topic`, the n-th id the shard makes as
`prefix-#n`. Assignments are `topic:0,1;other:2`, or `none`. Commands beside those of every world (stories.py):

    join TOKEN group=g [member= instance= session= rebalance= type= protocols=name:meta,… owned= v= client=]
    sync TOKEN group=g member= gen= [instance= type= name= assign=member:bytes,…]
    beat group=g member= gen= [instance=]
    leave TOKEN group=g members=m,/instance,… [v=]
    hb TOKEN group=g member= epoch= [topics=t+u regex= owned= instance= rack= rebalance= assignor= v= client=]
    commit TOKEN group=g [member= gen= instance= v= retention= meta=] topic-partition=offset …
    txn-commit TOKEN producer=n group=g [member= gen= instance=] topic-partition=offset …   TxnOffsetCommit
    fetch group=g [member= epoch= stable=yes] [topic-partition …]
    delete-offsets TOKEN group=g topic-partition …
    delete TOKEN group …                     DeleteGroups
    topic name partitions [rack,rack …]      a topic is made or grows; with the rack of each partition's replica
    drop topic                               the topic is deleted
    resolved group=g [failed=yes]            the regular expressions that were sent out have been matched
    times session=ms heartbeat=ms            the configs of all groups (GROUP entity)
    list | describe group=g [v=]             ListGroups, DescribeGroups
    members group=g                          ConsumerGroupDescribe
    txn producer=n group=g topic-partition=offset …   a transactional commit appears in the log
    end producer=n commit=yes|no             and its marker
    shrink n                                 restart with group.max.size=n
    resign
"""

from __future__ import annotations

import dataclasses
import uuid
from collections.abc import Iterable, Iterator

from kcli.coordinator.group.classic.records import GroupRecord
from kcli.coordinator.group.config import ConsumerTimes, GroupConfig, MigrationPolicy
from kcli.coordinator.group.consumer.requests import REGEXES_RESOLVED
from kcli.coordinator.group.consumer.state.record import ConsumerRecord
from kcli.coordinator.group.consumer.targets.regexes import RegexesResolved, ResolveRegexes, matching
from kcli.coordinator.group.records import LogRecord, OffsetRecord, encode
from kcli.coordinator.group.requests import Caller
from kcli.coordinator.group.shard import GroupShard
from kcli.coordinator.group.topics import Topic
from kcli.coordinator.group.types import decode
from kcli.coordinator.runtime import Producer
from kcli.errors import CorruptRecordError, ErrorCode
from kcli.protocol.messages.consumer_group_heartbeat import (
    ConsumerGroupHeartbeatRequest,
    ConsumerGroupHeartbeatResponse,
    RequestTopicPartitions,
)
from kcli.protocol.messages.delete_groups import DeleteGroupsRequest
from kcli.protocol.messages.join_group import JoinGroupRequest, JoinGroupRequestProtocol
from kcli.protocol.messages.leave_group import LeaveGroupRequest, MemberIdentity
from kcli.protocol.messages.offset_commit import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)
from kcli.protocol.messages.offset_delete import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
)
from kcli.protocol.messages.sync_group import SyncGroupRequest, SyncGroupRequestAssignment
from kcli.protocol.records import consumer_offsets as co
from kcli.protocol.records.consumer_offsets import OffsetCommitValue
from kcli.protocol.records.consumer_protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    TopicPartitions,
    decode_assignment,
    encode_assignment,
    encode_subscription,
    subscribed_topics,
)
from rigs.group_calls import beat, consumer_beat, describe, describe_consumers, join_group, leave, sync
from rigs.scenarios import CountingUuids, World, pairs, partition, show, show_text
from rigs.steps import last_of

_NEWEST = {"join": 9, "leave": 5, "commit": 9, "describe": 6, "hb": 1}
_FIRST_TOPIC_ID = 1 << 64
"""Far from the ids that the shard makes."""


class TopicTable:
    """The topics of the world; every change makes a new version."""

    def __init__(self) -> None:
        self.version = 0
        self.by_name: dict[str, Topic] = {}
        self.named: dict[uuid.UUID, str] = {}
        """Also those that are gone."""

    def topic(self, name: str) -> Topic | None:
        return self.by_name.get(name)

    def topic_by_id(self, topic_id: uuid.UUID) -> Topic | None:
        topic = self.by_name.get(self.named.get(topic_id, ""))
        return topic if topic is not None and topic.topic_id == topic_id else None

    def names(self) -> tuple[str, ...]:
        return tuple(sorted(self.by_name))

    def existing(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if self.topic(name) is not None]

    def put(self, name: str, racks: list[tuple[str, ...]]) -> bool:
        """Whether it is new."""
        known = self.by_name.get(name)
        topic_id = uuid.UUID(int=_FIRST_TOPIC_ID + len(self.named)) if known is None else known.topic_id
        self.by_name[name] = Topic(name, topic_id, racks)
        self.named[topic_id] = name
        self.version += 1
        return known is None

    def drop(self, name: str) -> None:
        self.by_name.pop(name, None)
        self.version += 1


class GroupWorld(World):
    encode = staticmethod(encode)
    decode = staticmethod(decode)

    def __init__(self) -> None:
        self._uuids = CountingUuids()
        self._times = ConsumerTimes()
        self._asked: dict[str, ResolveRegexes] = {}
        self.topics = TopicTable()
        super().__init__(GroupConfig(initial_rebalance_delay_ms=0))

    def load(self) -> GroupShard:
        config = self.config
        if isinstance(config.migration_policy, str):
            config = dataclasses.replace(config, migration_policy=MigrationPolicy(config.migration_policy))
        if isinstance(config.consumer_assignors, str):
            assignors = tuple(config.consumer_assignors.split(","))
            config = dataclasses.replace(config, consumer_assignors=assignors)
        shard = GroupShard(config, self._uuids, lambda _: self._times)
        shard.topics_changed(self.topics, (), has_new=False)
        return shard

    # Commands

    def _do_join(self, words: list[str]) -> None:
        token, given = words[0], pairs(words[1:])
        request = JoinGroupRequest(
            group_id=given["group"],
            session_timeout_ms=int(given.get("session", "10000")),
            rebalance_timeout_ms=int(given.get("rebalance", "60000")),
            member_id=given.get("member", ""),
            group_instance_id=given.get("instance"),
            protocol_type=given.get("type", "consumer"),
            protocols=tuple(
                JoinGroupRequestProtocol(name=name, metadata=_to_bytes(metadata, given.get("owned", "none")))
                for name, metadata in _colons(given.get("protocols", "range:@t"))
            ),
        )
        caller = Caller(
            api_version=int(given.get("v", _NEWEST["join"])),
            client_id=given.get("client", "c"),
            client_host="/10.0.0.1",
        )
        self.take(join_group(self.shard, request, caller, token, self.now_ms))

    def _do_sync(self, words: list[str]) -> None:
        token, given = words[0], pairs(words[1:])
        request = SyncGroupRequest(
            group_id=given["group"],
            generation_id=int(given["gen"]),
            member_id=given["member"],
            group_instance_id=given.get("instance"),
            protocol_type=given.get("type"),
            protocol_name=given.get("name"),
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=member, assignment=_assignment_bytes(assignment))
                for member, assignment in _colons(given.get("assign", ""))
            ),
        )
        self.take(sync(self.shard, request, token, self.now_ms))

    def _do_beat(self, words: list[str]) -> None:
        given = pairs(words)
        code = beat(
            self.shard, given["group"], given["member"], given.get("instance"), int(given["gen"]), self.now_ms
        )
        self.out.append(code.name)

    def _do_leave(self, words: list[str]) -> None:
        token, given = words[0], pairs(words[1:])
        version = int(given.get("v", _NEWEST["leave"]))
        names = given["members"].split(",")
        if version < 3:
            request = LeaveGroupRequest(group_id=given["group"], member_id=names[0])
        else:
            members = []
            for name in names:
                member, _, instance = name.partition("/")
                members.append(MemberIdentity(member_id=member, group_instance_id=instance or None))
            request = LeaveGroupRequest(group_id=given["group"], members=tuple(members))
        self.take(leave(self.shard, request, version, token, self.now_ms))

    def _do_commit(self, words: list[str]) -> None:
        token, given = words[0], pairs(words[1:])
        version = int(given.get("v", _NEWEST["commit"]))
        self.take(self.shard.commit_offsets(self._commit_request(given), version, token, self.now_ms))

    def _do_txn_commit(self, words: list[str]) -> None:
        token, given = words[0], pairs(words[1:])
        producer = Producer(int(given["producer"]), 0)
        request = self._commit_request(given)
        self.take(self.shard.commit_offsets_in_transaction(request, producer, token, self.now_ms))

    def _commit_request(self, given: dict[str, str]) -> OffsetCommitRequest:
        offsets = _offsets(given)
        return OffsetCommitRequest(
            group_id=given["group"],
            generation_id_or_member_epoch=int(given.get("gen", "-1")),
            member_id=given.get("member", ""),
            group_instance_id=given.get("instance"),
            retention_time_ms=int(given.get("retention", "-1")),
            topics=tuple(
                OffsetCommitRequestTopic(
                    name=topic,
                    partitions=(
                        OffsetCommitRequestPartition(
                            partition_index=number,
                            committed_offset=offset,
                            committed_metadata=given.get("meta", ""),
                        ),
                    ),
                )
                for (topic, number), offset in offsets.items()
            ),
        )

    def _do_fetch(self, words: list[str]) -> None:
        given = pairs(words)
        wanted = [partition(word) for word in words if "=" not in word]
        topics = tuple((topic, (number,)) for topic, number in wanted) if wanted else None
        found = self.shard.fetch_offsets(
            given["group"],
            topics,
            member_id=given.get("member"),
            member_epoch=int(given.get("epoch", "-1")),
            require_stable="stable" in given,
        )
        if found.error_code is not ErrorCode.NONE:
            self.out.append(found.error_code.name)
        for topic in found.topics:
            for each in topic.partitions:
                error = "" if each.error_code is ErrorCode.NONE else f" {each.error_code.name}"
                self.out.append(
                    f"{topic.name}-{each.partition_index}={each.committed_offset} {each.metadata or ''}".rstrip()
                    + error
                )

    def _do_delete_offsets(self, words: list[str]) -> None:
        token, given = words[0], pairs(words[1:])
        partitions = [partition(word) for word in words[1:] if "=" not in word]
        request = OffsetDeleteRequest(
            group_id=given["group"],
            topics=tuple(
                OffsetDeleteRequestTopic(
                    name=topic, partitions=(OffsetDeleteRequestPartition(partition_index=number),)
                )
                for topic, number in partitions
            ),
        )
        self.take(self.shard.delete_offsets(request, token, self.now_ms))

    def _do_delete(self, words: list[str]) -> None:
        request = DeleteGroupsRequest(groups_names=tuple(words[1:]))
        self.take(self.shard.delete_groups(request, words[0], self.now_ms))

    def _do_list(self, _words: list[str]) -> None:
        self.out.extend(show(group) for group in self.shard.list_groups())

    def _do_describe(self, words: list[str]) -> None:
        given = pairs(words)
        version = int(given.get("v", _NEWEST["describe"]))
        described = describe(self.shard, given["group"], version)
        self.out.append(show(dataclasses.replace(described, members=()), _text))
        self.out.extend(f"  {show(member, _text)}" for member in described.members)

    def _do_txn(self, words: list[str]) -> None:
        given = pairs(words)
        for (topic, number), offset in _offsets(given).items():
            value = OffsetCommitValue(offset=offset, commit_timestamp=self.now_ms)
            self.write(OffsetRecord(given["group"], topic, number, value), int(given["producer"]))

    def _do_end(self, words: list[str]) -> None:
        given = pairs(words)
        self.end_transaction(int(given["producer"]), given["commit"])

    def _do_resign(self, _words: list[str]) -> None:
        self.take(self.shard.resign(self.now_ms))

    def _do_shrink(self, words: list[str]) -> None:
        self.config = dataclasses.replace(self.config, max_size=int(words[0]))
        self._do_restart([])

    # Consumer groups

    def _do_hb(self, words: list[str]) -> None:
        token, given = words[0], pairs(words[1:])
        epoch = int(given["epoch"])
        joins = epoch == 0
        topics = given.get("topics", "t" if joins and "regex" not in given else None)
        owned = given.get("owned", "none" if joins else "unsaid")
        request = ConsumerGroupHeartbeatRequest(
            group_id=given["group"],
            member_id=given.get("member", ""),
            member_epoch=epoch,
            instance_id=given.get("instance"),
            rack_id=given.get("rack"),
            rebalance_timeout_ms=int(given.get("rebalance", "60000" if joins else "-1")),
            subscribed_topic_names=None if topics is None else tuple(filter(None, topics.split("+"))),
            subscribed_topic_regex=given.get("regex"),
            server_assignor=given.get("assignor"),
            topic_partitions=None if owned == "unsaid" else tuple(self._owned(owned)),
        )
        caller = Caller(
            api_version=int(given.get("v", _NEWEST["hb"])),
            client_id=given.get("client", "c"),
            client_host="/10.0.0.1",
        )
        self.take(consumer_beat(self.shard, request, caller, token, self.now_ms))

    def _owned(self, text: str) -> Iterator[RequestTopicPartitions]:
        ids = {name: topic_id for topic_id, name in self.topics.named.items()}
        for name, partitions in _assigned(text):
            yield RequestTopicPartitions(topic_id=ids[name], partitions=partitions)

    def _do_topic(self, words: list[str]) -> None:
        name, count, *racks = words
        each = [tuple(rack.split(",")) for rack in racks]
        is_new = self.topics.put(name, each or [()] * int(count))
        self.shard.topics_changed(self.topics, (name,), has_new=is_new)

    def _do_drop(self, words: list[str]) -> None:
        self.topics.drop(words[0])
        self.shard.topics_changed(self.topics, (words[0],), has_new=False)
        self.take(self.shard.delete_topics(words[:1], self.now_ms))

    def _do_resolved(self, words: list[str]) -> None:
        given = pairs(words)
        asked = self._asked.pop(given["group"])
        found = None if "failed" in given else last_of(matching(asked.regexes, asked.topics.names()))
        resolved = RegexesResolved(asked.group_id, found, self.topics.version)
        self.take(self.shard.serve(REGEXES_RESOLVED, resolved, self.now_ms))

    def _do_times(self, words: list[str]) -> None:
        given = pairs(words)
        self._times = ConsumerTimes(
            session_timeout_ms=int(given["session"]), heartbeat_interval_ms=int(given["heartbeat"])
        )

    def _do_members(self, words: list[str]) -> None:
        group = describe_consumers(self.shard, pairs(words)["group"])
        if group.error_code is not ErrorCode.NONE:
            self.out.append(f"{group.error_code.name}: {group.error_message}")
            return
        self.out.append(
            f"{group.group_state} epoch {group.group_epoch} assigned {group.assignment_epoch} by {group.assignor_name}"
        )
        for member in group.members:
            instance = "" if member.instance_id is None else f" instance {member.instance_id}"
            has = _listed((each.topic_name, each.partitions) for each in member.assignment.topic_partitions)
            wants = _listed(
                (each.topic_name, each.partitions) for each in member.target_assignment.topic_partitions
            )
            kind = "classic " if member.member_type == 0 else ""
            self.out.append(
                f"{kind}{member.member_id}{instance} epoch {member.member_epoch}: has {has}, target {wants}"
            )

    # How things are shown

    def show_send(self, send: object) -> str:
        assert isinstance(send, ResolveRegexes)
        self._asked[send.group_id] = send
        return f"resolve {send.group_id}: {' '.join(send.regexes)}"

    def show_reply(self, response: object) -> str:
        if not isinstance(response, ConsumerGroupHeartbeatResponse):
            return show(response, _text)
        said = f"{response.member_id} epoch {response.member_epoch}"
        if response.heartbeat_interval_ms not in (0, ConsumerTimes().heartbeat_interval_ms):
            said += f" every {response.heartbeat_interval_ms}"
        if response.assignment is not None:
            said += f" has {self._ids(response.assignment.topic_partitions)}"
        return said

    def _ids(self, listed: Iterable[object]) -> str:
        return _listed(
            (self.topics.named.get(each.topic_id, str(each.topic_id)), each.partitions)  # type: ignore[attr-defined]
            for each in listed
        )

    def show_record(self, record: LogRecord) -> str:
        match record:
            case OffsetRecord(group_id, topic, number, committed):
                return f"offset {group_id} {topic}-{number}: {'deleted' if committed is None else show(committed)}"
            case GroupRecord(group_id, metadata):
                return f"group {group_id}: {'deleted' if metadata is None else show(metadata, _text)}"
            case ConsumerRecord():
                return f"{record.group_id} {self._show_consumer(record)}"
            case _:
                return f"other {record}"

    def _show_consumer(self, record: ConsumerRecord) -> str:
        key, value = record.key, record.value
        name = {
            co.ConsumerGroupMetadataKey: "epoch",
            co.ConsumerGroupPartitionMetadataKey: "partition metadata",
            co.ConsumerGroupMemberMetadataKey: "member",
            co.ConsumerGroupTargetAssignmentMetadataKey: "assignment epoch",
            co.ConsumerGroupTargetAssignmentMemberKey: "target",
            co.ConsumerGroupCurrentMemberAssignmentKey: "current",
            co.ConsumerGroupRegularExpressionKey: "regex",
        }[type(key)]
        who = getattr(key, "member_id", getattr(key, "regular_expression", ""))
        return f"{name}{' ' if who else ''}{who}: {'deleted' if value is None else self._show_value(value)}"

    def _show_value(self, value: object) -> str:
        match value:
            case co.ConsumerGroupMetadataValue():
                return f"{value.epoch}{'' if value.metadata_hash else ' of no topics'}"
            case co.ConsumerGroupTargetAssignmentMetadataValue():
                return str(value.assignment_epoch)
            case co.ConsumerGroupTargetAssignmentMemberValue():
                return self._ids(value.topic_partitions)
            case co.ConsumerGroupRegularExpressionValue():
                return f"{' '.join(value.topics) or 'nothing'}"
            case co.ConsumerGroupCurrentMemberAssignmentValue():
                state = {0: "stable", 1: "unrevoked", 2: "unreleased"}.get(value.state, "unknown")
                said = f"epoch {value.previous_member_epoch}->{value.member_epoch} {state} has "
                said += self._ids(value.assigned_partitions)
                if value.partitions_pending_revocation:
                    said += f" revokes {self._ids(value.partitions_pending_revocation)}"
                return said
            case co.ConsumerGroupMemberMetadataValue():
                hidden = dataclasses.replace(
                    value, client_host="", subscribed_topic_regex=value.subscribed_topic_regex
                )
                shown = [
                    f"{field.name}={_text(getattr(hidden, field.name))}"
                    for field in dataclasses.fields(hidden)
                    if getattr(hidden, field.name) not in (None, "", ())
                ]
                return " ".join(shown)
            case _:
                return show(value)


def _text(value: object) -> str:
    if isinstance(value, bytes):
        return _bytes_text(value)
    if isinstance(value, tuple):
        return f"[{', '.join(show(item, _text) for item in value)}]"
    return show(value, _text) if dataclasses.is_dataclass(value) else show_text(value)


def _bytes_text(value: bytes) -> str:
    try:
        assigned, version = decode_assignment(value)
        if value == encode_assignment(assigned, version):
            return _listed((each.topic, each.partitions) for each in assigned.assigned_partitions)
    except CorruptRecordError:
        pass
    try:
        return f"@{'+'.join(subscribed_topics(value))}"
    except CorruptRecordError:
        return value.decode() or "nothing"


def _listed(assigned: Iterable[tuple[str, Iterable[int]]]) -> str:
    return ";".join(f"{name}:{','.join(map(str, partitions))}" for name, partitions in assigned) or "none"


def _assigned(text: str) -> Iterator[tuple[str, tuple[int, ...]]]:
    for item in text.split(";") if text != "none" else ():
        name, _, partitions = item.partition(":")
        yield name, tuple(map(int, partitions.split(",")))


def _to_bytes(text: str, owned: str = "none") -> bytes:
    """`@a+b` is a subscription to a and b; anything else stands for itself."""
    if not text.startswith("@"):
        return text.encode()
    subscription = ConsumerProtocolSubscription(
        topics=tuple(filter(None, text[1:].split("+"))),
        owned_partitions=tuple(
            TopicPartitions(topic=name, partitions=partitions) for name, partitions in _assigned(owned)
        ),
    )
    return encode_subscription(subscription, 0 if owned == "none" else 1)


def _assignment_bytes(text: str) -> bytes:
    """`=a/0+1;b/2` is an assignment of the consumer protocol; anything else stands for itself."""
    if not text.startswith("="):
        return text.encode()
    listed = (item.partition("/") for item in filter(None, text[1:].split(";")))
    return encode_assignment(
        ConsumerProtocolAssignment(
            assigned_partitions=tuple(
                TopicPartitions(topic=name, partitions=tuple(map(int, numbers.split("+"))))
                for name, _, numbers in listed
            )
        )
    )


def _colons(text: str) -> Iterator[tuple[str, str]]:
    for item in filter(None, text.split(",")):
        name, _, rest = item.partition(":")
        yield name, rest


def _offsets(given: dict[str, str]) -> dict[tuple[str, int], int]:
    return {partition(key): int(value) for key, value in given.items() if key[-1].isdigit() and "-" in key}
