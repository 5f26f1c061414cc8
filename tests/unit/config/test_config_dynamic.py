from __future__ import annotations

import logging

import pytest

from kcli.config.describe import ConfigEntry, base_name
from kcli.config.dynamic import DynamicConfig, is_dynamic, validate_topic_overrides
from kcli.config.start_up import node_config
from kcli.errors import InvalidConfigurationException, InvalidRequestException
from kcli.model.configs import ConfigSource
from kcli.model.pace import at_once, no_pause

STATIC = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "controller.listener.names": "CONTROLLER",
    "log.index.size.max.bytes": "65536",
}


@pytest.fixture
def dynamic() -> DynamicConfig:
    return DynamicConfig(node_config(STATIC))


def shown(entry: ConfigEntry) -> str:
    """As `kafka-configs --describe` prints an entry."""
    synonyms = ", ".join(
        f"{s.source.name}:{s.name}={'null' if s.value is None else s.value}" for s in entry.synonyms
    )
    value = "null" if entry.value is None else entry.value
    return f"{entry.name}={value} sensitive={str(entry.sensitive).lower()} synonyms={{{synonyms}}}"


def by_name(entries: tuple[ConfigEntry, ...]) -> dict[str, ConfigEntry]:
    return {entry.name: entry for entry in entries}


def test_a_topic_key_names_every_place_that_could_supply_it(dynamic: DynamicConfig) -> None:
    dynamic.update(default={"message.max.bytes": "1200000"}, own={"message.max.bytes": "1300000"})
    entries = by_name(dynamic.describe_topic({"max.message.bytes": "123456"}))
    assert shown(entries["max.message.bytes"]) == (
        "max.message.bytes=123456 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:max.message.bytes=123456, "
        "DYNAMIC_BROKER_CONFIG:message.max.bytes=1300000, "
        "DYNAMIC_DEFAULT_BROKER_CONFIG:message.max.bytes=1200000, DEFAULT_CONFIG:message.max.bytes=1048588}"
    )
    assert entries["max.message.bytes"].source is ConfigSource.DYNAMIC_TOPIC_CONFIG
    assert shown(entries["segment.index.bytes"]) == (
        "segment.index.bytes=65536 sensitive=false synonyms={STATIC_BROKER_CONFIG:log.index.size.max.bytes=65536, "
        "DEFAULT_CONFIG:log.index.size.max.bytes=10485760}"
    )
    assert shown(entries["segment.ms"]) == "segment.ms=604800000 sensitive=false synonyms={}"
    assert shown(entries["flush.ms"]) == "flush.ms=9223372036854775807 sensitive=false synonyms={}"
    assert "internal.segment.bytes" not in entries


def test_broker_keys_in_several_units(dynamic: DynamicConfig) -> None:
    dynamic.update(default={"log.retention.ms": "86400000"}, own={})
    entries = by_name(dynamic.describe_broker())
    assert shown(entries["log.retention.ms"]) == (
        "log.retention.ms=86400000 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:log.retention.ms=86400000, "
        "DEFAULT_CONFIG:log.retention.hours=168}"
    )
    assert shown(entries["log.retention.hours"]) == (
        "log.retention.hours=168 sensitive=false synonyms={DEFAULT_CONFIG:log.retention.hours=168}"
    )
    assert shown(entries["log.retention.minutes"]) == "log.retention.minutes=null sensitive=false synonyms={}"


def test_the_login_of_a_url_is_never_shown() -> None:
    texts = STATIC | {
        "kcli.trace.endpoint": "http://u:hunter2@h:1/p",
        "sasl.oauthbearer.jwks.endpoint.url": "https://hunter3@h/keys",
    }
    entries = by_name(DynamicConfig(node_config(texts)).describe_broker())
    assert shown(entries["kcli.trace.endpoint"]) == (
        "kcli.trace.endpoint=http://***@h:1/p sensitive=false "
        "synonyms={STATIC_BROKER_CONFIG:kcli.trace.endpoint=http://***@h:1/p}"
    )
    assert "hunter" not in "".join(map(shown, entries.values()))


def test_secrets_and_unknown_keys_are_never_shown() -> None:
    texts = STATIC | {"ssl.key.password": "hunter2", "my.plugin.key": "hunter3"}
    dynamic = DynamicConfig(node_config(texts))
    entries = by_name(dynamic.describe_broker())
    assert shown(entries["ssl.key.password"]) == (
        "ssl.key.password=null sensitive=true synonyms={STATIC_BROKER_CONFIG:ssl.key.password=null}"
    )
    assert shown(entries["my.plugin.key"]) == (
        "my.plugin.key=null sensitive=true synonyms={STATIC_BROKER_CONFIG:my.plugin.key=null}"
    )
    assert "hunter" not in repr(entries)


def test_cluster_defaults_stand_alone(dynamic: DynamicConfig) -> None:
    dynamic.update(default={"min.insync.replicas": "1", "some.plugin": "x"}, own={"min.insync.replicas": "2"})
    assert [shown(entry) for entry in dynamic.describe_broker_defaults()] == [
        "min.insync.replicas=1 sensitive=false synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:min.insync.replicas=1}",
        "some.plugin=null sensitive=true synonyms={DYNAMIC_DEFAULT_BROKER_CONFIG:some.plugin=null}",
    ]


def test_an_invalid_stored_default_does_not_hide_the_others(dynamic: DynamicConfig) -> None:
    dynamic.update(default={"log.retention.ms": "never", "min.insync.replicas": "2"}, own={})
    values = {entry.name: entry.value for entry in dynamic.describe_broker_defaults()}
    assert values == {"log.retention.ms": "never", "min.insync.replicas": "2"}


def test_read_only_keys(dynamic: DynamicConfig) -> None:
    entries = by_name(dynamic.describe_broker())
    assert entries["node.id"].read_only
    assert not entries["log.cleaner.threads"].read_only
    dynamic.update(default={}, own={"leader.replication.throttled.rate": "5"})
    throttle = by_name(dynamic.describe_broker())["leader.replication.throttled.rate"]
    assert not throttle.read_only
    assert shown(throttle) == (
        "leader.replication.throttled.rate=5 sensitive=false "
        "synonyms={DYNAMIC_BROKER_CONFIG:leader.replication.throttled.rate=5}"
    )


def test_groups_and_client_metrics(dynamic: DynamicConfig) -> None:
    groups = by_name(dynamic.describe_group({"share.auto.offset.reset": "earliest"}))
    assert shown(groups["share.auto.offset.reset"]) == (
        "share.auto.offset.reset=earliest sensitive=false "
        "synonyms={DYNAMIC_GROUP_CONFIG:share.auto.offset.reset=earliest}"
    )
    assert shown(groups["consumer.session.timeout.ms"]) == (
        "consumer.session.timeout.ms=45000 sensitive=false "
        "synonyms={DEFAULT_CONFIG:consumer.session.timeout.ms=45000}"
    )
    metrics = by_name(dynamic.describe_client_metrics({"interval.ms": "100"}))
    assert metrics["interval.ms"].source is ConfigSource.DYNAMIC_CLIENT_METRICS_CONFIG
    assert metrics["match"].value == ""


def test_listeners_hear_of_changes_only(dynamic: DynamicConfig) -> None:
    heard: list[tuple[object, object]] = []
    dynamic.subscribe(
        lambda before, after: heard.append((before["log.cleaner.threads"], after["log.cleaner.threads"]))
    )
    dynamic.update(default={}, own={"log.cleaner.threads": "2"})
    dynamic.update(default={}, own={"log.cleaner.threads": "2"})
    dynamic.update(default={}, own={})
    assert heard == [(1, 2), (2, 1)]


def test_log_configs_follow_the_broker(dynamic: DynamicConfig) -> None:
    dynamic.update(default={"log.retention.ms": "5000"}, own={})
    assert dynamic.log_config({}).retention_ms == 5000
    assert dynamic.log_config({"retention.ms": "7000"}).retention_ms == 7000
    assert dynamic.log_config({}).segment_index_bytes == 65536


def test_stored_values_that_cannot_be_used_are_passed_over(
    dynamic: DynamicConfig, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.ERROR):
        dynamic.update(default={}, own={"log.cleaner.threads": "many", "node.id": "7", "num.io.threads": "9"})
    assert dynamic.current["log.cleaner.threads"] == 1
    assert dynamic.current["node.id"] == 1
    assert dynamic.current["num.io.threads"] == 9
    assert len(caplog.records) == 2


@pytest.mark.parametrize(
    ("overrides", "own", "message"),
    [
        ({"node.id": "5"}, True, "Cannot update these configs dynamically: Set(node.id)"),
        (
            {"ssl.keystore.location": "/k"},
            True,
            (
                "These security configs can be dynamically updated only per-listener using the listener prefix: "
                "HashSet(ssl.keystore.location)"
            ),
        ),
        (
            {"listeners": "PLAINTEXT://:1"},
            False,
            "Cannot update these configs at default cluster level, broker id must be specified: Set(listeners)",
        ),
        (
            {"listeners": "PLAINTEXT://:1"},
            True,
            "Changing these configs without a restart is not built yet: Set(listeners)",
        ),
        (
            {"num.io.threads": "0"},
            True,
            "Invalid value 0 for configuration num.io.threads: Value must be at least 1",
        ),
        ({"log.roll.ms": "0"}, False, "log.roll.ms must be greater than or equal to 1"),
        (
            {"log.retention.ms": "x"},
            False,
            "Invalid value x for configuration log.retention.ms: Not a number of type LONG",
        ),
    ],
)
def test_changes_that_are_refused(
    dynamic: DynamicConfig, overrides: dict[str, str], own: bool, message: str
) -> None:
    with pytest.raises(InvalidRequestException) as refused:
        at_once(dynamic.validate(overrides, no_pause, own=own))
    assert refused.value.message == message


@pytest.mark.parametrize(
    ("overrides", "own", "message"),
    [
        (
            {"num.io.threads": "3"},
            True,
            (
                "Dynamic thread count update validation failed for num.io.threads=3, "
                "value should be at least half the current value 8"
            ),
        ),
        (
            {"num.io.threads": "17"},
            False,
            (
                "Dynamic thread count update validation failed for num.io.threads=17, "
                "value should not be greater than double the current value 8"
            ),
        ),
        ({"log.cleaner.threads": "0"}, True, "Log cleaner threads should be at least 1"),
        (
            {"log.cleaner.threads": "3"},
            True,
            "Log cleaner threads cannot be increased to more than double the current value 1",
        ),
    ],
)
def test_changes_that_a_part_of_the_broker_refuses(
    dynamic: DynamicConfig, overrides: dict[str, str], own: bool, message: str
) -> None:
    with pytest.raises(InvalidRequestException) as refused:
        at_once(dynamic.validate(overrides, no_pause, own=own))
    assert refused.value.message == (
        f"Invalid value org.apache.kafka.common.config.ConfigException: {message} "
        "for configuration Invalid dynamic configuration"
    )


def test_changes_that_are_taken(dynamic: DynamicConfig, caplog: pytest.LogCaptureFixture) -> None:
    at_once(dynamic.validate({"log.cleaner.threads": "2", "no.such.broker.config": "7"}, no_pause, own=True))
    at_once(dynamic.validate({"log.retention.ms": "-1"}, no_pause, own=False))
    with caplog.at_level(logging.WARNING):
        at_once(dynamic.validate({"leader.replication.throttled.rate": "5"}, no_pause, own=True))
        assert not caplog.records, "its feature is built"
        at_once(dynamic.validate({"group.share.max.groups": "5", "num.io.threads": "9"}, no_pause, own=True))
    assert len(caplog.records) == 2


URL = "http://elsewhere/token"
IDENTITY = {
    "oauthbearer.sasl.oauthbearer.token.endpoint.url": URL,
    "plain.sasl.jaas.config": "theft",
    "listener.name.controller.sasl.jaas.config": "theft",
    "listener.name.controller.plain.sasl.jaas.config": "theft",
    "listener.name.controller.ssl.endpoint.identification.algorithm": "",
    "listener.name.controller.oauthbearer.sasl.oauthbearer.token.endpoint.url": URL,
    "sasl.oauthbearer.token.endpoint.url": URL,
    "sasl.mechanism.inter.broker.protocol": "PLAIN",
    "ssl.endpoint.identification.algorithm": "",
    "ssl.truststore.location": "/theft.pem",
    "ssl.client.auth": "none",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
    "java.security.auth.login.config": "/theft.conf",
    "principal.builder.class": "theft",
}


@pytest.mark.parametrize("name", IDENTITY)
@pytest.mark.parametrize("own", [True, False])
def test_keys_of_the_nodes_identity_are_never_changed(dynamic: DynamicConfig, name: str, own: bool) -> None:
    with pytest.raises(InvalidRequestException):
        at_once(dynamic.validate({name: IDENTITY[name]}, no_pause, own=own))


@pytest.mark.parametrize(
    "key",
    [
        "plain.sasl.jaas.config",
        "sasl.enabled.mechanisms",
        "principal.builder.class",
        "connections.max.reauth.ms",
    ],
)
def test_the_login_of_a_running_listener_is_fixed_as_in_kafka(dynamic: DynamicConfig, key: str) -> None:
    with pytest.raises(InvalidRequestException) as refused:
        at_once(dynamic.validate({f"listener.name.controller.{key}": "5"}, no_pause, own=True))
    assert refused.value.message == (
        "Configs cannot be updated dynamically for existing listener ListenerName(CONTROLLER), "
        "restart broker or create a new listener for update"
    )


def test_stored_keys_of_the_nodes_identity_are_ignored(
    dynamic: DynamicConfig, caplog: pytest.LogCaptureFixture
) -> None:
    for default, own in ((IDENTITY, {}), ({}, IDENTITY)):
        dynamic.update(default=default, own={**own, "num.io.threads": "9"})
        for config in (dynamic.current, dynamic.links):
            assert not IDENTITY.keys() & config.texts.keys()
        assert dynamic.current["num.io.threads"] == 9
    (line,) = [record.getMessage() for record in caplog.records]
    assert "plain.sasl.jaas.config" in line and "theft" not in line


def test_links_take_only_the_stores_of_listeners(dynamic: DynamicConfig) -> None:
    store = {"listener.name.controller.ssl.truststore.location": "/new.pem"}
    dynamic.update(default={}, own={**store, "num.io.threads": "9"})
    assert dict(dynamic.links.texts) == {**dynamic.static.texts, **store}


def test_static_keys_are_not_dynamic() -> None:
    assert is_dynamic("log.retention.ms")
    assert is_dynamic("leader.replication.throttled.rate")
    assert is_dynamic("listener.name.internal.ssl.keystore.location")
    assert is_dynamic("somebody.elses")
    assert not is_dynamic("process.roles")


def test_names_under_a_listener() -> None:
    assert base_name("listener.name.x.ssl.key.password") == "ssl.key.password"
    assert base_name("listener.name.x.scram-sha-256.sasl.jaas.config") == "sasl.jaas.config"
    assert base_name("log.dirs") == "log.dirs"


@pytest.mark.parametrize(
    ("overrides", "message"),
    [
        ({"no.such": "1"}, "Unknown topic config name: no.such"),
        ({"retention.ms": "x"}, "Invalid value x for configuration retention.ms: Not a number of type LONG"),
        ({"retention.ms": None}, "Null value not supported for topic configs: retention.ms"),
        (
            {"cleanup.policy": "shrink"},
            "Invalid value shrink for configuration cleanup.policy: String must be one of: compact, delete",
        ),
        (
            {"min.compaction.lag.ms": "5", "max.compaction.lag.ms": "4"},
            "conflict topic config setting min.compaction.lag.ms (5) > max.compaction.lag.ms (4)",
        ),
        (
            {"remote.storage.enable": "true"},
            (
                "Tiered Storage functionality is disabled in the broker. "
                "Topic cannot be configured with remote log storage."
            ),
        ),
    ],
)
def test_topic_configs_that_are_refused(overrides: dict[str, str | None], message: str) -> None:
    with pytest.raises(InvalidConfigurationException) as refused:
        validate_topic_overrides(overrides)
    assert refused.value.message == message


def test_topic_configs_that_are_taken() -> None:
    validate_topic_overrides({"cleanup.policy": "compact,delete", "retention.ms": "-1"})
    validate_topic_overrides({"remote.storage.enable": "true"}, remote_storage=True)
