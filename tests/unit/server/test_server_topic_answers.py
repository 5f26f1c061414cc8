"""Metadata's kept answers: shared until the topic or a broker changes, one per version and listener."""

from __future__ import annotations

import dataclasses
import uuid

import pytest

from kcli.metadata.image import MetadataImage, TopicImage, Topics
from kcli.model.pace import at_once, no_pause
from kcli.protocol.messages.metadata import MetadataResponse, MetadataResponseTopic
from kcli.protocol.wire import codec
from kcli.protocol.wire.api import ApiKey
from kcli.server.handlers.shared.topic_answers import (
    KINDS_MAX,
    AnswerKind,
    KindOfAnswers,
    TopicAnswers,
    TopicArray,
)

KIND = AnswerKind(12, "PLAINTEXT", with_operations=False)


class Asker:
    """Asks for topics and counts the answers that are made."""

    def __init__(self, answers: TopicAnswers | None = None) -> None:
        self.answers = answers or TopicAnswers()
        self.made: list[str] = []

    def all(self, image: MetadataImage, kind: AnswerKind = KIND) -> TopicArray:
        return at_once(self._of(image, kind).of_all_topics(no_pause))

    def one(self, image: MetadataImage, name: str, kind: AnswerKind = KIND) -> TopicArray:
        topic = image.topics.topic(name)
        assert topic is not None
        return at_once(self._of(image, kind).of_topic(topic))

    def _of(self, image: MetadataImage, kind: AnswerKind) -> KindOfAnswers:
        return KindOfAnswers(self.answers, image, kind, self._make)

    async def _make(self, topic: TopicImage) -> MetadataResponseTopic:
        self.made.append(topic.name)
        return MetadataResponseTopic(name=topic.name, topic_id=topic.topic_id)


def test_the_answer_for_all_topics_is_made_once() -> None:
    asker, image = Asker(), image_of("b", "a")
    first = asker.all(image)
    assert [topic.name for topic in first] == ["a", "b"]
    assert asker.all(image) is first
    assert asker.made == ["a", "b"]


def test_a_changed_topic_gets_a_new_answer_and_the_others_are_kept() -> None:
    asker, image = Asker(), image_of("a", "b", "c")
    before = asker.all(image)
    after = asker.all(changed(image, "b"))
    assert after is not before
    assert asker.made == ["a", "b", "c", "b"]


def test_a_topic_that_is_asked_for_alone_is_made_once() -> None:
    asker, image = Asker(), image_of("a", "b")
    assert asker.one(image, "a") is asker.one(changed(image, "b"), "a")
    assert asker.made == ["a"]


def test_a_changed_broker_voids_every_answer() -> None:
    asker, image = Asker(), image_of("a")
    first = asker.all(image)
    assert asker.all(dataclasses.replace(image, brokers={})) is not first
    assert asker.made == ["a", "a"]


def test_versions_listeners_and_operations_have_answers_of_their_own() -> None:
    asker, image = Asker(), image_of("a")
    kinds = [
        KIND,
        AnswerKind(13, "PLAINTEXT", False),
        AnswerKind(12, "TLS", False),
        AnswerKind(12, "PLAINTEXT", True),
    ]
    assert len({id(asker.all(image, kind)) for kind in kinds}) == len(kinds) == KINDS_MAX
    asker.all(image, AnswerKind(11, "PLAINTEXT", False))
    assert len(asker.made) == KINDS_MAX + 1
    asker.all(image, KIND)
    assert len(asker.made) == KINDS_MAX + 2, "the oldest kind made room"


def test_deleted_topics_are_forgotten() -> None:
    asker, image = Asker(), image_of(*"abcdefgh")
    asker.all(image)
    asker.all(dataclasses.replace(image, topics=topics_of(image, "a")))
    asker.one(image, "h")
    assert asker.made.count("h") == 2


@pytest.mark.parametrize("version", range(14))
def test_shared_answers_have_the_bytes_of_others(version: int) -> None:
    """In one buffer or several, for each version, and with any throttle time."""
    image = image_of(*(f"topic-{number}" for number in range(6000)))
    kind = AnswerKind(version, "PLAINTEXT", with_operations=False)
    shared = Asker().all(image, kind)
    for throttle_ms in (0, 1234):
        response = MetadataResponse(
            throttle_time_ms=throttle_ms, topics=shared, cluster_id="c", controller_id=1
        )
        plain = codec.encode_response(
            dataclasses.replace(response, topics=tuple(shared)), ApiKey.METADATA, version, 9
        )
        frame = at_once(codec.encoded_response(response, ApiKey.METADATA, version, 9, no_pause))
        assert isinstance(frame, list), "large shared bytes are a buffer of their own"
        assert b"".join(frame) == plain
        again = at_once(codec.encoded_response(response, ApiKey.METADATA, version, 9, no_pause))
        assert isinstance(again, list)
        assert max(again, key=len) is max(frame, key=len)


def image_of(*names: str) -> MetadataImage:
    by_id = {
        uuid.UUID(int=at): TopicImage(name, uuid.UUID(int=at), {}) for at, name in enumerate(names, start=1)
    }
    return MetadataImage(topics=Topics(by_id, {topic.name: key for key, topic in by_id.items()}))


def topics_of(image: MetadataImage, *names: str) -> Topics:
    ids = {name: image.topics.ids[name] for name in names}
    return Topics({key: image.topics.by_id[key] for key in ids.values()}, ids)


def changed(image: MetadataImage, name: str) -> MetadataImage:
    """The same image with another version of one topic."""
    topic = image.topics.topic(name)
    assert topic is not None
    by_id = {**image.topics.by_id, topic.topic_id: dataclasses.replace(topic)}
    return dataclasses.replace(image, topics=image.topics.with_partitions(by_id))
