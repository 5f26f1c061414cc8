"""The configuration of a registry, made from its properties and checked."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kcli.config.definition import ConfigError
from kcli.config.properties import Properties
from kcli.config.providers import resolve
from kcli.config.values import Values
from kcli.http.rest.listeners import RestListener, rest_listener
from kcli.model.addresses import Address
from kcli.model.java_text import trim
from kcli.registry.config.access_rules import KEY as ACCESS_RULES
from kcli.registry.config.access_rules import AccessRules, access_rules
from kcli.registry.config.keys import OLD_NAMES, REGISTRY
from kcli.registry.config.without_effect import (
    LISTENER_PREFIX,
    STORE_PREFIX,
    TOPIC_PREFIX,
    refuse,
    warnings,
)
from kcli.registry.decisions.leadership import Identity

PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")
WILDCARD_HOSTS = ("", "0.0.0.0", "::")


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSettings:
    """The topic of the schemas. `client` has the properties of the Kafka clients."""

    topic: str = "_schemas"
    replication_factor: int = 3
    topic_configs: Mapping[str, str]
    skips_validation: bool = False
    timeout_ms: int = 500
    """The time in which a write must be in the topic and in the own state."""
    init_timeout_ms: int = 60_000
    write_max_retries: int = 5
    client: Mapping[str, str]
    read_only: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ElectionSettings:
    """The group of registries, one of which is the leader."""

    group_id: str = "schema-registry"
    session_timeout_ms: int = 10_000
    heartbeat_interval_ms: int = 3_000
    rebalance_timeout_ms: int = 300_000
    is_eligible: bool = True
    is_sticky: bool = False
    is_delayed: bool = False
    """Whether the registry joins the group only after its REST API serves reads."""

    @property
    def write_max_ms(self) -> int:
        """The longest time of a request that a leader sends for a write.

        A leader begins no write when the coordinator was silent for `lease_ms`. A write needs at most two requests.
        So it ends before the session of the leader, after which the group can have another leader.
        """
        return (self.session_timeout_ms - self.heartbeat_interval_ms) // 3

    @property
    def lease_ms(self) -> int:
        return self.heartbeat_interval_ms + self.write_max_ms


@dataclass(frozen=True, slots=True, kw_only=True)
class ForwardingSettings:
    """Requests to the leader. `headers` are the headers of clients that are forwarded beside those of every client."""

    connect_timeout_ms: int = 60_000
    read_timeout_ms: int = 60_000
    headers: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchLimits:
    """The most items of an answer: the default without the parameter `limit`, and the maximum. 0 is a limit, too."""

    default: int
    maximum: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LoginSettings:
    """HTTP Basic. `realm` is the section of the JAAS file, and `roles` are those that may log in."""

    realm: str
    roles: Sequence[str] = ("*",)
    open_paths: Sequence[str] = ()
    """Paths that need no login."""
    skips_options: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class RestConfig:
    listeners: Sequence[RestListener]
    advertised: int
    """The index of the listener that other registries use."""
    advertised_host: str | None
    """None means the host of the listener, or the name of this machine if the listener is on every interface."""
    advertised_port: int | None
    """None means the port of the listener."""
    ssl: Mapping[str, str]
    allow_origin: Sequence[str]
    allow_methods: Sequence[str]
    allow_headers: Sequence[str]
    response_headers: str
    media_types: Sequence[str]
    request_timeout_ms: int
    body_max_bytes: int | None
    """size.limit.filter.max.request.body.size, if the filter is on."""
    login: LoginSettings | None

    def identity(self, addresses: Sequence[Address], *, is_eligible: bool) -> Identity:
        """How other registries find this one. `addresses` are those of `listeners`."""
        listener, bound = self.listeners[self.advertised], addresses[self.advertised]
        own_host = socket.getfqdn() if listener.host in WILDCARD_HOSTS else listener.host
        return Identity(
            scheme=listener.scheme,
            host=self.advertised_host or own_host,
            port=self.advertised_port or bound.port,
            is_eligible=is_eligible,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistryConfig:
    texts: Mapping[str, str]
    """All properties, with all variables resolved."""
    rest: RestConfig
    store: StoreSettings
    election: ElectionSettings
    forwarding: ForwardingSettings
    access: AccessRules
    compatibility_level: str
    """In upper case, such as BACKWARD."""
    validates_fields: bool
    validates_new_schemas: bool
    rejects_empty_subject: bool
    has_strict_references: bool
    cached_schemas: int
    mode_is_mutable: bool
    schema_limits: SearchLimits
    subject_limits: SearchLimits
    version_limits: SearchLimits
    context_limits: SearchLimits
    read_only: bool
    warnings: Sequence[str]
    """Texts for the log: keys that are unknown, old or have no effect."""


def registry_config(properties: Mapping[str, str]) -> RegistryConfig:
    """Raises ConfigError for an invalid value, and for a key that prevents the start."""
    texts = Properties()
    texts.update_from(properties, where="")
    resolve(texts)
    try:
        return _checked(dict(texts))
    except ConfigError as error:
        raise texts.blamed(error) from None


def _checked(texts: Mapping[str, str]) -> RegistryConfig:
    refuse(texts)
    values = Values(
        REGISTRY.parse({**texts, **{new: texts[old] for old, new in OLD_NAMES.items() if texts.get(old)}})
    )
    notes = list(warnings(texts))
    client = _client(texts, values, notes)
    read_only = values.boolean("kcli.read.only")
    return RegistryConfig(
        texts=texts,
        rest=_rest(texts, values),
        store=StoreSettings(
            topic=values.text("kafkastore.topic"),
            replication_factor=values.integer("kafkastore.topic.replication.factor"),
            topic_configs=_with_prefix(texts, TOPIC_PREFIX),
            skips_validation=values.boolean("kafkastore.topic.skip.validation"),
            timeout_ms=values.integer("kafkastore.timeout.ms"),
            init_timeout_ms=values.integer("kafkastore.init.timeout.ms"),
            write_max_retries=values.integer("kafkastore.write.max.retries"),
            client=client,
            read_only=read_only,
        ),
        election=_election(values),
        forwarding=ForwardingSettings(
            connect_timeout_ms=values.integer("leader.connect.timeout.ms"),
            read_timeout_ms=values.integer("leader.read.timeout.ms"),
            headers=values.names("inter.instance.headers.whitelist"),
        ),
        access=_access(values),
        compatibility_level=values.text("schema.compatibility.level").upper(),
        validates_fields=values.boolean("schema.validate.fields"),
        validates_new_schemas=values.boolean("schema.validate.new.schemas"),
        rejects_empty_subject=values.boolean("schema.reject.empty.subject"),
        has_strict_references=values.boolean("schema.providers.reference.versions.strict"),
        cached_schemas=values.integer("schema.cache.size"),
        mode_is_mutable=values.boolean("mode.mutability"),
        schema_limits=_limits(values, "schema"),
        subject_limits=_limits(values, "subject"),
        version_limits=_limits(values, "subject.version"),
        context_limits=_limits(values, "context"),
        read_only=read_only,
        warnings=tuple(notes),
    )


def _access(values: Values) -> AccessRules:
    rules = access_rules(values.text(ACCESS_RULES))
    if rules.name_users and values.text("authentication.method") != "BASIC":
        raise ConfigError(
            f"{ACCESS_RULES} names users, so authentication.method must be BASIC: otherwise any client could send the "
            "name of a user",
            key=ACCESS_RULES,
        )
    return rules


def _election(values: Values) -> ElectionSettings:
    session, heartbeat = (
        values.integer(f"kafkagroup.{name}.ms") for name in ("session.timeout", "heartbeat.interval")
    )
    if heartbeat >= session:
        raise ConfigError(
            f"kafkagroup.heartbeat.interval.ms is {heartbeat}: expected less than kafkagroup.session.timeout.ms, "
            f"which is {session}",
            key="kafkagroup.heartbeat.interval.ms",
        )
    return ElectionSettings(
        group_id=values.text("schema.registry.group.id"),
        session_timeout_ms=session,
        heartbeat_interval_ms=heartbeat,
        rebalance_timeout_ms=values.integer("kafkagroup.rebalance.timeout.ms"),
        is_eligible=values.boolean("leader.eligibility"),
        is_sticky=values.boolean("leader.election.sticky"),
        is_delayed=values.boolean("leader.election.delay"),
    )


def _limits(values: Values, what: str) -> SearchLimits:
    return SearchLimits(
        default=values.integer(f"{what}.search.default.limit"),
        maximum=values.integer(f"{what}.search.max.limit"),
    )


def _client(texts: Mapping[str, str], values: Values, notes: list[str]) -> Mapping[str, str]:
    """The properties of the Kafka clients: those with the prefix `kafkastore.`."""
    client = {
        name: text
        for name, text in _with_prefix(texts, STORE_PREFIX).items()
        if f"{STORE_PREFIX}{name}" not in REGISTRY and not name.startswith("topic.config.")
    }
    protocol = trim(client.get("security.protocol", "") or "PLAINTEXT").upper()
    if protocol not in PROTOCOLS:
        raise ConfigError(
            "Only PLAINTEXT, SSL, SASL_PLAINTEXT, and SASL_SSL Kafka endpoints are supported.",
            key="kafkastore.security.protocol",
        )
    servers = []
    for server in values.names("kafkastore.bootstrap.servers"):
        scheme, separator, _ = server.partition("://")
        if separator and scheme.upper() != protocol:
            notes.append(
                f"Ignoring Kafka broker endpoint {server} that does not match the setting for "
                f"kafkastore.security.protocol={protocol}"
            )
        else:
            servers.append(server)
    if not servers:
        raise ConfigError(
            "No supported Kafka endpoints are configured. kafkastore.bootstrap.servers must have at least one "
            "endpoint matching kafkastore.security.protocol.",
            key="kafkastore.bootstrap.servers",
        )
    return client | {"bootstrap.servers": ",".join(servers), "security.protocol": protocol}


def _rest(texts: Mapping[str, str], values: Values) -> RestConfig:
    urls = (
        values.names("listeners") if "listeners" in texts else (f"http://0.0.0.0:{values.integer('port')}",)
    )
    if not any(urls):
        raise ConfigError("listeners is empty: expected a URL such as http://0.0.0.0:8081", key="listeners")
    listeners = tuple(rest_listener(url) for url in urls)
    has_limit = values.boolean("size.limit.filter.enabled")
    return RestConfig(
        listeners=listeners,
        advertised=_advertised(listeners, values),
        advertised_host=values.optional_text("host.name") or None,
        advertised_port=values.optional_integer("host.port"),
        ssl=_ssl(texts, values),
        allow_origin=values.names("access.control.allow.origin"),
        allow_methods=values.names("access.control.allow.methods"),
        allow_headers=values.names("access.control.allow.headers"),
        response_headers=values.text("response.http.headers.config"),
        media_types=_media_types(values),
        request_timeout_ms=values.integer("request.timeout.ms"),
        body_max_bytes=values.integer("size.limit.filter.max.request.body.size") if has_limit else None,
        login=_login(values),
    )


def _advertised(listeners: Sequence[RestListener], values: Values) -> int:
    """The index of the last listener with the protocol between registries, as in Confluent's registry."""
    scheme = (values.text("inter.instance.listener.name") or values.text("inter.instance.protocol")).lower()
    chosen = [index for index, listener in enumerate(listeners) if listener.scheme == scheme]
    if not chosen:
        raise ConfigError(
            f"No listener configured with requested scheme {scheme}", key="inter.instance.protocol"
        )
    return chosen[-1]


def _ssl(texts: Mapping[str, str], values: Values) -> Mapping[str, str]:
    """The keys `ssl.*` of the listeners. The name of the listener in front of a key takes precedence."""
    plain = {name: text for name, text in texts.items() if name.startswith("ssl.")}
    properties = plain | _with_prefix(texts, LISTENER_PREFIX)
    method = trim(properties.pop("ssl.client.authentication", "none")).lower()
    if trim(properties.pop("ssl.client.auth", "false")).lower() == "true" and method == "none":
        method = "required"  # the older key
    return properties | {"ssl.client.auth": method}


def _media_types(values: Values) -> Sequence[str]:
    default = values.text("response.mediatype.default")
    return (default, *(name for name in values.names("response.mediatype.preferred") if name != default))


def _login(values: Values) -> LoginSettings | None:
    if values.text("authentication.method") != "BASIC":
        return None
    realm = values.text("authentication.realm")
    if not realm:
        raise ConfigError(
            "authentication.method is BASIC, so authentication.realm must name a section of the JAAS file",
            key="authentication.realm",
        )
    return LoginSettings(
        realm=realm,
        roles=values.names("authentication.roles"),
        open_paths=values.names("authentication.skip.paths"),
        skips_options=values.boolean("access.control.skip.options"),
    )


def _with_prefix(texts: Mapping[str, str], prefix: str) -> dict[str, str]:
    return {name.removeprefix(prefix): text for name, text in texts.items() if name.startswith(prefix)}
