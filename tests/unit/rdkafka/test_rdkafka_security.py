"""The security properties of Java's clients as librdkafka's configuration."""

from __future__ import annotations

import logging
import time

import pytest
from confluent_kafka import Producer

from kcli.rdkafka.configuration import translate
from kcli.rdkafka.errors import ConfigurationError
from kcli.rdkafka.security import Tokens
from kcli.security.tls.contexts import TLS13_SUITES
from rigs.certificates import STORE_PASSWORD, Certificates

PLAIN = "org.apache.kafka.common.security.plain.PlainLoginModule required "


def login(options: str, protocol: str = "SASL_PLAINTEXT", mechanism: str = "PLAIN") -> dict[str, str]:
    return {
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{PLAIN}{options};",
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_jaas_line_becomes_user_and_password(mechanism: str) -> None:
    assert translate(login('username="a b" password=secret', mechanism=mechanism)) == {
        "security.protocol": "sasl_plaintext",
        "sasl.mechanisms": mechanism,
        "sasl.username": "a b",
        "sasl.password": "secret",
    }


def test_a_quoted_password_is_unescaped_as_in_java() -> None:
    assert translate(login(r'username="a" password="x\"y"'))["sasl.password"] == 'x"y'


def test_properties_without_effect_are_left_out_as_in_java() -> None:
    unused = {"ssl.truststore.location": "/nowhere.jks", "sasl.jaas.config": "broken", "ssl.provider": "X"}
    assert translate(unused) == {}
    assert translate({"security.protocol": "plaintext", **unused}) == {"security.protocol": "plaintext"}


def ciphers(suites: str) -> dict[str, str]:
    return {"security.protocol": "SSL", "ssl.cipher.suites": suites}


def stores(certificates: Certificates, kind: str) -> dict[str, str]:
    authority, alice = certificates.authority, certificates.alice
    if kind == "JKS":
        pytest.importorskip("jks", reason="the library pyjks is missing (extra jks)")
        trust, keys = authority.jks(), alice.jks()
    elif kind == "PKCS12":
        trust, keys = authority.pkcs12(), alice.pkcs12()
    else:
        trust, keys = authority.pem, alice.pem
    found = {
        "security.protocol": "SSL",
        "ssl.truststore.type": kind,
        "ssl.truststore.location": trust,
        "ssl.keystore.type": kind,
        "ssl.keystore.location": keys,
    }
    if kind != "PEM":
        found |= {"ssl.truststore.password": STORE_PASSWORD, "ssl.keystore.password": STORE_PASSWORD}
    return found


@pytest.mark.parametrize("kind", ["PEM", "PKCS12", "JKS"])
def test_stores_of_each_type_become_pem_texts(certificates: Certificates, kind: str) -> None:
    config = translate(stores(certificates, kind))
    assert config["ssl.ca.pem"] == certificates.authority.text
    assert config["ssl.certificate.pem"] == certificates.alice.chain_text
    assert config["ssl.key.pem"] == certificates.alice.key_text
    assert config["ssl.endpoint.identification.algorithm"] == "https"
    Producer(config)  # librdkafka reads the texts


def test_an_encrypted_key_and_texts_in_the_properties(certificates: Certificates) -> None:
    config = translate(
        {
            "security.protocol": "SSL",
            "ssl.keystore.key": certificates.alice.encrypted_key_text("pw"),
            "ssl.keystore.certificate.chain": certificates.alice.chain_text,
            "ssl.key.password": "pw",
            "ssl.truststore.certificates": certificates.authority.text,
            "ssl.endpoint.identification.algorithm": "",
        }
    )
    assert config["ssl.key.pem"] == certificates.alice.key_text
    assert config["ssl.endpoint.identification.algorithm"] == "none"


def test_cipher_suites_get_the_names_of_openssl() -> None:
    suites = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"
    config = translate({"security.protocol": "SSL", "ssl.cipher.suites": suites})
    assert config["ssl.cipher.suites"] == "ECDHE-RSA-AES128-GCM-SHA256:ECDHE-ECDSA-AES256-GCM-SHA384"


def test_a_setting_that_librdkafka_lacks_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    logger = logging.getLogger("kcli.rdkafka")
    logger.addHandler(caplog.handler)
    try:
        translate(
            {"security.protocol": "SSL", "ssl.enabled.protocols": "TLSv1.2", "ssl.provider": "Conscrypt"}
        )
    finally:
        logger.removeHandler(caplog.handler)
    assert "ssl.enabled.protocols=TLSv1.2 has no effect on records" in caplog.text
    assert "ssl.provider has no effect in kcli" in caplog.text


def test_names_of_librdkafka_are_passed_on(certificates: Certificates) -> None:
    own = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "alice-secret",
        "ssl.ca.location": certificates.authority.pem,
    }
    config = translate(own)
    assert config == {
        "security.protocol": "sasl_ssl",
        "ssl.endpoint.identification.algorithm": "https",
        "sasl.mechanisms": "PLAIN",
        "sasl.username": "alice",
        "sasl.password": "alice-secret",
        "ssl.ca.location": certificates.authority.pem,
    }


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        (login("password=secret"), "has no username"),
        (
            login("username=a password=secret tokenauth=true", mechanism="SCRAM-SHA-256"),
            "delegation token. Use a user of SCRAM in this program, or a tool of kcli, which connects through a relay",
        ),
        (login('serviceName="kafka"', mechanism="GSSAPI"), "librdkafka has no Kerberos here"),
        ({"security.protocol": "SSL", "ssl.keystore.location": "/x.jks"}, "key store password is not"),
        (ciphers("TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,TLS_NONE"), "Unsupported CipherSuite: TLS_NONE"),
        (ciphers("TLS_AES_256_GCM_SHA384"), "leaves out TLS_AES_128_GCM_SHA256"),
        (ciphers(",".join(TLS13_SUITES)), "has no suite of TLS 1.2"),
    ],
)
def test_an_invalid_property_is_refused_without_its_secret(properties: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigurationError, match=words) as caught:
        translate(properties)
    assert "secret" not in str(caught.value)


def test_a_token_comes_from_the_source_of_the_client() -> None:
    jaas = "OAuthBearerLoginModule required unsecuredLoginStringClaim_sub=alice extension_a=b;"
    config = translate(
        {"security.protocol": "SASL_SSL", "sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": jaas}
    )
    assert config["sasl.mechanisms"] == "OAUTHBEARER"
    tokens = config["oauth_cb"]
    assert isinstance(tokens, Tokens)
    token, ends_at, _name, extensions = tokens("")
    assert token.endswith(".")
    assert ends_at > time.time() + 3000
    assert extensions == {"a": "b"}
    assert token not in repr(tokens)
