"""Java's producer on librdkafka: what it is configured with, and where records without a key go."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from kcli.rdkafka import producer
from kcli.rdkafka.errors import ConfigurationError
from kcli.rdkafka.producer import Destination, producer_config


@pytest.mark.parametrize(
    ("properties", "idempotent"),
    [
        ({}, True),
        ({"acks": "all", "retries": "3"}, True),
        ({"acks": "1"}, False),
        ({"retries": "0"}, False),
        ({"acks": " all ", "retries": " 00 "}, False),
        ({"acks": " all "}, True),
        ({"max.in.flight.requests.per.connection": "10"}, False),
        ({"acks": "1", "enable.idempotence": "TRUE"}, "true"),
    ],
)
def test_idempotent_unless_ruled_out(properties: dict[str, str], idempotent: object) -> None:
    assert producer_config(properties)["enable.idempotence"] == idempotent


def test_a_record_has_time_to_wait_and_to_be_answered() -> None:
    assert producer_config({})["message.timeout.ms"] == 120_000
    assert producer_config({"linger.ms": "100000"})["message.timeout.ms"] == 130_000
    with pytest.raises(ConfigurationError, match="should be equal to or larger than linger"):
        producer_config({"delivery.timeout.ms": "30000"})
    most = dict.fromkeys(("delivery.timeout.ms", "request.timeout.ms"), str(2**31 - 1))
    assert producer_config(most)["message.timeout.ms"] == str(2**31 - 1)


class Topic:
    """A producer that knows one topic, with partitions that have these leaders, once it was asked so often."""

    def __init__(
        self, *leaders: int, known_at: int = 1, error: int | None = None, is_new: bool = False
    ) -> None:
        self.leaders = leaders
        self.is_new = is_new
        self.known_at = known_at
        self.error = None if error is None else SimpleNamespace(code=lambda: error)
        self.asked = 0

    def list_topics(self, topic: str | None = None, timeout: float = 0) -> object:
        if topic is None:
            return SimpleNamespace(topics={} if self.is_new else {"t": None})
        self.asked += 1
        leaders = self.leaders if self.asked >= self.known_at else ()
        partitions = {at: SimpleNamespace(id=at, leader=leader) for at, leader in enumerate(leaders)}
        return SimpleNamespace(topics={topic: SimpleNamespace(partitions=partitions, error=self.error)})

    def poll(self, timeout: float) -> int:
        return 0

    def produce(self) -> None:
        raise AssertionError("nothing is sent")


def test_a_run_of_records_stays_together() -> None:
    topic = Topic(1, 1, -1)
    destination = Destination(topic, "t", {})
    assert destination.awaited() is None
    runs = [{destination.sticky(1023) for _ in range(16)} for _ in range(200)]
    assert all(len(run) == 1 for run in runs), "16 records of 1024 bytes are a batch"
    assert Counter(map(min, runs)).keys() == {0, 1}, "a partition without a leader is left out"
    assert (destination.awaited(), topic.asked) == (None, 1)


def test_a_topic_that_is_being_made_is_waited_for() -> None:
    topic = Topic(1, known_at=3, error=KafkaError.UNKNOWN_TOPIC_OR_PART)
    destination = Destination(topic, "t", {})
    assert destination.awaited() is None
    assert (destination.sticky(1), topic.asked) == (0, 3)


@pytest.mark.parametrize(
    ("code", "name", "message"),
    [
        (KafkaError.UNKNOWN_TOPIC_OR_PART, "TimeoutException", "Topic t not present in metadata after 1 ms."),
        (KafkaError.TOPIC_EXCEPTION, "InvalidTopicException", "Invalid topics: [t]"),
        (
            KafkaError.TOPIC_AUTHORIZATION_FAILED,
            "TopicAuthorizationException",
            "Not authorized to access topics: [t]",
        ),
    ],
)
def test_a_topic_that_does_not_come(code: int, name: str, message: str) -> None:
    config = {"topic.metadata.propagation.max.ms": "1"}
    error = Destination(Topic(error=code), "t", config).awaited()
    assert error is not None
    assert (type(error).__name__, error.message) == (name, message)


@pytest.mark.parametrize(
    ("error", "warnings"),
    [(None, 1), (KafkaError.TOPIC_EXCEPTION, 0), (KafkaError.TOPIC_AUTHORIZATION_FAILED, 0)],
)
def test_a_topic_that_the_first_request_creates_is_reported(
    error: int | None, warnings: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """librdkafka returns the answer to its second request, which has the new topic."""
    said: list[str] = []
    monkeypatch.setattr(producer, "warn_as_java", lambda text, _: said.append(text))
    Destination(Topic(1, error=error, is_new=True), "t", {}).awaited()
    assert [line.endswith("{t=UNKNOWN_TOPIC_OR_PARTITION}") for line in said] == [True] * warnings
    said.clear()
    Destination(Topic(1, error=error), "t", {}).awaited()
    assert not said, "the topic existed"


def test_a_missing_broker_is_reported_after_the_time_out() -> None:
    class Away(Topic):
        def list_topics(self, topic: str | None = None, timeout: float = 0) -> object:
            self.asked += 1
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))

    error = Destination(Away(), "t", {"topic.metadata.propagation.max.ms": "1"}).awaited()
    assert error is not None and error.message.startswith("Topic t not present in metadata")


class Full:
    """A producer that has room at the third time, and then refuses."""

    def __init__(self, refused: int) -> None:
        self.refused = refused
        self.tried = 0

    def poll(self, timeout: float) -> int:
        return 0

    def produce(self, topic: str, *record: object, timestamp: int, headers: object) -> None:
        self.tried += 1
        if self.tried < 3:
            raise BufferError
        raise KafkaException(KafkaError(self.refused))


def test_a_record_that_is_too_large_is_reported_with_its_size() -> None:
    """As Java's producer says it for five million bytes."""
    producer = Full(KafkaError.MSG_SIZE_TOO_LARGE)
    destination = Destination(producer, "t", {})
    refused = destination.send(bytes(5_000_000), None, 0)
    assert refused is not None and refused.message == (
        "The message is 5000088 bytes when serialized which is larger than 1048576, which is the value of the "
        "max.request.size configuration."
    )
    assert producer.tried == 3
    refused = destination.send(b"v" * 100, b"key", 0, headers=[("h", None), ("i", b"x")])
    bytes_of_it = 61 + 21 + 4 + 2 + 100 + 1 + 2 + 1 + 2 + 2
    assert refused is not None and refused.message.startswith(f"The message is {bytes_of_it} bytes")


def test_another_refusal_has_its_own_words() -> None:
    refused = Destination(Full(KafkaError.INVALID_REQUIRED_ACKS), "t", {}).send(b"", None, 0)
    assert type(refused).__name__ == "InvalidRequiredAcksException"
