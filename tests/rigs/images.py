"""Metadata images that a single node cannot have, because they need several brokers."""

from __future__ import annotations

import uuid
from dataclasses import replace

from kcli.metadata.image import (
    BrokerRegistration,
    Endpoint,
    MetadataImage,
    PartitionImage,
    TopicImage,
    Topics,
)


def unreachable(image: MetadataImage) -> MetadataImage:
    """Makes partitions that a client on this listener cannot use: one without a leader, one whose leader does not have
    the listener, and one with a dead replica."""
    other = BrokerRegistration(
        2, 9, uuid.UUID(int=7), {"OTHER": Endpoint("OTHER", "h", 1, 0)}, {}, fenced=False
    )
    dead = replace(other, id=3, fenced=True, endpoints=image.brokers[1].endpoints)
    directories = (uuid.UUID(int=1),) * 2

    def partition(leader: int, replicas: tuple[int, ...], isr: tuple[int, ...]) -> PartitionImage:
        return PartitionImage(replicas, isr, leader, 5, 6, directories)

    topic = TopicImage(
        "x",
        uuid.UUID(int=1234),
        {0: partition(-1, (1, 3), ()), 1: partition(2, (2, 1), (2, 1)), 2: partition(1, (1, 3), (1, 3))},
    )
    return replace(
        image,
        brokers={**image.brokers, 2: other, 3: dead},
        topics=Topics({topic.topic_id: topic}, {"x": topic.topic_id}),
    )
