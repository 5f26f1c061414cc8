"""Divides a plan into batches. The code only computes, without requests to the cluster."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from kcli.client.reassign.assignment import Assignment
from kcli.model.topic_partition import TopicPartition

REPLICAS_PER_BROKER = 10
"""The most replicas that one broker receives in a batch. All copies share the throttle, so each copy ends sooner if
there are few. If the command is stopped, more copies are then complete."""

REORDERED_PER_BATCH = 500
"""The most partitions in a batch without copies. Such a batch is one request."""


def batches(changes: Mapping[TopicPartition, tuple[int, ...]], before: Assignment) -> list[Assignment]:
    """Returns the changes in batches. Partitions that only change their leader are in the last batches."""
    copies: list[tuple[Assignment, Counter[int]]] = []
    reordered: list[TopicPartition] = []
    for partition, replicas in sorted(changes.items()):
        receivers = set(replicas) - set(before[partition])
        if not receivers:
            reordered.append(partition)
            continue
        batch, received = next(
            (copy for copy in copies if all(copy[1][broker] < REPLICAS_PER_BROKER for broker in receivers)),
            ({}, Counter()),
        )
        if not batch:
            copies.append((batch, received))
        batch[partition] = replicas
        received.update(receivers)
    without_copies = [
        {partition: changes[partition] for partition in reordered[start : start + REORDERED_PER_BATCH]}
        for start in range(0, len(reordered), REORDERED_PER_BATCH)
    ]
    return [*(batch for batch, _ in copies), *without_copies]


def copied_bytes(
    changes: Mapping[TopicPartition, tuple[int, ...]], before: Assignment, sizes: Mapping[TopicPartition, int]
) -> int:
    """Returns the bytes of the replicas that the changes copy."""
    return sum(
        len(set(replicas) - set(before[partition])) * sizes.get(partition, 0)
        for partition, replicas in changes.items()
    )


def copied_replicas(changes: Mapping[TopicPartition, tuple[int, ...]], before: Assignment) -> int:
    """Returns the number of replicas that the changes copy."""
    return sum(len(set(replicas) - set(before[partition])) for partition, replicas in changes.items())
