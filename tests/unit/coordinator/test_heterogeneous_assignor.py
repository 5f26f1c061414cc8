"""Members with different subscriptions: who gets what, partition by partition, where Kafka's assignor is exact too."""

from __future__ import annotations

import uuid

import pytest

from kcli.coordinator.group.consumer.assignors.heterogeneous import assign_heterogeneous
from kcli.coordinator.group.consumer.assignors.subscriber import Subscriber


def topic_id(name: str) -> uuid.UUID:
    """Ascending with the topic's number: the order in which topics of equal weight are taken."""
    return uuid.UUID(int=int(name[1:]) << 64)


def partitions(text: str) -> dict[uuid.UUID, frozenset[int]]:
    """`T1:0-2,4 T3:1`."""
    found: dict[uuid.UUID, frozenset[int]] = {}
    for topic in text.split():
        name, _, listed = topic.partition(":")
        numbers: set[int] = set()
        for item in listed.split(","):
            first, _, last = item.partition("-")
            numbers.update(range(int(first), int(last or first) + 1))
        found[topic_id(name)] = frozenset(numbers)
    return found


@pytest.mark.parametrize(
    ("topics", "members", "expected"),
    [
        pytest.param(
            "T1=3 T3=6",
            {"A": ("T1 T3", ""), "B": ("T3", "")},
            {"A": "T1:0-2 T3:4", "B": "T3:0-3,5"},
            id="the-one-who-has-less-choice-gets-more",
        ),
        pytest.param(
            "T1=2 T3=1",
            {"A": ("T3", ""), "B": ("T3", ""), "C": ("T1", "")},
            {"A": "T3:0", "B": "", "C": "T1:0-1"},
            id="more-subscribers-than-partitions",
        ),
        pytest.param(
            "T1=6 T2=4 T3=4",
            {"A": ("T1", "T1:0-2"), "B": ("T1 T2", "T1:3 T2:0"), "C": ("T1 T2 T3", "T1:4-5 T2:1-3 T3:0-3")},
            {"A": "T1:0-2,5", "B": "T1:3 T2:0-3", "C": "T1:4 T3:0-3"},
            id="the-most-loaded-gives",
        ),
        pytest.param(
            "T1=6 T2=5 T3=3 T4=3",
            {"A": ("T1 T3", "T1:0-3 T3:0-1"), "B": ("T1 T2 T3 T4", "T2:0-2 T4:0-2")},
            {"A": "T1:0-5 T3:0-2", "B": "T2:0-4 T4:0-2"},
            id="partitions-were-added",
        ),
        pytest.param(
            "T1=6 T2=7",
            {"A": ("T1", "T1:0,2 T2:0"), "B": ("T1 T2", "T1:1 T2:1-2"), "C": ("T1 T2", "")},
            {"A": "T1:0,2-5", "B": "T1:1 T2:1-2,6", "C": "T2:0,3-5"},
            id="a-member-was-added",
        ),
        pytest.param(
            "T1=3 T2=8 T3=3",
            {"A": ("T1 T3", "T1:0-2 T3:0-1"), "B": ("T2", "T2:3-6")},
            {"A": "T1:0-2 T3:0-2", "B": "T2:0-7"},
            id="a-member-left",
        ),
        pytest.param(
            "T1=3 T2=5",
            {"A": ("T1", "T1:0,2 T2:1,3"), "B": ("T2", "T1:1 T2:0,2,4")},
            {"A": "T1:0-2", "B": "T2:0-4"},
            id="subscriptions-changed",
        ),
        pytest.param(
            "T1=2 T2=2 T3=2",
            {"A": ("T1 T2 T3", "T1:0-1 T2:0-1 T3:0-1"), "B": ("T1 T2 T3", "")},
            {"A": "T2:0 T3:0-1", "B": "T1:0-1 T2:1"},
            id="everything-was-with-one",
        ),
        pytest.param(
            "T1=3", {"A": ("T1", ""), "B": ("", "")}, {"A": "T1:0-2", "B": ""}, id="nothing-subscribed"
        ),
    ],
)
def test_where_each_partition_goes(
    topics: str, members: dict[str, tuple[str, str]], expected: dict[str, str]
) -> None:
    counts = {
        topic_id(name): int(count) for name, _, count in (topic.partition("=") for topic in topics.split())
    }
    subscribers = {
        member_id: Subscriber(None, tuple(map(topic_id, subscribed.split())), partitions(assigned))
        for member_id, (subscribed, assigned) in members.items()
    }
    given = assign_heterogeneous(subscribers, counts)
    assert {member_id: dict(assigned) for member_id, assigned in given.items()} == {
        member_id: partitions(assigned) for member_id, assigned in expected.items()
    }
