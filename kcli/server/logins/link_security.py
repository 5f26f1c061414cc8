"""The security of the connections from this node to other nodes.

As in Kafka, a node connects with the settings of its own listener: the key store and trust store, the SASL mechanism,
and the user of the login module. A node reaches brokers over the inter-broker listener, and controllers over the first
controller listener.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TYPE_CHECKING

from kcli.config.broker import BROKER, BrokerConfig
from kcli.config.definition import ConfigError
from kcli.config.listener_config import ListenerConfig

if TYPE_CHECKING:
    from kcli.security.client import ClientSecurity
    from kcli.security.tls.contexts import KeptContext

BROKER_MECHANISM = "sasl.mechanism.inter.broker.protocol"
CONTROLLER_MECHANISM = "sasl.mechanism.controller.protocol"

_JAAS = "sasl.jaas.config"
_ONLY_SERVERS = ("ssl.client.auth", "ssl.principal.mapping.rules", "ssl.allow.")
_TLS_KEYS = tuple(name for name in BROKER if name.startswith("ssl.") and not name.startswith(_ONLY_SERVERS))
_SASL_KEYS = (
    _JAAS,
    "sasl.login.class",
    "sasl.login.callback.handler.class",
    "sasl.kerberos.service.name",
    "sasl.kerberos.kinit.cmd",
    *(name for name in BROKER if name.startswith("sasl.oauthbearer.")),
)


class LinkSecurity:
    """The settings with which a node connects to other nodes. They follow the newest configuration.

    A TLS context is used until its settings or the files of its stores change. If the new settings or files are
    invalid, new connections use the last good context, as on listeners.
    """

    def __init__(self, current: Callable[[], BrokerConfig]) -> None:
        self._current = current
        self._made: dict[str, tuple[BrokerConfig, ClientSecurity | None]] = {}
        self._contexts: dict[str, KeptContext] = {}

    def to_brokers(self) -> ClientSecurity | None:
        """The settings of a connection to a broker. Raises ConfigError."""
        config = self._current()
        return self._of(config, config.inter_broker_listener_name, BROKER_MECHANISM)

    def to_controllers(self) -> ClientSecurity | None:
        """The settings of a connection to a controller. Raises ConfigError."""
        config = self._current()
        return self._of(config, config.controller_listener_names[0], CONTROLLER_MECHANISM)

    def check(self) -> Iterator[str]:
        """Yields a warning for each kind of connection whose settings are invalid. If this node cannot work without
        other nodes, raises ConfigError instead.
        """
        config = self._current()
        for listener, mechanism_key in (
            (config.inter_broker_listener_name, BROKER_MECHANISM),
            (config.controller_listener_names[0], CONTROLLER_MECHANISM),
        ):
            if mechanism_key == BROKER_MECHANISM and not config.is_broker:
                continue
            try:
                security = self._of(config, listener, mechanism_key)
                if security is not None and security.tls is not None:
                    security.tls.context()
            except (ConfigError, OSError) as error:
                if not _is_alone(config):
                    raise
                yield f"This node cannot connect to other nodes over the listener {listener}: {error}"
        mechanism = config.text(CONTROLLER_MECHANISM)
        if mechanism.startswith("SCRAM-") and _protocol(
            config, config.controller_listener_names[0]
        ).startswith("SASL_"):
            yield (
                f"{CONTROLLER_MECHANISM} is {mechanism}: controllers log in before they have the metadata with the "
                "SCRAM credentials, so a new quorum cannot form"
            )

    def _of(self, config: BrokerConfig, listener: str, mechanism_key: str) -> ClientSecurity | None:
        known = self._made.get(listener)
        if known is None or known[0] is not config:
            security = _client_security(config, listener, mechanism_key)
            known = self._made[listener] = config, self._keeping(ListenerConfig(config, listener), security)
        return known[1]

    def _keeping(self, config: ListenerConfig, security: ClientSecurity | None) -> ClientSecurity | None:
        """Returns the same settings with the kept TLS context of the listener, so that a context is used for many
        connections.
        """
        if security is None or security.tls is None:
            return security
        from kcli.security.tls.contexts import KeptContext

        whose = f"The connections to other nodes over the listener {config.listener}"
        context = self._contexts.setdefault(config.listener, KeptContext(whose))
        context.allow_dn = config.value("ssl.allow.dn.changes") is True
        context.allow_san = config.value("ssl.allow.san.changes") is True
        return replace(security, tls=replace(security.tls, kept=context))


def link_properties(config: BrokerConfig, listener: str, mechanism_key: str) -> dict[str, str]:
    """The settings of a listener, under the names that Kafka's clients use."""
    protocol = _protocol(config, listener)
    mechanism = config.text(mechanism_key)
    scoped = ListenerConfig(config, listener)
    properties = {"security.protocol": protocol}
    names: tuple[str, ...] = _TLS_KEYS if protocol.endswith("SSL") else ()
    if protocol.startswith("SASL_"):
        properties["sasl.mechanism"] = mechanism
        names += _SASL_KEYS
    for name in names:
        key = scoped.key_of(name, mechanism)
        if key is not None:
            properties[name] = config.texts[key]
    if _JAAS in names and _JAAS not in properties:
        properties[_JAAS] = _entry_in_file(scoped, mechanism)
    return properties


def _entry_in_file(config: ListenerConfig, mechanism: str) -> str:
    """The entry for the mechanism in the JAAS file, as the text of the key `sasl.jaas.config`. Raises ConfigError."""
    from kcli.security.login_modules import MODULES, server_module

    if mechanism not in MODULES:
        raise ConfigError(f"{mechanism} is not a SASL mechanism; expected {', '.join(MODULES)}")
    module = server_module(config, mechanism)
    options = "".join(f" {name}={_quoted(value)}" for name, value in module.options.items())
    return f"{module.name} {module.flag}{options};"


def _quoted(value: str) -> str:
    escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
    return f'"{escaped}"'


def _client_security(config: BrokerConfig, listener: str, mechanism_key: str) -> ClientSecurity | None:
    properties = link_properties(config, listener, mechanism_key)
    if properties["security.protocol"] == "PLAINTEXT":
        return None
    from kcli.security.bearer.settings import allowed_sources
    from kcli.security.client import client_security  # nodes without TLS and SASL do not need it

    try:
        return client_security(properties, allowed=allowed_sources(config.listed))
    except ConfigError:
        raise
    except ValueError as error:
        raise ConfigError(f"listener {listener}: {error}") from error


def _protocol(config: BrokerConfig, listener: str) -> str:
    return config.security_protocols.get(listener, "PLAINTEXT")


def _is_alone(config: BrokerConfig) -> bool:
    """Whether the node can work without any other node: it has both roles, and no other voter is configured."""
    voters = [node_id for node_id in config.quorum_voters if node_id != config.node_id]
    return (
        config.is_broker and config.is_controller and not voters and len(config.quorum_bootstrap_servers) < 2
    )
