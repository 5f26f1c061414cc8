"""Makes certificates for tests: an authority issues certificates for brokers and clients, as PEM, PKCS12 and JKS files.

    certificates = make_certificates(directory)
    broker_config = {**certificates.broker_config(), "listeners": "SSL://127.0.0.1:0"}
    client_config = certificates.client_config(certificates.alice)

All private keys are P-256 keys, because a P-256 key is made in less than a millisecond.
"""

from __future__ import annotations

import datetime
import ipaddress
import os
from collections.abc import Sequence
from dataclasses import dataclass, field

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID, ObjectIdentifier

STORE_PASSWORD = "store-secret"
"""The password of every PKCS12 and JKS file, if the test gives none."""

LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "::1")

_TYPES: dict[str, ObjectIdentifier] = {
    "CN": NameOID.COMMON_NAME,
    "OU": NameOID.ORGANIZATIONAL_UNIT_NAME,
    "O": NameOID.ORGANIZATION_NAME,
    "L": NameOID.LOCALITY_NAME,
    "ST": NameOID.STATE_OR_PROVINCE_NAME,
    "C": NameOID.COUNTRY_NAME,
    "DC": NameOID.DOMAIN_COMPONENT,
    "UID": NameOID.USER_ID,
    "EMAIL": NameOID.EMAIL_ADDRESS,
}

Subject = Sequence[tuple[str, str]]
"""The attribute types and values of a distinguished name, the most specific first, as in its text."""

_BEGIN = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
_EXPIRED = datetime.datetime(2021, 1, 1, tzinfo=datetime.UTC)
_END = datetime.datetime(2090, 1, 1, tzinfo=datetime.UTC)


@dataclass(frozen=True, slots=True)
class Issued:
    """A certificate with its private key. Its properties write files to a directory, and return their paths."""

    name: str
    directory: str
    certificate: x509.Certificate
    issuer: x509.Certificate
    private_key: ec.EllipticCurvePrivateKey = field(repr=False)

    @property
    def chain_text(self) -> str:
        """The certificate and the certificate of its authority, as PEM text."""
        return _certificate_text(self.certificate) + _certificate_text(self.issuer)

    @property
    def key_text(self) -> str:
        """The private key as PEM text (PKCS#8), not encrypted."""
        return self._key(NoEncryption())

    @property
    def pem(self) -> str:
        """The path of a PEM file with key and chain, which Kafka accepts as a key store of type PEM."""
        return self._file("pem", (self.key_text + self.chain_text).encode())

    @property
    def chain_file(self) -> str:
        """The path of a PEM file with the chain only, for clients with separate files."""
        return self._file("crt", self.chain_text.encode())

    @property
    def key_file(self) -> str:
        """The path of a PEM file with the key only."""
        return self._file("key", self.key_text.encode())

    def encrypted_key_text(self, password: str) -> str:
        """The private key as PEM text (PKCS#8), encrypted with the password."""
        return self._key(BestAvailableEncryption(password.encode()))

    def encrypted_pem(self, password: str) -> str:
        """The path of a PEM file with the encrypted key and the chain."""
        return self._file("encrypted.pem", (self.encrypted_key_text(password) + self.chain_text).encode())

    def pkcs12(self, password: str = STORE_PASSWORD) -> str:
        """The path of a PKCS12 key store."""
        return self._file(
            "p12",
            pkcs12.serialize_key_and_certificates(
                self.name.encode(),
                self.private_key,
                self.certificate,
                [self.issuer],
                BestAvailableEncryption(password.encode()),
            ),
        )

    def jks(self, password: str = STORE_PASSWORD) -> str:
        """The path of a JKS key store. The store and its key have the same password. Needs the extra `jks`."""
        import jks

        chain = [each.public_bytes(Encoding.DER) for each in (self.certificate, self.issuer)]
        key = self.private_key.private_bytes(Encoding.DER, PrivateFormat.PKCS8, NoEncryption())
        entry = jks.PrivateKeyEntry.new(self.name, chain, key)
        return self._file("jks", jks.KeyStore.new("jks", [entry]).saves(password))

    def _key(self, encryption: KeySerializationEncryption) -> str:
        return self.private_key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def _file(self, suffix: str, content: bytes) -> str:
        return _write(os.path.join(self.directory, f"{self.name}.{suffix}"), content)


@dataclass(frozen=True, slots=True)
class Authority:
    """A certificate authority."""

    name: str
    directory: str
    certificate: x509.Certificate
    private_key: ec.EllipticCurvePrivateKey = field(repr=False)

    @property
    def text(self) -> str:
        """The certificate of the authority as PEM text."""
        return _certificate_text(self.certificate)

    @property
    def pem(self) -> str:
        """The path of a PEM file that Kafka accepts as a trust store of type PEM."""
        return self._file("pem", self.text.encode())

    def pkcs12(self, password: str = STORE_PASSWORD) -> str:
        """The path of a PKCS12 trust store. It contains a certificate without a key, as keytool -importcert writes
        it.
        """
        store = pkcs12.serialize_java_truststore(
            [pkcs12.PKCS12Certificate(self.certificate, self.name.encode())],
            BestAvailableEncryption(password.encode()),
        )
        return self._file("p12", store)

    def jks(self, password: str = STORE_PASSWORD) -> str:
        """The path of a JKS trust store. Needs the extra `jks`."""
        import jks

        entry = jks.TrustedCertEntry.new(self.name, self.certificate.public_bytes(Encoding.DER))
        return self._file("jks", jks.KeyStore.new("jks", [entry]).saves(password))

    def issue(
        self,
        name: str,
        subject: Subject,
        *,
        hosts: Sequence[str] = (),
        begin: datetime.datetime = _BEGIN,
        end: datetime.datetime = _END,
    ) -> Issued:
        """Makes a certificate. `hosts` are the host names and IP addresses for which the certificate is valid. `name`
        is the name of its files without suffix."""
        key = ec.generate_private_key(ec.SECP256R1())
        usages = [ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH]
        builder = _builder(_name(subject), self.certificate.subject, key, begin, end)
        builder = builder.add_extension(x509.ExtendedKeyUsage(usages), critical=False)
        builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        builder = builder.add_extension(
            x509.AuthorityKeyIdentifier.from_issuer_public_key(self.private_key.public_key()), critical=False
        )
        if hosts:
            names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
            builder = builder.add_extension(names, critical=False)
        certificate = builder.sign(self.private_key, hashes.SHA256())
        return Issued(name, self.directory, certificate, self.certificate, key)

    def _file(self, suffix: str, content: bytes) -> str:
        return _write(os.path.join(self.directory, f"{self.name}.{suffix}"), content)


@dataclass(frozen=True, slots=True)
class Certificates:
    """The certificates that most tests need."""

    directory: str
    authority: Authority
    other_authority: Authority
    server: Issued
    """Valid for localhost, 127.0.0.1 and ::1."""
    server_expired: Issued
    server_elsewhere: Issued
    """Valid for kafka.example only."""
    server_other: Issued
    """Valid for localhost, made by the other authority."""
    alice: Issued
    """A client: CN=alice,OU=dev,O=x,C=DE."""
    bob: Issued
    """A client: CN=bob,OU=mapping,O=x,C=DE."""
    email: Issued
    """A client with an e-mail address in its distinguished name."""
    alice_expired: Issued
    alice_other: Issued
    """A client with the same name as alice, made by the other authority."""

    def broker_config(self, server: Issued | None = None) -> dict[str, str]:
        """The ssl.* settings of a broker: its certificate, and the authority of its clients, in PEM files."""
        return {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": (server or self.server).pem,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority.pem,
        }

    def client_config(self, client: Issued | None = None, *, protocol: str = "SSL") -> dict[str, str]:
        """The settings of a Java client: the authority of the broker and, if `client` is given, the client's
        certificate.
        """
        config = {
            "security.protocol": protocol,
            "ssl.truststore.type": "PEM",
            "ssl.truststore.location": self.authority.pem,
        }
        if client is not None:
            config |= {"ssl.keystore.type": "PEM", "ssl.keystore.location": client.pem}
        return config

    def librdkafka_config(
        self, client: Issued | None = None, *, protocol: str = "ssl"
    ) -> dict[str, str | int | float | bool]:
        """The settings of a librdkafka client: the authority of the broker and, if `client` is given, the client's
        certificate.
        """
        config: dict[str, str | int | float | bool] = {
            "security.protocol": protocol,
            "ssl.ca.location": self.authority.pem,
        }
        if client is not None:
            config |= {
                "ssl.certificate.location": client.chain_file,
                "ssl.key.location": client.key_file,
            }
        return config


def make_certificates(directory: str) -> Certificates:
    """Makes the authorities and the certificates. Their files are written to the directory when a test asks for
    them."""
    authority = make_authority(directory, "ca")
    other = make_authority(directory, "other-ca")
    localhost = (("CN", "localhost"), ("O", "x"))
    alice = (("CN", "alice"), ("OU", "dev"), ("O", "x"), ("C", "DE"))
    return Certificates(
        directory=directory,
        authority=authority,
        other_authority=other,
        server=authority.issue("server", localhost, hosts=LOOPBACK_HOSTS),
        server_expired=authority.issue("server-expired", localhost, hosts=LOOPBACK_HOSTS, end=_EXPIRED),
        server_elsewhere=authority.issue(
            "server-elsewhere", (("CN", "kafka.example"),), hosts=("kafka.example",)
        ),
        server_other=other.issue("server-other", localhost, hosts=LOOPBACK_HOSTS),
        alice=authority.issue("alice", alice),
        bob=authority.issue("bob", (("CN", "bob"), ("OU", "mapping"), ("O", "x"), ("C", "DE"))),
        email=authority.issue("email", (("EMAIL", "carol@example.org"), ("CN", "carol"), ("O", "x"))),
        alice_expired=authority.issue("alice-expired", alice, end=_EXPIRED),
        alice_other=other.issue("alice-other", alice),
    )


def make_authority(directory: str, name: str) -> Authority:
    """Makes an authority with a self-signed certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = _name((("CN", name), ("O", "kcli tests")))
    builder = _builder(subject, subject, key, _BEGIN, _END)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
    builder = builder.add_extension(
        x509.KeyUsage(
            digital_signature=True,
            key_cert_sign=True,
            crl_sign=True,
            content_commitment=False,
            key_encipherment=False,
            data_encipherment=False,
            key_agreement=False,
            encipher_only=False,
            decipher_only=False,
        ),
        critical=True,
    )
    builder = builder.add_extension(
        x509.SubjectKeyIdentifier.from_public_key(key.public_key()), critical=False
    )
    return Authority(name, directory, builder.sign(key, hashes.SHA256()), key)


def _builder(
    subject: x509.Name,
    issuer: x509.Name,
    key: ec.EllipticCurvePrivateKey,
    begin: datetime.datetime,
    end: datetime.datetime,
) -> x509.CertificateBuilder:
    return (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(begin)
        .not_valid_after(end)
    )


def _name(subject: Subject) -> x509.Name:
    # A certificate has the least specific attribute first.
    return x509.Name([x509.NameAttribute(_TYPES[kind], value) for kind, value in reversed(subject)])


def _general_name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _certificate_text(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _write(path: str, content: bytes) -> str:
    """Writes a file that only its owner may read. An existing file is replaced as a whole, so that a reader never sees
    a part of the new content.
    """
    new = f"{path}.new"
    with open(os.open(new, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
        file.write(content)
    os.replace(new, path)
    return path
