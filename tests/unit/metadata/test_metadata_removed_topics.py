"""Which logs the metadata log shows to be of deleted topics."""

from __future__ import annotations

import uuid

from kcli.metadata.image import TopicImage, Topics
from kcli.metadata.removed_topics import RemovedTopics
from kcli.protocol.records.framing import encode_framed
from kcli.protocol.records.metadata import NoOpRecord, RemoveTopicRecord, TopicRecord

OLD, NEW, FOREIGN = (uuid.uuid5(uuid.NAMESPACE_DNS, name) for name in ("old", "new", "foreign"))


def replayed(*records: object) -> RemovedTopics:
    removed = RemovedTopics()
    removed.replay(encode_framed(record, 0) for record in records)
    return removed


def test_only_a_removal_shows_that_a_topic_is_deleted() -> None:
    removed = replayed(
        TopicRecord(name="t", topic_id=OLD),
        RemoveTopicRecord(topic_id=OLD),
        NoOpRecord(),
        TopicRecord(name="t", topic_id=NEW),
    )
    assert removed.has("t", OLD)
    assert not removed.has("t", NEW)
    assert not removed.has("t", FOREIGN)  # of another cluster, or of a metadata log that was lost


def test_a_removal_counts_after_the_creation_was_cut_off() -> None:
    removed = replayed(RemoveTopicRecord(topic_id=OLD))
    assert removed.has("t", OLD)
    assert not removed.has("t", None)


def test_a_log_without_topic_id_goes_by_its_name() -> None:
    removed = replayed(
        TopicRecord(name="t", topic_id=OLD),
        TopicRecord(name="u", topic_id=NEW),
        RemoveTopicRecord(topic_id=OLD),
    )
    assert removed.has("t", None)
    assert not removed.has("u", None)


def test_other_bytes_are_passed_over() -> None:
    removed = RemovedTopics()
    removed.replay([b"", b"\x01", b"\x02\x09\x00", b"\xff" * 12])
    assert not removed.has("t", OLD)


def topics(**ids: uuid.UUID) -> Topics:
    images = {topic_id: TopicImage(name, topic_id, {}) for name, topic_id in ids.items()}
    return Topics(images, ids)


def test_a_topic_that_a_snapshot_lacks_is_deleted() -> None:
    """The log may have uncommitted records: the removal of `here` was never committed."""
    here = uuid.uuid5(uuid.NAMESPACE_DNS, "here")
    removed = replayed(TopicRecord(name="u", topic_id=NEW), RemoveTopicRecord(topic_id=here))
    removed.add_missing(topics(t=OLD, here=here), topics(here=here))
    assert removed.has("t", OLD) and removed.has("t", None)
    assert removed.has("u", NEW)
    assert not removed.has("here", here)
    assert not removed.has("v", FOREIGN)
    both = RemovedTopics()
    both.add_all(removed)
    assert both.has("t", OLD)
