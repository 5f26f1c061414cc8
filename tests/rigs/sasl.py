"""A node with a SASL listener, its users, and a login step by step over the wire."""

from __future__ import annotations

from dataclasses import asdict

from kcli.errors import ErrorCode
from kcli.protocol.messages.alter_user_scram_credentials import (
    AlterUserScramCredentialsRequest,
    ScramCredentialUpsertion,
)
from kcli.protocol.messages.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
from kcli.protocol.messages.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
from kcli.protocol.wire.api import ApiKey
from kcli.security.mechanisms.client import ClientExchange, Credentials, client_exchange
from kcli.security.mechanisms.scram import MECHANISMS, salted_password
from kcli.server.network.login_counts import LoginCounts
from rigs.loops import until
from rigs.node import RunningNode, connect
from rigs.wire_client import Client

SALT, ITERATIONS = b"a salt of a test", 4096

_MODULES = "org.apache.kafka.common.security"
PLAIN_MODULE = f'{_MODULES}.plain.PlainLoginModule required user_alice="a=b,c" user_bob="bob-secret";'
SCRAM_MODULE = f"{_MODULES}.scram.ScramLoginModule required;"

SASL_LISTENER = {
    "listeners": "PLAINTEXT://127.0.0.1:0,SASL://127.0.0.1:0,CONTROLLER://127.0.0.1:0",
    "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,SASL:SASL_PLAINTEXT,CONTROLLER:PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
    "listener.name.sasl.plain.sasl.jaas.config": PLAIN_MODULE,
    "listener.name.sasl.scram-sha-256.sasl.jaas.config": SCRAM_MODULE,
    "scram-sha-512.sasl.jaas.config": SCRAM_MODULE,
}
"""The settings of a node with the listener SASL and two users of PLAIN: alice and bob."""

ALICE = Credentials("PLAIN", "alice", "a=b,c")
BOB = Credentials("PLAIN", "bob", "bob-secret")


def numbers(counts: LoginCounts) -> dict[str, int]:
    """The counts of a listener by their names, without the times."""
    return {name: value for name, value in asdict(counts).items() if isinstance(value, int)}


async def add_user(node: RunningNode, name: str, password: str, mechanism: str) -> None:
    """Gives a user a password for a SCRAM mechanism, and waits until the node knows it."""
    known = MECHANISMS[mechanism]
    upsertion = ScramCredentialUpsertion(
        name=name,
        mechanism=known.number,
        iterations=ITERATIONS,
        salt=SALT,
        salted_password=salted_password(known, password.encode(), SALT, ITERATIONS),
    )
    client = await connect(node)
    request = AlterUserScramCredentialsRequest(upsertions=(upsertion,))
    response = await client.call(request, ApiKey.ALTER_USER_SCRAM_CREDENTIALS, 0)
    assert [result.error_code for result in response.results] == [ErrorCode.NONE]
    await until(lambda: any(key.user == name for key in node.metadata.scram))


async def handshake(client: Client, mechanism: str, version: int = 1) -> SaslHandshakeResponse:
    response: SaslHandshakeResponse = await client.call(
        SaslHandshakeRequest(mechanism=mechanism), ApiKey.SASL_HANDSHAKE, version
    )
    return response


async def send_token(client: Client, token: bytes, version: int = 2) -> SaslAuthenticateResponse:
    response: SaslAuthenticateResponse = await client.call(
        SaslAuthenticateRequest(auth_bytes=token), ApiKey.SASL_AUTHENTICATE, version
    )
    return response


async def log_in(client: Client, credentials: Credentials) -> SaslAuthenticateResponse:
    """Logs in, and returns the last answer of the broker, which may be a refusal."""
    response = await handshake(client, credentials.mechanism)
    assert response.error_code is ErrorCode.NONE
    return await exchange(client, client_exchange(credentials))


async def exchange(client: Client, ours: ClientExchange) -> SaslAuthenticateResponse:
    """Sends the tokens of the client's side. Returns the last answer of the broker."""
    token = ours.respond(b"")
    while True:
        assert token is not None
        response = await send_token(client, token)
        if response.error_code is not ErrorCode.NONE:
            return response
        token = ours.respond(response.auth_bytes)
        if token is None:
            return response
