from __future__ import annotations

import pytest

from kcli.config import (
    admin,
    broker_docs,
    broker_keys,
    client_metrics,
    consumer,
    group,
    producer,
    quota,
    topic,
)
from kcli.config.definition import ConfigDef, ConfigError

TABLES: dict[str, ConfigDef] = {
    "broker": broker_keys.BROKER,
    "dynamic": broker_keys.DYNAMIC_ONLY,
    "topic": topic.TOPIC,
    "group": group.GROUP,
    "metrics": client_metrics.CLIENT_METRICS,
    "users": quota.USERS,
    "clients": quota.CLIENTS,
    "ips": quota.IPS,
    "producer": producer.PRODUCER,
    "consumer": consumer.CONSUMER,
    "admin": admin.ADMIN,
}


@pytest.mark.parametrize("name", TABLES)
def test_every_default_is_a_value_the_key_takes(name: str) -> None:
    for key in TABLES[name].values():
        if key.default is not None:
            assert key.parse(key.default) == TABLES[name].default(key.name), key.name


@pytest.mark.parametrize("name", TABLES)
def test_public_keys_are_listed_by_name(name: str) -> None:
    public = [key.name for key in TABLES[name].values() if not key.internal]
    assert public == sorted(public)


def test_every_documented_broker_key_exists() -> None:
    known = set(broker_keys.BROKER) | set(broker_keys.DYNAMIC_ONLY)
    assert set(broker_docs.BROKER_DOCS) <= known


def test_every_key_that_kafka_lacks_has_a_text() -> None:
    own = [key for key in broker_keys.BROKER.values() if key.name.startswith("kcli.")]
    assert own
    assert [key.name for key in own if not key.documentation] == []


def test_every_topic_synonym_is_a_broker_key() -> None:
    for synonyms in topic.SERVER_SYNONYMS.values():
        assert {synonym.name for synonym in synonyms} <= set(broker_keys.BROKER)
    assert set(group.BROKER_SYNONYMS.values()) <= set(broker_keys.BROKER)


def test_number_of_keys_of_4_1() -> None:
    assert len([key for key in broker_keys.BROKER.values() if not key.internal]) == 316
    assert len([key for key in topic.TOPIC.values() if not key.internal]) == 33


def test_group_configs_are_held_to_the_brokers_limits() -> None:
    broker = dict(broker_keys.BROKER.parse({"node.id": "1", "process.roles": "broker"}))
    group.validate_group_overrides({"consumer.session.timeout.ms": "50000"}, broker)
    group.validate_group_overrides({"share.auto.offset.reset": "by_duration:PT1H"}, broker)
    refusals = {
        "Unknown group config name: nope": {"nope": "1"},
        "consumer.session.timeout.ms must be greater than or equal to group.consumer.min.session.timeout.ms": {
            "consumer.session.timeout.ms": "1000"
        },
        "consumer.heartbeat.interval.ms must be less than or equal to group.consumer.max.heartbeat.interval.ms": {
            "consumer.heartbeat.interval.ms": "20000"
        },
        "Invalid value x for configuration share.auto.offset.reset: Invalid value `x` for configuration "
        "share.auto.offset.reset. The value must be either 'earliest', 'latest' or of the format "
        "'by_duration:<PnDTnHnMn.nS.>'.": {"share.auto.offset.reset": "x"},
    }
    for message, overrides in refusals.items():
        with pytest.raises(ConfigError) as refused:
            group.validate_group_overrides(overrides, broker)
        assert str(refused.value) == message


def test_a_session_outlasts_its_heartbeats() -> None:
    broker = {"group.consumer.heartbeat.interval.ms": 5000}
    with pytest.raises(
        ConfigError, match=r"^consumer\.session\.timeout\.ms must be greater than consumer\.heartbeat"
    ):
        group.validate_group_overrides({"consumer.session.timeout.ms": "5000"}, broker)
