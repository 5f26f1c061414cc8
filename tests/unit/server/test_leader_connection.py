"""Clients that log in accept only small answers until the login is complete."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Iterator

import pytest

from kcli.errors import ProtocolError
from kcli.model.addresses import Address
from kcli.runtime.network import SystemNetwork
from kcli.security.client import client_security
from kcli.server.partitions.fetchers.leader_connection import LOGIN_FRAME_MAX_BYTES, LeaderConnection
from kcli.spark.client.connection import Connection

LOGIN = {
    "security.protocol": "SASL_PLAINTEXT",
    "sasl.mechanism": "PLAIN",
    "sasl.jaas.config": "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="alice" password="alice-secret";',
}


@pytest.fixture
def port() -> Iterator[int]:
    """A server that announces a large answer to the first request."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            client, _ = server.accept()
            with client:
                client.recv(1)
                client.sendall(struct.pack(">i", LOGIN_FRAME_MAX_BYTES + 1))
                client.recv(100_000)
                client.recv(1)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield server.getsockname()[1]


def test_a_fetcher_refuses_a_large_answer_to_its_login(port: int) -> None:
    async def story() -> None:
        address = Address("127.0.0.1", port)
        async with asyncio.timeout(10):
            with pytest.raises(ProtocolError, match="announced a response of 524289 bytes"):
                await LeaderConnection.open(SystemNetwork(), address, lambda: client_security(LOGIN))

    asyncio.run(story())


def test_spark_refuses_a_large_answer_before_its_login(port: int) -> None:
    with pytest.raises(ProtocolError, match="announced an answer of 524289 bytes"):
        Connection("127.0.0.1", port, "test", 10)
