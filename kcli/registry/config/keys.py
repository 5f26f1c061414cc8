"""The configuration keys of a registry: names, types, defaults and valid values."""
# ruff: noqa: E501  (a table reads best with one key to a line)

from __future__ import annotations

from kcli.config.broker_keys import BROKER
from kcli.config.client_common import BOOLEAN, HIGH, INT, LIST, LOW, MEDIUM, STRING, key
from kcli.config.definition import ConfigDef, OneOf, Range

INT_MAX = "2147483647"
LEVELS = (
    "none",
    "backward",
    "backward_transitive",
    "forward",
    "forward_transitive",
    "full",
    "full_transitive",
)
METHODS = ("NONE", "BASIC")
TLS_KEYS = (
    "ssl.cipher.suites",
    "ssl.enabled.protocols",
    "ssl.endpoint.identification.algorithm",
    "ssl.key.password",
    "ssl.keystore.certificate.chain",
    "ssl.keystore.key",
    "ssl.keystore.location",
    "ssl.keystore.password",
    "ssl.keystore.type",
    "ssl.truststore.certificates",
    "ssl.truststore.location",
    "ssl.truststore.password",
    "ssl.truststore.type",
)
"""The keys of TLS listeners, which also apply to requests to the leader. `listener.name.https.` may precede them."""

OLD_NAMES = {
    "avro.compatibility.level": "schema.compatibility.level",
    "master.eligibility": "leader.eligibility",
    "schema.registry.inter.instance.protocol": "inter.instance.protocol",
}
"""Old names of keys. As in Confluent's registry, the old name takes precedence if both are set."""

# fmt: off
REGISTRY = ConfigDef(sorted((
    key("access.control.allow.headers", LIST, "", None, LOW),
    key("access.control.allow.methods", LIST, "", None, LOW),
    key("access.control.allow.origin", LIST, "", None, LOW),
    key("access.control.skip.options", BOOLEAN, "true", None, LOW),
    key("authentication.method", STRING, "NONE", OneOf(METHODS), LOW),
    key("authentication.realm", STRING, "", None, LOW),
    key("authentication.roles", LIST, "*", None, LOW),
    key("authentication.skip.paths", LIST, "", None, LOW),
    key("context.search.default.limit", INT, INT_MAX, Range(0), LOW),
    key("context.search.max.limit", INT, INT_MAX, Range(0), LOW),
    key("host.name", STRING, None, None, HIGH),
    key("host.port", INT, None, Range(1, 65535), HIGH),
    key("inter.instance.headers.whitelist", LIST, "", None, LOW),
    key("inter.instance.listener.name", STRING, "", OneOf(("", "http", "https"), ignore_case=True), LOW),
    key("inter.instance.protocol", STRING, "http", OneOf(("http", "https"), ignore_case=True), LOW),
    key("kafkagroup.heartbeat.interval.ms", INT, "3000", Range(1), LOW),
    key("kafkagroup.rebalance.timeout.ms", INT, "300000", Range(0), LOW),
    key("kafkagroup.session.timeout.ms", INT, "10000", Range(1), LOW),
    key("kafkastore.bootstrap.servers", LIST, None, None, MEDIUM, required=True),
    key("kafkastore.init.timeout.ms", INT, "60000", Range(0), MEDIUM),
    key("kafkastore.timeout.ms", INT, "500", Range(0), MEDIUM),
    key("kafkastore.topic", STRING, "_schemas", None, HIGH),
    key("kafkastore.topic.replication.factor", INT, "3", Range(1, 32767), HIGH),
    key("kafkastore.topic.skip.validation", BOOLEAN, "false", None, MEDIUM),
    key("kafkastore.write.max.retries", INT, "5", Range(0), LOW),
    key("kcli.access.rules", STRING, "", None, LOW),
    key("kcli.metrics.listener", STRING, None, None, LOW),
    key("kcli.read.only", BOOLEAN, "false", None, LOW),
    key("leader.connect.timeout.ms", INT, "60000", Range(0), LOW),
    key("leader.election.delay", BOOLEAN, "false", None, LOW),
    key("leader.election.sticky", BOOLEAN, "false", None, LOW),
    key("leader.eligibility", BOOLEAN, "true", None, MEDIUM),
    key("leader.read.timeout.ms", INT, "60000", Range(0), LOW),
    key("listeners", LIST, "http://0.0.0.0:8081", None, HIGH),
    key("mode.mutability", BOOLEAN, "true", None, LOW),
    key("port", INT, "8081", Range(0, 65535), LOW),
    key("request.timeout.ms", INT, "600000", Range(1), LOW),
    key("response.http.headers.config", STRING, "", None, LOW),
    key("response.mediatype.default", STRING, "application/vnd.schemaregistry.v1+json", None, HIGH),
    key("response.mediatype.preferred", LIST, "application/vnd.schemaregistry.v1+json,application/vnd.schemaregistry+json,application/json", None, HIGH),
    key("schema.cache.size", INT, "1000", Range(1), LOW),
    key("schema.compatibility.level", STRING, "backward", OneOf(LEVELS, ignore_case=True), HIGH),
    key("schema.providers.reference.versions.strict", BOOLEAN, "false", None, LOW),
    key("schema.registry.group.id", STRING, "schema-registry", None, MEDIUM),
    key("schema.reject.empty.subject", BOOLEAN, "false", None, LOW),
    key("schema.search.default.limit", INT, "1000", Range(0), LOW),
    key("schema.search.max.limit", INT, "1000", Range(0), LOW),
    key("schema.validate.fields", BOOLEAN, "false", None, LOW),
    key("schema.validate.new.schemas", BOOLEAN, "true", None, LOW),
    key("size.limit.filter.enabled", BOOLEAN, "false", None, LOW),
    key("size.limit.filter.max.request.body.size", INT, "1048576", Range(0), LOW),
    key("ssl.client.auth", BOOLEAN, "false", None, MEDIUM),
    key("ssl.client.authentication", STRING, "NONE", OneOf(("NONE", "REQUESTED", "REQUIRED"), ignore_case=True), MEDIUM),
    key("subject.search.default.limit", INT, INT_MAX, Range(0), LOW),
    key("subject.search.max.limit", INT, INT_MAX, Range(0), LOW),
    key("subject.version.search.default.limit", INT, INT_MAX, Range(0), LOW),
    key("subject.version.search.max.limit", INT, INT_MAX, Range(0), LOW),
    *(BROKER[name] for name in TLS_KEYS),
), key=lambda entry: entry.name))
# fmt: on
