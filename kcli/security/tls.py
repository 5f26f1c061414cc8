"""Makes TLS contexts from PEM files or PEM text (KIP-651). Java's key stores are not supported."""

from __future__ import annotations

import ssl
import tempfile
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class ClientTls:
    """The certificates that a client trusts, and its own certificates. Each value is PEM text or the path of a PEM
    file.

    If `certificates` is None, the client trusts the authorities of the operating system. `key` is used only if `chain`
    is PEM text. A file for `chain` must also contain the key.
    """

    certificates: str | None = None
    chain: str | None = None
    key: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)
    checks_name: bool = True

    def context(self) -> ssl.SSLContext:
        """Makes the TLS context. Raises OSError (such as ssl.SSLError) if a file or text cannot be loaded."""
        context = ssl.create_default_context()
        if self.certificates is not None:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            if is_pem(self.certificates):
                context.load_verify_locations(cadata=self.certificates)
            else:
                context.load_verify_locations(cafile=self.certificates)
        context.check_hostname = self.checks_name
        if self.chain is not None:
            _load_chain(context, self.chain, self.key, self.key_password)
        return context


def is_pem(text: str) -> bool:
    """True if the value is PEM text, and not the path of a file."""
    return text.lstrip().startswith("-----BEGIN")


def _load_chain(context: ssl.SSLContext, chain: str, key: str | None, key_password: str | None) -> None:
    if not is_pem(chain):
        context.load_cert_chain(chain, password=key_password)
        return
    # The ssl module loads a chain only from a file, so the text is written to a temporary file with mode 0600.
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(f"{chain}\n{key or ''}\n")
        file.flush()
        context.load_cert_chain(file.name, password=key_password)
