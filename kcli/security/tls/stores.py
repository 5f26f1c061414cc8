"""Reads key stores and trust stores from PEM text, PEM files (KIP-651), PKCS12 files and JKS files.

In every format, a key store becomes a `KeyStore`, and a trust store becomes a `TrustStore`. No error contains a
password or a part of a file.
"""

from __future__ import annotations

import base64
import binascii
import ipaddress
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Protocol

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from kcli.model.java_text import split_blanks
from kcli.security.tls.checks import EntryNames, StoreError, check_key_store, check_trust_store
from kcli.security.tls.settings import PEM, LookUp, StoreSettings, store_settings

PKCS12_KEPT = 4
"""The number of PKCS12 stores whose decoded keys are cached. A node has one or two."""

STORE_SIZE_MAX_BYTES = 16 * 1024 * 1024
"""The largest store file that is read. A trust store with the authorities of all browsers has less than 1 MiB."""

_BLOCK = re.compile(r"-+BEGIN ([A-Z0-9 ]+)-+\s+(.*?)-+END \1-+", re.DOTALL | re.ASCII)
_HEADER = re.compile(r"^[\w-]+:.*$", re.MULTILINE | re.ASCII)
_JKS_MAGIC = (b"\xfe\xed\xfe\xed", b"\xce\xce\xce\xce")
"""The first bytes of JKS and JCEKS files."""
_NAME_TYPES: Mapping[type[x509.GeneralName], int] = {
    x509.RFC822Name: 1,
    x509.DNSName: 2,
    x509.DirectoryName: 4,
    x509.UniformResourceIdentifier: 6,
    x509.IPAddress: 7,
    x509.RegisteredID: 8,
}
"""The types of subject alternative names, with their numbers (RFC 5280)."""
_BROKEN = (ValueError, TypeError, UnsupportedAlgorithm, binascii.Error)


class JavaKeyEntry(Protocol):
    """A private key of a JKS file, as the package pyjks reads it."""

    cert_chain: list[tuple[str, bytes]]
    pkey_pkcs8: bytes

    def is_decrypted(self) -> bool: ...

    def decrypt(self, password: str, /) -> None: ...


class JavaCertificate(Protocol):
    """A trusted certificate of a JKS file."""

    cert: bytes


class JavaKeyStore(Protocol):
    """A JKS file."""

    @property
    def private_keys(self) -> Mapping[str, JavaKeyEntry]: ...

    @property
    def certs(self) -> Mapping[str, JavaCertificate]: ...


@dataclass(frozen=True, slots=True)
class KeyEntry:
    """A private key (PKCS#8, as PEM text) and its certificate chain. The certificate of the key is first. `alias` is
    the name of the entry in its store."""

    key: str = field(repr=False)
    chain: tuple[x509.Certificate, ...]
    alias: str = "kafka"  # Kafka's name for a key in PEM

    @property
    def chain_text(self) -> str:
        return certificates_text(self.chain)


@dataclass(frozen=True, slots=True)
class KeyStore:
    """The private keys of a broker or client. There is at least one entry."""

    entries: tuple[KeyEntry, ...]

    @property
    def key_text(self) -> str:
        """The first private key, as PEM text."""
        return self.entries[0].key

    @property
    def chain_text(self) -> str:
        """The certificates of the first private key, as PEM text."""
        return self.entries[0].chain_text

    @property
    def chain(self) -> tuple[x509.Certificate, ...]:
        """The certificates of the first private key."""
        return self.entries[0].chain

    @property
    def names(self) -> list[EntryNames]:
        """The names of each entry, in the order of the aliases."""
        from kcli.security.tls.distinguished_name import name_text

        return [
            EntryNames(
                entry.alias,
                name_text(entry.chain[0].subject.public_bytes(), separator=", "),
                alternative_names(entry.chain[0]),
            )
            for entry in self.entries
        ]


@dataclass(frozen=True, slots=True)
class TrustStore:
    """The certificates of the authorities that a broker or client trusts."""

    certificates: tuple[x509.Certificate, ...]

    @property
    def text(self) -> str:
        return certificates_text(self.certificates)


def key_store(look_up: LookUp) -> KeyStore | None:
    """Loads the key store of the ssl.* keys. Returns None if no key store is set. Raises ConfigError if the key store
    cannot be loaded.
    """
    return load_key_store(store_settings(look_up))


def trust_store(look_up: LookUp) -> TrustStore | None:
    """Loads the trust store of the ssl.* keys. Returns None if no trust store is set. Raises ConfigError if the trust
    store cannot be loaded.
    """
    return load_trust_store(store_settings(look_up))


def load_key_store(settings: StoreSettings) -> KeyStore | None:
    """Loads the key store. Returns None if no key store is set. Raises ConfigError if the key store cannot be
    loaded.
    """
    check_key_store(settings)
    location, password = settings.keystore_location, settings.key_password
    if settings.keystore_key is not None and settings.keystore_chain is not None:
        summary = "Invalid PEM keystore configs"
        try:
            chain = _certificates(settings.keystore_chain)
            return KeyStore((KeyEntry(_private_key(settings.keystore_key, password), chain),))
        except _BROKEN as error:
            raise StoreError(summary, _cause(error), key="ssl.keystore.key") from None
    if location is None:
        return None
    kind = settings.keystore_type
    try:
        content = _read(location)
        if kind == PEM:
            text = content.decode("utf-8", "replace")
            return KeyStore((KeyEntry(_private_key(text, password), _certificates(text)),))
        store_password = settings.keystore_password or ""
        if _is_jks(content):
            return KeyStore(_jks_entries(content, store_password, password))
        return KeyStore(_pkcs12_entries(content, store_password))
    except _BROKEN as error:
        raise StoreError(_failed(kind, location), _cause(error), key="ssl.keystore.location") from None


def load_trust_store(settings: StoreSettings) -> TrustStore | None:
    """Loads the trust store. Returns None if no trust store is set. Raises ConfigError if the trust store cannot be
    loaded.
    """
    check_trust_store(settings)
    if settings.truststore_certificates is not None:
        try:
            return TrustStore(_certificates(settings.truststore_certificates))
        except _BROKEN as error:
            summary = "Invalid PEM truststore configs"
            raise StoreError(summary, _cause(error), key="ssl.truststore.certificates") from None
    location, kind = settings.truststore_location, settings.truststore_type
    if location is None:
        return None
    try:
        content = _read(location)
        if kind == PEM:
            return TrustStore(_certificates(content.decode("utf-8", "replace")))
        if _is_jks(content):
            return TrustStore(_jks_trusted(content, settings.truststore_password))
        return TrustStore(_pkcs12_trusted(content, settings.truststore_password))
    except _BROKEN as error:
        raise StoreError(_failed(kind, location), _cause(error), key="ssl.truststore.location") from None


def certificates_text(certificates: Iterable[x509.Certificate]) -> str:
    """Converts certificates to PEM text."""
    return "".join(certificate.public_bytes(Encoding.PEM).decode() for certificate in certificates)


def alternative_names(certificate: x509.Certificate) -> tuple[str, ...]:
    """The subject alternative names of a certificate, as Java prints them, such as `[2, kafka.example.com]`. The number
    is the type.
    """
    try:
        extension = certificate.extensions.get_extension_for_class(x509.SubjectAlternativeName)
    except x509.ExtensionNotFound:
        return ()
    return tuple(sorted(_alternative_name(name) for name in extension.value))


def _alternative_name(name: x509.GeneralName) -> str:
    value = name.value
    if isinstance(value, ipaddress.IPv6Address):
        # Java does not shorten an address.
        text = ":".join(group.lstrip("0") or "0" for group in value.exploded.split(":"))
    else:
        text = value.rfc4514_string() if isinstance(value, x509.Name) else str(value)
    return f"[{_NAME_TYPES.get(type(name), 0)}, {text}]"


# PEM.


def _blocks(text: str, kind: str) -> list[tuple[str, bytes]]:
    """The name and the content of each PEM block whose name ends with `kind`. There may be other text between blocks.
    The lines of a block may also be separated by spaces or by the two characters \\n.
    """
    # A property of one line has no line ends, so the two characters \n may take their place.
    pem_blocks = _BLOCK.findall(text.replace("\\n", "\n"))
    blocks = [
        (name, base64.b64decode("".join(split_blanks(_HEADER.sub("", body))), validate=True))
        for name, body in pem_blocks
        if name.endswith(kind)
    ]
    if not blocks:
        raise ValueError(f"No matching {kind} entries in PEM file")
    return blocks


def _certificates(text: str) -> tuple[x509.Certificate, ...]:
    return tuple(x509.load_der_x509_certificate(content) for _, content in _blocks(text, "CERTIFICATE"))


def _private_key(text: str, password: str | None) -> str:
    blocks = _blocks(text, "PRIVATE KEY")
    if len(blocks) != 1:
        raise ValueError(f"Expected one private key, but found {len(blocks)}")
    name, content = blocks[0]
    if name not in ("PRIVATE KEY", "ENCRYPTED PRIVATE KEY"):
        # Kafka cannot load a key in the older forms either.
        raise ValueError(
            f"Private key could not be loaded: {name} is not PKCS#8; convert it with `openssl pkcs8 -topk8`"
        )
    secret = None
    if name == "ENCRYPTED PRIVATE KEY":
        if password is None:
            raise ValueError("Private key is encrypted, but ssl.key.password is not specified")
        secret = password.encode()
    try:
        return _pkcs8_text(_loaded_key(content, secret))
    except _BROKEN:
        # The reason may contain a part of the key.
        wrong = "" if secret is None else ": the key is damaged, or ssl.key.password is wrong"
        raise ValueError(f"Private key could not be loaded{wrong}") from None


def _loaded_key(content: bytes, password: bytes | None) -> PrivateKeyTypes:
    # The primes of an RSA key are not checked, because this takes a tenth of a second, in which the event loop would
    # wait. The ssl module refuses a key that does not fit its certificate. For a PKCS12 file, the check cannot be left
    # out.
    return serialization.load_der_private_key(content, password, unsafe_skip_rsa_key_validation=True)


def _pkcs8_text(key: PrivateKeyTypes) -> str:
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


# PKCS12 and JKS.


@lru_cache(maxsize=PKCS12_KEPT)
def _pkcs12_entries(content: bytes, password: str) -> tuple[KeyEntry, ...]:
    """The keys of a PKCS12 store. The library checks the primes of an RSA key, which takes 0.05 to 0.3 s. So the keys
    of the last stores are cached, because a listener and the node's own connections often use the same store.
    """
    from cryptography.hazmat.primitives.serialization import pkcs12

    store = pkcs12.load_pkcs12(content, password.encode())
    if store.key is None or store.cert is None:
        raise ValueError("the store has no private key")
    own = store.cert.certificate
    others = {additional.certificate.subject: additional.certificate for additional in store.additional_certs}
    alias = (store.cert.friendly_name or b"1").decode(
        "utf-8", "replace"
    )  # 1 is Java's name for a nameless entry
    return (KeyEntry(_pkcs8_text(store.key), _chain(own, others), alias),)


def _chain(own: x509.Certificate, others: dict[x509.Name, x509.Certificate]) -> tuple[x509.Certificate, ...]:
    """The certificate chain: the certificate, then its issuers in order. In a PKCS12 file, the certificates have no
    order.
    """
    chain = [own]
    while chain[-1].issuer != chain[-1].subject and chain[-1].issuer in others:
        chain.append(others.pop(chain[-1].issuer))
    return tuple(chain)


def _pkcs12_trusted(content: bytes, password: str | None) -> tuple[x509.Certificate, ...]:
    from cryptography.hazmat.primitives.serialization import pkcs12

    store = pkcs12.load_pkcs12(content, None if password is None else password.encode())
    own = () if store.cert is None else (store.cert.certificate,)
    return _some((*own, *(additional.certificate for additional in store.additional_certs)))


def _jks_entries(content: bytes, password: str, key_password: str | None) -> tuple[KeyEntry, ...]:
    store = _jks(content, password)
    entries = []
    for name in sorted(store.private_keys):
        entry = store.private_keys[name]
        if not entry.is_decrypted():
            _decrypt(entry, key_password if key_password is not None else password)
        key = _loaded_key(entry.pkey_pkcs8, None)
        chain = tuple(x509.load_der_x509_certificate(certificate) for _, certificate in entry.cert_chain)
        entries.append(KeyEntry(_pkcs8_text(key), chain, name))
    if not entries:
        raise ValueError("the store has no private key")
    return tuple(entries)


def _jks_trusted(content: bytes, password: str | None) -> tuple[x509.Certificate, ...]:
    store = _jks(content, password)
    trusted = [store.certs[name].cert for name in sorted(store.certs)]
    # Java trusts the own certificate of a key entry too.
    trusted += [store.private_keys[name].cert_chain[0][1] for name in sorted(store.private_keys)]
    return _some(tuple(x509.load_der_x509_certificate(certificate) for certificate in trusted))


def _jks(content: bytes, password: str | None) -> JavaKeyStore:
    try:
        import jks  # imported late, because it is an extra
    except ImportError:
        raise ValueError(
            "the file is a JKS store, and the package pyjks is not installed. Install kcli with the extra `jks`, or "
            "convert the store: keytool -importkeystore -srckeystore old.jks -destkeystore new.p12 "
            "-deststoretype PKCS12"
        ) from None
    try:
        store: JavaKeyStore = jks.KeyStore.loads(content, password)
    except jks.util.KeystoreSignatureException:
        raise ValueError("Keystore was tampered with, or password was incorrect") from None
    except jks.util.KeystoreException:
        raise ValueError("the store is damaged") from None
    return store


def _decrypt(entry: JavaKeyEntry, password: str) -> None:
    from jks.util import KeystoreException

    try:
        entry.decrypt(password)
    except KeystoreException:
        raise ValueError("Cannot recover key: ssl.key.password is wrong") from None


def _is_jks(content: bytes) -> bool:
    """Whether a file is a JKS store. As in Java, the content of the file decides, and not ssl.keystore.type. Its
    default is JKS, but new versions of keytool write PKCS12."""
    return content[:4] in _JKS_MAGIC


def _read(path: str) -> bytes:
    try:
        with open(path, "rb") as file:
            content = file.read(STORE_SIZE_MAX_BYTES + 1)
    except OSError as error:
        raise ValueError(f"Unable to read file {path} ({error.strerror})") from None
    if len(content) > STORE_SIZE_MAX_BYTES:
        raise ValueError(f"{path} has more than {STORE_SIZE_MAX_BYTES} bytes")
    return content


def _some(certificates: tuple[x509.Certificate, ...]) -> tuple[x509.Certificate, ...]:
    if not certificates:
        raise ValueError("the store has no certificate")
    return certificates


def _failed(kind: str, path: str) -> str:
    # Kafka writes "keystore" for a trust store in PEM too.
    return (
        f"Failed to load PEM SSL keystore {path}"
        if kind == PEM
        else f"Failed to load SSL keystore {path} of type {kind}"
    )


def _cause(error: BaseException) -> str:
    # Errors of libraries are replaced before, so this text has no part of a key.
    return str(error) or type(error).__name__
