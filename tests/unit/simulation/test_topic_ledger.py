"""What the ledger of topics demands from the metadata of a node."""

from __future__ import annotations

import uuid

import pytest

from kcli.metadata.image import MetadataImage, PartitionImage, TopicImage, Topics
from kcli.model.ids import BrokerId, LeaderEpoch
from simulation.checks.topic_ledger import TopicLedger

NAME, ID, OTHER_ID = "t", uuid.UUID(int=1), uuid.UUID(int=2)


def with_topic(topic_id: uuid.UUID, partitions: int) -> MetadataImage:
    image = PartitionImage((BrokerId(1),), (BrokerId(1),), BrokerId(1), LeaderEpoch(0), 0)
    topic = TopicImage(NAME, topic_id, dict.fromkeys(range(partitions), image))
    return MetadataImage(topics=Topics({topic_id: topic}, {NAME: topic_id}))


def test_an_acknowledged_topic_keeps_its_id_and_its_partitions() -> None:
    ledger = TopicLedger()
    ledger.created(NAME, ID, 2)
    ledger.check(with_topic(ID, 2))
    ledger.grown(NAME, 3)
    ledger.check(with_topic(ID, 4))
    for image, error in (
        (MetadataImage(), "t was created and is gone"),
        (with_topic(OTHER_ID, 3), "t has another id"),
        (with_topic(ID, 2), "t has lost partitions"),
    ):
        with pytest.raises(AssertionError, match=error):
            ledger.check(image)


def test_a_topic_with_an_unanswered_deletion_may_exist_or_not() -> None:
    ledger = TopicLedger()
    ledger.created(NAME, ID, 2)
    ledger.topics[NAME].may_be_deleted = True
    ledger.check(MetadataImage())
    ledger.is_unknown(NAME)
    ledger.check(with_topic(ID, 2))


def test_a_deleted_topic_does_not_come_back() -> None:
    ledger = TopicLedger()
    ledger.created(NAME, ID, 2)
    ledger.is_deleted(NAME)
    ledger.check(with_topic(OTHER_ID, 2))
    with pytest.raises(AssertionError, match="t was deleted and is back"):
        ledger.check(with_topic(ID, 2))
