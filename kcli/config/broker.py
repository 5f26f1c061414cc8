"""`BrokerConfig`: a node's configuration, parsed and typed.

A `BrokerConfig` maps every broker key to its parsed value. Its properties give the values that are needed most, and
resolve synonyms. For example, `log_dirs` is the value of log.dirs or, if log.dirs is not set, of log.dir.
`start_up.node_config` reads and checks the configuration of a node.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from functools import cached_property

from kcli.config.broker_keys import BROKER, DYNAMIC_ONLY, NEWER
from kcli.config.definition import ConfigError, ConfigValue
from kcli.config.listeners import (
    WILDCARD_HOST,
    Listener,
    parse_addresses,
    parse_bind_address,
    parse_listeners,
    parse_protocol_map,
    parse_voters,
    split_list,
)
from kcli.config.properties import Properties
from kcli.config.topic import server_default
from kcli.model.addresses import Address
from kcli.model.ids import BrokerId
from kcli.model.java_text import trim

__all__ = ["BROKER", "DYNAMIC_ONLY", "NEWER", "BrokerConfig"]

UNLIMITED_RATE = (1 << 63) - 1
"""The rate of replication without a limit: the largest long, which is Kafka's default."""

BROKER_ROLE = "broker"
CONTROLLER_ROLE = "controller"


class BrokerConfig(Mapping[str, ConfigValue]):
    """The value of every broker key. A key that neither the file nor an override sets has its default."""

    def __init__(self, texts: Properties) -> None:
        """Parses `texts` and converts each value to its type. `start_up.node_config` also checks that the keys fit
        together."""
        self.texts = texts
        try:
            self._values = BROKER.parse(texts)
        except ConfigError as error:
            raise texts.blamed(error) from None

    def replaced(self, texts: Mapping[str, str]) -> BrokerConfig:
        """A copy in which some keys have new values, such as dynamic configs. Raises ConfigError for an invalid
        value."""
        merged = Properties()
        merged.update_from(self.texts, where="")
        merged.update_from(texts, where="")
        return BrokerConfig(merged)

    # --- the mapping

    def __getitem__(self, name: str) -> ConfigValue:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def is_set(self, name: str) -> bool:
        """Whether the file or an override sets the key, even to its default."""
        return name in self.texts

    def integer(self, name: str) -> int:
        value = self._values[name]
        assert isinstance(value, int), f"{name} is not an integer"
        return value

    def number(self, name: str) -> float:
        value = self._values[name]
        assert isinstance(value, float), f"{name} is not a double"
        return value

    def boolean(self, name: str) -> bool:
        value = self._values[name]
        assert isinstance(value, bool), f"{name} is not a boolean"
        return value

    def text(self, name: str) -> str:
        """The text of a string key. The text is empty if the value is null."""
        value = self._values[name]
        assert value is None or isinstance(value, str), f"{name} is not a string"
        return value or ""

    def listed(self, name: str) -> tuple[str, ...]:
        """The items of a list key. There are no items if the value is null."""
        value = self._values[name]
        assert value is None or isinstance(value, tuple), f"{name} is not a list"
        return value or ()

    def of_listener(self, listener: str, name: str) -> ConfigValue:
        """A key's value for one listener.

        The value of `listener.name.<listener>.<key>` takes precedence over the value of `<key>`.
        """
        scoped = f"listener.name.{listener.lower()}.{name}"
        if scoped in self.texts:
            return BROKER[name].parse(self.texts[scoped])
        return self._values[name]

    def throttle(self, name: str) -> int:
        """The bytes per second of a key of DYNAMIC_ONLY."""
        rate = DYNAMIC_ONLY[name].parse(self.texts.get(name, str(UNLIMITED_RATE)))
        assert isinstance(rate, int)
        return rate

    # --- the node

    @property
    def node_id(self) -> BrokerId:
        return BrokerId(self.integer("node.id"))

    @property
    def rack(self) -> str | None:
        return self.text("broker.rack") or None

    @property
    def process_roles(self) -> frozenset[str]:
        return frozenset(self.listed("process.roles"))

    @property
    def is_broker(self) -> bool:
        return BROKER_ROLE in self.process_roles

    @property
    def is_controller(self) -> bool:
        return CONTROLLER_ROLE in self.process_roles

    # --- directories

    @property
    def log_dirs(self) -> tuple[str, ...]:
        # If log.dirs is set but empty, log.dir is not used. The empty value is a mistake, which is reported.
        return split_list(self.text("log.dir" if self["log.dirs"] is None else "log.dirs"))

    @property
    def metadata_log_dir(self) -> str:
        return self.text("metadata.log.dir") or self.log_dirs[0]

    @property
    def all_dirs(self) -> tuple[str, ...]:
        """Every directory to format: the log dirs, and the metadata log dir unless it is one of them."""
        return tuple(dict.fromkeys((*self.log_dirs, self.metadata_log_dir)))

    # --- listeners

    @cached_property
    def security_protocols(self) -> Mapping[str, str]:
        """The security protocol of each listener, by the name of the listener.

        A controller listener without an entry is PLAINTEXT, if listener.security.protocol.map has its default and no
        listener uses SSL or SASL.
        """
        key = "listener.security.protocol.map"
        protocols = parse_protocol_map(self.text(key), key)
        if self.is_set(key):
            return protocols
        names = [
            *self.controller_listener_names,
            *(uri.partition(":")[0].upper() for uri in self._listener_uris),
        ]
        if any(name in ("SSL", "SASL_PLAINTEXT", "SASL_SSL") for name in names):
            return protocols
        return protocols | dict.fromkeys(self.controller_listener_names, "PLAINTEXT")

    @property
    def _listener_uris(self) -> tuple[str, ...]:
        return split_list(self.text("listeners"))

    @cached_property
    def listeners(self) -> tuple[Listener, ...]:
        return parse_listeners(
            self.text("listeners"), self.security_protocols, key="listeners", distinct_ports=True
        )

    @property
    def controller_listener_names(self) -> tuple[str, ...]:
        return tuple(name.upper() for name in split_list(self.text("controller.listener.names")))

    @property
    def controller_listeners(self) -> tuple[Listener, ...]:
        names = self.controller_listener_names
        return tuple(listener for listener in self.listeners if listener.name in names)

    @property
    def early_start_listeners(self) -> tuple[str, ...]:
        """The names of the listeners that serve requests before the broker is ready. By default these are the
        controller listeners, because a quorum cannot form without them (KIP-801)."""
        if not self.is_set("early.start.listeners"):
            return self.controller_listener_names
        return tuple(name.upper() for name in split_list(self.text("early.start.listeners")))

    @property
    def broker_listeners(self) -> tuple[Listener, ...]:
        names = self.controller_listener_names
        return tuple(listener for listener in self.listeners if listener.name not in names)

    @cached_property
    def all_advertised_listeners(self) -> tuple[Listener, ...]:
        """The listeners of the key advertised.listeners. If this key is not set, the listeners of the key `listeners`.

        Controller listeners are included.
        """
        if not self.is_set("advertised.listeners"):
            return self.listeners
        key = "advertised.listeners"
        return parse_listeners(self.text(key), self.security_protocols, key=key, distinct_ports=False)

    @cached_property
    def advertised_listeners(self) -> tuple[Listener, ...]:
        """The listeners that this broker registers and sends to clients. A listener without a host gets the name of
        this machine."""
        names = self.controller_listener_names
        return tuple(
            _with_host(listener) for listener in self.all_advertised_listeners if listener.name not in names
        )

    @cached_property
    def advertised_controller_listeners(self) -> tuple[Listener, ...]:
        """The listeners that this controller registers: its advertised listeners or, if there are none, its listeners
        (KIP-853). A listener on all interfaces gets the name of this machine."""
        advertised = {listener.name: listener for listener in self.all_advertised_listeners}
        return tuple(
            _with_host(advertised.get(listener.name, listener)) for listener in self.controller_listeners
        )

    @property
    def inter_broker_listener_name(self) -> str:
        name = self.text("inter.broker.listener.name")
        return name.upper() or self.text("security.inter.broker.protocol")

    @property
    def metrics_address(self) -> Address | None:
        """The address of the metrics endpoint (kcli.metrics.listener), or None if there is no endpoint."""
        key = "kcli.metrics.listener"
        text = trim(self.text(key))
        return parse_bind_address(text, key) if text else None

    @property
    def has_traces(self) -> bool:
        """Whether some requests get spans."""
        return (
            self.number("kcli.trace.sample.ratio") > 0
            or self.integer("kcli.trace.slow.ms") >= 0
            or self.boolean("kcli.trace.headers")
        )

    # --- quorum

    @property
    def quorum_voters(self) -> dict[int, Address]:
        """The address of each static voter, by node id. Empty if the quorum is dynamic."""
        key = "controller.quorum.voters"
        return parse_voters(self.listed(key), key)

    @property
    def quorum_bootstrap_servers(self) -> tuple[Address, ...]:
        key = "controller.quorum.bootstrap.servers"
        return parse_addresses(self.listed(key), key)

    # --- durations with several units

    @property
    def log_retention_ms(self) -> int:
        return self._topic_default("retention.ms")

    @property
    def log_roll_ms(self) -> int:
        return self._topic_default("segment.ms")

    @property
    def log_roll_jitter_ms(self) -> int:
        return self._topic_default("segment.jitter.ms")

    @property
    def log_flush_interval_ms(self) -> int:
        return self._topic_default("flush.ms")

    def _topic_default(self, name: str) -> int:
        value = server_default(name, self)
        assert isinstance(value, int)
        return value


def _with_host(listener: Listener) -> Listener:
    is_wildcard = listener.host in ("", WILDCARD_HOST)
    return listener.at(socket.getfqdn(), listener.port) if is_wildcard else listener
