"""Checks the security settings of a tool that produces or consumes, before librdkafka connects.

librdkafka tries a failed login again for ever. Kafka's clients end with an error. So the tool first logs in once with
kcli's own client. If this login fails, the error names the mistake.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Mapping
from dataclasses import replace

from kcli.cli.missing_rights import set_client
from kcli.cli.syntax.options import CommandError
from kcli.client.client import AUTHENTICATION_ERRORS
from kcli.client.config import ClientConfig, ClientConfigError, client_config
from kcli.client.connection import Connection, WrongPeer
from kcli.client.explain import explain
from kcli.client.relay import USER, Relay
from kcli.errors import KafkaError, KcliError
from kcli.model.addresses import Address
from kcli.rdkafka.log import logger
from kcli.runtime.network import SystemNetwork
from kcli.security.mechanisms.client import Credentials, KerberosCredentials
from kcli.security.tls.contexts import ClientTls


def log_in_once(properties: Mapping[str, str]) -> dict[str, str]:
    """Logs in to the first server that answers, and closes the connection. Returns the properties for librdkafka.

    If librdkafka does not support the SASL mechanism or the trust store, it connects through a relay in this process.
    If no server answers, librdkafka logs the reason. Raises CommandError for a setting that cannot be used. If the
    login fails, logs a line that names the mistake, and then raises the KafkaError of the login.
    """
    try:
        config = client_config(properties)
    except ClientConfigError as error:
        raise CommandError(str(error)) from error
    set_client(config)
    for address in config.servers:
        failed = _tried(config, address)
        if failed is None:
            break
        is_last = address == config.servers[-1]
        if isinstance(failed, AUTHENTICATION_ERRORS) or (is_last and isinstance(failed, WrongPeer)):
            hint = explain(address, config.security, failed)
            logger().error(
                "Connection to %s failed authentication due to: %s%s",
                address,
                failed,
                f": {hint}" if hint else "",
            )
            raise failed
        hint = explain(address, config.security, failed) if isinstance(failed, KafkaError) else ""
        logger().warning("Connection to %s could not be established (%s).", address, hint or failed)
    return _relayed(properties, config) if _needs_relay(config, address) else dict(properties)


def _needs_relay(config: ClientConfig, address: Address) -> bool:
    sasl = config.security.sasl if config.security is not None else None
    return (
        isinstance(sasl, KerberosCredentials)
        or (isinstance(sasl, Credentials) and sasl.is_token)
        or _trusts_no_root(config, address)
    )


def _trusts_no_root(config: ClientConfig, address: Address) -> bool:
    """Whether the trust store has no root of the broker, but another certificate of its chain. librdkafka trusts only
    roots, and Java trusts every certificate of a trust store."""
    security = config.security
    if security is None or security.tls is None or not _has_other_than_roots(security.tls):
        return False
    as_librdkafka = replace(security.tls, accepts_partial_chain=False, kept=None)
    failed = _tried(replace(config, security=replace(security, tls=as_librdkafka)), address)
    return isinstance(failed, KafkaError)


def _has_other_than_roots(tls: ClientTls) -> bool:
    from kcli.security.tls.served_chain import is_known_root
    from kcli.security.tls.stores import load_trust_store

    trusted = load_trust_store(tls.stores)
    return trusted is not None and not all(is_known_root(certificate) for certificate in trusted.certificates)


def _relayed(properties: Mapping[str, str], config: ClientConfig) -> dict[str, str]:
    relay = Relay(config)
    try:
        relay.start()
    except OSError as error:
        raise CommandError(f"no port of this machine can be opened for the login: {error}") from error
    others = {key: value for key, value in properties.items() if not key.startswith(("ssl.", "sasl."))}
    return others | {
        "bootstrap.servers": relay.bootstrap_servers,
        "security.protocol": "SASL_PLAINTEXT",
        "sasl.mechanism": "PLAIN",
        "sasl.jaas.config": f'PlainLoginModule required username="{USER}" password="{relay.secret}";',
    }


def _tried(config: ClientConfig, address: Address) -> Exception | None:
    """Connects, logs in and disconnects. Returns the error. Runs in a separate thread with a new event loop, because
    some tools already run an event loop."""
    failed: list[Exception] = []

    async def attempt() -> None:
        timeout = config.connection_setup_timeout_ms / 1000
        connection = await Connection.open(
            SystemNetwork(), address, config.client_id, timeout, config.security
        )
        connection.close()
        await asyncio.sleep(0)  # gives the transport a turn to close

    def attempt_in_thread() -> None:
        try:
            asyncio.run(attempt())
        except (OSError, KcliError) as error:
            failed.append(error)

    thread = threading.Thread(target=attempt_in_thread, daemon=True)
    thread.start()
    thread.join()
    return failed[0] if failed else None
