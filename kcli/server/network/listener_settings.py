"""The configuration of listeners and their connections."""

from __future__ import annotations

import logging
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field

from kcli.config.broker import BrokerConfig
from kcli.config.listeners import Listener
from kcli.runtime.network import BACKLOG

_log = logging.getLogger("kcli.server.SocketServer")

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


def _per_ip_overrides(text: str) -> dict[str, int]:
    """Parses `host:n,…`. A host name is resolved now."""
    overrides = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        host, _, limit = item.rpartition(":")
        overrides[host] = int(limit)
        try:
            overrides[socket.gethostbyname(host)] = int(limit)
        except OSError as error:
            _log.warning("max.connections.per.ip.overrides names %s, which has no address: %s", host, error)
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
