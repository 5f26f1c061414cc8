"""JMX object names and patterns of them."""

from __future__ import annotations

import pytest

from kcli.model.object_name import MalformedObjectName, ObjectName, quoted, unquoted

NAME = "kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=a[1]"


def matches(pattern: str, name: str = NAME) -> bool:
    found = ObjectName.parse(name)
    return ObjectName.parse(pattern).matches(found.domain, found.properties)


@pytest.mark.parametrize(
    "pattern",
    [
        NAME,
        "*:*",
        "kafka.*:type=BrokerTopicMetrics,*",
        "kafka.server:*,topic=a[1]".replace("*,", "") + ",*",
        "kafka.server:topic=a[?],type=Broker*,name=MessagesInPerSec",
        "kafka.serve?:name=*,*",
    ],
)
def test_a_pattern_matches_the_names_it_describes(pattern: str) -> None:
    assert matches(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec",
        "kafka.server:type=BrokerTopicMetrics,name=MessagesInPerSec,topic=a[1],more=*",
        "kafka.server:topic=a1,*",
        "kafka.controller:*",
        "kafka.server:type=brokertopicmetrics,*",
    ],
)
def test_a_pattern_matches_no_other_names(pattern: str) -> None:
    assert not matches(pattern)


def test_only_patterns_are_patterns() -> None:
    assert not ObjectName.parse(NAME).is_pattern
    assert all(ObjectName.parse(text).is_pattern for text in ("*:a=b", "d:*", "d:a=b,*", "d:a=b?"))
    assert not ObjectName.parse(r'd:a="b\*"').is_pattern


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("abc", "Domain part must be specified"),
        ("d:", "Key properties cannot be empty"),
        ("d:a", "Invalid key property: `a` is not key=value"),
        ("d:a=1,", "Invalid key property: `` is not key=value"),
        ("d:a=1,a=2", "key `a' already defined"),
        ('d:a="b', 'Invalid key property: `a="b` is not key=value'),
        ("d:a=b=c", "Invalid key property: `a=b=c` is not key=value"),
    ],
)
def test_an_invalid_object_name_is_refused(text: str, why: str) -> None:
    with pytest.raises(MalformedObjectName) as refused:
        ObjectName.parse(text)
    assert str(refused.value) == why


@pytest.mark.parametrize("value", ["plain", "a,b", 'q"u*o?t\\e', "two\nlines", "a=b:c", "ü ö"])
def test_a_quoted_value_comes_back(value: str) -> None:
    name = ObjectName.parse(f"d:a={quoted(value)},z=1")
    assert unquoted(name.properties["a"]) == value
    assert not name.is_pattern
