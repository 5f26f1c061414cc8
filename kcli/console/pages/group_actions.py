"""Actions on a consumer group: reset of offsets, deletion of the group, and deletion of offsets."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime

from kcli.client.admin.groups import CommittedOffset, GroupDescription
from kcli.client.offset_reset import Position, plan_offsets
from kcli.console.answers import Outcome
from kcli.console.calls import Action, bad_request
from kcli.console.pages.groups import memory_of
from kcli.console.routes import Change
from kcli.errors import GroupIdNotFoundException, GroupNotEmptyException, KafkaError
from kcli.model.command_words import option
from kcli.model.java_text import INT_MAX, natural
from kcli.model.topic_partition import TopicPartition, numbers_by_topic

INACTIVE = ("Empty", "Dead")
EDITS_MAX = 10_000
"""The most offsets of single partitions in one reset."""

_LARGEST_TIME_MS = 253_402_300_799_999  # the end of the year 9999
_FLAGS = {
    Position.EARLIEST: "--to-earliest",
    Position.LATEST: "--to-latest",
    Position.CURRENT: "--to-current",
    Position.OFFSET: "--to-offset",
    Position.SHIFT: "--shift-by",
    Position.TIME: "--to-datetime",
}


async def reset_offsets(action: Action) -> Outcome:
    """POST /groups/{group}/reset {"position": earliest | latest | time | offset | shift | current, "value": number,
    "topics": [name or name:0,1] (empty: all topics of the group), "edits": {"name:0": "offset"}}.

    The preview has the present and the new offset of each partition.
    """
    group_id = action.part("group")
    action.target = f"group {group_id}"
    position, value = _position(action)
    edits = _edits(action)
    await _check_inactive(action, group_id)
    offsets = await action.admin.list_group_offsets(group_id)
    committed = {
        partition: offset.offset
        for partition, offset in offsets.items()
        if isinstance(offset, CommittedOffset)
    }
    partitions = await _scope(action, committed)
    plan = await plan_offsets(action.admin, partitions, committed, position, value, edits=edits)
    new = {TopicPartition(row.topic, row.partition): row.new for row in plan if row.new is not None}
    changed = sum(committed.get(partition) != offset for partition, offset in new.items())
    if not action.is_preview:
        await _commit(action, group_id, new)
        memory_of(action).forget(group_id)
    command = _file_command(action, group_id, new) if edits else _command(action, group_id, position, value)
    verb = "would change" if action.is_preview else "changed"
    return Outcome(
        command=command,
        summary=f"The offsets of {_plural(changed, 'partition')} of the group {group_id} {verb}.",
        details={"rows": plan},
    )


async def delete_group(action: Action) -> Outcome:
    """POST /groups/{group}/delete: deletes a group without members, and its offsets."""
    group_id = action.part("group")
    action.target = f"group {group_id}"
    if action.is_preview:
        await _check_inactive(action, group_id)
    else:
        error = (await action.admin.delete_groups([group_id]))[group_id]
        if error is not None:
            raise error
        memory_of(action).forget(group_id)
    verb = "would be deleted" if action.is_preview else "was deleted"
    return Outcome(
        command=action.command("consumer-groups", "--delete", *option("group", group_id)),
        summary=f"The group {group_id} with all its offsets {verb}.",
    )


async def delete_offsets(action: Action) -> Outcome:
    """POST /groups/{group}/delete-offsets {"topic": name}: deletes the offsets of a topic that no member reads."""
    group_id, topic = action.part("group"), action.text("topic")
    action.target = f"group {group_id}, topic {topic}"
    offsets = await action.admin.list_group_offsets(group_id)
    partitions = [
        partition for partition, offset in offsets.items() if partition.topic == topic and offset is not None
    ]
    if not partitions:
        raise bad_request(f"the group has no offsets for the topic {topic}")
    if not action.is_preview:
        for error in (await action.admin.delete_group_offsets(group_id, partitions)).values():
            if error is not None:
                raise error
        memory_of(action).forget(group_id)
    verb = "would be deleted" if action.is_preview else "were deleted"
    return Outcome(
        command=action.command(
            "consumer-groups", "--delete-offsets", *option("group", group_id), *option("topic", topic)
        ),
        summary=f"The offsets of {_plural(len(partitions), 'partition')} of {topic} {verb}.",
    )


# The body of a reset


def _position(action: Action) -> tuple[Position, int]:
    try:
        position = Position(action.text("position"))
    except ValueError:
        raise bad_request(f"position: expected one of {', '.join(Position)}") from None
    match position:
        case Position.TIME:
            return position, action.number("value", most=_LARGEST_TIME_MS)
        case Position.OFFSET:
            return position, action.number("value")
        case Position.SHIFT:
            return position, action.number("value", least=-(2**62), most=2**62)
        case _:
            return position, 0


def _edits(action: Action) -> dict[TopicPartition, int]:
    settings = action.settings_of("edits")
    if len(settings) > EDITS_MAX:
        raise bad_request(f"edits: expected at most {EDITS_MAX} partitions")
    offsets = {}
    for name, text in settings.items():
        partitions, offset = _partitions(name), natural(text or "")
        if len(partitions) != 1 or offset is None:
            raise bad_request(f"edits: {name} = {text}: expected a partition such as orders:3, and an offset")
        offsets[partitions[0]] = offset
    return offsets


def _partitions(text: str) -> list[TopicPartition]:
    """Returns the partitions in a text such as orders:0,1. For a text with only a topic name, the list is empty."""
    topic, _, numbers = text.partition(":")
    parts = numbers.split(",") if numbers else []
    valid_numbers = [number for part in parts if (number := natural(part)) is not None and number <= INT_MAX]
    if not topic or len(valid_numbers) < len(parts):
        raise bad_request(f"{text[:100]!r}: expected a topic, or a topic with partitions such as orders:0,1")
    return [TopicPartition(topic, number) for number in valid_numbers]


async def _scope(action: Action, committed: Mapping[TopicPartition, int]) -> list[TopicPartition]:
    """Returns the partitions to reset. A topic name without partition numbers means all partitions of the topic."""
    texts = action.texts("topics")
    if not texts:
        return [] if action.body.get("edits") and not action.flag("all_topics") else list(committed)
    partitions: list[TopicPartition] = []
    whole: list[str] = []
    for text in texts:
        named = _partitions(text)
        partitions += named
        if not named:
            whole.append(text)
    for name, topic in (await action.admin.describe_topics(whole)).items() if whole else ():
        if isinstance(topic, KafkaError):
            raise topic
        partitions += [TopicPartition(name, partition.partition) for partition in topic.partitions]
    return partitions


async def _check_inactive(action: Action, group_id: str) -> None:
    """Raises KafkaError if the group has members. A group that does not exist yet may get offsets."""
    group = (await action.admin.describe_groups([group_id]))[group_id]
    if isinstance(group, GroupDescription) and group.state not in INACTIVE:
        raise GroupNotEmptyException(
            f"The group {group_id} has members (its state is {group.state}). Stop its consumers first."
        )
    if isinstance(group, KafkaError) and not isinstance(group, GroupIdNotFoundException):
        raise group


async def _commit(action: Action, group_id: str, new: Mapping[TopicPartition, int]) -> None:
    if not new:
        return
    offsets = {partition: CommittedOffset(offset=offset) for partition, offset in new.items()}
    for error in (await action.admin.alter_group_offsets(group_id, offsets)).values():
        if error is not None:
            raise error


# Command lines


def _command(action: Action, group_id: str, position: Position, value: int) -> str:
    topics = action.texts("topics")
    scope = [word for text in topics for word in option("topic", text)] or ["--all-topics"]
    more: list[str] = []
    if position is Position.TIME:
        more = [
            datetime.fromtimestamp(value / 1000, UTC)
            .isoformat(timespec="milliseconds")
            .replace("+00:00", "Z")
        ]
    elif position in (Position.OFFSET, Position.SHIFT):
        more = [str(value)]
    return action.command(
        "consumer-groups",
        "--reset-offsets",
        *option("group", group_id),
        *scope,
        _FLAGS[position],
        *more,
        "--execute",
    )


def _file_command(action: Action, group_id: str, new: Mapping[TopicPartition, int]) -> str:
    """The command lines that write offsets of single partitions to a CSV file, and reset the group with this file."""
    lines = [f"{topic},{number},{new[TopicPartition(topic, number)]}" for topic, number in _sorted(new)]
    made = action.command(
        "consumer-groups",
        "--reset-offsets",
        *option("group", group_id),
        *("--from-file", "offsets.csv", "--execute"),
    )
    return f"printf '%s\\n' {shlex.join(lines)} > offsets.csv\n{made}"


def _sorted(partitions: Mapping[TopicPartition, int]) -> Sequence[tuple[str, int]]:
    return [
        (topic, number)
        for topic, numbers in sorted(numbers_by_topic(partitions).items())
        for number in sorted(numbers)
    ]


def _plural(count: int, noun: str) -> str:
    return f"1 {noun}" if count == 1 else f"{count} {noun}s"


ROUTES = (
    Change("/groups/{group}/reset", "reset offsets", reset_offsets),
    Change("/groups/{group}/delete", "delete group", delete_group),
    Change("/groups/{group}/delete-offsets", "delete offsets", delete_offsets),
)
