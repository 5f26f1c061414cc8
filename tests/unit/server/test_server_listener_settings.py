"""What the configuration makes of a listener: Kafka's socket defaults hold only where they are asked for."""

from __future__ import annotations

import pytest

from kcli.config.broker import BrokerConfig
from kcli.config.properties import parse
from kcli.config.start_up import node_config
from kcli.runtime.network import BACKLOG
from kcli.server.network.listener_settings import (
    SYSTEM_BUFFER,
    connection_limits,
    idle_max_seconds,
    listener_settings,
)


def config(*lines: str) -> BrokerConfig:
    text = "\n".join(
        [
            "process.roles=broker,controller",
            "node.id=1",
            "controller.listener.names=CONTROLLER",
            "listeners=PLAINTEXT://localhost:0,CONTROLLER://localhost:0",
            "controller.quorum.voters=1@localhost:9093",
            *lines,
        ]
    )
    return node_config(parse(text))


def test_defaults_leave_sockets_to_the_kernel() -> None:
    made = config()
    settings = listener_settings(made, made.listeners[0])
    assert (settings.name, settings.host, settings.port) == ("PLAINTEXT", "localhost", 0)
    assert (settings.send_buffer_bytes, settings.receive_buffer_bytes) == (SYSTEM_BUFFER, SYSTEM_BUFFER)
    assert settings.backlog == BACKLOG


def test_a_set_key_is_used_even_if_it_is_the_default() -> None:
    made = config(
        "socket.send.buffer.bytes=102400",
        "socket.receive.buffer.bytes=65536",
        "socket.listen.backlog.size=50",
        "max.connections=7",
        "listener.name.plaintext.max.connections=3",
        "max.connection.creation.rate=9",
    )
    plain, controller = (listener_settings(made, each) for each in made.listeners)
    assert (plain.send_buffer_bytes, plain.receive_buffer_bytes, plain.backlog) == (102400, 65536, 50)
    assert (plain.connections_max, controller.connections_max) == (3, 7)
    assert plain.creation_rate_max == controller.creation_rate_max == 9


def test_limits_by_address_count_for_a_name_and_for_its_address() -> None:
    limits = connection_limits(
        config("max.connections.per.ip=5", "max.connections.per.ip.overrides=localhost:2")
    )
    assert [limits.of_ip(host) for host in ("localhost", "127.0.0.1", "10.0.0.1")] == [2, 2, 5]


@pytest.mark.parametrize(("milliseconds", "seconds"), [(-1, None), (1500, 1.5)])
def test_a_negative_idle_time_means_no_limit(milliseconds: int, seconds: float | None) -> None:
    assert idle_max_seconds(config(f"connections.max.idle.ms={milliseconds}")) == seconds
