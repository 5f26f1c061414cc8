from __future__ import annotations

from pathlib import Path

import pytest

from kcli.config.definition import ConfigError
from kcli.http.rest.listeners import RestListener
from kcli.model.addresses import Address
from kcli.registry.config.access_rules import AccessRules, Operation, access_rules
from kcli.registry.config.keys import OLD_NAMES, REGISTRY
from kcli.registry.config.settings import LoginSettings, RegistryConfig, registry_config
from kcli.registry.config.without_effect import NO_EFFECT, REFUSED
from kcli.registry.registry import decision_settings

ROOT = Path(__file__).resolve().parents[3]
SERVERS = {"kafkastore.bootstrap.servers": "a:9092,PLAINTEXT://b:9092"}


def config(properties: dict[str, str] | None = None, **keys: str) -> RegistryConfig:
    return registry_config(
        SERVERS | {key.replace("_", "."): text for key, text in keys.items()} | (properties or {})
    )


def test_defaults_are_those_of_confluent() -> None:
    it = config()
    assert it.rest.listeners == (RestListener(is_https=False, host="0.0.0.0", port=8081),)
    assert it.rest.media_types[0] == "application/vnd.schemaregistry.v1+json"
    assert (it.rest.login, it.rest.body_max_bytes, it.rest.request_timeout_ms) == (None, None, 600_000)
    assert (it.store.topic, it.store.replication_factor, it.store.topic_configs) == ("_schemas", 3, {})
    assert (it.store.timeout_ms, it.store.init_timeout_ms, it.store.write_max_retries) == (500, 60_000, 5)
    assert it.store.client == {
        "bootstrap.servers": "a:9092,PLAINTEXT://b:9092",
        "security.protocol": "PLAINTEXT",
    }
    assert (it.election.group_id, it.election.is_eligible, it.election.is_sticky) == (
        "schema-registry",
        True,
        False,
    )
    assert (it.election.session_timeout_ms, it.election.heartbeat_interval_ms) == (10_000, 3_000)
    assert (it.forwarding.connect_timeout_ms, it.forwarding.read_timeout_ms) == (60_000, 60_000)
    assert (it.compatibility_level, it.mode_is_mutable, it.validates_new_schemas) == ("BACKWARD", True, True)
    assert (it.schema_limits.default, it.schema_limits.maximum) == (1000, 1000)
    assert it.version_limits.maximum == 2**31 - 1
    assert not it.access.are_set
    assert it.warnings == ()


def test_old_names_take_precedence_and_are_reported() -> None:
    it = config(
        {"master.eligibility": "false", "avro.compatibility.level": "Full", "leader.eligibility": "true"}
    )
    assert (it.election.is_eligible, it.compatibility_level) == (False, "FULL")
    assert it.warnings == (
        "avro.compatibility.level is an old name of schema.compatibility.level",
        "master.eligibility is an old name of leader.eligibility",
    )
    assert config(port="8082").rest.listeners == (RestListener(is_https=False, host="0.0.0.0", port=8082),)


def test_settings_of_the_clients_have_the_prefix_of_the_store() -> None:
    it = config(
        {
            "kafkastore.security.protocol": "sasl_ssl",
            "kafkastore.sasl.jaas.config": "secret",
            "kafkastore.ssl.truststore.location": "/t",
            "kafkastore.bootstrap.servers": "SASL_SSL://a:9092,PLAINTEXT://b:9092",
            "kafkastore.topic.config.min.insync.replicas": "2",
            "kafkastore.topic.replication.factor": "2",
        }
    )
    assert it.store.client == {
        "security.protocol": "SASL_SSL",
        "sasl.jaas.config": "secret",
        "ssl.truststore.location": "/t",
        "bootstrap.servers": "SASL_SSL://a:9092",
    }
    assert it.store.topic_configs == {"min.insync.replicas": "2"}
    [warning] = it.warnings
    assert warning == (
        "Ignoring Kafka broker endpoint PLAINTEXT://b:9092 that does not match the setting for "
        "kafkastore.security.protocol=SASL_SSL"
    )


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"kafkastore.security.protocol": "TLS"}, "Only PLAINTEXT, SSL"),
        ({"kafkastore.bootstrap.servers": "SSL://a:9092"}, "No supported Kafka endpoints are configured"),
        ({"listeners": ""}, "listeners is empty"),
        ({"listeners": "ftp://a:1"}, "must be either"),
        ({"listeners": "https://a:1"}, "No listener configured with requested scheme http"),
        ({"schema.compatibility.level": "sideways"}, "Invalid value sideways"),
        ({"authentication.method": "BASIC"}, "authentication.realm must name a section"),
        ({"authentication.method": "BEARER"}, "String must be one of: NONE, BASIC"),
        ({"kafkagroup.heartbeat.interval.ms": "10000"}, "expected less than kafkagroup.session.timeout.ms"),
        ({"kcli.access.rules": "ann:fly:x"}, "kcli.access.rules has the rule ann:fly:x"),
        ({"kcli.access.rules": "ann:read"}, "expected USER:OPERATION:PREFIX"),
        ({"kcli.access.rules": "*:read:; ann:write:"}, "kcli.access.rules names users, so authentication"),
        ({"resource.extension.class": "org.example.Guard"}, "kcli loads no Java classes"),
        ({"kafkastore.connection.url": "zk:2181"}, "kcli needs no ZooKeeper"),
        ({"metadata.encoder.secret": "s3cret"}, "would be stored without encryption"),
        ({"dos.filter.enabled": "TRUE"}, "this protection does not exist here"),
        ({"host.port": "0"}, "Value must be at least 1"),
    ],
)
def test_a_registry_that_must_not_start(keys: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as error:
        config(keys)
    assert message in str(error.value)
    assert "s3cret" not in str(error.value)


@pytest.mark.parametrize("text", ["true", "false"])
def test_names_of_fields_are_checked_on_request(text: str) -> None:
    it = decision_settings(config({"schema.validate.fields": text}))
    assert it.validate_fields is (text == "true")


def test_the_servers_are_required() -> None:
    with pytest.raises(ConfigError, match="Missing required configuration"):
        registry_config({})


def test_harmless_values_of_refused_keys_are_accepted() -> None:
    assert config({"enable.fips": "false", "resource.extension.class": ""}).warnings == ()


def test_keys_without_effect_and_unknown_keys_are_reported() -> None:
    it = config(
        {
            "schema.cache.expiry.secs": "5",
            "schema.compatability.level": "none",
            "kafkastore.retry.backoff.ms": "5",
            "kafkastore.retri.backoff.ms": "5",
            "listener.name.https.ssl.keystore.location": "/k",
        }
    )
    assert it.warnings == (
        "schema.cache.expiry.secs has no effect: a parsed schema stays in the cache until others need its place",
        (
            "schema.compatability.level is not a configuration key of a schema registry. "
            "Did you mean schema.compatibility.level?"
        ),
        "kafkastore.retri.backoff.ms is not a configuration key of a schema registry",
    )


def test_each_key_is_in_one_table() -> None:
    tables = [set(REGISTRY), set(NO_EFFECT), set(REFUSED), set(OLD_NAMES)]
    assert sum(map(len, tables)) == len(set().union(*tables))
    assert set(OLD_NAMES.values()) <= set(REGISTRY)


def test_docs_list_the_keys_without_effect() -> None:
    page = (ROOT / "docs/skipped.md").read_text(encoding="utf-8")
    assert [name for name in (*NO_EFFECT, *REFUSED) if f"`{name}`" not in page] == []


def test_the_advertised_url(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("socket.getfqdn", lambda: "box.example")
    both = {"listeners": "http://0.0.0.0:8081,https://10.0.0.1:8443"}

    def url(keys: dict[str, str]) -> str:
        bound = [Address("", 8081), Address("", 8443)]
        return config(both | keys).rest.identity(bound, is_eligible=True).url

    assert url({}) == "http://box.example:8081"
    assert url({"inter.instance.protocol": "https"}) == "https://10.0.0.1:8443"
    assert url({"inter.instance.listener.name": "HTTPS"}) == "https://10.0.0.1:8443"
    assert url({"host.name": "fe80::1", "host.port": "80"}) == "http://[fe80::1]:80"


def test_tls_of_the_listener_takes_precedence_by_its_name() -> None:
    it = config(
        {
            "ssl.keystore.location": "/a",
            "ssl.key.password": "p",
            "listener.name.https.ssl.keystore.location": "/b",
            "ssl.client.auth": "true",
        }
    )
    assert it.rest.ssl == {
        "ssl.keystore.location": "/b",
        "ssl.key.password": "p",
        "ssl.client.auth": "required",
    }
    requested = {"ssl.client.authentication": "REQUESTED", "ssl.client.auth": "true"}
    assert config(requested).rest.ssl == {"ssl.client.auth": "requested"}


def test_a_login_needs_a_realm_and_a_role() -> None:
    it = config(
        {
            "authentication.method": "BASIC",
            "authentication.realm": "SchemaRegistry-Props",
            "authentication.roles": "admin,dev",
            "authentication.skip.paths": "/health",
        }
    )
    assert it.rest.login == LoginSettings(
        realm="SchemaRegistry-Props", roles=("admin", "dev"), open_paths=("/health",)
    )


def test_a_limit_of_bodies_needs_its_switch() -> None:
    keys = {"size.limit.filter.max.request.body.size": "100"}
    assert config(keys).rest.body_max_bytes is None
    assert config(keys | {"size.limit.filter.enabled": "true"}).rest.body_max_bytes == 100


def test_access_rules_permit_by_user_operation_and_prefix() -> None:
    rules = access_rules(" *:read: ; ann:write:orders- ;; ops:ADMIN::.prod: ")
    assert rules.are_set
    assert rules.permit("bob", Operation.READ, "orders-value")
    assert not rules.permit("bob", Operation.WRITE, "orders-value")
    assert rules.permit("ann", Operation.WRITE, "orders-value")
    assert not rules.permit("ann", Operation.WRITE, "order")
    assert not rules.permit("ann", Operation.ADMIN, "orders-value")
    assert rules.permit("ops", Operation.WRITE, ":.prod:orders-value"), "a permission includes the lower ones"
    assert not rules.permit("ops", Operation.WRITE, "orders-value")
    assert rules.permit("bob", Operation.READ, "")
    assert not rules.permit("ops", Operation.ADMIN, "")


def test_without_rules_everybody_may_do_everything() -> None:
    assert access_rules(" ; ") == AccessRules()
    assert AccessRules().permit("", Operation.ADMIN, "")
