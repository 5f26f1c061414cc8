"""Checks one server in this order: its host name, its port, TLS, its certificate, the login, its API versions.

Each check yields a finding. After a check that fails, the later checks are not made.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from datetime import datetime

from kcli.client.config import ClientConfig
from kcli.client.connection import Connection, WrongPeer
from kcli.client.diagnosis import certificates, ports
from kcli.client.diagnosis.finding import Finding, ok, warning, wrong
from kcli.client.diagnosis.ports import Port, TlsLook
from kcli.client.tls_errors import WITHOUT_TLS_ON_PURPOSE
from kcli.config.definition import ConfigError
from kcli.errors import (
    KafkaError,
    ProtocolError,
    SaslAuthenticationException,
    SslAuthenticationException,
    UnsupportedSaslMechanismException,
)
from kcli.model.addresses import Address
from kcli.protocol.wire.api import ApiKey
from kcli.runtime.network import SystemNetwork
from kcli.security.client import ClientSecurity

NAME, PORT, PROTOCOL, TLS, LOGIN, VERSIONS = "name", "port", "protocol", "tls", "login", "versions"


class ServerWalk:
    """Checks servers with the settings of a client. `now` has a time zone."""

    def __init__(self, config: ClientConfig, now: datetime) -> None:
        self._config = config
        self._security = config.security or ClientSecurity()
        self._now = now
        self._timeout_s = config.connection_setup_timeout_ms / 1000

    async def walk(self, address: Address) -> AsyncIterator[Finding]:
        for step in (self._name, self._port, self._transport, self._login):
            async for finding in step(address):
                yield finding
                if finding.is_wrong:
                    return

    async def _name(self, address: Address) -> AsyncIterator[Finding]:
        try:
            addresses = await asyncio.to_thread(ports.resolve, address)
        except OSError as error:
            yield wrong(
                NAME,
                str(address),
                f"the name {address.host} cannot be resolved: {getattr(error, 'strerror', None) or error}",
                "check the spelling of the name, and the DNS server or hosts file of this machine",
            )
            return
        yield ok(NAME, str(address), f"{address.host} is {', '.join(addresses)}")

    async def _port(self, address: Address) -> AsyncIterator[Finding]:
        addresses = await asyncio.to_thread(ports.resolve, address)
        failures = {}
        for ip in addresses:
            error = await asyncio.to_thread(ports.connects, ip, address.port, self._timeout_s)
            if error is not None:
                failures[ip] = _reason(error)
        shown = "; ".join(f"{ip}: {reason}" for ip, reason in failures.items())
        if len(failures) == len(addresses):
            yield wrong(
                PORT,
                str(address),
                f"no connection to port {address.port} ({shown})",
                "check that the broker runs, that `listeners` has this port, and that no firewall blocks it",
            )
        elif failures:
            yield warning(
                PORT,
                str(address),
                f"some addresses of {address.host} accept no connection ({shown})",
                f"remove these addresses from the name {address.host}: clients that try them first must wait",
            )
        else:
            yield ok(PORT, str(address), f"port {address.port} accepts connections")

    async def _transport(self, address: Address) -> AsyncIterator[Finding]:
        steps = self._plain(address) if self._security.tls is None else self._tls(address)
        async for finding in steps:
            yield finding

    async def _plain(self, address: Address) -> AsyncIterator[Finding]:
        port = await self._look_at(address)
        if port.is_tls:
            yield wrong(
                PROTOCOL,
                str(address),
                "this port speaks TLS, the client does not",
                f"set security.protocol={port.protocol}",
            )
        elif not port.is_kafka:
            yield _not_kafka(address, port)
        elif self._security.sasl is None and port.mechanisms is not None:
            yield _needs_login(address, port)
        else:
            yield ok(PROTOCOL, str(address), "the port speaks Kafka without TLS, as the client does")

    async def _tls(self, address: Address) -> AsyncIterator[Finding]:
        tls = self._security.tls
        assert tls is not None
        try:
            context = tls.context()
        except ConfigError as error:
            yield wrong(TLS, str(address), str(error), "correct the ssl.* settings of the client")
            return
        try:
            seen = await asyncio.to_thread(ports.look_at_tls, address, self._timeout_s)
        except OSError as error:
            yield await self._no_tls(address, error)
            return
        yield ok(TLS, str(address), f"{seen.version} with {seen.cipher}")
        if seen.certificate is not None:
            finding = certificates.judge(
                seen.certificate, address.host, str(address), self._now, checks_name=tls.checks_name
            )
            yield finding
            if finding.is_wrong:
                return
        try:
            await asyncio.to_thread(ports.shakes_hands, address, context, self._timeout_s)
        except ssl.SSLCertVerificationError as error:
            yield _untrusted(address, seen, error)
            return
        except OSError as error:
            yield _failed_handshake(address, error)
            return
        if self._security.sasl is None:
            port = await self._look_at(address)
            if port.mechanisms is not None:
                yield _needs_login(address, port)

    async def _no_tls(self, address: Address, error: OSError) -> Finding:
        port = await self._look_at(address)
        if port.is_tls:
            return _failed_handshake(address, error)
        if not port.is_kafka:
            return _not_kafka(address, port)
        return wrong(
            TLS,
            str(address),
            "the client speaks TLS, this port does not",
            f"connect to the port of a listener with TLS. {WITHOUT_TLS_ON_PURPOSE} security.protocol={port.protocol}",
        )

    async def _look_at(self, address: Address) -> Port:
        return await asyncio.to_thread(ports.look_at, address, self._timeout_s)

    async def _login(self, address: Address) -> AsyncIterator[Finding]:
        sasl = self._security.sasl
        try:
            connection = await Connection.open(
                SystemNetwork(), address, self._config.client_id, self._timeout_s, self._security
            )
        except UnsupportedSaslMechanismException as error:
            yield wrong(LOGIN, str(address), error.message, "set sasl.mechanism to one of these mechanisms")
            return
        except SaslAuthenticationException as error:
            yield wrong(
                LOGIN, str(address), error.message, "check the user name and password in sasl.jaas.config"
            )
            return
        except (SslAuthenticationException, WrongPeer) as error:
            hint = getattr(error, "hint", "") or "check ssl.keystore.*"
            yield wrong(TLS, str(address), error.message, hint)
            return
        except TimeoutError:
            advice = "check the broker's log, and whether its machine is overloaded"
            yield wrong(
                LOGIN, str(address), f"the broker did not answer within {self._timeout_s:g} s", advice
            )
            return
        except (OSError, KafkaError, ProtocolError) as error:
            yield wrong(
                LOGIN, str(address), _reason(error), "look for this client's address in the broker's log"
            )
            return
        try:
            if sasl is not None:
                yield ok(LOGIN, str(address), f"the login with {sasl.mechanism} succeeded")
            yield _versions(address, connection)
        finally:
            connection.close()


def _not_kafka(address: Address, port: Port) -> Finding:
    advice = "connect to a port that `listeners` of the broker has"
    return wrong(PROTOCOL, str(address), f"this port speaks {port.other}", advice)


def _needs_login(address: Address, port: Port) -> Finding:
    return wrong(
        LOGIN,
        str(address),
        "this port needs a login, the client does not log in",
        f"set security.protocol={port.protocol} and sasl.jaas.config",
    )


def _failed_handshake(address: Address, error: OSError) -> Finding:
    return wrong(
        TLS,
        str(address),
        f"the TLS handshake failed: {_reason(error)}",
        "check ssl.keystore.*, ssl.truststore.*, ssl.enabled.protocols and ssl.cipher.suites of client and broker",
    )


def _untrusted(address: Address, seen: TlsLook, error: ssl.SSLCertVerificationError) -> Finding:
    issuer = "an authority" if seen.certificate is None else certificates.issuer_of(seen.certificate)
    return wrong(
        certificates.STEP,
        str(address),
        f"the client does not trust the certificate, which {issuer} issued: {error.verify_message}",
        "put the certificate of this authority into ssl.truststore.location or ssl.truststore.certificates",
    )


def _versions(address: Address, connection: Connection) -> Finding:
    features = {feature.name: feature.max_version_level for feature in connection.features.finalized_features}
    level = features.get("metadata.version")
    shown = "" if level is None else f", metadata.version level {level}"
    if ApiKey.METADATA not in connection.versions:
        advice = "connect to a listener of a broker; for a controller, use --bootstrap-controller"
        return warning(VERSIONS, str(address), "the server does not serve Metadata to clients", advice)
    return ok(VERSIONS, str(address), f"the broker supports {len(connection.versions)} APIs{shown}")


def _reason(error: Exception) -> str:
    """A short text for an error. Some errors of the operating system have no text of their own."""
    if isinstance(error, TimeoutError):
        return "no answer in time"
    message = getattr(error, "message", None) or getattr(error, "strerror", None) or str(error)
    return str(message) or type(error).__name__
