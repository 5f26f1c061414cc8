"""The configuration of listeners and their connections."""

from __future__ import annotations

import ipaddress
import logging
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from kcli.config.broker import BrokerConfig
from kcli.config.definition import ConfigError
from kcli.config.listeners import Listener
from kcli.config.start_up import parse_per_ip_overrides
from kcli.runtime.network import BACKLOG
from kcli.security.java_address import parse_literal

_log = logging.getLogger("kcli.server.SocketServer")

_PER_IP, _OVERRIDES = "max.connections.per.ip", "max.connections.per.ip.overrides"

UNLIMITED = 2**31 - 1
ENVELOPE_BYTES_MAX = 65_536
"""The most bytes that an Envelope adds to the frame of a client. A controller listener accepts frames that are larger
by this number, because a broker may forward a client's frame of the largest size. The largest part is the name of the
client's principal, and 64 KiB are enough for every name."""

# With this value, the operating system chooses the buffer size, as in Kafka.
SYSTEM_BUFFER = -1


@dataclass(frozen=True, slots=True)
class ListenerSettings:
    """The settings of one listener. `listener.name.<name>.…` takes precedence over the key of the broker."""

    name: str
    host: str | None
    port: int
    connections_max: int = UNLIMITED
    creation_rate_max: int = UNLIMITED
    send_buffer_bytes: int = SYSTEM_BUFFER
    receive_buffer_bytes: int = SYSTEM_BUFFER
    backlog: int = BACKLOG
    envelope_bytes_max: int = 0

    @property
    def is_controller(self) -> bool:
        return self.envelope_bytes_max > 0


@dataclass(frozen=True, slots=True)
class ConnectionLimits:
    """The limits over all listeners: max.connections, max.connections.per.ip, and max.connections.per.ip.overrides."""

    connections_max: int = UNLIMITED
    per_ip_max: int = UNLIMITED
    per_ip_overrides: Mapping[str, int] = field(default_factory=dict)

    def of_ip(self, host: str) -> int:
        return self.per_ip_overrides.get(host, self.per_ip_max)


def connection_limits(config: BrokerConfig) -> ConnectionLimits:
    return ConnectionLimits(
        connections_max=config.integer("max.connections"),
        per_ip_max=config.integer("max.connections.per.ip"),
        per_ip_overrides=_per_ip_overrides(config.text("max.connections.per.ip.overrides")),
    )


def check_limits(static: BrokerConfig, after: BrokerConfig) -> None:
    """Raises ConfigError, with Kafka's text, for a dynamic limit that lets no client in, so none could change it back.

    Kafka takes such a limit from the broker's file.
    """
    for listener in after.listeners:
        for name in ("max.connections", "max.connection.creation.rate"):
            value = after.of_listener(listener.name, name)
            assert isinstance(value, int)
            if value <= 0 and value != static.of_listener(listener.name, name):
                raise ConfigError(f"Invalid {name} {value}", key=name)
    overrides = parse_per_ip_overrides(after.text(_OVERRIDES))
    if after.texts.get(_OVERRIDES) != static.texts.get(_OVERRIDES):
        for host, count in overrides.items():
            if count == 0 and _is_own(host):
                reason = "no client on the broker's own machine could connect"
                raise ConfigError(f"Invalid {_OVERRIDES} {host}:{count}: {reason}", key=_OVERRIDES)
    if (
        after.integer(_PER_IP) == 0
        and static.integer(_PER_IP) > 0
        and not any(count and _address(host) for host, count in overrides.items())
    ):
        reason = f"no host of {_OVERRIDES} has an address"
        raise ConfigError(f"Invalid {_PER_IP} 0: {reason}", key=_PER_IP)


def _is_own(host: str) -> bool:
    """Whether the host is this machine, as its own programs name it."""
    try:
        return host == "localhost" or ipaddress.ip_address(parse_literal(host) or "").is_loopback
    except ValueError:
        return False


def _address(host: str) -> str | None:
    """The address of a host, or None if there is no such host."""
    try:
        return parse_literal(host) or socket.gethostbyname(host)
    except (OSError, ValueError):  # ValueError: the text cannot be a host name
        return None


def _per_ip_overrides(text: str) -> dict[str, int]:
    """Parses `host:n,…`. A host name is resolved now."""
    overrides = {}
    for host, limit in parse_per_ip_overrides(text).items():
        overrides[host] = limit
        address = _address(host)
        if address is None:
            _log.warning("%s names %s, which has no address", _OVERRIDES, host)
        else:
            overrides[address] = limit
    return overrides


def listener_settings(config: BrokerConfig, listener: Listener) -> ListenerSettings:
    def of_listener(name: str) -> int:
        value = config.of_listener(listener.name, name)
        assert isinstance(value, int), f"{name} is not an integer"
        return value

    return ListenerSettings(
        listener.name,
        listener.host or None,
        listener.port,
        connections_max=of_listener("max.connections"),
        creation_rate_max=of_listener("max.connection.creation.rate"),
        send_buffer_bytes=_if_set(config, "socket.send.buffer.bytes", SYSTEM_BUFFER),
        receive_buffer_bytes=_if_set(config, "socket.receive.buffer.bytes", SYSTEM_BUFFER),
        backlog=_if_set(config, "socket.listen.backlog.size", BACKLOG),
        envelope_bytes_max=ENVELOPE_BYTES_MAX if listener in config.controller_listeners else 0,
    )


def _if_set(config: BrokerConfig, name: str, otherwise: int) -> int:
    """The value of a socket option. If the key is not set, returns the system's default, because Kafka's default is
    slow.

    Kafka's buffers have a fixed size of 100 KiB. With these buffers, the throughput on the loopback can fall to half of
    the throughput with the kernel's own sizes. Kafka's accept queue has 50 places, so some clients must wait a second
    if many connect at the same time.
    """
    return config.integer(name) if config.is_set(name) else otherwise


def idle_max_seconds(config: BrokerConfig) -> float | None:
    """The longest idle time of a connection. None means no limit."""
    milliseconds = config.integer("connections.max.idle.ms")
    return None if milliseconds < 0 else milliseconds / 1000


def queued_bytes_max(config: BrokerConfig) -> int | None:
    """The value of queued.max.request.bytes. None if the key is not set or means no limit."""
    value = config.integer("queued.max.request.bytes")
    return value if value > 0 else None
