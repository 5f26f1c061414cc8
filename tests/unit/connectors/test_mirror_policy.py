"""The names of remote topics, and the topics and configs that are copied."""

from __future__ import annotations

import pytest

from kcli.connectors.mirror.filters import ConfigFilter, CopiedTopics, NameFilter, joined
from kcli.connectors.mirror.policy import (
    DefaultReplicationPolicy,
    IdentityReplicationPolicy,
    InternalNames,
    comes_from,
    is_heartbeats,
)
from kcli.model.java_regex import JavaRegexError

DEFAULT = DefaultReplicationPolicy()
UNDERSCORE = DefaultReplicationPolicy("_", InternalNames("_"))
IDENTITY = IdentityReplicationPolicy("A")


@pytest.mark.parametrize(
    ("topic", "source", "upstream", "original"),
    [
        ("t", None, None, "t"),
        ("A.t", "A", "t", "t"),
        ("B.A.t", "B", "A.t", "t"),
        ("dots.and-more.1", "dots", "and-more.1", "1"),
        ("A.", None, None, "A."),
        ("A..", None, None, "A.."),
        (".t", "", "t", "t"),
        ("A..t", "A", ".t", "t"),
    ],
)
def test_the_source_of_a_topic(topic: str, source: str, upstream: str, original: str) -> None:
    assert DEFAULT.topic_source(topic) == source
    assert DEFAULT.upstream_topic(topic) == upstream
    assert DEFAULT.original_topic(topic) == original


def test_a_policy_with_another_separator() -> None:
    assert UNDERSCORE.remote_topic("A", "t.x") == "A_t.x"
    assert UNDERSCORE.topic_source("A.t") is None
    assert UNDERSCORE.names.offset_syncs("B") == "mm2-offset-syncs_B_internal"
    assert UNDERSCORE.names.checkpoints("A") == "A_checkpoints_internal"
    dots = DefaultReplicationPolicy("--")
    assert dots.topic_source("A--t") == "A" and dots.names.offset_syncs("B") == "mm2-offset-syncs.B.internal"
    assert DefaultReplicationPolicy("").topic_source("At") == "A"


def test_the_names_of_the_identity_policy() -> None:
    assert IDENTITY.remote_topic("A", "t") == IDENTITY.original_topic("t") == "t"
    assert (IDENTITY.topic_source("t"), IDENTITY.upstream_topic("t")) == ("A", "t")
    assert IDENTITY.remote_topic("A", "my-heartbeats") == "A.my-heartbeats"
    assert (IDENTITY.topic_source("heartbeats"), IDENTITY.topic_source("B.heartbeats")) == (None, "B")
    assert (
        IDENTITY.upstream_topic("B.heartbeats") == IDENTITY.original_topic("C.B.heartbeats") == "heartbeats"
    )
    assert IDENTITY.names == DEFAULT.names


@pytest.mark.parametrize(
    "topic", ["__x", ".x", "mm2-configs.A.internal", "mm2x.internal", "A.checkpoints.internal"]
)
def test_internal_topics_are_recognised(topic: str) -> None:
    assert DEFAULT.names.is_internal(topic)


@pytest.mark.parametrize("topic", ["x", "x.internal", "mm2", "connect-configs"])
def test_other_topics_are_not_internal(topic: str) -> None:
    assert not DEFAULT.names.is_internal(topic)


def test_a_cycle_is_recognised() -> None:
    assert comes_from(DEFAULT, "B.t", "B") and comes_from(DEFAULT, "C.B.t", "B")
    assert not comes_from(DEFAULT, "C.t", "B") and not comes_from(DEFAULT, "B", "B")
    assert comes_from(IDENTITY, "t", "A") and not comes_from(IDENTITY, "t", "B")
    assert comes_from(IDENTITY, "B.heartbeats", "B")


def test_heartbeats_are_recognised_after_any_number_of_copies() -> None:
    assert all(is_heartbeats(DEFAULT, topic) for topic in ("heartbeats", "A.heartbeats", "B.A.heartbeats"))
    assert not is_heartbeats(DEFAULT, "heartbeats2") and not is_heartbeats(DEFAULT, "my-heartbeats")


def test_the_topics_that_are_copied() -> None:
    topics = NameFilter.of(["a.*", "b"], [r".*\.replica"])
    copied = CopiedTopics(topics, DEFAULT, "B")
    accepted = ("a", "abc", "b", "heartbeats", "A.heartbeats")
    refused = ("bc", "a.replica", "B.a", "B.heartbeats", "__a", "c")
    assert all(map(copied.accepts, accepted)) and not any(map(copied.accepts, refused))
    assert not CopiedTopics(topics, DEFAULT, "B", copies_heartbeats=False).accepts("heartbeats")


def test_an_empty_list_matches_nothing() -> None:
    assert not NameFilter.of([], []).accepts("") and NameFilter.of([".*"], []).accepts("x")
    assert ConfigFilter(None, copies_defaults=False).accepts("retention.ms")
    assert not ConfigFilter(joined([r"retention\..*"]), copies_defaults=False).accepts("retention.ms")
    with pytest.raises(JavaRegexError):
        joined(["("])
