"""The HTTPS port of the metrics: certificates that change, and handshakes that never end."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import ssl
from pathlib import Path

import pytest

from kcli.http import client
from kcli.http.server import CONNECTIONS_MAX
from kcli.model.addresses import Address
from rigs.certificates import LOOPBACK_HOSTS, Certificates
from rigs.loops import PATIENCE_S
from rigs.node import RunningNode, running

LOCALHOST = (("CN", "localhost"), ("O", "x"))


def settings_of(certificates: Certificates, **more: str) -> dict[str, str]:
    found = {f"listener.name.metrics.{key}": text for key, text in certificates.broker_config().items()}
    return found | {"kcli_metrics_listener": "127.0.0.1:0", "kcli_metrics_protocol": "HTTPS"} | more


def address_of(node: RunningNode) -> Address:
    assert node.metrics_endpoint is not None
    return Address("127.0.0.1", node.metrics_endpoint.port)


async def shown(node: RunningNode, trusted: ssl.SSLContext) -> bytes:
    """The certificate that the endpoint shows to a new client, after a whole request."""
    reader, writer = await asyncio.open_connection(
        *address_of(node), ssl=trusted, server_hostname="localhost"
    )
    writer.write(b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    assert (await reader.read()).startswith(b"HTTP/1.1 200 OK")
    found = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    writer.close()
    assert isinstance(found, bytes)
    return found


async def is_served(node: RunningNode, trusted: ssl.SSLContext) -> bool:
    try:
        return bool(await shown(node, trusted))
    except OSError:
        return False


def test_a_changed_file_of_the_store_is_used_for_new_connections(
    tmp_path: Path, certificates: Certificates
) -> None:
    following = certificates.authority.issue("following-metrics", LOCALHOST, hosts=LOOPBACK_HOSTS)
    store = tmp_path / "metrics.pem"
    shutil.copy(certificates.server.pem, store)
    settings = settings_of(certificates, **{"listener.name.metrics.ssl.keystore.location": str(store)})

    async def story() -> None:
        trusted = ssl.create_default_context(cafile=certificates.authority.pem)
        async with running(tmp_path / "log", **settings) as node:
            before = await shown(node, trusted)
            shutil.copy(following.pem, store)
            node.listeners.security.look_at_files()
            after = await shown(node, trusted)
            assert before != after
            shutil.copy(certificates.other_authority.pem, store)  # no key: the last good store stays
            node.listeners.security.look_at_files()
            assert await shown(node, trusted) == after

    asyncio.run(story())


def test_clients_that_never_shake_hands_make_room_for_others(
    tmp_path: Path, certificates: Certificates
) -> None:
    async def story() -> None:
        trusted = ssl.create_default_context(cafile=certificates.authority.pem)
        async with running(tmp_path, **settings_of(certificates)) as node:
            silent = [await asyncio.open_connection(*address_of(node)) for _ in range(CONNECTIONS_MAX)]
            assert await is_served(node, trusted)
            async with asyncio.timeout(PATIENCE_S):
                with contextlib.suppress(ConnectionError):
                    assert await silent[0][0].read() == b""  # the oldest was closed
            for _, writer in silent:
                writer.close()

    asyncio.run(story())


def test_a_client_that_speaks_plain_http_is_closed_and_harms_no_other(
    tmp_path: Path, certificates: Certificates
) -> None:
    async def story() -> None:
        trusted = ssl.create_default_context(cafile=certificates.authority.pem)
        async with running(tmp_path, **settings_of(certificates)) as node:
            with pytest.raises((client.NotHttp, OSError)):
                await client.get(address_of(node), "/metrics", body_max_bytes=100)
            assert await shown(node, trusted)

    asyncio.run(story())
