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
from rigs.old_certificates import KEY, LEAF, LEAF_OF_MIDDLE, MIDDLE, ROOT, WEAK_MIDDLE

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
