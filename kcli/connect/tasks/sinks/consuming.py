"""The consumer of a sink task: librdkafka's, with the order of calls of Java's consumer."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Protocol, cast

from kcli.connect.tasks.spec import SinkSpec
from kcli.errors import KafkaError
from kcli.formats.connect.errors import ConnectException
from kcli.model.java_text import parse_int
from kcli.model.topic_partition import TopicPartition
from kcli.rdkafka.client import is_fatal, kafka_error, new_client
from kcli.rdkafka.configuration import translate
from kcli.rdkafka.consumer import JAVA_DEFAULTS, JavaPositions
from kcli.rdkafka.matching_topics import MatchingTopics, matcher, max_age_s
from kcli.rdkafka.objects import ClientError, Consumer, Message, PartitionOffset

POLL_RECORDS = 500
"""The default of max.poll.records in Java."""
SLICE_S = 0.2
"""The longest single wait for records, because librdkafka's wait cannot be interrupted."""

UNKNOWN_OFFSET = -1
"""The offset of a partition whose position librdkafka chooses, before its first record."""


class Owner(Protocol):
    """Learns of assignments, while the consumer polls."""

    def assigned(self, offsets: Mapping[TopicPartition, int]) -> Mapping[TopicPartition, int]: ...
    def positioned(self) -> None: ...
    def revoked(self, partitions: Collection[TopicPartition], *, lost: bool) -> None: ...


class GroupConsumer(Consumer, Protocol):
    """The methods of `confluent_kafka.Consumer` that only sink tasks call."""

    def pause(self, partitions: Sequence[PartitionOffset]) -> None: ...
    def resume(self, partitions: Sequence[PartitionOffset]) -> None: ...
    def seek(self, partition: PartitionOffset) -> None: ...


class SinkConsumer:
    """Polls the records of a sink task, and tells the task of its partitions."""

    def __init__(self, spec: SinkSpec, owner: Owner) -> None:
        from confluent_kafka import Consumer as RdConsumer

        self._spec = spec
        self._owner = owner
        self.assignment: set[TopicPartition] = set()
        self._error: Exception | None = None
        self._results: deque[Callable[[KafkaError | None], None]] = deque()
        self._poll_records = parse_int(spec.consumer.get("max.poll.records", str(POLL_RECORDS)))
        config = {**JAVA_DEFAULTS, **translate(spec.consumer)}
        self._positions = JavaPositions(config, on_placed=self._placed)
        self._client = cast("GroupConsumer", new_client(RdConsumer, {**config, "on_commit": self._committed}))
        self._matching: MatchingTopics | None = None
        if spec.topics_regex:
            self._matching = MatchingTopics(
                self._client,
                matcher(spec.topics_regex),
                self._subscribe_to,
                every_s=max_age_s(config),
            )

    def subscribe(self) -> None:
        if self._matching is None:
            self._subscribe_to(list(self._spec.topics))

    def _subscribe_to(self, topics: list[str]) -> None:
        self._client.subscribe(
            topics,
            on_assign=self._on_assign,
            on_revoke=lambda consumer, places: self._on_revoke(places, lost=False),
            on_lost=lambda consumer, places: self._on_revoke(places, lost=True),  # type: ignore[call-arg]
        )

    def poll(self, timeout_s: float, is_interrupted: Callable[[], bool]) -> list[Message]:
        """Returns the next records, or none after the time-out or an interrupt. Raises the error of a callback."""
        deadline = time.monotonic() + timeout_s
        while True:
            if self._matching is not None:
                self._matching.refresh()
            left = min(SLICE_S, max(0.0, deadline - time.monotonic()))
            first = self._client.poll(left)
            if first is not None:
                # Records of one fetch are in the queue together, so these come without a wait.
                more = self._client.consume(self._poll_records - 1, 0) if self._poll_records > 1 else []
                self._raise_error()
                messages = [message for message in (first, *more) if self._is_record(message)]
                if messages:
                    return messages
            self._raise_error()
            if is_interrupted() or time.monotonic() >= deadline:
                return []

    def _is_record(self, message: Message) -> bool:
        error = message.error()
        if error is not None:
            self._check(error)
            return False
        # The records of a partition that was revoked since they were fetched belong to another task.
        return (message.topic(), message.partition()) in self.assignment

    def _check(self, error: ClientError) -> None:
        """Raises an error after which the consumer cannot continue. librdkafka tries the others again itself."""
        from confluent_kafka import KafkaError as RdError

        if is_fatal(error) or error.code() in (
            RdError._AUTO_OFFSET_RESET,
            RdError.TOPIC_AUTHORIZATION_FAILED,
            RdError.GROUP_AUTHORIZATION_FAILED,
        ):
            raise ConnectException("The consumer of the task failed") from kafka_error(error)

    def _raise_error(self) -> None:
        if self._error is not None:
            error, self._error = self._error, None
            raise error

    def pause(self, partitions: Collection[TopicPartition]) -> None:
        if partitions:
            self._client.pause(_places(partitions))

    def resume(self, partitions: Collection[TopicPartition]) -> None:
        if partitions:
            self._client.resume(_places(partitions))

    def seek(self, partition: TopicPartition, offset: int) -> None:
        (place,) = _places({partition: offset})
        self._client.seek(place)

    def commit(self, offsets: Mapping[TopicPartition, int]) -> KafkaError | None:
        """Commits, and waits for the answer. Returns the error."""
        from confluent_kafka import KafkaException

        try:
            self._client.commit(offsets=_places(offsets), asynchronous=False)
        except KafkaException as error:
            return kafka_error(error.args[0])
        return None

    def commit_in_background(
        self, offsets: Mapping[TopicPartition, int], on_result: Callable[[KafkaError | None], None]
    ) -> None:
        """Commits. A later `poll` calls `on_result`. librdkafka answers commits in their order."""
        self._results.append(on_result)
        self._client.commit(offsets=_places(offsets), asynchronous=True)

    def _committed(self, error: ClientError | None, places: list[PartitionOffset]) -> None:
        # librdkafka calls this for waiting commits too, which have no function here.
        if self._results:
            self._results.popleft()(None if error is None else kafka_error(error))

    def _on_assign(self, consumer: Consumer, places: list[PartitionOffset]) -> None:
        try:
            self._positions.assigned(consumer, places)
            new = {TopicPartition(place.topic, place.partition) for place in places} - self.assignment
            if new:
                # The offsets could not be looked up, so librdkafka chooses those that the task does not set.
                self.assignment |= new
                chosen = self._owner.assigned(dict.fromkeys(new, UNKNOWN_OFFSET))
                for place in places:
                    offset = chosen.get(TopicPartition(place.topic, place.partition), UNKNOWN_OFFSET)
                    if offset != UNKNOWN_OFFSET:
                        place.offset = offset
                self._positions.assign(consumer, places)
            self._owner.positioned()
        except Exception as error:
            self._error = error

    def _placed(self, places: list[PartitionOffset]) -> None:
        offsets = {TopicPartition(place.topic, place.partition): place.offset for place in places}
        self.assignment |= set(offsets)
        chosen = self._owner.assigned(offsets)
        for place in places:
            place.offset = chosen[TopicPartition(place.topic, place.partition)]

    def _on_revoke(self, places: list[PartitionOffset], *, lost: bool) -> None:
        partitions = [TopicPartition(place.topic, place.partition) for place in places]
        try:
            self._owner.revoked([one for one in partitions if one in self.assignment], lost=lost)
        except Exception as error:
            self._error = error
        finally:
            self.assignment.difference_update(partitions)

    def close(self) -> None:
        """Leaves the group."""
        self._client.close()


def _places(partitions: Collection[TopicPartition] | Mapping[TopicPartition, int]) -> list[PartitionOffset]:
    from confluent_kafka import TopicPartition as Place

    if isinstance(partitions, Mapping):
        return [Place(topic, partition, offset) for (topic, partition), offset in partitions.items()]
    return [Place(topic, partition) for topic, partition in partitions]
