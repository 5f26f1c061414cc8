"""Rules of the certificates for tests: OpenSSL accepts each file, and the invalid certificates are invalid."""

from __future__ import annotations

import os
import ssl

import pytest
from cryptography.hazmat.primitives.serialization import pkcs12

from rigs.certificates import STORE_PASSWORD, Certificates, Issued


def handshake(certificates: Certificates, server: Issued, client: Issued | None) -> str:
    """Runs a handshake in memory. Returns the version of TLS, or raises ssl.SSLError."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    accepting = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    accepting.load_cert_chain(server.pem)
    if client is not None:
        accepting.verify_mode = ssl.CERT_REQUIRED
        accepting.load_verify_locations(certificates.authority.pem)
    connecting = ssl.create_default_context(cafile=certificates.authority.pem)
    if client is not None:
        connecting.load_cert_chain(client.chain_file, client.key_file)
    one = accepting.wrap_bio(to_server, to_client, server_side=True)
    other = connecting.wrap_bio(to_client, to_server, server_hostname="localhost")
    done: list[ssl.SSLObject] = []
    while len(done) < 2:
        for end in (other, one):
            if end in done:
                continue
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                continue
            done.append(end)
    return one.version() or ""


def test_a_handshake_with_the_certificates_of_server_and_client(certificates: Certificates) -> None:
    assert handshake(certificates, certificates.server, certificates.alice) == "TLSv1.3"


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        ("server_expired", "certificate has expired"),
        ("server_elsewhere", "Hostname mismatch"),
        ("server_other", "unable to get local issuer certificate|self-signed certificate"),
    ],
)
def test_invalid_certificates_of_servers_are_refused(
    certificates: Certificates, server: str, reason: str
) -> None:
    with pytest.raises(ssl.SSLCertVerificationError, match=reason):
        handshake(certificates, getattr(certificates, server), None)


@pytest.mark.parametrize("client", ["alice_expired", "alice_other"])
def test_invalid_certificates_of_clients_are_refused(certificates: Certificates, client: str) -> None:
    with pytest.raises(ssl.SSLError, match=r"(?i)certificate"):
        handshake(certificates, certificates.server, getattr(certificates, client))


def test_the_stores_have_the_key_and_the_authority(certificates: Certificates) -> None:
    with open(certificates.alice.pkcs12(), "rb") as file:
        store = pkcs12.load_pkcs12(file.read(), STORE_PASSWORD.encode())
    assert store.key is not None
    with open(certificates.authority.pkcs12(), "rb") as file:
        trusted = pkcs12.load_pkcs12(file.read(), STORE_PASSWORD.encode())
    assert [each.certificate for each in trusted.additional_certs] == [certificates.authority.certificate]


def test_jks_stores_have_the_key_and_the_authority(certificates: Certificates) -> None:
    jks = pytest.importorskip("jks", reason="the library pyjks is missing (extra jks)")
    assert list(jks.KeyStore.load(certificates.alice.jks(), STORE_PASSWORD).private_keys) == ["alice"]
    assert list(jks.KeyStore.load(certificates.authority.jks(), STORE_PASSWORD).certs) == ["ca"]


def test_only_the_owner_may_read_the_files(certificates: Certificates) -> None:
    assert os.stat(certificates.alice.pem).st_mode & 0o077 == 0
