"""A cache of the answers that Metadata returns for topics. All clients share the cache until the metadata changes.

Clients often ask for many topics. For example, when a client of librdkafka uses a new topic, the client asks again for
every topic that it knows. So the answer for a topic is made and encoded once for each version and listener. An answer
for many topics is joined from these answers.

If the broker has an authorizer, two clients may see different topics. But the answer for one topic is the same for all
clients that may see the topic. An answer with authorized operations is different for each client. So the handler makes
a new cache for each request that asks for authorized operations.
"""

from __future__ import annotations

import uuid
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from kcli.metadata.image import BrokerRegistration, MetadataImage, TopicImage, Topics
from kcli.model.pace import Pace
from kcli.protocol.messages.metadata import MetadataResponseTopic
from kcli.protocol.wire.shared_array import SharedArray

TopicArray = SharedArray[MetadataResponseTopic]

TOPIC_COST = 10
"""The cost to find or make the answer for a topic, in microseconds. Its partitions have their own cost."""

KINDS_MAX = 4
"""The most kinds of answers in the cache. A few are enough, because the clients of a cluster use few versions and
listeners. A kind takes about 1 kB for each topic."""


@dataclass(frozen=True, slots=True)
class AnswerKind:
    """The key of the cache. The answer for a topic depends only on these values and on the metadata."""

    api_version: int
    listener: str
    with_operations: bool


@dataclass(slots=True)
class _KindAnswers:
    """The cached answers of one kind. Each answer is stored with the topic's image, and is valid until the topic has
    another image.
    """

    brokers: Mapping[int, BrokerRegistration]
    topics: dict[uuid.UUID, tuple[TopicImage, TopicArray]] = field(default_factory=dict)
    all_topics: tuple[Topics, TopicArray] | None = None


class TopicAnswers:
    """The cached answers of one node."""

    def __init__(self) -> None:
        self._kinds: dict[AnswerKind, _KindAnswers] = {}

    def of_kind(self, image: MetadataImage, kind: AnswerKind) -> _KindAnswers:
        """The cached answers of a kind. When a broker changes, all answers are dropped, because they contain leaders
        and offline replicas.

        An image uses the object of the previous image for each part of the metadata that has not changed. So if the
        object of a part is another object, the part has changed.
        """
        answers = self._kinds.get(kind)
        if answers is None or answers.brokers is not image.brokers:
            self._kinds.pop(kind, None)
            if len(self._kinds) >= KINDS_MAX:
                del self._kinds[next(iter(self._kinds))]
            answers = self._kinds[kind] = _KindAnswers(image.brokers)
        return answers


class KindOfAnswers:
    """The answers of one kind for one image. `make` makes the answer for a topic."""

    def __init__(
        self,
        answers: TopicAnswers,
        image: MetadataImage,
        kind: AnswerKind,
        make: Callable[[TopicImage], Awaitable[MetadataResponseTopic]],
    ) -> None:
        self._answers = answers.of_kind(image, kind)
        self._topics = image.topics
        self._make = make

    async def of_topic(self, topic: TopicImage) -> TopicArray:
        """The answer for one topic, as an array of one element."""
        known = self._answers.topics.get(topic.topic_id)
        if known is not None and known[0] is topic:
            return known[1]
        answer = SharedArray((await self._make(topic),))
        self._answers.topics[topic.topic_id] = (topic, answer)
        return answer

    async def of_all_topics(self, pace: Pace) -> TopicArray:
        """The answer for all topics, in the order of their names."""
        known = self._of_all()
        if known is not None:
            return known
        parts = []
        for topic in self._topics:
            await pace(TOPIC_COST)
            parts.append(await self.of_topic(topic))
        known = self._of_all()  # another client may have asked meanwhile
        if known is None:
            known = SharedArray.joined(parts)
            self._answers.all_topics = (self._topics, known)
            _forget_deleted(self._answers, self._topics)
        return known

    def _of_all(self) -> TopicArray | None:
        all_topics = self._answers.all_topics
        return all_topics[1] if all_topics is not None and all_topics[0] is self._topics else None


def _forget_deleted(answers: _KindAnswers, topics: Topics) -> None:
    if len(answers.topics) > 2 * len(topics):
        answers.topics = {key: value for key, value in answers.topics.items() if key in topics.by_id}
