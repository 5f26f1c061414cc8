"""The hash of a group's topics: what counts and what does not. tests/golden holds it against Kafka's own."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from kcli.coordinator.group.topics import NO_HASH, NoTopics, Topic, metadata_hash

ONE, OTHER = uuid.UUID(int=1 << 70), uuid.UUID(int=2 << 70)


class Known:
    version = 1

    def __init__(self, *topics: Topic) -> None:
        self._topics = {topic.name: topic for topic in topics}

    def topic(self, name: str) -> Topic | None:
        return self._topics.get(name)

    def topic_by_id(self, topic_id: uuid.UUID) -> Topic | None:
        return next((topic for topic in self._topics.values() if topic.topic_id == topic_id), None)

    def names(self) -> tuple[str, ...]:
        return tuple(self._topics)

    def existing(self, names: Iterable[str]) -> list[str]:
        return [name for name in names if self.topic(name) is not None]


def test_everything_about_a_topic_counts() -> None:
    racks = [("r1", "r2"), ("r2",)]
    hashes = [
        Topic("t", ONE, racks).hash,
        Topic("u", ONE, racks).hash,
        Topic("t", OTHER, racks).hash,
        Topic("t", ONE, racks[:1]).hash,
        Topic("t", ONE, [("r1",), ("r2",)]).hash,
        Topic("t", ONE, [(), ()]).hash,
    ]
    assert len(set(hashes)) == len(hashes)


def test_the_order_of_replicas_does_not() -> None:
    assert Topic("t", ONE, [("a", "b")]).hash == Topic("t", ONE, [("b", "a")]).hash


def test_a_group_has_the_hash_of_its_topics_in_any_order() -> None:
    topics = Known(Topic("a", ONE, [()]), Topic("b", OTHER, [()]))
    both = metadata_hash(topics, ["a", "b"])
    assert both == metadata_hash(topics, ["b", "a"]) == metadata_hash(topics, ["b", "missing", "a"])
    assert both != metadata_hash(topics, ["a"])
    assert -(2**63) <= both < 2**63


def test_no_topics_have_no_hash() -> None:
    assert metadata_hash(NoTopics(), ["a"]) == NO_HASH == metadata_hash(Known(), [])
    nothing = NoTopics()
    assert (nothing.names(), nothing.topic("t"), nothing.topic_by_id(ONE)) == ((), None, None)
