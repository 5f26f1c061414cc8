from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kcli.config.topic import TOPIC
from kcli.model.java_order import hash_order, map_order, partition_hash, string_hash, text_order


def test_topics_in_the_order_that_kafka_described_them() -> None:
    names = ["alpha", "assigned", "beta", "delta.with.dots", "delta_under_score", "gamma"]
    assert map_order(names, string_hash, capacity=len(names)) == [
        "delta_under_score",
        "assigned",
        "beta",
        "gamma",
        "alpha",
        "delta.with.dots",
    ]


def test_partitions_in_the_order_that_kafka_listed_them() -> None:
    partitions = [("a", 0), ("a", 1), ("b", 0), ("empty", 0)]
    partitions += [("__consumer_offsets", number) for number in range(3)]
    assert map_order(partitions, partition_hash) == [
        ("a", 1),
        ("__consumer_offsets", 0),
        ("a", 0),
        ("b", 0),
        ("empty", 0),
        ("__consumer_offsets", 1),
        ("__consumer_offsets", 2),
    ]


@given(st.lists(st.text(), unique=True))
def test_ordering_keeps_every_item(names: list[str]) -> None:
    assert sorted(map_order(names, string_hash)) == sorted(names)


def test_java_hash_of_strings() -> None:
    # Values that java.lang.String documents by its formula.
    assert string_hash("") == 0
    assert string_hash("a") == 97
    assert string_hash("ab") == 97 * 31 + 98
    assert string_hash("polygenelubricants") == 0x80000000
    assert string_hash("😀") == 31 * 0xD83D + 0xDE00


def test_hash_order_is_that_of_a_java_map() -> None:
    # As `kafka-topics --describe` of Kafka 4.1 lists a topic's configs.
    seen = (
        "compression.type min.insync.replicas cleanup.policy flush.ms retention.ms min.cleanable.dirty.ratio"
    )
    public = [name for name, key in TOPIC.items() if not key.internal]
    assert " ".join(name for name in hash_order(public) if name in seen.split()) == seen
    assert hash_order(["b", "a", "b"]) == ["a", "b"]


def test_texts_are_sorted_by_their_code_units() -> None:
    assert sorted(["\uff01", "\U0001f600", "b", "B", ""], key=text_order) == [
        "",
        "B",
        "b",
        "\U0001f600",
        "\uff01",
    ]
