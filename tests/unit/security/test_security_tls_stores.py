"""Key stores and trust stores: each form gives the same value, and each mistake has Kafka's text."""

from __future__ import annotations

import ssl
import sys
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from hypothesis import given
from hypothesis import strategies as st

from kcli.config.definition import ConfigError
from kcli.security.tls.checks import EntryNames, StoreError
from kcli.security.tls.contexts import client_tls, openssl_name
from kcli.security.tls.settings import store_settings
from kcli.security.tls.stores import key_store, trust_store
from rigs.certificates import STORE_PASSWORD, Certificates

SECRET = "a-very-secret-password"


def need_jks() -> None:
    pytest.importorskip("jks", reason="the library pyjks is missing (extra jks)")


def keystore(kind: str, location: str, **more: str) -> dict[str, str]:
    found = {"ssl.keystore.type": kind, "ssl.keystore.location": location}
    return found | {f"ssl.{name.replace('_', '.')}": value for name, value in more.items()}


def key_stores(certificates: Certificates) -> dict[str, dict[str, str]]:
    """The same key in each form but JKS."""
    alice = certificates.alice
    return {
        "pem file": keystore("PEM", alice.pem),
        "encrypted pem file": keystore("PEM", alice.encrypted_pem(SECRET), key_password=SECRET),
        "pem text": {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": alice.key_text,
            "ssl.keystore.certificate.chain": alice.chain_text,
        },
        "encrypted pem text": {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": alice.encrypted_key_text(SECRET),
            "ssl.key.password": SECRET,
            "ssl.keystore.certificate.chain": alice.chain_text,
        },
        "pem text of one line": {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": alice.key_text.replace("\n", "\\n"),
            "ssl.keystore.certificate.chain": alice.chain_text.replace("\n", " "),
        },
        "pkcs12": keystore("PKCS12", alice.pkcs12(), keystore_password=STORE_PASSWORD),
        # The content decides, because JKS is the default of the type.
        "pkcs12 with the type jks": keystore("JKS", alice.pkcs12(), keystore_password=STORE_PASSWORD),
    }


FORMS = (
    "pem file",
    "encrypted pem file",
    "pem text",
    "encrypted pem text",
    "pem text of one line",
    "pkcs12",
    "jks",
    "pkcs12 with the type jks",
)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_of_a_key_store_has_the_same_content(certificates: Certificates, form: str) -> None:
    if form == "jks":
        need_jks()
        settings = keystore("JKS", certificates.alice.jks(), keystore_password=STORE_PASSWORD)
    else:
        settings = key_stores(certificates)[form]
    found = key_store(settings.get)
    assert found is not None
    assert found.key_text == certificates.alice.key_text
    assert found.chain_text == certificates.alice.chain_text
    alias = "kafka" if "pem" in form else "alice"
    assert found.names == [EntryNames(alias, "CN=alice, OU=dev, O=x, C=DE", ())]
    assert "PRIVATE" not in repr(found)


def test_every_form_of_a_trust_store_has_the_same_content(certificates: Certificates) -> None:
    authority = certificates.authority
    forms: list[dict[str, str]] = [
        {"ssl.truststore.type": "PEM", "ssl.truststore.location": authority.pem},
        {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": authority.text},
        {
            "ssl.truststore.type": "PKCS12",
            "ssl.truststore.location": authority.pkcs12(),
            "ssl.truststore.password": STORE_PASSWORD,
        },
    ]
    assert [found.text if (found := trust_store(form.get)) else None for form in forms] == [
        authority.text
    ] * 3


def test_a_trust_store_in_jks_needs_no_password(certificates: Certificates) -> None:
    need_jks()
    location = {"ssl.truststore.location": certificates.authority.jks()}
    for form in (location | {"ssl.truststore.password": STORE_PASSWORD}, location):
        found = trust_store(form.get)
        assert found is not None and found.text == certificates.authority.text


def test_text_between_the_blocks_is_skipped(certificates: Certificates) -> None:
    alice = certificates.alice
    noisy = f"Bag Attributes\n  friendlyName: x\n{alice.chain_text}\n# comment - - \n{alice.key_text} the end"
    texts = {"ssl.keystore.type": "PEM", "ssl.keystore.key": noisy, "ssl.keystore.certificate.chain": noisy}
    found = key_store(texts.get)
    assert found is not None and found.key_text == alice.key_text and len(found.chain) == 2


PEM = {"ssl.keystore.type": "PEM"}


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        (
            PEM | {"ssl.keystore.key": "x"},
            "SSL private key is specified, but certificate chain is not specified.",
        ),
        (
            PEM | {"ssl.keystore.certificate.chain": "x"},
            "SSL certificate chain is specified, but private key is not specified",
        ),
        (
            keystore("PEM", "/x", keystore_password="y"),
            "SSL key store password cannot be specified with PEM format, only key password may be specified",
        ),
        (keystore("JKS", "/x"), "SSL key store is specified, but key store password is not specified."),
        (
            {"ssl.keystore.password": "y"},
            "SSL key store is not specified, but key store password is specified.",
        ),
        (
            {"ssl.truststore.certificates": "x"},
            "SSL trust store certs can be specified only for PEM, but trust store type is JKS.",
        ),
        (
            {
                "ssl.truststore.type": "PEM",
                "ssl.truststore.certificates": "x",
                "ssl.truststore.location": "/x",
            },
            "Both SSL trust store location and separate trust certificates are specified.",
        ),
        (
            {"ssl.truststore.type": "PEM", "ssl.truststore.location": "/x", "ssl.truststore.password": "y"},
            "SSL trust store password cannot be specified for PEM format.",
        ),
        (
            PEM | {"ssl.keystore.location": "/absent.pem"},
            "Failed to load PEM SSL keystore /absent.pem: Unable to",
        ),
        (
            keystore("PKCS12", "/absent.p12", keystore_password="y"),
            "Failed to load SSL keystore /absent.p12 of type PKCS12: Unable to read file /absent.p12",
        ),
        ({"ssl.keystore.type": "BKS"}, "Invalid value BKS for configuration ssl.keystore.type"),
    ],
)
def test_keys_that_do_not_fit_together_have_the_text_of_kafka(keys: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as refused:
        key_store(keys.get)
        trust_store(keys.get)
    assert str(refused.value).startswith(message)


def refused(keys: dict[str, str]) -> StoreError:
    with pytest.raises(StoreError) as error:
        key_store(keys.get)
    assert SECRET not in str(error.value)
    return error.value


def test_mistakes_in_pem_are_named(certificates: Certificates, tmp_path: Path) -> None:
    alice, bob = certificates.alice, certificates.bob
    empty = tmp_path / "empty.pem"
    empty.write_text(f"password={SECRET}\n")
    error = refused(keystore("PEM", str(empty)))
    assert error.summary == f"Failed to load PEM SSL keystore {empty}"
    assert error.cause == "No matching PRIVATE KEY entries in PEM file"
    two = tmp_path / "two.pem"
    two.write_text(alice.key_text + bob.key_text + alice.chain_text)
    assert refused(keystore("PEM", str(two))).cause == "Expected one private key, but found 2"
    key_only = tmp_path / "key.pem"
    key_only.write_text(alice.key_text)
    assert refused(keystore("PEM", str(key_only))).cause == "No matching CERTIFICATE entries in PEM file"
    encrypted = alice.encrypted_pem("right")
    assert "ssl.key.password is not specified" in refused(keystore("PEM", encrypted)).cause
    assert "ssl.key.password is wrong" in refused(keystore("PEM", encrypted, key_password=SECRET)).cause
    old = alice.private_key.private_bytes(Encoding.PEM, PrivateFormat.TraditionalOpenSSL, NoEncryption())
    text = {"ssl.keystore.key": old.decode(), "ssl.keystore.certificate.chain": alice.chain_text}
    error = refused(PEM | text)
    assert error.summary == "Invalid PEM keystore configs"
    assert "Private key could not be loaded" in error.cause


@pytest.mark.parametrize("kind", ["pkcs12", "jks"])
def test_a_wrong_password_and_a_damaged_file_are_named(
    certificates: Certificates, tmp_path: Path, kind: str
) -> None:
    if kind == "jks":
        need_jks()
    path = getattr(certificates.alice, kind)()
    assert refused(keystore(kind.upper(), path, keystore_password=SECRET)).cause
    damaged = tmp_path / "damaged"
    damaged.write_bytes(Path(path).read_bytes()[:-40])
    assert refused(keystore(kind.upper(), str(damaged), keystore_password=STORE_PASSWORD)).cause


def test_without_the_extra_a_jks_file_is_refused_with_a_hint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "store.jks")
    Path(path).write_bytes(bytes.fromhex("feedfeed00000002"))
    monkeypatch.setitem(sys.modules, "jks", None)
    assert "keytool -importkeystore" in refused(keystore("JKS", path, keystore_password=STORE_PASSWORD)).cause


@given(st.binary(max_size=300))
def test_any_file_is_a_store_or_an_error(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = tmp_path_factory.getbasetemp() / "any.store"
    for start in (b"", b"\xfe\xed\xfe\xed\0\0\0\2\0\0\0\1", b"-----BEGIN PRIVATE KEY-----\n"):
        path.write_bytes(start + content)
        for kind in ("PEM", "JKS"):
            secret = {} if kind == "PEM" else {"keystore_password": "x"}
            with pytest.raises(ConfigError):
                key_store(keystore(kind, str(path), **secret).get)


def test_the_primes_of_an_rsa_key_are_not_checked_but_its_certificate_is(certificates: Certificates) -> None:
    """The check takes a tenth of a second of the event loop."""
    numbers = rsa.generate_private_key(65537, 2048).private_numbers()
    damaged = rsa.RSAPrivateNumbers(
        numbers.p, numbers.q, numbers.d + 2, numbers.dmp1, numbers.dmq1, numbers.iqmp, numbers.public_numbers
    ).private_key(unsafe_skip_rsa_key_validation=True)
    keys = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.key": damaged.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode(),
        "ssl.keystore.certificate.chain": certificates.alice.chain_text,
    }
    assert key_store(keys.get) is not None
    with pytest.raises(ConfigError, match="do not fit together"):
        client_tls(keys.get).context()


def test_secrets_are_not_shown() -> None:
    names = ("ssl.keystore.password", "ssl.keystore.key", "ssl.key.password", "ssl.truststore.password")
    assert SECRET not in repr(store_settings(dict.fromkeys(names, SECRET).get))


def context(**keys: str) -> ssl.SSLContext:
    found = client_tls({f"ssl.{name.replace('_', '.')}": value for name, value in keys.items()}.get)
    return found.context()


def test_protocols_are_the_versions_of_a_context() -> None:
    both = context()
    assert (both.minimum_version, both.maximum_version) == (ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3)
    assert context(enabled_protocols="TLSv1.2").maximum_version is ssl.TLSVersion.TLSv1_2
    assert context(enabled_protocols="TLSv1.3").minimum_version is ssl.TLSVersion.TLSv1_3
    # Java disables the old versions too, even if they are named beside newer ones.
    assert context(enabled_protocols="TLSv1.1,TLSv1.2").minimum_version is ssl.TLSVersion.TLSv1_2
    with pytest.raises(ConfigError, match="no version of TLS is left"):
        context(enabled_protocols="TLSv1.1")
    with pytest.raises(
        ConfigError, match=r"Invalid value TLSv1\.4 for configuration ssl\.enabled\.protocols"
    ):
        context(enabled_protocols="TLSv1.4")


def test_cipher_suites_have_the_names_of_java() -> None:
    names = {
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256": "ECDHE-RSA-AES128-GCM-SHA256",
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256": "ECDHE-ECDSA-CHACHA20-POLY1305",
        "TLS_DHE_RSA_WITH_AES_256_GCM_SHA384": "DHE-RSA-AES256-GCM-SHA384",
        "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA384": "ECDHE-RSA-AES256-SHA384",
        "TLS_RSA_WITH_AES_128_CBC_SHA": "AES128-SHA",
        "TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8": "ECDHE-ECDSA-AES128-CCM8",
        "TLS_NO_WITH_SUCH_SUITE": None,
        "x": None,
    }
    assert {name: openssl_name(name) for name in names} == names
    older = "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256"
    only = context(cipher_suites=older)
    # Without a suite of TLS 1.3, a connection cannot use TLS 1.3.
    assert only.maximum_version is ssl.TLSVersion.TLSv1_2
    assert {each["name"] for each in only.get_ciphers() if each["protocol"] == "TLSv1.2"} == {
        "ECDHE-RSA-AES128-GCM-SHA256"
    }
    newer = "TLS_AES_256_GCM_SHA384,TLS_CHACHA20_POLY1305_SHA256,TLS_AES_128_GCM_SHA256"
    assert context(cipher_suites=newer).minimum_version is ssl.TLSVersion.TLSv1_3
    with pytest.raises(ConfigError, match=r"leaves out TLS_AES_128_GCM_SHA256, .*Python cannot choose"):
        context(cipher_suites=f"TLS_AES_256_GCM_SHA384,{older}")
    with pytest.raises(ConfigError, match="Unsupported CipherSuite: TLS_FOO"):
        context(cipher_suites="TLS_FOO")
