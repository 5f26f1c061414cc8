"""The topics: the list, one topic with its partitions and settings, and the actions on them."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

from kcli.client.admin.topics import NewPartitions, NewTopic
from kcli.console.answers import Outcome, Rows
from kcli.console.calls import Action, Call, bad_request
from kcli.console.pages.partitions import cached_partitions
from kcli.console.pages.settings import (
    change_command,
    changes_summary,
    config_changes,
    setting_text,
    settings_of,
)
from kcli.console.pages.storage import cached_storage, known_storage, samples
from kcli.console.pages.topology import TopicSummary, cached_topology
from kcli.console.routes import Change, Read
from kcli.errors import KafkaError
from kcli.model.command_words import option, topic_pattern
from kcli.model.configs import ConfigResource, ConfigResourceType, ConfigSource

PARTITIONS_MAX = 100_000
"""The most partitions that the form accepts. Kafka has no limit, but each partition costs memory and files."""

REPLICATION_MAX = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicRow:
    """A topic in the list. The size is the sum of all replicas, or None if it is unknown."""

    name: str
    is_internal: bool
    partitions: int
    replication_factor: int
    under_replicated: int
    offline: int
    size_bytes: int | None
    error: str | None


async def list_topics(call: Call) -> Rows:
    """GET /topics: the topics with their states. With ?internal=1, the list includes internal topics. With ?problems=1,
    it has only topics with a problem."""
    topology = await cached_topology(call)
    listing = call.listing()
    # The sizes need requests to every broker. The list waits for them only if it is sorted by size.
    storage = await cached_storage(call) if listing.sort == "size_bytes" else known_storage(call)
    sizes = {} if storage is None else call.uses(storage).value.topics
    shown = _shown(topology.value.topics, call)
    rows = listing.rows(
        shown,
        text=lambda topic: topic.name,
        columns={
            "name": lambda topic: topic.name,
            "partitions": lambda topic: topic.partitions,
            "replication_factor": lambda topic: topic.replication_factor,
            "under_replicated": lambda topic: topic.under_replicated + topic.offline,
            "size_bytes": lambda topic: sizes.get(topic.name),
        },
        show=lambda topic: _row(topic, sizes.get(topic.name)),
    )
    return dataclasses.replace(rows, is_partial=storage is None)


def _shown(topics: tuple[TopicSummary, ...], call: Call) -> list[TopicSummary]:
    internal, problems = call.query("internal") == "1", call.query("problems") == "1"
    return [
        topic
        for topic in topics
        if (internal or not topic.is_internal)
        and (not problems or topic.under_replicated or topic.offline or topic.error)
    ]


def _row(topic: TopicSummary, size_bytes: int | None) -> TopicRow:
    return TopicRow(
        name=topic.name,
        is_internal=topic.is_internal,
        partitions=topic.partitions,
        replication_factor=topic.replication_factor,
        under_replicated=topic.under_replicated,
        offline=topic.offline,
        size_bytes=size_bytes,
        error=topic.error,
    )


async def show_topic(call: Call) -> dict[str, object]:
    """GET /topics/{topic}: the figures of one topic."""
    answer = await cached_partitions(call, call.part("topic"))
    rows = answer.value.rows
    offsets = [(row.first_offset, row.end_offset) for row in rows]
    known = [end - first for first, end in offsets if first is not None and end is not None]
    return {
        "name": answer.value.name,
        "id": answer.value.topic_id,
        "is_internal": answer.value.is_internal,
        "partitions": len(rows),
        "replication_factor": max((len(row.replicas) for row in rows), default=0),
        "under_replicated": sum(len(row.isr) < len(row.replicas) for row in rows),
        "offline": sum(row.leader is None for row in rows),
        "records_max": sum(known) if len(known) == len(rows) else None,
        "size_bytes": answer.value.size_bytes,
    }


async def list_partitions(call: Call) -> Rows:
    """GET /topics/{topic}/partitions: the partitions with their replicas, offsets and sizes."""
    answer = await cached_partitions(call, call.part("topic"))
    return call.listing().rows(
        answer.value.rows,
        text=lambda row: f"{row.partition} leader {row.leader} {row.state}",
        columns={
            "partition": lambda row: row.partition,
            "leader": lambda row: row.leader,
            "isr": lambda row: len(row.isr) - len(row.replicas),
            "first_offset": lambda row: row.first_offset,
            "end_offset": lambda row: row.end_offset,
            "records_max": lambda row: row.records_max,
            "size_bytes": lambda row: row.size_bytes,
        },
    )


async def show_growth(call: Call) -> dict[str, object]:
    """GET /topics/{topic}/growth: the sizes of the topic since the session first requested sizes."""
    await cached_storage(call)
    topic = call.part("topic")
    return {"points": [[sample.at_ms, sample.topics.get(topic)] for sample in samples(call)]}


async def list_settings(call: Call) -> Rows:
    """GET /topics/{topic}/configs: the settings of the topic, and for each setting the value after a reset."""
    resource = ConfigResource(ConfigResourceType.TOPIC, call.part("topic"))
    return await settings_of(call, resource, ConfigSource.DYNAMIC_TOPIC_CONFIG)


async def create(action: Action) -> Outcome:
    """POST /topics {"name", "partitions", "replication_factor", "configs"}: creates a topic. If a number is missing,
    the topic gets the default of the cluster."""
    name = action.text("name")
    action.target = f"topic {name}"
    partitions = action.number("partitions", -1, least=-1, most=PARTITIONS_MAX)
    replication = action.number("replication_factor", -1, least=-1, most=REPLICATION_MAX)
    configs = {key: value for key, value in action.settings_of("configs").items() if value is not None}
    topic = NewTopic(name=name, partitions=partitions, replication_factor=replication, configs=configs)
    _raise(await action.admin.create_topics([topic], validate_only=action.is_preview), name)
    arguments = ["--create", *option("topic", name)]
    if partitions > 0:
        arguments += ["--partitions", str(partitions)]
    if replication > 0:
        arguments += ["--replication-factor", str(replication)]
    for key, value in configs.items():
        arguments += ["--config", setting_text(key, value)]
    return Outcome(
        command=action.command("topics", *arguments),
        summary=f"The cluster accepts the new topic {name}, {_counts(partitions, replication)}."
        if action.is_preview
        else f"Created the topic {name}.",
    )


async def delete(action: Action) -> Outcome:
    """POST /topics/{topic}/delete: deletes a topic with all its records."""
    name = action.part("topic")
    action.target = f"topic {name}"
    command = action.command("topics", "--delete", *option("topic", topic_pattern(name)))
    if action.is_preview:
        partitions = (await cached_partitions(action, name)).value
        records = sum(row.records_max or 0 for row in partitions.rows)
        return Outcome(
            command=command,
            summary=f"This deletes the topic {name} with {len(partitions.rows)} partitions and up to {records:,} "
            "records. They cannot be restored.",
        )
    _raise(await action.admin.delete_topics([name]), name)
    return Outcome(command=command, summary=f"Deleted the topic {name}.")


async def add_partitions(action: Action) -> Outcome:
    """POST /topics/{topic}/partitions {"count"}: raises the number of partitions."""
    name = action.part("topic")
    action.target = f"topic {name}"
    count = action.number("count", least=1, most=PARTITIONS_MAX)
    partitions = NewPartitions(topic=name, count=count)
    _raise(await action.admin.create_partitions([partitions], validate_only=action.is_preview), name)
    return Outcome(
        command=action.command(
            "topics", "--alter", *option("topic", topic_pattern(name)), "--partitions", str(count)
        ),
        summary=f"The topic {name} gets {count} partitions. Records with keys may then go to other partitions than "
        "before, and the number cannot be lowered again."
        if action.is_preview
        else f"The topic {name} now has {count} partitions.",
    )


async def change_settings(action: Action) -> Outcome:
    """POST /topics/{topic}/configs {"settings": {name: value, or null for the default}}: changes settings."""
    name = action.part("topic")
    action.target = f"topic {name}"
    changes = config_changes(action)
    resource = ConfigResource(ConfigResourceType.TOPIC, name)
    result = await action.admin.incremental_alter_configs(
        {resource: changes}, validate_only=action.is_preview
    )
    if (error := result[resource]) is not None:
        raise error
    return Outcome(
        command=change_command(action, ("--entity-type", "topics", *option("entity-name", name)), changes),
        summary=changes_summary(f"the topic {name}", changes, is_preview=action.is_preview),
    )


def _counts(partitions: int, replication: int) -> str:
    return f"with {_counted(partitions, 'partition')} and {_counted(replication, 'replica')} each"


def _counted(count: int, noun: str) -> str:
    if count < 0:
        return f"the default number of {noun}s"
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _raise(results: dict[str, KafkaError | None], name: str) -> None:
    if name not in results:
        raise bad_request("the cluster did not answer for this topic")
    if (error := results[name]) is not None:
        raise error


ROUTES = (
    Read("/topics", list_topics),
    Change("/topics", "create topic", create),
    Read("/topics/{topic}", show_topic),
    Read("/topics/{topic}/partitions", list_partitions),
    Change("/topics/{topic}/partitions", "add partitions", add_partitions),
    Read("/topics/{topic}/growth", show_growth),
    Read("/topics/{topic}/configs", list_settings),
    Change("/topics/{topic}/configs", "change topic settings", change_settings),
    Change("/topics/{topic}/delete", "delete topic", delete),
)
