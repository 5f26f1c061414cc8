from __future__ import annotations

import socket

import pytest

from kcli.config.broker import BROKER, NEWER, BrokerConfig
from kcli.config.definition import ConfigError
from kcli.config.listeners import Listener
from kcli.config.not_built import check_can_serve, start_up_warnings
from kcli.config.properties import parse
from kcli.config.start_up import node_config
from kcli.config.topic import LogConfig

COMBINED = {
    "process.roles": "broker,controller",
    "node.id": "1",
    "controller.quorum.bootstrap.servers": "localhost:9093",
    "listeners": "PLAINTEXT://:9092,CONTROLLER://:9093",
    "advertised.listeners": "PLAINTEXT://localhost:9092,CONTROLLER://localhost:9093",
    "controller.listener.names": "CONTROLLER",
    "log.dirs": "/a, /b",
}
BROKER_ONLY = COMBINED | {
    "process.roles": "broker",
    "node.id": "2",
    "listeners": "PLAINTEXT://localhost:9092",
    "advertised.listeners": "PLAINTEXT://localhost:9092",
}
CONTROLLER_ONLY = COMBINED | {
    "process.roles": "controller",
    "listeners": "CONTROLLER://:9093",
    "advertised.listeners": "CONTROLLER://localhost:9093",
}


def config(base: dict[str, str] = COMBINED, **changes: str) -> BrokerConfig:
    return node_config(base | {key.replace("_", "."): value for key, value in changes.items()})


def test_a_config_answers_the_common_questions() -> None:
    combined = config(broker_rack="r1", metadata_log_dir="/meta")
    assert combined.node_id == 1
    assert combined["broker.id"] == 1
    assert combined.is_broker and combined.is_controller
    assert combined.log_dirs == ("/a", "/b")
    assert combined.all_dirs == ("/a", "/b", "/meta")
    assert combined.metadata_log_dir == "/meta"
    assert combined.rack == "r1"
    assert combined.listeners == (
        Listener("PLAINTEXT", "", 9092, "PLAINTEXT"),
        Listener("CONTROLLER", "", 9093, "PLAINTEXT"),
    )
    assert combined.advertised_listeners == (Listener("PLAINTEXT", "localhost", 9092, "PLAINTEXT"),)
    assert combined.advertised_controller_listeners == (
        Listener("CONTROLLER", "localhost", 9093, "PLAINTEXT"),
    )
    assert combined.inter_broker_listener_name == "PLAINTEXT"
    assert combined.quorum_bootstrap_servers == (("localhost", 9093),)
    assert combined.quorum_voters == {}
    assert len(combined) == len(BROKER)


def test_roles_on_their_own() -> None:
    assert config(BROKER_ONLY).controller_listeners == ()
    assert config(CONTROLLER_ONLY).broker_listeners == ()
    assert config(CONTROLLER_ONLY).metadata_log_dir == "/a"


@pytest.mark.parametrize("host", ["", "0.0.0.0"])
def test_a_controller_listener_on_all_interfaces_gets_this_machines_name(host: str) -> None:
    texts = {**CONTROLLER_ONLY, "listeners": f"CONTROLLER://{host}:9093"}
    (listener,) = node_config(texts).advertised_controller_listeners
    assert listener.host == socket.getfqdn()


def test_an_empty_advertised_host_becomes_this_machines_name() -> None:
    texts = {key: value for key, value in COMBINED.items() if key != "advertised.listeners"}
    (listener,) = node_config(texts).advertised_listeners
    assert listener.host
    assert listener.port == 9092


def test_overrides_win_and_old_node_id_is_understood() -> None:
    texts = {key: value for key, value in COMBINED.items() if key != "node.id"} | {"broker.id": "4"}
    assert node_config(texts).node_id == 4
    assert node_config(COMBINED, {"node.id": "9"}).node_id == 9


def test_units_of_durations() -> None:
    assert config().log_retention_ms == 604_800_000
    assert config(log_retention_hours="-1").log_retention_ms == -1
    assert config(log_retention_minutes="2").log_retention_ms == 120_000
    assert config(log_roll_hours="1", log_roll_ms="5").log_roll_ms == 5
    assert LogConfig.resolve({}, config(log_retention_minutes="2")).retention_ms == 120_000
    assert LogConfig.resolve({}, config()) == LogConfig()


def test_a_listener_key_applies_only_to_its_listener() -> None:
    built = node_config(COMBINED | {"listener.name.controller.ssl.client.auth": "required"})
    assert built.of_listener("CONTROLLER", "ssl.client.auth") == "required"
    assert built.of_listener("PLAINTEXT", "ssl.client.auth") == "none"


@pytest.mark.parametrize(
    ("base", "changes", "message"),
    [
        (COMBINED, {"broker.id": "7"}, "same value as `broker.id`"),
        (COMBINED, {"log.roll.ms": "0"}, "log.roll.ms must be greater than or equal to 1"),
        (COMBINED, {"log.roll.jitter.ms": "-1"}, "log.roll.jitter.ms must be greater"),
        (COMBINED, {"log.retention.ms": "0"}, "log.retention.ms must be unlimited"),
        (COMBINED, {"replica.selector.class": "x.Near"}, "RackAwareReplicaSelector, found x.Near"),
        (COMBINED, {"log.dirs": ","}, "At least one log directory"),
        (COMBINED, {"log.dirs": ""}, "At least one log directory"),
        (COMBINED, {"log.cleaner.threads": "128"}, "at least 1MB per cleaner thread"),
        (COMBINED, {"replica.fetch.wait.max.ms": "30001"}, "replica.socket.timeout.ms should"),
        (COMBINED, {"replica.lag.time.max.ms": "100"}, "replica.lag.time.max.ms to prevent"),
        (COMBINED, {"controller.quorum.bootstrap.servers": ""}, "either controller.quorum.bootstrap.servers"),
        (COMBINED, {"controller.quorum.voters": "2@h:1"}, "must be included in the set of voters"),
        (COMBINED, {"controller.quorum.voters": "h:1"}, "Each entry should be in the form"),
        (COMBINED, {"controller.quorum.bootstrap.servers": "nowhere"}, "it must be host:port"),
        (COMBINED, {"controller.listener.names": ""}, "controller.listener.names must contain"),
        (
            COMBINED,
            {"controller.listener.names": "OTHER"},
            "No security protocol defined for listener CONTROLLER",
        ),
        (COMBINED, {"controller.listener.names": "CONTROLLER,OTHER"}, "OTHER not in listeners"),
        (COMBINED, {"controller.listener.names": "PLAINTEXT,CONTROLLER"}, "at least one broker listener"),
        (COMBINED, {"advertised.listeners": "PLAINTEXT://0.0.0.0:1"}, "nonroutable meta-address 0.0.0.0"),
        (COMBINED, {"advertised.listeners": "SSL://h:1"}, "equal to or a subset"),
        (COMBINED, {"inter.broker.listener.name": "SSL"}, "valid options based on currently configured"),
        (COMBINED, {"inter.broker.listener.name": "NOPE"}, "not found in listener.security.protocol.map"),
        (
            COMBINED,
            {"inter.broker.listener.name": "PLAINTEXT", "security.inter.broker.protocol": "PLAINTEXT"},
            "Only one of inter.broker.listener.name and",
        ),
        (COMBINED, {"group.coordinator.rebalance.protocols": "consumer"}, "Disabling the 'classic' protocol"),
        (COMBINED, {"group.coordinator.rebalance.protocols": ""}, "Disabling the 'classic' protocol"),
        (COMBINED, {"group.consumer.assignors": ""}, "must name an assignor"),
        (COMBINED, {"group.consumer.session.timeout.ms": "5"}, "group.consumer.session.timeout.ms must be"),
        (
            COMBINED,
            {"group.share.max.heartbeat.interval.ms": "1"},
            (
                "group.share.max.heartbeat.interval.ms must be greater than or equal to "
                "group.share.min.heartbeat.interval.ms"
            ),
        ),
        (
            COMBINED,
            {"group.share.record.lock.duration.ms": "3600000"},
            "record.lock.duration.ms must be less than",
        ),
        (
            COMBINED,
            {"group.streams.heartbeat.interval.ms": "15000", "group.streams.session.timeout.ms": "15000"},
            "group.streams.session.timeout.ms must be greater than or equal to",
        ),
        (COMBINED, {"group.streams.num.standby.replicas": "9"}, "less than or equal to group.streams.max"),
        (COMBINED, {"process.roles": "broker,broker"}, "Duplicate role names found in `process.roles`"),
        (COMBINED, {"process.roles": ""}, "process.roles must be broker, controller"),
        (COMBINED, {"num.io.threads": "8\u00a0"}, "Not a number of type INT"),
        (COMBINED, {"num.io.threads": "0_8"}, "Not a number of type INT"),
        (COMBINED, {"log.preallocate": "true\u2003"}, "either true or false"),
        (COMBINED, {"controller.quorum.voters": "1_0@h:1"}, "Each entry should be in the form"),
        (COMBINED, {"controller.quorum.voters": " 1@h:1, 1_@h:2"}, "Each entry should be in the form"),
        (COMBINED, {"listeners": f"PLAINTEXT://h:{'9' * 5000}"}, "Unable to parse"),
        (COMBINED, {"leader.replication.throttled.rate": "10MB"}, "Not a number of type LONG"),
        (COMBINED, {"offsets.topic.compression.codec": "5"}, "Unknown compression type id: 5"),
        (COMBINED, {"queued.max.request.bytes": "5"}, "at least socket.request.max.bytes"),
        (COMBINED, {"max.connections.per.ip": "0"}, "only if max.connections.per.ip.overrides"),
        (COMBINED, {"max.connections.per.ip.overrides": "a"}, "is not address:count"),
        (COMBINED, {"connections.max.idle.ms": "100"}, "connection.failed.authentication.delay.ms=100"),
        (COMBINED, {"listeners": "PLAINTEXT://:1,CONTROLLER://:1"}, "must have a different port"),
        (COMBINED, {"listeners": "PLAINTEXT://:1,PLAINTEXT://:2"}, "must have a different name"),
        (COMBINED, {"listeners": "PLAINTEXT:9092"}, "Unable to parse PLAINTEXT:9092"),
        (COMBINED, {"listeners": "INSIDE://:9092"}, "No security protocol defined for listener INSIDE"),
        (COMBINED, {"listener.security.protocol.map": "A:TLS"}, "'TLS' is not a security protocol"),
        (BROKER_ONLY, {"controller.quorum.voters": "2@h:1"}, "must not be included in the set of voters"),
        (BROKER_ONLY, {"controller.listener.names": "PLAINTEXT"}, "must not contain a value appearing"),
        (CONTROLLER_ONLY, {"listeners": "CONTROLLER://:1,PLAINTEXT://:2"}, "PLAINTEXT is not one"),
        (CONTROLLER_ONLY, {"inter.broker.listener.name": "CONTROLLER"}, "must not be a controller listener"),
    ],
)
def test_a_node_refuses_to_start_with_invalid_keys(
    base: dict[str, str], changes: dict[str, str], message: str
) -> None:
    node_config(base)
    with pytest.raises(ConfigError) as refused:
        node_config(base | changes)
    assert message in str(refused.value)


def test_refusals_name_file_and_line() -> None:
    text = "\n".join(f"{key}={value}" for key, value in COMBINED.items()) + "\nnum.partitions=0\n"
    with pytest.raises(ConfigError) as refused:
        node_config(parse(text, source="/etc/server.properties"))
    assert refused.value.located() == (
        "server.properties:8: Invalid value 0 for configuration num.partitions: Value must be at least 1"
    )
    with pytest.raises(ConfigError) as overridden:
        node_config(COMBINED, {"num.io.threads": "x"})
    assert overridden.value.located().startswith(
        "--override: Invalid value x for configuration num.io.threads"
    )


def test_a_required_key_must_be_set() -> None:
    with pytest.raises(ConfigError) as refused:
        node_config({"node.id": "1"})
    assert str(refused.value) == 'Missing required configuration "process.roles" which has no default value.'


def test_zookeeper_is_answered_with_what_replaced_it() -> None:
    with pytest.raises(ConfigError, match=r"zookeeper\.connect was removed in Kafka 4\.0.*process\.roles"):
        node_config({"zookeeper.connect": "localhost:2181", "broker.id": "0"})


def test_one_ipv4_and_one_ipv6_listener_may_share_a_port() -> None:
    changed = config(
        listeners="PLAINTEXT://127.0.0.1:1,SIX://[::1]:1,CONTROLLER://:2",
        advertised_listeners="PLAINTEXT://127.0.0.1:1",
        listener_security_protocol_map="PLAINTEXT:PLAINTEXT,SIX:PLAINTEXT,CONTROLLER:PLAINTEXT",
    )
    assert str(changed.listeners[1]) == "SIX://[::1]:1"
    assert changed.listeners[1].host == "::1"


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("nun.partitions", "3", "did you mean num.partitions?"),
        ("entirely.foreign", "3", "entirely.foreign is not a configuration key and does nothing"),
        ("remote.log.reader.threads", "20", "not built yet: tiered storage"),
        ("transaction.two.phase.commit.enable", "true", "not built yet: two-phase commit"),
        ("num.io.threads", "16", "one event loop does this work"),
        ("inter.broker.protocol.version", "3.5", "the feature metadata.version"),
        ("cordoned.log.dirs", "*", "it came after Kafka 4.1"),
        ("ssl.keystore.location", "/k", "there is no SSL or SASL listener"),
        ("listener.name.plaintext.scram-sha-256.sasl.jaas.config", "x", "there is no SSL or SASL listener"),
        ("super.users", "User:a", "there is no authorizer"),
        ("broker.session.timeout.ms", "3000", "one late heartbeat fences the broker"),
    ],
)
def test_keys_without_effect_are_warned_about(key: str, value: str, message: str) -> None:
    built = node_config(COMBINED | {key: value})
    assert any(message in warning for warning in start_up_warnings(built))
    assert start_up_warnings(config()) == []


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        ("sasl.jaas.config", "x", "should be prefixed with SASL mechanism name, ignoring config"),
        ("listener.name.sasl.sasl.jaas.config", "x", "should be prefixed with SASL mechanism name"),
        ("plain.sasl.jaas.config", "x", None),
        ("listener.name.sasl.plain.sasl.jaas.config", "x", None),
        (
            "sasl.kerberos.ticket.renew.jitter",
            "0.1",
            "does nothing: the library of Kerberos renews tickets itself",
        ),
        ("plain.sasl.login.class", "com.example.Login", "does nothing: a Java class cannot run here"),
        ("sasl.enabled.mechanisms", "PLAIN", None),
        ("connections.max.reauth.ms", "1000", None),
        ("connection.failed.authentication.delay.ms", "5", None),
    ],
)
def test_keys_of_sasl_without_effect_are_warned_about(key: str, value: str, message: str | None) -> None:
    sasl = COMBINED | {
        "listeners": "PLAINTEXT://:9092,SASL://:9094,CONTROLLER://:9093",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    }
    before = start_up_warnings(node_config(sasl))
    found = [each for each in start_up_warnings(node_config(sasl | {key: value})) if each not in before]
    assert [message in each for each in found] == ([] if message is None else [True])


def test_a_default_spelt_out_is_no_reason_to_warn() -> None:
    assert start_up_warnings(config(num_io_threads="8", num_network_threads="3")) == []


def test_a_broker_hears_which_keys_are_the_controllers() -> None:
    assert any(
        "belongs to controllers" in warning
        for warning in start_up_warnings(config(BROKER_ONLY, num_partitions="3"))
    )


@pytest.mark.parametrize(
    ("base", "changes", "message"),
    [
        (COMBINED, {"remote.log.storage.system.enable": "true"}, "not built yet (tiered storage)"),
    ],
)
def test_serving_without_a_guard_is_refused(
    base: dict[str, str], changes: dict[str, str], message: str
) -> None:
    check_can_serve(config(authorizer_class_name="", remote_log_storage_system_enable="false"))
    with pytest.raises(ConfigError) as refused:
        check_can_serve(node_config(base | changes))
    assert message in str(refused.value)


@pytest.mark.parametrize(
    ("base", "changes"),
    [
        (BROKER_ONLY, {}),
        (CONTROLLER_ONLY, {}),
        (COMBINED, {"controller.quorum.voters": "1@a:1,2@b:1,3@c:1"}),
    ],
)
def test_a_node_of_a_larger_cluster_can_serve(base: dict[str, str], changes: dict[str, str]) -> None:
    built = node_config(base | changes)
    check_can_serve(built)
    assert start_up_warnings(built) == []


def test_newer_keys_are_not_keys_of_4_1() -> None:
    assert not NEWER & set(BROKER)


TLS = COMBINED | {
    "listeners": "PLAINTEXT://:9092,SSL://:9094,CONTROLLER://:9093",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT",
}


@pytest.mark.parametrize(
    ("key", "value", "message"),
    [
        (
            "ssl.client.auht",
            "required",
            "is not a configuration key and does nothing; did you mean ssl.client.auth?",
        ),
        (
            "listener.name.ssl.ssl.client.auht",
            "required",
            "is not a configuration key and does nothing; did you mean listener.name.ssl.ssl.client.auth?",
        ),
        ("sasl.foo", "1", "sasl.foo is not a configuration key and does nothing"),
        ("plian.sasl.jaas.config", "x", "is not a configuration key and does nothing"),
        ("listener.name.ssl.plian.sasl.jaas.config", "x", "is not a configuration key and does nothing"),
        ("listener.name.sssl.ssl.client.auth", "required", "does nothing: there is no listener sssl"),
        ("listener.name.SSL.ssl.client.auth", "required", "does nothing: there is no listener SSL"),
        ("listener.name.sssl.max.connections", "5", "does nothing: there is no listener sssl"),
        ("sasl.login.retry.backoff.ms", "7", "does nothing: a node chooses its own pauses"),
        ("sasl.login.connect.timeout.ms", "7", "does nothing: sasl.login.read.timeout.ms is"),
        ("sasl.login.read.timeout.ms", "7", None),
        ("listener.name.ssl.ssl.client.auth", "required", None),
        ("listener.name.controller.ssl.client.auth", "required", None),
        ("listener.name.metrics.ssl.client.auth", "required", None),
        ("listener.name.ssl.max.connections", "5", None),
    ],
)
def test_mistakes_in_keys_of_security_are_warned_about(key: str, value: str, message: str | None) -> None:
    before = start_up_warnings(node_config(TLS))
    found = [each for each in start_up_warnings(node_config(TLS | {key: value})) if each not in before]
    assert [message in each for each in found] == ([] if message is None else [True]), found


def test_an_encrypted_metrics_endpoint_and_encrypted_controllers_use_keys_of_tls() -> None:
    keys = {"listener.name.metrics.ssl.keystore.location": "/k", "ssl.keystore.type": "PEM"}
    https = COMBINED | keys | {"kcli.metrics.listener": ":9999", "kcli.metrics.protocol": "HTTPS"}
    assert start_up_warnings(node_config(https)) == []
    for changes in ({"kcli.metrics.protocol": "HTTP"}, {"kcli.metrics.listener": ""}):
        found = start_up_warnings(node_config(https | changes))
        assert ["there is no SSL or SASL listener" in each for each in found] == [True, True]
    (sasl,) = start_up_warnings(node_config(https | {"sasl.enabled.mechanisms": "PLAIN"}))
    assert "there is no SSL or SASL listener" in sasl
    secured = BROKER_ONLY | {"listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:SSL"}
    before = start_up_warnings(node_config(secured))
    assert start_up_warnings(node_config(secured | {"ssl.truststore.location": "/t"})) == before
