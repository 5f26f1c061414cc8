from __future__ import annotations

import dataclasses

import pytest

from kcli.config.definition import ConfigError
from kcli.config.topic import FIELD_NAMES, SERVER_SYNONYMS, TOPIC, LogConfig


def test_one_field_per_topic_key_with_the_same_default() -> None:
    assert tuple(name.replace(".", "_") for name in TOPIC) == FIELD_NAMES
    for name in TOPIC:
        assert getattr(LogConfig(), name.replace(".", "_")) == TOPIC.default(name), name
    assert LogConfig.resolve({}, {}) == LogConfig()


def test_every_synonym_belongs_to_a_topic_key() -> None:
    assert set(SERVER_SYNONYMS) <= set(TOPIC)


def test_overrides_win_over_broker_values() -> None:
    config = LogConfig.resolve(
        {"retention.ms": "7200000", "cleanup.policy": "compact, delete", "min.cleanable.dirty.ratio": "0.3"},
        {"log.retention.ms": 5, "log.segment.bytes": 2_000_000},
    )
    assert config.retention_ms == 7_200_000
    assert config.cleanup_policy == ("compact", "delete")
    assert config.compact and config.delete
    assert config.min_cleanable_dirty_ratio == 0.3
    assert config.segment_bytes == 2_000_000


@pytest.mark.parametrize(
    ("broker", "retention_ms"),
    [
        ({"log.retention.ms": 7, "log.retention.minutes": 5, "log.retention.hours": 3}, 7),
        ({"log.retention.minutes": 5, "log.retention.hours": 3}, 300_000),
        ({"log.retention.ms": None, "log.retention.minutes": None, "log.retention.hours": 3}, 10_800_000),
        ({"log.retention.hours": -1}, -1),
        ({"log.retention.ms": -7}, -1),
        ({"log.retention.hours": "2"}, 7_200_000),
    ],
)
def test_units_of_broker_synonyms(broker: dict[str, int | str | None], retention_ms: int) -> None:
    assert LogConfig.resolve({}, broker).retention_ms == retention_ms


def test_internal_segment_bytes_goes_below_the_public_minimum() -> None:
    assert LogConfig.resolve({"internal.segment.bytes": "100"}, {}).segment_size_bytes == 100
    assert LogConfig(segment_bytes=2**20).segment_size_bytes == 2**20
    with pytest.raises(ConfigError, match=r"segment\.bytes: Value must be at least 1048576"):
        LogConfig.resolve({"segment.bytes": "100"}, {})


def test_a_bad_override_is_named_in_kafkas_words() -> None:
    with pytest.raises(ConfigError) as refused:
        LogConfig.resolve({"retention.ms": "x"}, {})
    assert str(refused.value) == "Invalid value x for configuration retention.ms: Not a number of type LONG"


def test_unknown_overrides_are_passed_over() -> None:
    assert LogConfig.resolve({"from.the.future": "1"}, {}) == LogConfig()


def test_log_config_is_a_value() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        LogConfig().retention_ms = 1  # type: ignore[misc]
