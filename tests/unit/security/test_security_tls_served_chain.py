"""The chain that is sent in a handshake: a root is not checked, and every other signature is."""

from __future__ import annotations

import ssl
from pathlib import Path

import pytest
from cryptography import x509

from kcli.config.broker import BrokerConfig
from kcli.config.definition import ConfigError
from kcli.config.listener_config import ListenerConfig
from kcli.config.properties import Properties
from kcli.rdkafka.security import translate_security
from kcli.security.client import client_security
from kcli.security.tls.contexts import server_context
from kcli.security.tls.self_check import check_handshake
from kcli.security.tls.served_chain import is_known_root
from rigs.certificates import Certificates

# Certificates with old signatures, which the library cryptography cannot make. ROOT has signed itself with SHA-1, and
# names another serial number as its issuer. Its certificates are LEAF, MIDDLE (both with SHA-256) and WEAK_MIDDLE (with
# SHA-1). LEAF_OF_MIDDLE belongs to both middle certificates. KEY is the private key of the two leaves, whose names are
# localhost and 127.0.0.1. All end in the year 2109.
ROOT = """\
-----BEGIN CERTIFICATE-----
MIIBhDCCASugAwIBAgIBAjAJBgcqhkjOPQQBMBMxETAPBgNVBAMMCE9sZCByb290
MCAXDTI2MTEyODEwNTYwNloYDzIxMDkwMTE3MTA1NjA2WjATMREwDwYDVQQDDAhP
bGQgcm9vdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABKBl9t5BtdVVIPP9r9sN
kdcN/IMZ2LeE1jfcFI845cpDAUN4bpqxLfMm/t/oAAhDzRGJwM19DU1VTdpkSPOm
QiijbzBtMA8GA1UdEwEB/wQFMAMBAf8wHQYDVR0OBBYEFGInq+unPIF6pNv4ZEZq
f3jkHYRTMDsGA1UdIwQ0MDKAFGInq+unPIF6pNv4ZEZqf3jkHYRToRekFTATMREw
DwYDVQQDDAhPbGQgcm9vdIIBATAJBgcqhkjOPQQBA0gAMEUCICwPnNsJbIhGbVA6
iKSOxWLjGe9wlwX5OV0PVY4CuB5dAiEApzmyEiIt9LgAFux6zEokXUUjNaJ3LVwR
oHUpbnkWnVM=
-----END CERTIFICATE-----
"""
MIDDLE = """\
-----BEGIN CERTIFICATE-----
MIIBaTCCAQ6gAwIBAgIBBDAKBggqhkjOPQQDAjATMREwDwYDVQQDDAhPbGQgcm9v
dDAgFw0yNjExMjgxMDU2MDdaGA8yMTA5MDExNzEwNTYwN1owETEPMA0GA1UEAwwG
TWlkZGxlMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAErDTnwe4she+ROmYNt5We
KWxk/831QRM7W3Tm7uOWqWeOr1q/Lk0PytHfzlSzAdmG+L7cV13NBT8uQABMJBa/
9aNTMFEwDwYDVR0TAQH/BAUwAwEB/zAdBgNVHQ4EFgQUP6wKnUf8sRD747DLBKok
KnhUUnMwHwYDVR0jBBgwFoAUYier66c8gXqk2/hkRmp/eOQdhFMwCgYIKoZIzj0E
AwIDSQAwRgIhAPks+nD5lsROWKLNfxFrnVyxOnMMnODLcxbgRDuhd+N8AiEAoad7
GGnAEH4ORjAS+15glgvSFySYdAv3fecSQdtcCqE=
-----END CERTIFICATE-----
"""
WEAK_MIDDLE = """\
-----BEGIN CERTIFICATE-----
MIIBZjCCAQ2gAwIBAgIBBTAJBgcqhkjOPQQBMBMxETAPBgNVBAMMCE9sZCByb290
MCAXDTI2MTEyODEwNTYwN1oYDzIxMDkwMTE3MTA1NjA3WjARMQ8wDQYDVQQDDAZN
aWRkbGUwWTATBgcqhkjOPQIBBggqhkjOPQMBBwNCAASsNOfB7iyF75E6Zg23lZ4p
bGT/zfVBEztbdObu45apZ46vWr8uTQ/K0d/OVLMB2Yb4vtxXXc0FPy5AAEwkFr/1
o1MwUTAPBgNVHRMBAf8EBTADAQH/MB0GA1UdDgQWBBQ/rAqdR/yxEPvjsMsEqiQq
eFRSczAfBgNVHSMEGDAWgBRiJ6vrpzyBeqTb+GRGan945B2EUzAJBgcqhkjOPQQB
A0gAMEUCIQDroEHlHP7GY8+VCwzOFWRoRUQIv6j3Ttiup5Odd1rD2wIgSBXq3hqy
mJfv+J4XkvoE0AC/2KIH9q8K5OLgY9ctVvc=
-----END CERTIFICATE-----
"""
LEAF = """\
-----BEGIN CERTIFICATE-----
MIIBdDCCARmgAwIBAgIBAzAKBggqhkjOPQQDAjATMREwDwYDVQQDDAhPbGQgcm9v
dDAgFw0yNjExMjgxMDU3NDVaGA8yMTA5MDExNzEwNTc0NVowETEPMA0GA1UEAwwG
YnJva2VyMFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAEOLGbF6sgwCWaCRUUlmZB
FMz2sMXmrwnwu88YpmG43ec+Y84VmK73WNryGKPtzrz8G3MDM/MWpg9KIlXivzIy
YaNeMFwwGgYDVR0RBBMwEYIJbG9jYWxob3N0hwR/AAABMB0GA1UdDgQWBBTLjlZs
ZAUYjp4Z+NpO5E7ixM2cqjAfBgNVHSMEGDAWgBRiJ6vrpzyBeqTb+GRGan945B2E
UzAKBggqhkjOPQQDAgNJADBGAiEA5MSWAMOVRNzUPaeS9m1QybgNE0X+SkPHCDfV
A66LX24CIQChRGWuXzMxHwK+wuwg7+dedUJ7IZlf8xJ4vt8gsot0hw==
-----END CERTIFICATE-----
"""
LEAF_OF_MIDDLE = """\
-----BEGIN CERTIFICATE-----
MIIBcTCCARegAwIBAgIBBjAKBggqhkjOPQQDAjARMQ8wDQYDVQQDDAZNaWRkbGUw
IBcNMjYxMTI4MTA1NzQ1WhgPMjEwOTAxMTcxMDU3NDVaMBExDzANBgNVBAMMBmJy
b2tlcjBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABDixmxerIMAlmgkVFJZmQRTM
9rDF5q8J8LvPGKZhuN3nPmPOFZiu91ja8hij7c68/BtzAzPzFqYPSiJV4r8yMmGj
XjBcMBoGA1UdEQQTMBGCCWxvY2FsaG9zdIcEfwAAATAdBgNVHQ4EFgQUy45WbGQF
GI6eGfjaTuRO4sTNnKowHwYDVR0jBBgwFoAUP6wKnUf8sRD747DLBKokKnhUUnMw
CgYIKoZIzj0EAwIDSAAwRQIgQkMjACNrK7tPlQ2sxDUG4q8WpGhfBdXjEwbzGUB1
D1wCIQD1l1IIQhIdME9FlH6yLibC7Pm3Hf5UyvzOuBmN+LqMVQ==
-----END CERTIFICATE-----
"""
KEY = """\
-----BEGIN PRIVATE KEY-----
MIGHAgEAMBMGByqGSM49AgEGCCqGSM49AwEHBG0wawIBAQQgSa5rbQ+ZE1gTjiBp
O1HRK4NbmQhvJQivs44LsTKmg6ChRANCAAQ4sZsXqyDAJZoJFRSWZkEUzPawxeav
CfC7zximYbjd5z5jzhWYrvdY2vIYo+3OvPwbcwMz8xamD0oiVeK/MjJh
-----END PRIVATE KEY-----
"""


CHAINS = {
    "root": LEAF + ROOT,
    "middle and root": LEAF_OF_MIDDLE + MIDDLE + ROOT,
    "leaf": LEAF,
    "middle": LEAF_OF_MIDDLE + MIDDLE,
}


def store(chain: str, trusted: str = ROOT) -> dict[str, str]:
    return {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": KEY,
        "ssl.keystore.certificate.chain": chain,
        "ssl.truststore.type": "PEM",
        "ssl.truststore.certificates": trusted,
    }


def listener(settings: dict[str, str]) -> ssl.SSLContext:
    texts = {
        "process.roles": "broker,controller",
        "node.id": "1",
        "controller.quorum.bootstrap.servers": "127.0.0.1:9093",
        "listeners": "SSL://127.0.0.1:9092,CONTROLLER://127.0.0.1:9093",
        "controller.listener.names": "CONTROLLER",
        "listener.security.protocol.map": "SSL:SSL,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "SSL",
        "ssl.client.auth": "required",
    }
    return server_context(ListenerConfig(BrokerConfig(Properties({**texts, **settings})), "SSL"))


def client(settings: dict[str, str]) -> ssl.SSLContext:
    security = client_security(
        {"security.protocol": "SSL", "ssl.endpoint.identification.algorithm": "", **settings}
    )
    assert security.tls is not None
    return security.tls.context()


def test_openssl_refuses_the_root_itself(tmp_path: Path) -> None:
    path = tmp_path / "all.pem"
    path.write_text(KEY + LEAF + ROOT)
    with pytest.raises(ssl.SSLError, match="MD_TOO_WEAK"):
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER).load_cert_chain(path)


@pytest.mark.parametrize("chain", CHAINS.values(), ids=CHAINS)
def test_a_chain_of_an_old_root_works_on_both_sides(chain: str) -> None:
    check_handshake(client(store(chain)), listener(store(chain)))


@pytest.mark.parametrize("trusted", [ROOT, MIDDLE, MIDDLE + ROOT], ids=["root", "middle", "both"])
def test_a_trust_store_may_have_the_old_root_or_a_middle_certificate(trusted: str) -> None:
    chain = CHAINS["middle and root"]
    check_handshake(client(store(chain, trusted)), listener(store(chain, trusted)))


def test_librdkafka_gets_the_chain_without_the_old_root() -> None:
    found = translate_security({"security.protocol": "SSL", **store(LEAF_OF_MIDDLE + MIDDLE + ROOT)})
    assert found["ssl.certificate.pem"] == LEAF_OF_MIDDLE + MIDDLE
    assert found["ssl.ca.pem"] == ROOT


def test_an_old_signature_below_the_root_is_refused() -> None:
    with pytest.raises(ConfigError, match="ca md too weak"):
        listener(store(LEAF_OF_MIDDLE + WEAK_MIDDLE + ROOT))
    with pytest.raises(ConfigError, match="ca md too weak"):
        client(store(LEAF_OF_MIDDLE + WEAK_MIDDLE))


def test_a_usual_chain_is_sent_whole(certificates: Certificates) -> None:
    issued = certificates.alice
    found = translate_security(
        {
            "security.protocol": "SSL",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": issued.key_text,
            "ssl.keystore.certificate.chain": issued.chain_text,
        }
    )
    assert found["ssl.certificate.pem"] == issued.chain_text


def test_roots_that_openssl_knows(certificates: Certificates) -> None:
    assert is_known_root(certificates.authority.certificate)
    assert not is_known_root(certificates.alice.certificate)
    assert not is_known_root(x509.load_pem_x509_certificate(ROOT.encode()))
