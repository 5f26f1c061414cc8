"""Every rule of classic groups as a story: tests/scenario/classic_group_*.txt.

A file holds commands to a group shard, `> command`, each followed by what the shard must do about it. After a change
that is meant, run with KCLI_REWRITE_SCENARIOS=1 and review the difference.

Bytes are written as text, a subscription of the consumer protocol as `@topic+topic`, the n-th id the shard makes as
`prefix-#n`. Commands:

    config key=value …                       before anything else
    join TOKEN group=g [member= instance= session= rebalance= type= protocols=name:meta,… v= client=]
    sync TOKEN group=g member= gen= [instance= type= name= assign=member:bytes,…]
    beat group=g member= gen= [instance=]
    leave TOKEN group=g members=m,/instance,… [v=]
    commit TOKEN group=g [member= gen= instance= v= retention= meta=] topic-partition=offset …
    txn-commit TOKEN producer=n group=g [member= gen= instance=] topic-partition=offset …   TxnOffsetCommit
    fetch group=g [stable=yes] [topic-partition …]
    delete-offsets TOKEN group=g topic-partition …
    delete TOKEN group …                     DeleteGroups
    drop topic                               the topic is deleted
    list | describe group=g [v=]
    txn producer=n group=g topic-partition=offset …   a transactional commit appears in the log
    end producer=n commit=yes|no             and its marker
    +ms                                      time passes, deadline by deadline
    hold | flush | fail CODE                 keep writes back; commit them; have the oldest fail
    restart                                  the shard is loaded again from its log
    shrink n                                 the same, with group.max.size=n
    resign
"""

from __future__ import annotations

import dataclasses
import os
import re
import struct
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from kcli.coordinator.group.config import GroupConfig
from kcli.coordinator.group.join import Caller
from kcli.coordinator.group.records import GroupRecord, LogRecord, OffsetRecord, decode, encode
from kcli.coordinator.group.shard import GroupReady, GroupShard
from kcli.coordinator.group.subscription import subscribed_topics
from kcli.coordinator.runtime import Producer
from kcli.errors import ErrorCode
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
from kcli.protocol.records.consumer_offsets import OffsetCommitValue

_LONG = re.compile(r"#(\d+)")
_SHORT = re.compile("00000000-0000-0000-0000-(0*)([1-9a-f][0-9a-f]*)")
_NEWEST = {"join": 9, "leave": 5, "commit": 9, "describe": 6}


class CountingUuids:
    """Ids that count: 1, 2, 3 …"""

    def __init__(self) -> None:
        self._last = 0

    def uuid(self) -> uuid.UUID:
        self._last += 1
        return uuid.UUID(int=self._last)


class World:
    def __init__(self) -> None:
        self._uuids = CountingUuids()
        self._config = GroupConfig(initial_rebalance_delay_ms=0)
        self._now_ms = 0
        self._log: list[tuple[bytes, bytes | None, int, str]] = []
        self._held: list[GroupReady] = []
        self._holding = False
        self._out: list[str] = []
        self._shard = GroupShard(self._config, self._uuids)
        self._shard.start(self._now_ms)

    def run(self, command: str) -> list[str]:
        """Carries out one command; what the shard wrote and answered, in order."""
        self._out = []
        verb, *words = command.split()
        if verb.startswith("+"):
            self._pass_time(int(verb[1:]))
        else:
            getattr(self, f"_do_{verb.replace('-', '_')}")(words)
        return self._out

    # Commands

    def _do_config(self, words: list[str]) -> None:
        self._config = dataclasses.replace(self._config, **{k: int(v) for k, v in _pairs(words).items()})
        self._shard = GroupShard(self._config, self._uuids)
        self._shard.start(self._now_ms)

    def _do_join(self, words: list[str]) -> None:
        token, given = words[0], _pairs(words[1:])
        request = JoinGroupRequest(
            group_id=given["group"],
            session_timeout_ms=int(given.get("session", "10000")),
            rebalance_timeout_ms=int(given.get("rebalance", "60000")),
            member_id=given.get("member", ""),
            group_instance_id=given.get("instance"),
            protocol_type=given.get("type", "consumer"),
            protocols=tuple(
                JoinGroupRequestProtocol(name=name, metadata=_to_bytes(metadata))
                for name, metadata in _colons(given.get("protocols", "range:@t"))
            ),
        )
        caller = Caller(
            api_version=int(given.get("v", _NEWEST["join"])),
            client_id=given.get("client", "c"),
            client_host="/10.0.0.1",
        )
        self._take(self._shard.join_group(request, caller, token, self._now_ms))

    def _do_sync(self, words: list[str]) -> None:
        token, given = words[0], _pairs(words[1:])
        request = SyncGroupRequest(
            group_id=given["group"],
            generation_id=int(given["gen"]),
            member_id=given["member"],
            group_instance_id=given.get("instance"),
            protocol_type=given.get("type"),
            protocol_name=given.get("name"),
            assignments=tuple(
                SyncGroupRequestAssignment(member_id=member, assignment=assignment.encode())
                for member, assignment in _colons(given.get("assign", ""))
            ),
        )
        self._take(self._shard.sync_group(request, token, self._now_ms))

    def _do_beat(self, words: list[str]) -> None:
        given = _pairs(words)
        code = self._shard.heartbeat(
            given["group"], given["member"], given.get("instance"), int(given["gen"]), self._now_ms
        )
        self._out.append(code.name)

    def _do_leave(self, words: list[str]) -> None:
        token, given = words[0], _pairs(words[1:])
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
        self._take(self._shard.leave_group(request, version, token, self._now_ms))

    def _do_commit(self, words: list[str]) -> None:
        token, given = words[0], _pairs(words[1:])
        version = int(given.get("v", _NEWEST["commit"]))
        self._take(self._shard.commit_offsets(self._commit_request(given), version, token, self._now_ms))

    def _do_txn_commit(self, words: list[str]) -> None:
        token, given = words[0], _pairs(words[1:])
        producer = Producer(int(given["producer"]), 0)
        request = self._commit_request(given)
        self._take(self._shard.commit_offsets_in_transaction(request, producer, token, self._now_ms))

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
                            partition_index=partition,
                            committed_offset=offset,
                            committed_metadata=given.get("meta", ""),
                        ),
                    ),
                )
                for (topic, partition), offset in offsets.items()
            ),
        )

    def _do_fetch(self, words: list[str]) -> None:
        given = _pairs(words)
        wanted = [_partition(word) for word in words if "=" not in word]
        topics = tuple((topic, (partition,)) for topic, partition in wanted) if wanted else None
        found = self._shard.fetch_offsets(given["group"], topics, require_stable="stable" in given)
        for topic in found.topics:
            for each in topic.partitions:
                error = "" if each.error_code is ErrorCode.NONE else f" {each.error_code.name}"
                self._out.append(
                    f"{topic.name}-{each.partition_index}={each.committed_offset} {each.metadata or ''}".rstrip()
                    + error
                )

    def _do_delete_offsets(self, words: list[str]) -> None:
        token, given = words[0], _pairs(words[1:])
        partitions = [_partition(word) for word in words[1:] if "=" not in word]
        request = OffsetDeleteRequest(
            group_id=given["group"],
            topics=tuple(
                OffsetDeleteRequestTopic(
                    name=topic, partitions=(OffsetDeleteRequestPartition(partition_index=partition),)
                )
                for topic, partition in partitions
            ),
        )
        self._take(self._shard.delete_offsets(request, token, self._now_ms))

    def _do_delete(self, words: list[str]) -> None:
        request = DeleteGroupsRequest(groups_names=tuple(words[1:]))
        self._take(self._shard.delete_groups(request, words[0], self._now_ms))

    def _do_drop(self, words: list[str]) -> None:
        self._take(self._shard.delete_topic(words[0], self._now_ms))

    def _do_list(self, _words: list[str]) -> None:
        self._out.extend(show(group) for group in self._shard.list_groups())

    def _do_describe(self, words: list[str]) -> None:
        given = _pairs(words)
        version = int(given.get("v", _NEWEST["describe"]))
        described = self._shard.describe_group(given["group"], version)
        self._out.append(show(dataclasses.replace(described, members=())))
        self._out.extend(f"  {show(member)}" for member in described.members)

    def _do_txn(self, words: list[str]) -> None:
        given = _pairs(words)
        for (topic, partition), offset in _offsets(given).items():
            value = OffsetCommitValue(offset=offset, commit_timestamp=self._now_ms)
            self._write(OffsetRecord(given["group"], topic, partition, value), int(given["producer"]))

    def _do_end(self, words: list[str]) -> None:
        given = _pairs(words)
        self._log.append((b"", None, int(given["producer"]), given["commit"]))
        self._shard.end_transaction(int(given["producer"]), committed=given["commit"] == "yes")

    def _do_hold(self, _words: list[str]) -> None:
        self._holding = True

    def _do_flush(self, _words: list[str]) -> None:
        self._holding = False
        held, self._held = self._held, []
        for ready in held:
            self._committed(ready)

    def _do_fail(self, words: list[str]) -> None:
        ready = self._held.pop(0)
        code = ErrorCode[words[0]]
        self._out.extend(f"{token} fails {code.name}" for token, _ in ready.replies)
        if ready.on_written is not None:
            self._take(ready.on_written(code, self._now_ms))

    def _do_restart(self, _words: list[str]) -> None:
        self._shard = GroupShard(self._config, self._uuids)
        for offset, (key, value, producer_id, outcome) in enumerate(self._log):
            if outcome:
                self._shard.end_transaction(producer_id, committed=outcome == "yes")
                continue
            record = decode(key, value)
            assert record is not None
            self._shard.replay(record, offset, producer_id)
        self._take(self._shard.start(self._now_ms))

    def _do_shrink(self, words: list[str]) -> None:
        self._config = dataclasses.replace(self._config, max_size=int(words[0]))
        self._do_restart([])

    def _do_resign(self, _words: list[str]) -> None:
        self._take(self._shard.resign(self._now_ms))

    # Time and the log

    def _pass_time(self, duration_ms: int) -> None:
        end_ms = self._now_ms + duration_ms
        while True:
            deadline_ms = self._shard.next_deadline_ms
            if deadline_ms is None or deadline_ms > end_ms:
                break
            self._now_ms = max(self._now_ms, deadline_ms)
            before = len(self._out)
            for ready in self._shard.tick(self._now_ms):
                self._take(ready)
            self._out[before:] = [f"[{self._now_ms}] {line}" for line in self._out[before:]]
        self._now_ms = end_ms

    def _take(self, ready: GroupReady) -> None:
        if ready.records and self._holding:
            self._held.append(ready)
            self._out.extend(f"held {show_record(record)}" for record in ready.records)
        else:
            self._committed(ready)

    def _committed(self, ready: GroupReady) -> None:
        for record in ready.records:
            self._out.append(f"log {show_record(record)}")
            self._write(record, -1 if ready.producer is None else ready.producer.producer_id)
        if ready.on_written is not None:
            self._take(ready.on_written(ErrorCode.NONE, self._now_ms))
        self._out.extend(f"{token} <- {show(response)}" for token, response in ready.replies)

    def _write(self, record: LogRecord, producer_id: int) -> None:
        self._log.append((*encode(record), producer_id, ""))
        self._shard.replay(record, len(self._log) - 1, producer_id)


def show(value: object) -> str:
    """A message by its fields that differ from their defaults."""
    if not dataclasses.is_dataclass(value):
        return _text(value)
    shown = [
        f"{field.name}={_text(getattr(value, field.name))}"
        for field in dataclasses.fields(value)
        if getattr(value, field.name) != field.default
    ]
    return f"{type(value).__name__}({' '.join(shown)})"


def show_record(record: LogRecord) -> str:
    match record:
        case OffsetRecord(group_id, topic, partition, committed):
            return f"offset {group_id} {topic}-{partition}: {'deleted' if committed is None else show(committed)}"
        case GroupRecord(group_id, metadata):
            return f"group {group_id}: {'deleted' if metadata is None else show(metadata)}"
        case _:
            return f"other {record}"


def _text(value: object) -> str:
    match value:
        case ErrorCode():
            return value.name
        case bytes():
            topics = subscribed_topics(value)
            return f"@{'+'.join(topics)}" if topics is not None else value.decode() or "nothing"
        case tuple():
            return f"[{', '.join(show(item) for item in value)}]"
        case "":
            return "''"
        case _:
            return str(value)


def _id_of(match: re.Match[str]) -> str:
    return str(uuid.UUID(int=int(match[1])))


def _short(text: str) -> str:
    return _SHORT.sub(lambda match: f"#{int(match[2], 16)}", text)


def _to_bytes(text: str) -> bytes:
    """`@a+b` is a subscription to a and b; anything else stands for itself."""
    if not text.startswith("@"):
        return text.encode()
    topics = [topic.encode() for topic in text[1:].split("+") if topic]
    body = b"".join(struct.pack(">h", len(topic)) + topic for topic in topics)
    return struct.pack(">hi", 0, len(topics)) + body + struct.pack(">i", -1)


def _pairs(words: list[str]) -> dict[str, str]:
    return dict(word.split("=", 1) for word in words if "=" in word)


def _colons(text: str) -> Iterator[tuple[str, str]]:
    for item in filter(None, text.split(",")):
        name, _, rest = item.partition(":")
        yield name, rest


def _partition(text: str) -> tuple[str, int]:
    topic, _, partition = text.rpartition("-")
    return topic, int(partition)


def _offsets(given: dict[str, str]) -> dict[tuple[str, int], int]:
    return {_partition(key): int(value) for key, value in given.items() if key[-1].isdigit() and "-" in key}


def replayed(text: str) -> str:
    """The scenario with what really happened after each command; comments and blank lines stay."""
    world = World()
    lines: list[str] = []
    for line in text.splitlines():
        if line.startswith(">"):
            lines.append(line)
            command = line[1:].strip()
            lines.extend(f"  {_short(said)}" for said in world.run(_LONG.sub(_id_of, command)))
        elif not line.startswith("  "):
            lines.append(line)
    return "\n".join(lines) + "\n"


FILES = sorted(Path(__file__).parent.glob("classic_group_*.txt"))


def test_there_are_scenarios() -> None:
    assert len(FILES) >= 20


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_scenario(path: Path) -> None:
    expected = path.read_text()
    actual = replayed(expected)
    if os.environ.get("KCLI_REWRITE_SCENARIOS") == "1":
        path.write_text(actual)
    assert actual == expected
