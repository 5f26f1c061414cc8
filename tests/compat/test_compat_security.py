"""Every client with every kind of login, right and with each mistake, as one grid on one broker.

The grid is made of `CLIENTS`, `KINDS` and `MISTAKES`. `MEANINGLESS` has the pairs that no client can try, and `UNABLE`
the kinds that a client does not have. A part of the grid runs always, and all of it with `--full`.
"""

from __future__ import annotations

import contextlib
import gc
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

import pytest

from kcli.local_cluster.ports import free_ports
from kcli.testing.broker_process import BrokerProcess
from rigs import kerberos
from rigs.certificates import Certificates
from rigs.kerberos import SERVICE, Kerberos
from rigs.secured_clients import (
    BEARER,
    KERBEROS,
    Login,
    SecuredClient,
    expire_token,
    make_token,
    secured_clients,
)

pytestmark = [
    pytest.mark.compat,
    # Clients of other projects leave sockets open after a refused login.
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

CLIENTS = secured_clients()
PASSWORDS = {"PLAIN": "plain-secret", "SCRAM-SHA-256": "scram-256", "SCRAM-SHA-512": "scram-512"}
TOKEN = "token"
KINDS = ("SSL", "mTLS", *PASSWORDS, BEARER, KERBEROS, TOKEN)
MISTAKES = (
    "wrong password", "wrong CA", "expired", "wrong host", "wrong mechanism", "revoked", "no certificate",
    "expired certificate of the client", "certificate of another CA",
)  # fmt: skip

WITHOUT_SASL, WITHOUT_CERTIFICATE = (
    "the login has no password and no mechanism",
    "the client has no certificate",
)
_OF_SASL, _OF_CERTIFICATES = ("wrong password", "wrong mechanism"), MISTAKES[-3:]
MEANINGLESS = {
    **{(kind, mistake): WITHOUT_SASL for kind in ("SSL", "mTLS") for mistake in _OF_SASL},
    **{
        (kind, mistake): WITHOUT_CERTIFICATE
        for kind in KINDS
        if kind != "mTLS"
        for mistake in _OF_CERTIFICATES
    },
    ("SSL", "revoked"): "a client without a certificate is nobody",
    ("mTLS", "revoked"): "revocation lists are not read, as in Kafka by default",
    ("PLAIN", "revoked"): "the users of PLAIN are read at the start",
    (BEARER, "revoked"): "a bearer token can only expire, which is the wrong password here",
}
"""Pairs of a kind and a mistake that cannot be tried, with the reason."""

_NO_TOKENS = "the client cannot say that its password is a delegation token (tokenauth)"
_OLD = "librdkafka 2.0 of Debian 12 sends a wrong nonce, which Kafka 4.1 refuses too (CVE-2024-56128)"
UNABLE = {
    ("librdkafka", KERBEROS): "the wheel has no Kerberos, so our tools connect through a relay",
    ("librdkafka", TOKEN): _NO_TOKENS + ", so our tools connect through a relay",
    ("kafka-python", TOKEN): _NO_TOKENS,
    ("aiokafka", TOKEN): _NO_TOKENS,
    ("kcat", TOKEN): _NO_TOKENS,
    ("kcat", BEARER): "kcat needs a token endpoint",
    ("kcat", KERBEROS): "Debian's package libsasl2-modules-gssapi-mit is not installed",
    ("kcat", "SCRAM-SHA-256"): _OLD,
    ("kcat", "SCRAM-SHA-512"): _OLD,
}
"""Kinds of logins that a client does not have, with the reason."""

ALWAYS = {
    ("SSL", "wrong CA"), ("SSL", "expired"), ("SSL", "wrong host"), ("mTLS", "no certificate"),
    ("mTLS", "expired certificate of the client"), ("PLAIN", "wrong CA"), ("PLAIN", "wrong mechanism"),
    *((kind, "wrong password") for kind in KINDS[2:]), ("SCRAM-SHA-512", "revoked"), (TOKEN, "revoked"),
}  # fmt: skip
"""The mistakes that are tried without `--full` too."""

_PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule"
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule"
_BEARER = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
_KERBEROS = "com.sun.security.auth.module.Krb5LoginModule"

LISTENERS = {
    "SSL": {},
    "MTLS": {"ssl.client.auth": "required"},
    "EXPIRED": {},
    "ELSEWHERE": {},
    "SASL": {},
    "SASLEXPIRED": {},
    "SASLELSEWHERE": {},
    "ONLYPLAIN": {"sasl.enabled.mechanisms": "PLAIN"},
    "ONLYSCRAM": {"sasl.enabled.mechanisms": "SCRAM-SHA-256"},
}
"""The listeners with TLS, and their own settings. The names with SASL or ONLY need a login."""


@pytest.fixture(autouse=True)
def _left_sockets() -> Iterator[None]:
    """Frees the sockets that a client has left open in the test that has opened them."""
    yield
    gc.collect()


@dataclass(frozen=True, slots=True)
class Secured:
    """A broker with a listener for each kind of login."""

    broker: BrokerProcess
    ports: dict[str, int]
    certificates: Certificates
    realm: Kerberos | None

    def login(self, kind: str) -> Login:
        """The right settings for a kind of login."""
        authority, port = self.certificates.authority, self.ports["SASL"]
        match kind:
            case "SSL":
                return Login(self.ports["SSL"], authority)
            case "mTLS":
                return Login(self.ports["MTLS"], authority, self.certificates.alice)
            case "OAUTHBEARER":
                return Login(port, authority, None, BEARER, "alice", "3600")
            case "GSSAPI":
                assert self.realm is not None
                return Login(port, authority, None, KERBEROS, "alice", self.realm.keytab("alice"))
            case "token":
                name, password = make_token(self.login("PLAIN"))
                return Login(port, authority, None, "SCRAM-SHA-256", name, password, is_token=True)
            case _:
                return Login(port, authority, None, kind, "alice", PASSWORDS[kind])


def listener_settings(certificates: Certificates, realm: Kerberos | None) -> dict[str, str]:
    """The settings of all listeners with TLS."""
    found: dict[str, str] = {}
    for name, own in LISTENERS.items():
        prefix = f"listener.name.{name.lower()}."
        store = certificates.server
        if name.endswith("EXPIRED"):
            store = certificates.server_expired
        elif name.endswith("ELSEWHERE"):
            store = certificates.server_elsewhere
        found |= {f"{prefix}{key}": value for key, value in own.items()}
        found[f"{prefix}ssl.keystore.location"] = store.pem
    modules = {
        "plain": f'{_PLAIN} required user_alice="{PASSWORDS["PLAIN"]}";',
        "scram-sha-256": f"{_SCRAM} required;",
        "scram-sha-512": f"{_SCRAM} required;",
        "oauthbearer": f"{_BEARER} required;",
    }
    if realm is not None:
        found["sasl.kerberos.service.name"] = "kafka"
        options = f'useKeyTab=true storeKey=true keyTab="{realm.keytab(SERVICE)}" principal="{SERVICE}"'
        modules["gssapi"] = f"{_KERBEROS} required {options};"
    found["sasl.enabled.mechanisms"] = ",".join(name.upper() for name in modules)
    return found | {f"{name}.sasl.jaas.config": module for name, module in modules.items()}


@pytest.fixture(scope="module")
def realm(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kerberos | None]:
    if kerberos.why_not() is not None:
        yield None
        return
    with kerberos.serving(tmp_path_factory.mktemp("kerberos")) as served:
        yield served


@pytest.fixture(scope="module")
def secured(
    tmp_path_factory: pytest.TempPathFactory, certificates: Certificates, realm: Kerberos | None
) -> Iterator[Secured]:
    ports = dict(zip(LISTENERS, free_ports(len(LISTENERS)), strict=True))
    broker = BrokerProcess(tmp_path_factory.mktemp("secured"))
    own = broker.properties
    named = ",".join(f"{name}://localhost:{port}" for name, port in ports.items())
    kinds = ",".join(
        f"{name}:{'SASL_SSL' if name.startswith(('SASL', 'ONLY')) else 'SSL'}" for name in LISTENERS
    )
    broker.overrides |= {
        "listeners": f"{own['listeners']},{named}",
        "advertised.listeners": f"{own['advertised.listeners']},{named}",
        "listener.security.protocol.map": f"{own['listener.security.protocol.map']},{kinds}",
        "delegation.token.secret.key": "a key of a test",
        **certificates.broker_config(),
        **listener_settings(certificates, realm),
    }
    with broker:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            alter_user(broker, mechanism, PASSWORDS[mechanism])
        yield Secured(broker, ports, certificates, realm)


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


@contextlib.contextmanager
def wrong_login(secured: Secured, kind: str, mistake: str) -> Iterator[Login]:
    """The settings for a kind of login with one mistake, while the mistake lasts."""
    login, ports, certificates = secured.login(kind), secured.ports, secured.certificates
    has_sasl = login.mechanism is not None
    match mistake:
        case "wrong password":
            yield replace(login, password=_wrong_password(secured, kind))
        case "wrong CA":
            yield replace(login, authority=certificates.other_authority)
        case "expired":
            yield replace(login, port=ports["SASLEXPIRED" if has_sasl else "EXPIRED"])
        case "wrong host":
            yield replace(login, port=ports["SASLELSEWHERE" if has_sasl else "ELSEWHERE"])
        case "wrong mechanism":
            yield replace(login, port=ports["ONLYSCRAM" if kind == "PLAIN" else "ONLYPLAIN"])
        case "no certificate":
            yield replace(login, certificate=None)
        case "expired certificate of the client":
            yield replace(login, certificate=certificates.alice_expired)
        case "certificate of another CA":
            yield replace(login, certificate=certificates.alice_other)
        case _:
            with revoked(secured, kind, login) as left:
                yield left


def _wrong_password(secured: Secured, kind: str) -> str:
    if kind == BEARER:
        return "-3600"  # a token that ended an hour ago
    if kind != KERBEROS:
        return "wrong"
    assert secured.realm is not None
    keytab = secured.realm.keytab("stale")
    secured.realm.change_key("stale")
    return keytab


@contextlib.contextmanager
def revoked(secured: Secured, kind: str, login: Login) -> Iterator[Login]:
    """The same login, after its user or its token was deleted."""
    if kind == TOKEN:
        expire_token(secured.login("PLAIN"), login.password)
        yield login
    elif kind == KERBEROS:
        assert secured.realm is not None
        keytab = secured.realm.keytab("leaver")
        secured.realm.delete("leaver")
        yield replace(login, user="leaver", password=keytab)
    else:
        alter_user(secured.broker, kind, None)
        try:
            yield login
        finally:
            alter_user(secured.broker, kind, PASSWORDS[kind])


def attempt(secured: Secured, client: SecuredClient, login: Login) -> str:
    if login.mechanism != KERBEROS:
        return client.attempt(login)
    assert secured.realm is not None
    with secured.realm.as_client(login.password):
        return client.attempt(login)


def cell(client: SecuredClient, kind: str, mistake: str | None) -> Any:
    """A cell of the grid, with the reason for which it is not tried always."""
    marks = []
    reason = UNABLE.get((client.name, kind)) or (kerberos.why_not() if kind == KERBEROS else None)
    if reason is not None:
        marks.append(pytest.mark.skip(reason=reason))
    elif mistake is not None and (kind, mistake) not in ALWAYS:
        marks.append(pytest.mark.full)
    values = (client, kind) if mistake is None else (client, kind, mistake)
    return pytest.param(*values, marks=marks, id="-".join((client.name, *values[1:])))


RIGHT = [cell(client, kind, None) for client, kind in product(CLIENTS, KINDS)]
WRONG = [
    cell(client, kind, mistake)
    for client, kind, mistake in product(CLIENTS, KINDS, MISTAKES)
    if (kind, mistake) not in MEANINGLESS
]

# What a user of kcli's own tools sees.
_TLS = "SSL handshake failed"
_GENERIC = "invalid credentials with SASL mechanism {}"
SEEN = {
    "wrong CA": _TLS,
    "expired": _TLS,
    "wrong host": _TLS,
    "no certificate": f"Failed to process post-handshake messages|{_TLS}|node assignment",
    "expired certificate of the client": f"Failed to process post-handshake messages|{_TLS}|node assignment",
    "certificate of another CA": f"Failed to process post-handshake messages|{_TLS}|node assignment",
    "wrong mechanism": r"Client SASL mechanism '.*' not enabled in the server, enabled mechanisms are \[",
    "PLAIN": "Authentication failed: Invalid username or password",
    "SCRAM-SHA-256": _GENERIC.format("SCRAM-SHA-256"),
    "SCRAM-SHA-512": _GENERIC.format("SCRAM-SHA-512"),
    TOKEN: _GENERIC.format("SCRAM-SHA-256"),
    BEARER: '"status":"invalid_token"',
    KERBEROS: "Kerberos|GSSAPI|reauthentication failed|not found in Kerberos database",
}


def test_the_grid_is_whole() -> None:
    """Each pair of a kind and a mistake is tried, or has a reason."""
    pairs = set(product(KINDS, MISTAKES))
    assert MEANINGLESS.keys() <= pairs
    assert pairs - MEANINGLESS.keys() >= ALWAYS
    assert not {name for name, _ in UNABLE} & {"kcli", "spark"}, "our own clients have every kind"


@pytest.mark.parametrize(("client", "kind"), RIGHT)
def test_a_right_login_is_accepted(secured: Secured, client: SecuredClient, kind: str) -> None:
    assert attempt(secured, client, secured.login(kind)) == ""


@pytest.mark.parametrize(("client", "kind", "mistake"), WRONG)
def test_a_wrong_login_is_refused(secured: Secured, client: SecuredClient, kind: str, mistake: str) -> None:
    with wrong_login(secured, kind, mistake) as login:
        seen = attempt(secured, client, login)
    assert seen != ""
    assert "secret" not in seen
    if client.name == "kcli":
        assert re.search(SEEN.get(mistake) or SEEN[kind], seen), seen
