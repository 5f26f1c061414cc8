"""Every client with every kind of login, right and wrong, as one grid on one broker.

GSSAPI needs a Kerberos server, so tests/integration/test_sasl_kerberos.py has it.
"""

from __future__ import annotations

import asyncio
import gc
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import pytest

from kcli.client.admin.admin import AdminClient
from kcli.client.config import client_config
from kcli.local_cluster.ports import free_ports
from kcli.testing.broker_process import BrokerProcess
from kcli.testing.rigs.certificates import Certificates
from rigs.secured_clients import BEARER, Login, SecuredClient, secured_clients

pytestmark = [
    pytest.mark.compat,
    # Clients of other projects leave sockets open after a refused login.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

CLIENTS = secured_clients()
PASSWORDS = {"PLAIN": "plain-secret", "SCRAM-SHA-256": "scram-256", "SCRAM-SHA-512": "scram-512"}
LISTENERS = ("SSL", "MTLS", "EXPIRED", "ELSEWHERE", "SASL")
_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"


@pytest.fixture(autouse=True)
def _left_sockets() -> Iterator[None]:
    """Frees the sockets that a client has left open in the test that has opened them."""
    yield
    gc.collect()


@dataclass(frozen=True, slots=True)
class Secured:
    """A broker with one listener for each kind of login."""

    broker: BrokerProcess
    ports: dict[str, int]
    certificates: Certificates

    def login(self, kind: str) -> Login:
        """The right settings for a kind of login."""
        authority = self.certificates.authority
        if kind == "SSL":
            return Login(self.ports["SSL"], authority)
        if kind == "mTLS":
            return Login(self.ports["MTLS"], authority, self.certificates.alice)
        password = "3600" if kind == BEARER else PASSWORDS[kind]
        return Login(self.ports["SASL"], authority, None, kind, "alice", password)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory, certificates: Certificates) -> Iterator[Secured]:
    ports = dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True))
    broker = BrokerProcess(tmp_path_factory.mktemp("secured"))
    own = broker.properties
    named = ",".join(f"{name}://localhost:{port}" for name, port in ports.items())
    kinds = ",".join(f"{name}:{'SASL_SSL' if name == 'SASL' else 'SSL'}" for name in LISTENERS)
    prefix = "listener.name.sasl"
    broker.overrides |= {
        "listeners": f"{own['listeners']},{named}",
        "advertised.listeners": f"{own['advertised.listeners']},{named}",
        "listener.security.protocol.map": f"{own['listener.security.protocol.map']},{kinds}",
        **certificates.broker_config(),
        "listener.name.mtls.ssl.client.auth": "required",
        "listener.name.expired.ssl.keystore.location": certificates.server_expired.pem,
        "listener.name.elsewhere.ssl.keystore.location": certificates.server_elsewhere.pem,
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        f"{prefix}.plain.sasl.jaas.config": f'{_PLAIN} required user_alice="{PASSWORDS["PLAIN"]}";',
        f"{prefix}.scram-sha-256.sasl.jaas.config": f"{_SCRAM} required;",
        f"{prefix}.scram-sha-512.sasl.jaas.config": f"{_SCRAM} required;",
        f"{prefix}.oauthbearer.sasl.jaas.config": f"{_BEARER} required;",
    }
    with broker:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            alter_user(broker, mechanism, PASSWORDS[mechanism])
        yield Secured(broker, ports, certificates)


def alter_user(broker: BrokerProcess, mechanism: str, password: str | None) -> None:
    """Sets the password of alice for a SCRAM mechanism, or deletes it."""
    from kcli.cli.main import run

    change = (
        ["--delete-config", mechanism]
        if password is None
        else ["--add-config", f"{mechanism}=[iterations=4096,password={password}]"]
    )
    words = ["configs", "--bootstrap-server", broker.bootstrap, "--alter"]
    assert run([*words, "--entity-type", "users", "--entity-name", "alice", *change]) == 0


def _wrong(secured: Secured, kind: str, mistake: str) -> Login:
    """The settings for a kind of login with one mistake."""
    login, certificates = secured.login(kind), secured.certificates
    match mistake:
        case "wrong password":
            # A token that ended an hour ago stands for a wrong password.
            return replace(login, password="-3600" if kind == BEARER else "wrong")
        case "wrong CA":
            return replace(login, authority=certificates.other_authority)
        case "expired":
            if kind == "mTLS":
                return replace(login, certificate=certificates.alice_expired)
            return replace(login, port=secured.ports["EXPIRED"])
        case "wrong host":
            return replace(login, port=secured.ports["ELSEWHERE"])
        case "no certificate":
            return replace(login, certificate=None)
        case _:
            return replace(login, mechanism="SCRAM-SHA-1")


KINDS = ("SSL", "mTLS", *PASSWORDS, BEARER)
GRID = (
    ("SSL", "wrong CA"),
    ("SSL", "expired"),
    ("SSL", "wrong host"),
    ("mTLS", "no certificate"),
    ("mTLS", "expired"),
    *((kind, "wrong password") for kind in (*PASSWORDS, BEARER)),
    ("PLAIN", "wrong CA"),
)

# What a user of kcli's own tools sees.
SEEN = {
    "wrong CA": "SSL handshake failed",
    "wrong host": "SSL handshake failed",
    "no certificate": "Failed to process post-handshake messages|SSL handshake failed|node assignment",
    "PLAIN": "Authentication failed: Invalid username or password",
    "SCRAM-SHA-256": "invalid credentials with SASL mechanism SCRAM-SHA-256",
    "SCRAM-SHA-512": "invalid credentials with SASL mechanism SCRAM-SHA-512",
    BEARER: '"status":"invalid_token"',
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_right_login_is_accepted(secured: Secured, client: SecuredClient, kind: str) -> None:
    if client.name == "kcat" and kind == BEARER:
        pytest.skip("kcat needs a token endpoint")
    if client.name == "kcat" and kind.startswith("SCRAM"):
        pytest.skip(
            "librdkafka 2.0 of Debian 12 sends a wrong nonce, which Kafka 4.1 refuses too (CVE-2024-56128)"
        )
    assert client.attempt(secured.login(kind)) == ""


@pytest.mark.parametrize(("kind", "mistake"), GRID, ids=lambda word: word)
@pytest.mark.parametrize("client", CLIENTS, ids=lambda client: client.name)
def test_a_wrong_login_is_refused(secured: Secured, client: SecuredClient, kind: str, mistake: str) -> None:
    if client.name == "kcat" and kind == BEARER:
        pytest.skip("kcat needs a token endpoint")
    seen = client.attempt(_wrong(secured, kind, mistake))
    assert seen != ""
    assert "secret" not in seen
    if client.name == "kcli" and mistake != "expired":
        assert re.search(SEEN[kind if mistake == "wrong password" else mistake], seen), seen


def test_a_mechanism_that_is_not_enabled_is_named_with_the_others(secured: Secured) -> None:
    properties = secured.login("PLAIN").java | {
        "sasl.mechanism": "GSSAPI",
        "sasl.kerberos.service.name": "kafka",
    }

    async def ask() -> None:
        config = client_config(properties, bootstrap_servers=f"localhost:{secured.ports['SASL']}")
        async with AdminClient(config) as client:
            await client.list_topics()

    listed = r"enabled mechanisms are \[PLAIN, SCRAM-SHA-256, SCRAM-SHA-512, OAUTHBEARER\]"
    with pytest.raises(
        Exception, match=f"Client SASL mechanism 'GSSAPI' not enabled in the server, {listed}"
    ):
        asyncio.run(ask())


def test_a_deleted_user_cannot_log_in_again(secured: Secured) -> None:
    login = secured.login("SCRAM-SHA-512")
    clients = [client for client in CLIENTS if client.name != "kcat"]
    try:
        alter_user(secured.broker, "SCRAM-SHA-512", None)
        for client in clients:
            assert client.attempt(login) != "", client.name
    finally:
        alter_user(secured.broker, "SCRAM-SHA-512", PASSWORDS["SCRAM-SHA-512"])
    for client in clients:
        assert client.attempt(login) == "", client.name
