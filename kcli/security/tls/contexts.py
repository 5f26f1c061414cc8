"""Makes TLS contexts from the ssl.* keys.

As in Java, a trusted certificate does not have to be the root of a certificate chain. ssl.enabled.protocols and
ssl.cipher.suites set the versions and ciphers. There are no session tickets and no renegotiation. With TLS 1.2, a
client can resume a TLS session by its id, because Python cannot switch this feature off. A resumed session skips the
check of certificates. So the server checks the dates of the client's certificate itself when a session is resumed.

stores.py is imported late, because it needs the library cryptography, and most tools and brokers use no TLS.
"""

from __future__ import annotations

import logging
import ssl
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from kcli.config.definition import ConfigError, invalid_value
from kcli.config.listeners import split_list
from kcli.security.tls.checks import EntryNames, check_key_store, check_names, check_trust_store
from kcli.security.tls.files import Stamp, file_stamps
from kcli.security.tls.settings import LookUp, StoreSettings, store_settings

if TYPE_CHECKING:
    from kcli.config.listener_config import ListenerConfig
    from kcli.security.tls.stores import KeyEntry, KeyStore, TrustStore

_log = logging.getLogger("kcli.security.Tls")

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_OLD_VERSIONS = ("SSLv2Hello", "SSLv3", "TLSv1", "TLSv1.1")
"""Protocols that a configuration may name, but that are never used. Java disables them too."""

TLS13_SUITES = frozenset(("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256"))
"""The suites of TLS 1.3 that OpenSSL enables. Python cannot choose among them before version 3.15."""

_CLIENT_AUTH = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}


@dataclass(frozen=True, slots=True)
class ServerStores:
    """The loaded stores of a listener."""

    settings: StoreSettings
    keys: KeyStore
    trusted: TrustStore | None


def server_stores(config: ListenerConfig) -> ServerStores:
    """Loads the stores of a listener. Raises ConfigError if they are missing or invalid."""
    return stores_of(store_settings(config.text), config.listener)


def stores_of(settings: StoreSettings, listener: str) -> ServerStores:
    """Loads stores. `listener` is a name for errors. Raises ConfigError if they are missing or invalid."""
    from kcli.security.tls.stores import load_key_store, load_trust_store

    keys = load_key_store(settings)
    if keys is None:
        raise ConfigError(
            f"listener {listener} uses TLS and has no certificate: set ssl.keystore.location, or "
            "ssl.keystore.key and ssl.keystore.certificate.chain",
            key="ssl.keystore.location",
        )
    return ServerStores(settings, keys, load_trust_store(settings))


def client_auth(config: ListenerConfig) -> str:
    """The value of ssl.client.auth of a listener. With SASL_SSL, only the key with the listener's prefix counts, as in
    Kafka.
    """
    key = config.key_of("ssl.client.auth")
    if uses_sasl(config) and (key is None or not key.startswith("listener.name.")):
        return "none"
    return config.text("ssl.client.auth") or "none"


def ignores_client_auth(config: ListenerConfig) -> bool:
    """Whether the ssl.client.auth of the broker has no effect on this listener (KIP-684)."""
    key = config.key_of("ssl.client.auth")
    return uses_sasl(config) and key == "ssl.client.auth" and config.text("ssl.client.auth") != "none"


def uses_sasl(config: ListenerConfig) -> bool:
    return config.config.security_protocols.get(config.listener.upper()) == "SASL_SSL"


def server_context(config: ListenerConfig, stores: ServerStores | None = None) -> ssl.SSLContext:
    """Makes the TLS context of a listener. Raises ConfigError if a store or a key is invalid."""
    return context_of_server(
        stores or server_stores(config),
        client_auth=client_auth(config),
        protocols=config.listed("ssl.enabled.protocols"),
        ciphers=config.listed("ssl.cipher.suites"),
    )


def context_of_server(
    stores: ServerStores, *, client_auth: str, protocols: Sequence[str], ciphers: Sequence[str]
) -> ssl.SSLContext:
    """Makes the TLS context of a server. `client_auth` is a value of ssl.client.auth. Raises ConfigError."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_CIPHER_SERVER_PREFERENCE | ssl.OP_NO_TICKET
    context.num_tickets = 0
    context.verify_mode = _CLIENT_AUTH[client_auth]
    _trust(context, stores.trusted)
    for entry in reversed(stores.keys.entries):  # of two keys of the same type, OpenSSL uses the last
        _load_entry(context, entry, stores.trusted)
    _limit(context, protocols, ciphers)
    return context


@dataclass(frozen=True, slots=True)
class ClientTls:
    """The TLS settings of a client: its stores, protocols and ciphers, and whether it checks the server's name.

    If no trust store is set, the client trusts the authorities of the operating system. If `accepts_partial_chain` is
    False, the client trusts only roots, as librdkafka does.
    """

    stores: StoreSettings = field(default_factory=StoreSettings)
    checks_name: bool = True
    protocols: tuple[str, ...] = ("TLSv1.2", "TLSv1.3")
    ciphers: tuple[str, ...] = ()
    accepts_partial_chain: bool = True
    kept: KeptContext | None = field(default=None, compare=False, repr=False)

    def context(self) -> ssl.SSLContext:
        """Returns the kept TLS context, or makes a new one. Raises ConfigError if a store or a key is invalid."""
        return self.kept.of(self) if self.kept is not None else self.made()

    def made(self) -> ssl.SSLContext:
        """Loads the stores and makes the TLS context. Raises ConfigError if a store or a key is invalid."""
        from kcli.security.tls.stores import load_key_store, load_trust_store

        return self.context_of(load_key_store(self.stores), load_trust_store(self.stores))

    def context_of(self, keys: KeyStore | None, trusted: TrustStore | None) -> ssl.SSLContext:
        """Makes the TLS context from loaded stores."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.checks_name
        _trust(context, trusted, accepts_partial_chain=self.accepts_partial_chain)
        for entry in reversed(keys.entries if keys else ()):
            _load_entry(context, entry, trusted)
        _limit(context, self.protocols, self.ciphers)
        return context


class KeptContext:
    """The last valid TLS context of a client that connects often. The context is made again when the settings or the
    files of the stores change. The authorities of the operating system are read only once.

    As on a listener, a new key store must have the same names in its certificates. `allow_dn` permits another
    distinguished name, and `allow_san` permits missing alternative names.
    """

    __slots__ = ("_context", "_from", "_names", "_whose", "allow_dn", "allow_san")

    def __init__(self, whose: str) -> None:
        """Makes a context holder without a context. If new stores cannot be used, the log line begins with `whose`."""
        self._whose = whose
        self.allow_dn = self.allow_san = False
        self._names: Sequence[EntryNames] | None = None
        self._context: ssl.SSLContext | None = None
        self._from: tuple[ClientTls, tuple[Stamp | None, ...]] | None = None

    def of(self, tls: ClientTls) -> ssl.SSLContext:
        """Returns the context of these settings. If their stores cannot be used, logs one error and returns the last
        valid context. If there is no valid context yet, raises the error of the stores.
        """
        # The stamps are taken before the files are read, so the next call finds a change that happens in between.
        source = (tls, file_stamps(tls.stores.files))
        if self._context is not None and source == self._from:
            return self._context
        try:
            self._context = self._made(tls)
        except (ConfigError, OSError) as error:
            if self._context is None:
                raise
            _log.error(
                "%s keep their certificates, because the new ones cannot be used: %s", self._whose, error
            )
        self._from = source
        return self._context

    def _made(self, tls: ClientTls) -> ssl.SSLContext:
        from kcli.security.tls.stores import load_key_store, load_trust_store

        keys = load_key_store(tls.stores)
        names = keys.names if keys is not None else ()
        if self._names is not None:
            check_names(self._names, names, allow_dn=self.allow_dn, allow_san=self.allow_san)
        context = tls.context_of(keys, load_trust_store(tls.stores))
        self._names = names
        return context


def client_tls(look_up: LookUp) -> ClientTls:
    """Reads the ssl.* keys of a client. Only `context` loads the stores. Raises ConfigError if a key is invalid."""
    key = "ssl.endpoint.identification.algorithm"
    algorithm = look_up(key)
    if algorithm is not None and algorithm.lower() not in ("https", ""):
        raise ConfigError(f"{key} is {algorithm!r}; expected https, or nothing to accept any name", key=key)
    stores = store_settings(look_up)
    check_key_store(stores)
    check_trust_store(stores)
    protocols = look_up("ssl.enabled.protocols")
    return ClientTls(
        stores,
        checks_name=algorithm != "",
        protocols=split_list(protocols) or tuple(_VERSIONS),
        ciphers=split_list(look_up("ssl.cipher.suites")),
    )


def _trust(
    context: ssl.SSLContext, trusted: TrustStore | None, *, accepts_partial_chain: bool = True
) -> None:
    if accepts_partial_chain:
        # Java trusts every certificate of the store, also one that another authority has signed.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
    else:
        context.verify_flags &= ~ssl.VERIFY_X509_PARTIAL_CHAIN  # Python 3.13 sets it by default
    if trusted is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(cadata=trusted.text)


def _load_entry(context: ssl.SSLContext, entry: KeyEntry, trusted: TrustStore | None) -> None:
    """Loads a private key and its certificates into the context."""
    from kcli.security.tls.served_chain import load_chain, served_chain

    try:
        load_chain(context, entry.key, served_chain(entry, trusted))
    except ssl.SSLError as error:
        reason = (error.reason or "unknown reason").replace("_", " ").lower()
        raise ConfigError(
            f"the private key and the certificate chain of the key store do not fit together, or the key is too weak "
            f"({reason})",
            key="ssl.keystore.location",
        ) from None


def _limit(context: ssl.SSLContext, protocols: Sequence[str], suites: Sequence[str]) -> None:
    """Limits the versions of TLS and the cipher suites."""
    key = "ssl.enabled.protocols"
    unknown = [name for name in protocols if name not in _VERSIONS and name not in _OLD_VERSIONS]
    if unknown:
        raise invalid_value(key, unknown[0], f"expected {' or '.join(_VERSIONS)}")
    versions = {name for name in protocols if name in _VERSIONS}
    if not versions:
        raise ConfigError(
            f"{key} is {','.join(protocols)}: no version of TLS is left, because TLS before 1.2 is not safe",
            key=key,
        )
    if suites:
        versions &= _limit_suites(context, suites, versions)
    allowed = sorted(_VERSIONS[name] for name in versions)
    context.minimum_version, context.maximum_version = allowed[0], allowed[-1]


def _limit_suites(context: ssl.SSLContext, suites: Sequence[str], versions: set[str]) -> set[str]:
    """Sets the cipher suites. Returns the enabled TLS versions for which at least one suite is configured."""
    key = "ssl.cipher.suites"
    newer = [name for name in suites if name in TLS13_SUITES]
    left = set()
    if "TLSv1.3" in versions and newer:
        missing = sorted(TLS13_SUITES - set(newer))
        if missing:
            raise ConfigError(
                f"{key} leaves out {', '.join(missing)}: Python cannot choose among the suites of TLS 1.3. Name all "
                f"of them, or set ssl.enabled.protocols=TLSv1.2",
                key=key,
            )
        left.add("TLSv1.3")
    if "TLSv1.2" in versions and len(newer) < len(suites):
        context.set_ciphers(":".join(older_names(suites)))
        left.add("TLSv1.2")
    if not left:
        raise ConfigError(f"{key} has no suite of {' or '.join(sorted(versions))}", key=key)
    return left


def older_names(suites: Sequence[str]) -> list[str]:
    """OpenSSL's names of the TLS 1.2 suites in the list. Raises ConfigError for a suite that OpenSSL does not have."""
    names = []
    for suite in suites:
        if suite not in TLS13_SUITES:
            name = openssl_name(suite)
            if name is None:
                raise ConfigError(f"Unsupported CipherSuite: {suite}", key="ssl.cipher.suites")
            names.append(name)
    return names


def openssl_name(suite: str) -> str | None:
    """OpenSSL's name of a cipher suite of TLS 1.2, such as ECDHE-RSA-AES128-GCM-SHA256. None if OpenSSL does not have
    the suite."""
    begin, _, cipher = suite.removeprefix("TLS_").partition("_WITH_")
    exchange = "" if begin == "RSA" else begin.replace("_", "-") + "-"
    words = cipher.split("_")
    if cipher.startswith("CHACHA20"):
        words = words[:2]
    elif words[-1] == "8":  # AES_128_CCM_8
        words[-2:] = [words[-2] + "8"]
    if len(words) > 1 and words[1].isdecimal():
        words[:2] = [words[0] + words[1]]
    name = exchange + "-".join(word for word in words if word != "CBC")
    scratch = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        scratch.set_ciphers(name)
    except ssl.SSLError:
        return None
    return name if any(cipher["name"] == name for cipher in scratch.get_ciphers()) else None
