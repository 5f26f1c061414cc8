"""The certificates that a broker or client sends in a TLS handshake.

As in Java, a peer does not check the signature of a root: it trusts the root, or does not know it. But OpenSSL refuses
to send a root with an old signature, such as SHA-1, unless it sees that the root has signed itself. OpenSSL does not
see this if the root names another serial number of its issuer (the extension authorityKeyIdentifier). Such a root is
left out, because a peer does not need it (RFC 8446, section 4.4.2). OpenSSL still checks all other signatures.
"""

from __future__ import annotations

import contextlib
import os
import ssl
import sys
import tempfile
from collections.abc import Iterator
from typing import IO, TYPE_CHECKING

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import dsa, rsa

if TYPE_CHECKING:
    from kcli.security.tls.stores import KeyEntry, TrustStore

_REFUSED = ("CA_MD_TOO_WEAK", "CA_KEY_TOO_SMALL")
"""OpenSSL's reasons to refuse the certificate of an authority."""
_OLD_HASHES = ("sha1", "md5")
_KEY_BITS_MIN = 2048
"""OpenSSL refuses shorter keys of RSA and DSA at its default level of security."""


def served_chain(entry: KeyEntry, trusted: TrustStore | None) -> tuple[x509.Certificate, ...]:
    """Returns the certificates of a key to send: the whole chain, or the chain without a root that OpenSSL refuses.

    If the own certificate remains alone, OpenSSL adds its issuer from the trust store, and then refuses this issuer. To
    prevent this, the own certificate is there twice. Peers ignore the second copy.
    """
    chain = entry.chain
    if len(chain) > 1 and _is_root(chain[-1]) and _is_refused(entry.key, chain):
        chain = chain[:-1]
    if len(chain) > 1:
        return chain
    (own,) = chain
    issuers = (
        [certificate for certificate in trusted.certificates if certificate.subject == own.issuer]
        if trusted is not None
        else []
    )
    return (own, own) if any(_is_refused(entry.key, (own, issuer)) for issuer in issuers) else chain


def is_known_root(certificate: x509.Certificate) -> bool:
    """Whether OpenSSL sees that a certificate has signed itself. OpenSSL compares names and ids, and no signature."""
    if not _is_root(certificate):
        return False
    extensions = certificate.extensions
    try:
        issuer = extensions.get_extension_for_class(x509.AuthorityKeyIdentifier).value
    except x509.ExtensionNotFound:
        return True
    if issuer.authority_cert_serial_number not in (None, certificate.serial_number):
        return False
    try:
        own = extensions.get_extension_for_class(x509.SubjectKeyIdentifier).value
    except x509.ExtensionNotFound:
        return True
    return issuer.key_identifier in (None, own.digest)


def load_chain(context: ssl.SSLContext, key: str, chain: tuple[x509.Certificate, ...]) -> None:
    """Loads a private key and its certificates into the context. Raises ssl.SSLError.

    The module `ssl` loads keys only from files, so the key is in a file in memory for a short time.
    """
    from kcli.security.tls.stores import certificates_text

    with _memory_file() as (file, path):
        file.write(f"{key}{certificates_text(chain)}".encode())
        file.flush()
        context.load_cert_chain(path)


def _is_root(certificate: x509.Certificate) -> bool:
    return certificate.issuer == certificate.subject


def _is_refused(key: str, chain: tuple[x509.Certificate, ...]) -> bool:
    """Whether OpenSSL refuses the last certificate of a chain. Only a weak certificate needs a trial."""
    if not _is_weak(chain[-1]):
        return False
    try:
        load_chain(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), key, chain)
    except ssl.SSLError as error:
        return error.reason in _REFUSED
    return False


def _is_weak(certificate: x509.Certificate) -> bool:
    try:
        used = certificate.signature_hash_algorithm
        key = certificate.public_key()
    except (UnsupportedAlgorithm, ValueError):
        return True
    if isinstance(key, rsa.RSAPublicKey | dsa.DSAPublicKey) and key.key_size < _KEY_BITS_MIN:
        return True
    return used is not None and used.name in _OLD_HASHES


@contextlib.contextmanager
def _memory_file() -> Iterator[tuple[IO[bytes], str]]:
    """Opens a file that only this user can read, and returns it with its path. On Linux the file is in memory. On other
    systems it is a temporary file with mode 0600, which is deleted immediately.
    """
    if sys.platform == "linux":
        descriptor = os.memfd_create("kcli-tls", os.MFD_CLOEXEC)
        with open(descriptor, "wb") as file:
            yield file, f"/proc/self/fd/{descriptor}"
    else:
        with tempfile.NamedTemporaryFile("wb", suffix=".pem") as file:
            yield file, file.name
