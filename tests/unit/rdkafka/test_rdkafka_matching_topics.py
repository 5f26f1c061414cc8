"""Topics by expression: which match, when they are looked up, and what the consumer reports."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from confluent_kafka import KafkaError, KafkaException

from kcli.rdkafka import matching_topics
from kcli.rdkafka.errors import PatternError
from kcli.rdkafka.log import logger
from kcli.rdkafka.matching_topics import RETRY_S, MatchingTopics, matcher, max_age_s

EVERY_S = 5.0


class Cluster:
    """The two calls of a consumer that are used, and what it was told."""

    def __init__(self, *topics: str) -> None:
        self.topics = list(topics)
        self.told: list[list[str]] = []
        self.is_down = False
        self.looks = 0

    def list_topics(self, *, timeout: float) -> SimpleNamespace:
        assert timeout > 0
        self.looks += 1
        if self.is_down:
            raise KafkaException(KafkaError(KafkaError._TRANSPORT))
        return SimpleNamespace(topics=dict.fromkeys(self.topics))

    def subscribe(self, topics: list[str]) -> None:
        self.told.append(topics)

    def unsubscribe(self) -> None:
        self.told.append([])


class Now:
    """A clock that is set."""

    def __init__(self) -> None:
        self.seconds = 1000.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> Now:
    clock = Now()
    monkeypatch.setattr(matching_topics, "time", clock)
    return clock


def followed(cluster: Cluster, include: str) -> MatchingTopics:
    return MatchingTopics(cluster, matcher(include), cluster.subscribe, every_s=EVERY_S)


def test_whole_names_match_and_internal_topics_never(now: Now) -> None:
    cluster = Cluster("ab", "a", "ba", "__consumer_offsets", "__transaction_state")
    followed(cluster, "a.?|__.*").refresh()
    assert cluster.told == [["a", "ab"]]


def test_new_topics_are_found_when_it_is_time_to_look(now: Now) -> None:
    cluster = Cluster("a1")
    topics = followed(cluster, r"a\d")
    topics.refresh()
    cluster.topics.append("a2")
    now.seconds += EVERY_S - 0.1
    topics.refresh()
    assert (cluster.looks, cluster.told) == (1, [["a1"]])
    now.seconds += 0.1
    topics.refresh()
    assert cluster.told == [["a1"], ["a1", "a2"]]
    now.seconds += EVERY_S
    topics.refresh()
    assert (cluster.looks, len(cluster.told)) == (3, 2), "what is as it was is not said again"
    cluster.topics.clear()
    now.seconds += EVERY_S
    topics.refresh()
    assert cluster.told[-1] == []


def test_a_cluster_that_is_away_is_asked_again_soon(now: Now, capsys: pytest.CaptureFixture[str]) -> None:
    logger().handlers.clear()  # its stream is the stderr of now
    cluster = Cluster("a")
    cluster.is_down = True
    topics = followed(cluster, "a")
    topics.refresh()
    assert "WARN The topics cannot be listed: " in capsys.readouterr().err
    cluster.is_down = False
    topics.refresh()
    assert (cluster.looks, cluster.told) == (1, [])
    now.seconds += RETRY_S
    topics.refresh()
    assert cluster.told == [["a"]]


def test_an_invalid_expression_is_named() -> None:
    with pytest.raises(PatternError, match=r"^a\(: not a regular expression"):
        matcher("a(")


def test_how_often_is_the_consumers_own_setting() -> None:
    assert max_age_s({}) == 300
    assert max_age_s({"metadata.max.age.ms": "2500"}) == 2.5
