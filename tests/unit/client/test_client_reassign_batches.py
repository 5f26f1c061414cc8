"""The batches of `reassign-partitions --balance`."""

from __future__ import annotations

from collections import Counter

from kcli.client.reassign.batches import (
    REORDERED_PER_BATCH,
    REPLICAS_PER_BROKER,
    batches,
    copied_bytes,
    copied_replicas,
)
from kcli.model.topic_partition import TopicPartition


def partition(number: int) -> TopicPartition:
    return TopicPartition("t", number)


def test_a_broker_receives_few_replicas_in_a_batch() -> None:
    before = {partition(number): (1, 2) for number in range(50)}
    changes = {partition(number): (3 + number % 2, 2) for number in range(50)}
    parts = batches(changes, before)
    assert [len(part) for part in parts] == [20, 20, 10]
    for part in parts:
        received = Counter(replicas[0] for replicas in part.values())
        assert max(received.values()) <= REPLICAS_PER_BROKER
    assert {key: value for part in parts for key, value in part.items()} == changes


def test_new_leaders_without_a_copy_come_last() -> None:
    before = {partition(number): (1, 2) for number in range(REORDERED_PER_BATCH + 2)}
    changes = dict.fromkeys(before, (2, 1))
    changes[partition(1)] = (3, 2)
    assert [len(part) for part in batches(changes, before)] == [1, REORDERED_PER_BATCH, 1]


def test_only_new_replicas_are_copied() -> None:
    before = {partition(0): (1, 2), partition(1): (1, 2), partition(2): (1,)}
    changes = {partition(0): (2, 1), partition(1): (3, 2), partition(2): (1, 2, 3)}
    sizes = {partition(number): 10**number for number in range(3)}
    assert copied_replicas(changes, before) == 3
    assert copied_bytes(changes, before, sizes) == 10 + 2 * 100
