"""The replicas of partitions, and their form in Kafka's reassignment files."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence

from kcli.model.topic_partition import TopicPartition

VERSION = 1
ANY_LOG_DIR = "any"

Assignment = dict[TopicPartition, tuple[int, ...]]


class ReassignError(Exception):
    """Raised if a plan cannot be made or carried out. The message is for the user."""


class ThrottleLeftError(ReassignError):
    """Raised if some brokers or topics still have the throttle."""


def assignment_json(assignment: Mapping[TopicPartition, Sequence[int]]) -> str:
    """Returns the assignment as a sorted reassignment file in one line."""
    partitions = [
        {
            "topic": topic,
            "partition": number,
            "replicas": list(assignment[TopicPartition(topic, number)]),
            "log_dirs": [ANY_LOG_DIR] * len(assignment[TopicPartition(topic, number)]),
        }
        for topic, number in sorted(assignment)
    ]
    document = {"version": VERSION, "partitions": partitions}
    return json.dumps(document, separators=(",", ":"), ensure_ascii=False)
