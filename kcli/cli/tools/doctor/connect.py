"""kcli doctor --connect: checks a worker of Kafka Connect and its connectors by the REST API."""

from __future__ import annotations

import asyncio
import errno
import socket
import ssl
from collections.abc import AsyncIterator, Mapping, Sequence
from urllib.parse import urlsplit

from kcli.client.diagnosis import ports
from kcli.client.diagnosis.connect.rules import judge_connectors, judge_workers
from kcli.client.diagnosis.connect.state import ConnectorState, connector_states
from kcli.client.diagnosis.finding import Finding, ok, warning, wrong
from kcli.http.connect_rest import NOT_FOUND, ConnectRest, NoWorker, Refused
from kcli.model.addresses import Address

WORKER, PROTOCOL, TLS, LOGIN, HEALTH, CONNECTOR = "worker", "protocol", "TLS", "login", "health", "connector"

ANSWER_MAX_SECONDS = 20.0
"""A worker that is alive answers /health within 10 s (KIP-1017)."""
STARTING = 503
_LOGIN_STATUSES = (401, 403)
_UNREACHABLE = (errno.ECONNREFUSED, errno.EHOSTUNREACH, errno.ENETUNREACH, errno.ETIMEDOUT)
_PORTS = {"http": 80, "https": 443}
_OTHER_API = "connect to a port of `listeners` of the worker (8083 by default)"


async def examine_worker(rest: ConnectRest) -> AsyncIterator[Finding]:
    """Yields the findings about a worker and its connectors. Stops at a step that fails."""
    steps = (_health, _version, _connectors)
    for step in steps:
        try:
            async for finding in step(rest):
                yield finding
                if finding.is_wrong and step is not _connectors:
                    return
        except NoWorker as error:
            yield await _no_worker(rest, error)
            return
        except Refused as error:
            yield _refused(rest, error)
            return


async def _health(rest: ConnectRest) -> AsyncIterator[Finding]:
    try:
        await _get(rest, "/health")
    except Refused as error:
        if error.status in _LOGIN_STATUSES:
            raise
        if error.status == STARTING:
            advice = "wait, and look at the worker's log if it lasts: the worker reads its topics and joins its group"
            yield wrong(HEALTH, rest.url, f"the worker is starting: {error}", advice)
        elif error.status != NOT_FOUND:  # /health came with Kafka 3.9
            advice = (
                "look at the worker's log, and check its brokers with: kcli doctor --bootstrap-server SERVERS"
            )
            yield wrong(HEALTH, rest.url, f"the worker is unhealthy: {error}", advice)


async def _version(rest: ConnectRest) -> AsyncIterator[Finding]:
    answer = await _get(rest, "/")
    if not isinstance(answer, dict) or "kafka_cluster_id" not in answer:
        yield wrong(PROTOCOL, rest.url, "this is not the REST API of Kafka Connect", _OTHER_API)
        return
    cluster = answer["kafka_cluster_id"]
    yield ok(WORKER, rest.url, f"the worker runs, version {answer.get('version')}, cluster {cluster}")


async def _connectors(rest: ConnectRest) -> AsyncIterator[Finding]:
    states = connector_states(await _get(rest, "/connectors?expand=status&expand=info"))
    if states is None:
        advice = "use a worker of Kafka 2.3 or newer"
        yield wrong(
            WORKER, rest.url, "the worker is too old: it cannot list the states of connectors", advice
        )
        return
    listed = await _get(rest, "/connector-plugins?connectorsOnly=false")
    plugins = (
        [str(item.get("class")) for item in listed if isinstance(item, dict)]
        if isinstance(listed, list)
        else []
    )
    delay_ms = await _delay_ms(rest)
    for finding in judge_workers(states, await _silent(rest, states), delay_ms):
        yield finding
    for finding in judge_connectors(states, plugins, rest.url, delay_ms):
        yield finding


async def _silent(rest: ConnectRest, states: Sequence[ConnectorState]) -> Mapping[str, str]:
    """The workers that the states name and that do not answer, with their errors.

    If none of them answers, this machine probably cannot reach their addresses, which are for other workers.
    """
    parts = [part for state in states for part in (state.connector, *state.tasks)]
    workers = sorted({part.worker for part in parts if ":" in part.worker})
    errors = await asyncio.gather(*(_silence(rest.of_worker(worker)) for worker in workers))
    silent = {worker: error for worker, error in zip(workers, errors, strict=True) if error is not None}
    return {} if len(silent) == len(workers) else silent


async def _silence(rest: ConnectRest) -> str | None:
    try:
        await rest.call("GET", "/", max_seconds=ports.TIMEOUT_S)
    except Refused:
        return None
    except NoWorker as error:
        return _reason(error.__cause__)
    return None


async def _delay_ms(rest: ConnectRest) -> int | None:
    """The time until the work of a lost worker is assigned. A worker of Java does not report it."""
    try:
        answer = await _get(rest, "/rebalance")
    except Refused:
        return None
    delay_ms = answer.get("delay_ms") if isinstance(answer, dict) else None
    return delay_ms if isinstance(delay_ms, int) else None


async def _get(rest: ConnectRest, path: str) -> object:
    return await rest.call("GET", path, max_seconds=ANSWER_MAX_SECONDS)


def _refused(rest: ConnectRest, error: Refused) -> Finding:
    if error.status in _LOGIN_STATUSES:
        if rest.login is None:
            text, advice = "the worker needs a login", "put user:password@ before the host of the URL"
        else:
            text, advice = "the worker refuses the login", "check the user and the password in the URL"
        return wrong(LOGIN, rest.url, f"{text} ({error})", advice)
    if error.is_rebalance:
        advice = (
            "wait until the rebalance ends, and look at the worker's log if it lasts for more than a minute"
        )
        return warning(WORKER, rest.url, f"the workers rebalance: {error}", advice)
    if error.status == NOT_FOUND:
        return wrong(PROTOCOL, rest.url, f"this is not the REST API of Kafka Connect: {error}", _OTHER_API)
    return wrong(WORKER, rest.url, f"the worker refuses the request: {error}", "look at the worker's log")


async def _no_worker(rest: ConnectRest, error: NoWorker) -> Finding:
    """Finds out which protocol the port speaks, if the worker does not answer."""
    parts = urlsplit(rest.url)
    address = Address(parts.hostname or "", parts.port or _PORTS[parts.scheme])
    cause = error.__cause__
    if isinstance(cause, ssl.SSLCertVerificationError):
        text = f"the certificate of the worker is not trusted: {cause.verify_message}"
        advice = "set SSL_CERT_FILE to a PEM file with its authority, and use a host name of the certificate"
        return wrong(TLS, rest.url, text, advice)
    if isinstance(cause, TimeoutError):
        advice = "look at the worker's log, and check firewalls and the load of its machine"
        return wrong(WORKER, rest.url, f"no answer within {ANSWER_MAX_SECONDS:.0f} s", advice)
    if isinstance(cause, socket.gaierror) or getattr(cause, "errno", None) in _UNREACHABLE:
        advice = "check host and port, and whether the worker runs (`listeners` of its properties)"
        return wrong(WORKER, rest.url, f"no worker answers: {_reason(cause)}", advice)
    if parts.scheme == "https" and await _speaks_http(rest):
        return wrong(
            TLS, rest.url, "this port speaks no TLS, the URL asks for it", "begin the URL with http://"
        )
    port = await asyncio.to_thread(ports.look_at, address)
    return _other_protocol(rest, port, _reason(cause))


async def _speaks_http(rest: ConnectRest) -> bool:
    """Whether the port of an https URL answers without TLS. The request has no login."""
    try:
        await ConnectRest(rest.url.replace("https:", "http:", 1)).call(
            "GET", "/", max_seconds=ports.TIMEOUT_S
        )
    except Refused:
        return True
    except NoWorker:
        return False
    return True


def _other_protocol(rest: ConnectRest, port: ports.Port, reason: str) -> Finding:
    if port.is_kafka:
        return wrong(PROTOCOL, rest.url, "this is the port of a broker, not of a worker", _OTHER_API)
    if port.is_tls and rest.url.startswith("http:"):
        return wrong(TLS, rest.url, "this port speaks TLS, the URL does not", "begin the URL with https://")
    if port.is_tls:
        advice = "check the listeners.https.ssl.* properties of the worker: it may need a client certificate"
        return wrong(TLS, rest.url, f"the TLS handshake failed: {reason}", advice)
    return wrong(PROTOCOL, rest.url, f"this is not the REST API of Kafka Connect: {reason}", _OTHER_API)


def _reason(error: BaseException | None) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "the port is closed"
    return str(getattr(error, "strerror", None) or error) or "it closes the connection"
