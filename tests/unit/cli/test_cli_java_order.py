from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from kcli.cli.java.order import map_order, partition_hash, string_hash


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
def test_nothing_is_lost(names: list[str]) -> None:
    assert sorted(map_order(names, string_hash)) == sorted(names)
