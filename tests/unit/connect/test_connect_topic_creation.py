from __future__ import annotations

import pytest

from kcli.config.definition import ConfigError
from kcli.connect.config.topic_creation import TopicCreationGroup, has_groups, topic_creation_groups

DEFAULT = {"topic.creation.default.replication.factor": "-1", "topic.creation.default.partitions": "2"}


def test_groups_in_the_order_of_the_configuration() -> None:
    config = {
        **DEFAULT,
        "topic.creation.groups": "big, small,default",
        "topic.creation.big.include": "a.*,b",
        "topic.creation.big.exclude": "ab",
        "topic.creation.big.partitions": "20",
        "topic.creation.big.cleanup.policy": "compact",
        "topic.creation.small.include": "c",
        "topic.creation.default.include": "ignored",
        "topic.creation.default.retention.ms": "1000",
    }
    assert has_groups(config) and not has_groups({"topic": "t"})
    assert list(topic_creation_groups(config)) == [
        TopicCreationGroup("big", ("a.*", "b"), ("ab",), 20, -1, {"cleanup.policy": "compact"}),
        TopicCreationGroup("small", ("c",), (), 2, -1, {}),
        TopicCreationGroup("default", (".*",), (), 2, -1, {"retention.ms": "1000"}),
    ]


@pytest.mark.parametrize(
    ("config", "message"),
    [
        (
            {"topic.creation.groups": "g"},
            'Missing required configuration "topic.creation.default.replication.factor" which has no default value.',
        ),
        (
            {**DEFAULT, "topic.creation.groups": "g"},
            'Missing required configuration "topic.creation.g.include" which has no default value.',
        ),
        (
            {**DEFAULT, "topic.creation.groups": "g", "topic.creation.g.include": "("},
            "Invalid value [(] for configuration include: Syntax error in regular expression",
        ),
        (
            {**DEFAULT, "topic.creation.default.partitions": "0"},
            "Invalid value 0 for configuration partitions: Number of partitions must be positive, or -1 to use",
        ),
        (
            {**DEFAULT, "topic.creation.default.partitions": "x"},
            "Invalid value x for configuration topic.creation.default.partitions: Not a number of type INT",
        ),
    ],
)
def test_groups_that_are_refused(config: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        list(topic_creation_groups(config))
    assert str(refused.value).startswith(message)
