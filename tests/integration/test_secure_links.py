"""Connections of a node to other nodes: TLS and SASL, refusals, and sessions that end."""

from __future__ import annotations

from pathlib import Path

import pytest

from kcli.client.connection import Connection
from kcli.client.pool import is_usable
from kcli.errors import ErrorCode, NetworkException
from kcli.model.addresses import Address
from kcli.protocol.messages.metadata import MetadataRequest
from kcli.protocol.wire.api import ApiKey
from kcli.protocol.wire.codec import decode_response, encode_request
from kcli.runtime.network import SystemNetwork
from kcli.security.client import ClientSecurity
from kcli.security.mechanisms.client import Credentials
from kcli.server.network.links import open_link, plain_text
from kcli.server.partitions.fetchers.leader_connection import LeaderConnection
from rigs.certificates import Certificates
from rigs.loops import until
from rigs.node import RunningNode, with_node
from rigs.sasl import ALICE, PLAIN_MODULE, SASL_LISTENER
from rigs.tls import tls_of

WRONG = Credentials("PLAIN", "alice", "not the password")
TIMEOUT_S = 30.0
PLAIN_ONLY = {"sasl.enabled.mechanisms": "PLAIN", "plain.sasl.jaas.config": PLAIN_MODULE}


def secure(credentials: Credentials) -> ClientSecurity:
    return ClientSecurity(None, credentials)


def address(node: RunningNode) -> Address:
    return Address("127.0.0.1", node.port("SASL"))


async def leader(node: RunningNode, credentials: Credentials) -> LeaderConnection:
    return await LeaderConnection.open(
        SystemNetwork(), address(node), lambda: secure(credentials), client_id="fetcher"
    )


async def link(node: RunningNode, credentials: Credentials) -> Connection:
    return await open_link(SystemNetwork(), address(node), "link", TIMEOUT_S, lambda: secure(credentials))


def test_a_fetcher_logs_in_before_its_first_request(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        connection = await leader(node, ALICE)
        version = 12
        frame = encode_request(MetadataRequest(topics=()), ApiKey.METADATA, version, 5, "fetcher")
        correlation, response = decode_response(
            ApiKey.METADATA, version, bytes(await connection.exchange(frame))
        )
        assert (correlation, len(response.brokers)) == (5, 1)
        assert {each.session.principal.name for each in node.sockets.connections} == {"alice"}
        connection.close()

    with_node(tmp_path, story, **SASL_LISTENER)


@pytest.mark.parametrize("opened", [leader, link])
def test_a_wrong_password_is_refused_and_the_connection_is_closed(
    tmp_path: Path, opened: type[object]
) -> None:
    async def story(node: RunningNode) -> None:
        with pytest.raises(Exception) as error:
            await opened(node, WRONG)  # type: ignore[call-arg,misc]
        assert "Invalid username or password" in str(error.value)
        assert "not the password" not in str(error.value)
        await until(lambda: not list(node.sockets.connections))

    with_node(tmp_path, story, **SASL_LISTENER)


def test_a_link_reports_every_refusal_as_a_network_error(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        with pytest.raises(NetworkException):
            await link(node, WRONG)
        plain = await open_link(SystemNetwork(), address(node), "link", TIMEOUT_S, plain_text)
        with pytest.raises(NetworkException):
            await plain.request(MetadataRequest(topics=()), ApiKey.METADATA, version=12, timeout=TIMEOUT_S)

    with_node(tmp_path, story, **SASL_LISTENER)


def test_a_link_connects_again_before_its_session_ends(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        long, fetcher = await link(node, ALICE), await leader(node, ALICE)
        assert is_usable(long) and fetcher.is_usable
        await until(lambda: not is_usable(long) and not fetcher.is_usable)
        assert not long.is_closed and not fetcher.is_closed
        long.close()
        fetcher.close()
        assert not is_usable(None)

    with_node(tmp_path, story, **SASL_LISTENER | {"connections.max.reauth.ms": "600"})


def test_clients_and_registrations_get_the_listener_of_their_protocol(
    tmp_path: Path, certificates: Certificates
) -> None:
    async def story(node: RunningNode) -> None:
        registered = node.metadata.brokers[1].endpoints
        assert {name: each.security_protocol for name, each in registered.items()} == {
            "PLAINTEXT": 0,
            "SSL": 1,
            "LOGIN": 2,
            "BOTH": 3,
        }
        controllers = node.metadata.controllers[1].endpoints
        assert {name: each.security_protocol for name, each in controllers.items()} == {"CONTROLLER": 1}
        plain = await open_link(
            SystemNetwork(), Address("127.0.0.1", node.port()), "link", TIMEOUT_S, plain_text
        )
        encrypted = await open_link(
            SystemNetwork(),
            Address("127.0.0.1", node.port("SSL")),
            "link",
            TIMEOUT_S,
            lambda: ClientSecurity(tls_of(certificates), None),
        )
        for connection, listener in ((plain, "PLAINTEXT"), (encrypted, "SSL")):
            answer = await connection.request(
                MetadataRequest(topics=()), ApiKey.METADATA, version=12, timeout=TIMEOUT_S
            )
            assert [each.port for each in answer.brokers] == [node.port(listener)]
            connection.close()

    names = {"PLAINTEXT": "PLAINTEXT", "SSL": "SSL", "LOGIN": "SASL_PLAINTEXT", "BOTH": "SASL_SSL"}
    listeners = {
        "listeners": ",".join(f"{name}://127.0.0.1:0" for name in (*names, "CONTROLLER")),
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}" for name, protocol in (names | {"CONTROLLER": "SSL"}).items()
        ),
    }
    with_node(tmp_path, story, **SASL_LISTENER | PLAIN_ONLY | certificates.broker_config() | listeners)


def test_a_link_without_a_login_gets_versions_only(tmp_path: Path) -> None:
    async def story(node: RunningNode) -> None:
        plain = await open_link(SystemNetwork(), address(node), "link", TIMEOUT_S, plain_text)
        assert plain.features.error_code is ErrorCode.NONE
        plain.close()

    with_node(tmp_path, story, **SASL_LISTENER)
