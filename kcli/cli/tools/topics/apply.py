"""`topics --apply FILE`: changes the cluster's topics to match a file. The tool first makes a plan of the changes.

The controller checks the whole plan before the first change. Only `--prune` deletes topics or settings.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

from kcli.cli.confirm import can_ask, confirm
from kcli.cli.output import Output, warn
from kcli.cli.syntax.options import CommandError
from kcli.cli.tools.topics.file import PARTITIONS, REPLICATION_FACTOR, DeclaredTopic, read_topics
from kcli.cli.tools.topics.options import TopicsOptions
from kcli.client.admin.configs import AlterConfig, ConfigEntry
from kcli.client.admin.topics import NewPartitions, NewTopic, TopicDescription
from kcli.errors import KafkaError
from kcli.model.amounts import listed
from kcli.model.configs import ConfigOperation, ConfigResource, ConfigResourceType, ConfigSource
from kcli.model.java_text import parse_int

if TYPE_CHECKING:
    from kcli.client.admin.admin import AdminClient

NOTHING_CHANGED = "Nothing was changed."
CHANGES_PENDING = 2
"""The exit code of a dry run that finds necessary changes."""
OWN_PREFIX = "__"
"""The prefix of Kafka's own topics, which are never pruned. Kafka does not mark all of them as internal."""


class Action(Enum):
    """The kind of change that a topic needs. The value is the text in the output."""

    CREATE = "created"
    ALTER = "altered"
    DELETE = "deleted"
    UNCHANGED = "unchanged"


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one setting of a topic. A value of None means the default, or that the topic does not exist yet."""

    setting: str
    before: str | None
    after: str | None

    def __str__(self) -> str:
        before = "default" if self.before is None else self.before
        after = "default" if self.after is None else self.after
        return f"{self.setting} {before} -> {after}"


@dataclass(frozen=True, slots=True)
class TopicChange:
    """One topic of the plan. `declared` is None if the file does not have the topic."""

    topic: str
    action: Action
    declared: DeclaredTopic | None = None
    changes: tuple[Change, ...] = ()

    @property
    def partitions(self) -> Change | None:
        """The change of the number of partitions, or None."""
        return next((change for change in self.changes if change.setting == PARTITIONS), None)

    @property
    def configs(self) -> tuple[Change, ...]:
        """The changes of the topic's settings."""
        return tuple(
            change for change in self.changes if change.setting not in (PARTITIONS, REPLICATION_FACTOR)
        )


@dataclass(frozen=True, slots=True)
class StepRow:
    """The output row of a step."""

    topic: str
    action: str
    changes: tuple[Change, ...]
    dry_run: bool
    error: str | None


async def apply(options: TopicsOptions, client: AdminClient, output: Output) -> int:
    """Plans and checks the changes, then reports or makes them.

    Returns the exit code: 0, 1 (failed) or CHANGES_PENDING.
    """
    assert options.apply is not None
    topics = read_topics(options.apply)
    steps = await _plan(client, topics, prune=options.prune)
    # The controller checks all changes before the first one is made.
    refused = await _perform(client, steps, validate_only=True)
    if refused:
        for topic, error in refused.items():
            warn(
                f"{topics[topic].place() if topic in topics else options.apply}: topic {topic}: {error.message}"
            )
        raise CommandError(NOTHING_CHANGED)
    if options.dry_run:
        _show(output, steps, {}, dry_run=True)
        return CHANGES_PENDING if any(step.action is not Action.UNCHANGED for step in steps) else 0
    _confirm([step.topic for step in steps if step.action is Action.DELETE], yes=options.yes)
    failed = await _perform(client, steps, validate_only=False)
    _show(output, steps, failed, dry_run=False)
    return 1 if failed else 0


async def _plan(
    client: AdminClient, topics: Mapping[str, DeclaredTopic], *, prune: bool
) -> list[TopicChange]:
    """Returns the steps in the order of the file, with deletions last.

    Raises CommandError that lists all impossible changes.
    """
    existing = {topic.name: topic for topic in await client.list_topics()}
    known = [name for name in topics if name in existing]
    described = await client.describe_topics(known)
    resources = {name: ConfigResource(ConfigResourceType.TOPIC, name) for name in known}
    configs = await client.describe_configs(resources.values()) if known else {}
    steps: list[TopicChange] = []
    problems: list[str] = []
    for name, topic in topics.items():
        if name not in existing:
            steps.append(_creation(topic))
            continue
        try:
            steps.append(_alteration(topic, described[name], configs[resources[name]], prune=prune))
        except (CommandError, KafkaError) as error:
            place = "" if isinstance(error, CommandError) else f"{topic.place()}: topic {name}: "
            problems.append(f"{place}{error}")
    if problems:
        raise CommandError("\n".join([*problems, NOTHING_CHANGED]))
    if prune:
        steps += [
            TopicChange(name, Action.DELETE)
            for name, listing in existing.items()
            if name not in topics and not listing.is_internal and not name.startswith(OWN_PREFIX)
        ]
    return steps


def _creation(topic: DeclaredTopic) -> TopicChange:
    counts = ((PARTITIONS, topic.partitions), (REPLICATION_FACTOR, topic.replication_factor))
    changes = [Change(name, None, str(count)) for name, count in counts if count is not None]
    settings = (topic.configs or {}).items()
    changes += [Change(name, None, value) for name, value in settings if value is not None]
    return TopicChange(topic.name, Action.CREATE, topic, tuple(changes))


def _alteration(
    topic: DeclaredTopic,
    current: TopicDescription | KafkaError,
    entries: tuple[ConfigEntry, ...] | KafkaError,
    *,
    prune: bool,
) -> TopicChange:
    """Returns the step for an existing topic. Raises CommandError or KafkaError if the change is impossible."""
    if isinstance(current, KafkaError):
        raise current
    if isinstance(entries, KafkaError):
        raise entries
    overrides = {
        entry.name: entry.value for entry in entries if entry.source is ConfigSource.DYNAMIC_TOPIC_CONFIG
    }
    changes = (*_partition_changes(topic, current), *_config_changes(topic, overrides, prune=prune))
    return TopicChange(topic.name, Action.ALTER if changes else Action.UNCHANGED, topic, changes)


def _partition_changes(topic: DeclaredTopic, current: TopicDescription) -> Iterable[Change]:
    count = len(current.partitions)
    factors = {len(partition.replicas) for partition in current.partitions}
    if topic.replication_factor is not None and factors != {topic.replication_factor}:
        have = ", ".join(map(str, sorted(factors)))
        raise CommandError(
            f"{topic.place(REPLICATION_FACTOR)}: topic {topic.name} has {REPLICATION_FACTOR} {have}, not "
            f"{topic.replication_factor}: use reassign-partitions to move replicas"
        )
    if topic.partitions is None or topic.partitions == count:
        return
    if topic.partitions < count:
        raise CommandError(
            f"{topic.place(PARTITIONS)}: topic {topic.name} has {count} partitions, more than "
            f"{topic.partitions}: partitions cannot be removed"
        )
    yield Change(PARTITIONS, str(count), str(topic.partitions))


def _config_changes(
    topic: DeclaredTopic, overrides: Mapping[str, str | None], *, prune: bool
) -> Iterable[Change]:
    if topic.configs is None:
        return
    for name, value in topic.configs.items():
        if value is None:
            if name in overrides:
                yield Change(name, overrides[name], None)
        elif name not in overrides or not _is_same(name, overrides[name], value):
            yield Change(name, overrides.get(name), value)
    if prune:
        yield from (
            Change(name, value, None) for name, value in overrides.items() if name not in topic.configs
        )


def _is_same(name: str, current: str | None, value: str) -> bool:
    """Whether two texts are the same value of a setting, like `compact, delete` and `compact,delete`."""
    from kcli.config.definition import ConfigError
    from kcli.config.topic import TOPIC

    try:
        return TOPIC[name].parse(current) == TOPIC[name].parse(value)
    except ConfigError:
        return current == value


async def _perform(
    client: AdminClient, steps: Sequence[TopicChange], *, validate_only: bool
) -> dict[str, KafkaError]:
    """Makes the changes, or only validates them. Returns the topics that failed, with their errors."""
    failed: dict[str, KafkaError] = {}

    def note(results: Mapping[str, KafkaError | None]) -> None:
        failed.update({topic: error for topic, error in results.items() if error is not None})

    new = [_new_topic(step.declared) for step in steps if step.action is Action.CREATE and step.declared]
    if new:
        note(await client.create_topics(new, validate_only=validate_only))
    grown = [
        NewPartitions(topic=step.topic, count=parse_int(step.partitions.after))
        for step in steps
        if step.action is Action.ALTER and step.partitions is not None and step.partitions.after
    ]
    if grown:
        note(await client.create_partitions(grown, validate_only=validate_only))
    settings = {
        ConfigResource(ConfigResourceType.TOPIC, step.topic): [_operation(change) for change in step.configs]
        for step in steps
        if step.action is Action.ALTER and step.configs
    }
    if settings:
        altered = await client.incremental_alter_configs(settings, validate_only=validate_only)
        note({resource.name: error for resource, error in altered.items()})
    unwanted = [step.topic for step in steps if step.action is Action.DELETE]
    if unwanted and not validate_only:
        note(await client.delete_topics(unwanted))
    return failed


def _new_topic(topic: DeclaredTopic) -> NewTopic:
    settings = (topic.configs or {}).items()
    return NewTopic(
        name=topic.name,
        partitions=topic.partitions or -1,
        replication_factor=topic.replication_factor or -1,
        configs={name: value for name, value in settings if value is not None},
    )


def _operation(change: Change) -> AlterConfig:
    op = ConfigOperation.DELETE if change.after is None else ConfigOperation.SET
    return AlterConfig(name=change.setting, value=change.after, op=op)


def _confirm(topics: list[str], *, yes: bool) -> None:
    if not topics or yes:
        return
    if not can_ask():
        raise CommandError(
            f"--prune would delete {listed(topics)}: without a terminal this needs --yes. {NOTHING_CHANGED}"
        )
    confirm(f"This deletes {listed(topics)} with all records.", yes=False)


def _show(
    output: Output, steps: Sequence[TopicChange], failed: Mapping[str, KafkaError], *, dry_run: bool
) -> None:
    for step in steps:
        error = failed.get(step.topic)
        row = StepRow(
            step.topic,
            step.action.name.lower(),
            step.changes,
            dry_run,
            None if error is None else error.message,
        )
        output.row(row, _line(step, dry_run=dry_run, error=error))
        if error is not None:
            warn(f"Topic {step.topic} failed: {error.message}")
    counts = dict.fromkeys(Action, 0)
    for step in steps:
        counts[step.action] += step.topic not in failed
    if dry_run:
        parts = [
            f"{counts[action]} to {action.name.lower()}"
            for action in Action
            if action is not Action.UNCHANGED
        ]
        output.say(f"Plan: {', '.join(parts)}, {counts[Action.UNCHANGED]} unchanged.")
    else:
        parts = [f"{counts[action]} {action.value}" for action in Action]
        output.say(f"Done: {', '.join(parts)}, {len(failed)} failed.")


def _line(step: TopicChange, *, dry_run: bool, error: KafkaError | None) -> str:
    verb = step.action.value if step.action is Action.UNCHANGED or not dry_run else step.action.name.lower()
    new = step.action is Action.CREATE
    changes = ", ".join(f"{change.setting} {change.after}" if new else str(change) for change in step.changes)
    return f"{'failed' if error else verb} {step.topic}" + (f": {changes}" if changes else "")
