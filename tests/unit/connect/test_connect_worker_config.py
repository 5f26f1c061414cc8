from __future__ import annotations

from pathlib import Path

import pytest

from kcli.config.definition import ConfigDef, ConfigError
from kcli.connect.config.clients import ClientKind, consumer_group_id
from kcli.connect.config.override_policy import OverridePolicy
from kcli.connect.config.rest_listeners import BASIC_AUTH
from kcli.connect.config.worker import (
    NO_EFFECT,
    ConnectProtocol,
    ExactlyOnceSource,
    GroupConfig,
    InternalTopic,
    WorkerConfig,
    distributed_config,
    standalone_config,
)
from kcli.connect.config.worker_keys import DISTRIBUTED, STANDALONE
from kcli.formats.connect.errors import ConnectException
from kcli.http.rest.listeners import RestListener
from kcli.model.addresses import Address

ALONE = {
    "bootstrap.servers": "a:9092,b:9092",
    "key.converter": "JsonConverter",
    "value.converter": "JsonConverter",
    "value.converter.schemas.enable": "false",
    "offset.storage.file.filename": "/tmp/connect.offsets",
}
GROUP = {
    "bootstrap.servers": "a:9092",
    "key.converter": "JsonConverter",
    "value.converter": "JsonConverter",
    "group.id": "g",
    "config.storage.topic": "c",
    "offset.storage.topic": "o",
    "status.storage.topic": "s",
}


def group(**keys: str) -> GroupConfig:
    config = distributed_config(GROUP | {key.replace("_", "."): text for key, text in keys.items()}).group
    assert config is not None
    return config


def alone(**keys: str) -> WorkerConfig:
    return standalone_config(ALONE | {key.replace("_", "."): text for key, text in keys.items()})


def test_defaults_of_a_worker_alone() -> None:
    config = standalone_config(ALONE)
    assert config.bootstrap_servers == ("a:9092", "b:9092")
    assert config.header_converter == "org.apache.kafka.connect.storage.SimpleHeaderConverter"
    assert config.converter_class("header.converter") == config.header_converter
    assert config.converter_config("value.converter") == {"schemas.enable": "false"}
    assert config.offset_flush_interval_ms == 60000
    assert config.offset_flush_timeout_ms == config.task_shutdown_graceful_timeout_ms == 5000
    assert config.topic_creation_enable and config.topic_tracking_enable and config.topic_tracking_allow_reset
    assert config.rest.listeners == (RestListener(is_https=False, host="", port=8083),)
    assert config.rest.admin_listeners is None
    assert config.override_policy is OverridePolicy.ALL
    assert (config.group, config.offsets_file) == (None, "/tmp/connect.offsets")
    assert not config.is_exactly_once
    assert config.warnings == ()


def test_a_worker_of_a_group() -> None:
    config = distributed_config(
        GROUP
        | {
            "connect.protocol": "compatible",
            "exactly.once.source.support": "ENABLED",
            "config.storage.partitions": "3",
            "config.storage.cleanup.policy": "delete",
            "config.storage.min.insync.replicas": "2",
            "offset.storage.partitions": "-1",
            "inter.worker.key.size": "64",
        }
    )
    assert config.group is not None
    assert config.group.protocol is ConnectProtocol.COMPATIBLE
    assert config.group.exactly_once_source is ExactlyOnceSource.ENABLED
    assert config.is_exactly_once
    assert config.group.config_topic == InternalTopic("c", 1, 3, {"min.insync.replicas": "2"})
    assert config.group.offset_topic == InternalTopic("o", -1, 3, {})
    assert config.group.status_topic == InternalTopic("s", 5, 3, {})
    assert config.group.inter_worker.key_size == 64
    assert config.warnings == (
        "Ignoring 'config.storage.cleanup.policy=delete' setting, since compaction is always used",
        "Ignoring 'config.storage.partitions=3' setting, since config topic partitions is always 1",
    )


@pytest.mark.parametrize(
    ("level", "transactional"), [("disabled", False), ("preparing", True), ("enabled", True)]
)
def test_the_leader_writes_in_transactions_before_the_tasks_do(level: str, transactional: bool) -> None:
    config = group(exactly_once_source_support=level)
    assert config.exactly_once_source.leader_writes_in_transactions is transactional


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            {"offset.flush.interval.ms": "x"},
            "Invalid value x for configuration offset.flush.interval.ms: Not a",
        ),
        ({"listeners": "ftp://x:1"}, 'Listener protocol must be either "http" or "https".'),
        ({"listeners": "http://a:99999"}, "Listener doesn't have the right format"),
        ({"listeners": "nonsense"}, "Listener doesn't have the right format (protocol://hostname:port)."),
        ({"listeners": ""}, "Invalid value for listeners, at least one URL is expected, ex: "),
        ({"listeners": "http://a:1,"}, "Empty URL found when parsing listeners list."),
        ({"admin.listeners": "http://a:1,"}, "Empty URL found when parsing admin.listeners list."),
        ({"config.storage.replication.factor": "0"}, "Invalid value 0 for configuration config.storage.repl"),
        (
            {"status.storage.partitions": "-2"},
            "Invalid value -2 for configuration status.storage.partitions: Nu",
        ),
        (
            {"inter.worker.signature.algorithm": "HmacSHA1"},
            "Invalid value HmacSHA1 for configuration inter.worker",
        ),
        (
            {"inter.worker.verification.algorithms": "x"},
            "Invalid value x for configuration inter.worker.verif",
        ),
        (
            {"inter.worker.verification.algorithms": ""},
            "Invalid value [] for configuration inter.worker.verif",
        ),
        (
            {"inter.worker.key.size": "8"},
            "Unable to create key generator with algorithm HmacSHA256 and key size 8",
        ),
        ({"connector.client.config.override.policy": "Some"}, "Failed to find a policy with the name 'Some'"),
        (
            {"rest.extension.classes": "org.example.Guard"},
            "Failed to find any class that implements ConnectRestEx",
        ),
        (
            {"exactly.once.source.support": "often"},
            "Invalid value often for configuration exactly.once.source",
        ),
    ],
)
def test_a_worker_that_must_not_start(keys: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        distributed_config(GROUP | keys)
    assert str(refused.value).startswith(message)


@pytest.mark.parametrize("key", ["key.converter", "offset.storage.file.filename", "bootstrap.servers"])
def test_a_missing_key_is_named(key: str) -> None:
    with pytest.raises(ConfigError) as refused:
        standalone_config({name: text for name, text in ALONE.items() if name != key})
    assert str(refused.value) == f'Missing required configuration "{key}" which has no default value.'


def test_keys_without_effect_and_unknown_keys_are_reported() -> None:
    config = alone(plugin_discovery="only_scan", ofset_flush_interval_ms="1", producer_foo="1", foo_bar="1")
    assert config.warnings == (
        "plugin.discovery has no effect: plugins are found by entry points and in the files of plugin.path",
        "ofset.flush.interval.ms is not a configuration key of this worker. Did you mean offset.flush.interval.ms?",
        "foo.bar is not a configuration key of this worker",
    )


def test_keys_without_effect_are_keys_of_kafka() -> None:
    removed = {"internal.key.converter", "internal.value.converter", "auto.include.jmx.reporter"}
    assert set(NO_EFFECT) - removed <= set(DISTRIBUTED) & set(STANDALONE)


def test_variables_are_resolved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONNECT_GROUP", "orders")
    providers = {
        "config.providers": "env",
        "config.providers.env.class": "org.apache.kafka.common.config.provider.EnvVarConfigProvider",
    }
    config = distributed_config(GROUP | providers | {"group.id": "${env:CONNECT_GROUP}"})
    assert config.group is not None
    assert config.group.group_id == config.texts["group.id"] == "orders"
    assert config.warnings == ()


def test_the_advertised_url() -> None:
    bound = [Address("", 8083), Address("10.0.0.1", 8443)]
    listeners = {"listeners": "http://:8083,https://10.0.0.1:0"}
    assert alone(**listeners).rest.advertised_url(bound, "10.0.0.9") == "http://10.0.0.9:8083/"
    https = alone(**listeners, rest_advertised_listener="HTTPS")
    assert https.rest.advertised_url(bound, "10.0.0.9") == "https://10.0.0.1:8443/"
    given = alone(**listeners, rest_advertised_host_name="fe80::1", rest_advertised_port="80")
    assert given.rest.advertised_url(bound, "10.0.0.9") == "http://[fe80::1]:80/"
    only_http = alone(rest_advertised_listener="https")
    with pytest.raises(ConfigError, match=r"rest\.advertised\.port is not set"):
        only_http.rest.advertised_url([Address("", 8083)], "10.0.0.9")


def test_settings_of_the_rest_server() -> None:
    rest = alone(
        admin_listeners="",
        access_control_allow_origin="http://a, http://b",
        rest_extension_classes="BasicAuthSecurityRestExtension",
        ssl_keystore_location="/a",
        **{"listeners.https.ssl.keystore.location": "/b"},
    ).rest
    assert rest.admin_listeners == ()
    assert rest.allow_origin == ("http://a", "http://b")
    assert rest.extension_classes == (BASIC_AUTH,)
    assert (rest.ssl, rest.admin_ssl) == ({"ssl.keystore.location": "/b"}, {"ssl.keystore.location": "/a"})


def test_properties_of_clients() -> None:
    clients = alone(
        security_protocol="SSL",
        producer_acks="1",
        consumer_max_poll_records="7",
        admin_retries="3",
        client_id="w",
    ).clients
    connector = {"producer.override.linger.ms": "5", "consumer.override.group.id": "mine", "topics": "t"}
    assert clients.producer("connector-producer-c-0", connector) == {
        "bootstrap.servers": "a:9092,b:9092",
        "max.block.ms": "9223372036854775807",
        "enable.idempotence": "false",
        "acks": "1",
        "max.in.flight.requests.per.connection": "1",
        "delivery.timeout.ms": "2147483647",
        "client.id": "connector-producer-c-0",
        "linger.ms": "5",
    }
    consumer = clients.consumer("connector-consumer-c-0", consumer_group_id("c"), connector)
    assert consumer["group.id"] == "mine"
    assert clients.consumer("i", consumer_group_id("c"), {})["group.id"] == "connect-c"
    assert consumer["max.poll.records"] == "7" and "security.protocol" not in consumer
    # The worker's own clients and the admin clients of connectors read the keys without a prefix.
    assert clients.worker(ClientKind.CONSUMER) == {
        "bootstrap.servers": "a:9092,b:9092",
        "security.protocol": "SSL",
        "client.id": "w",
    }
    admin = clients.admin("connector-adminclient-c-0", {"admin.override.retries": "4"})
    assert admin == {
        "bootstrap.servers": "a:9092,b:9092",
        "security.protocol": "SSL",
        "client.id": "w",
        "retries": "4",
    }


def test_the_policies_of_overrides() -> None:
    none, principal = (
        alone(connector_client_config_override_policy=name)
        for name in (
            "None",
            "org.apache.kafka.connect.connector.policy.PrincipalConnectorClientConfigOverridePolicy",
        )
    )
    assert OverridePolicy.ALL.refusal("acks") is None
    assert none.override_policy.refusal("acks") == (
        "The 'None' policy does not allow 'acks' to be overridden in the connector configuration."
    )
    assert principal.override_policy.refusal("sasl.jaas.config") is None
    assert principal.override_policy.refusal("acks") == (
        "The 'Principal' policy does not allow 'acks' to be overridden in the connector configuration."
    )
    assert principal.override_policy.java_class.endswith(".PrincipalConnectorClientConfigOverridePolicy")
    with pytest.raises(ConnectException, match=r"Client Config Overrides not allowed \['acks'\]"):
        none.clients.producer("p", {"producer.override.acks": "all"})


@pytest.mark.parametrize(("table", "count"), [(STANDALONE, 52), (DISTRIBUTED, 133)])
def test_the_tables_of_keys(table: ConfigDef, count: int) -> None:
    assert len([name for name in table if not name.startswith("kcli.")]) == count
    assert list(table) == sorted(table)
    for key in table.values():
        if key.default is not None:
            assert key.parse(key.default) == table.default(key.name), key.name


def test_docs_list_the_keys_without_effect() -> None:
    page = (Path(__file__).parents[3] / "docs" / "skipped.md").read_text()
    for key, reason in NO_EFFECT.items():
        assert f"| `{key}` | {reason} |" in page
