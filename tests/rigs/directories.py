"""A node with two log directories. Finds the directory of a replica in the metadata and on the disk."""

from __future__ import annotations

import uuid
from pathlib import Path

from kcli.controller.api import CREATE_TOPICS
from kcli.protocol.messages import create_topics as ct
from rigs.node import RunningNode, Story, with_node


def with_two_directories(directory: Path, story: Story) -> None:
    """Runs the function `story` with a node on the log directories `a` and `b`."""
    with_node(
        directory,
        story,
        log_dirs=f"{directory}/a,{directory}/b",
        broker_heartbeat_interval_ms="20",
    )


async def create(node: RunningNode, name: str, partitions: int) -> None:
    topic = ct.CreatableTopic(name=name, num_partitions=partitions, replication_factor=1)
    await node.controller.send(CREATE_TOPICS, ct.CreateTopicsRequest(topics=(topic,)))


def registered(node: RunningNode, name: str) -> dict[int, uuid.UUID]:
    """The directory of each partition according to the metadata."""
    topic = node.metadata.topics.topic(name)
    assert topic is not None
    return {number: partition.directory(1) for number, partition in topic.partitions.items()}


def real(node: RunningNode, name: str) -> dict[int, uuid.UUID]:
    """The directory of each partition's log."""
    found = {number: node.logs.get(name, number) for number in registered(node, name)}
    return {number: log.directory.id for number, log in found.items() if log is not None}
