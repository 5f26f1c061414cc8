"""kafka-jmx: prints the metrics of a broker, one row at each interval.

Kafka's tool speaks RMI to a JVM. This tool requests the metrics endpoint of a kcli broker (JMX_PORT, or
`kcli.metrics.listener`) over HTTP. If a service:jmx:rmi URL is given, only its host and port are used.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kcli.cli.output import Output, warn
from kcli.cli.syntax.options import Command, CommandError, CommonOptions, Kind, flag, option
from kcli.command.examples import FAILURE, INTERRUPTED, Example
from kcli.http.broker_metrics import (
    BeanValues,
    MetricsAccess,
    MetricsUnavailable,
    NotHttpError,
    Value,
    fetch_beans,
)
from kcli.model.addresses import Address, read_address
from kcli.model.java_dates.formats import SimpleDateFormat
from kcli.model.java_floats import java_double
from kcli.model.object_name import MalformedObjectName, ObjectName

if TYPE_CHECKING:
    import ssl

# The time-outs of Kafka's tool for the first connection and for --wait.
CONNECT_MAX_MS = 10_000
WAIT_MAX_MS = 10_000
RETRY_PAUSE_S = 0.1

_SERVICE_URL = re.compile(r"service:jmx:rmi:///jndi/rmi://([^/]*)/.*")
_HTTP_URL = re.compile(r"(?:https?://)?([^/]*)(?:/.*)?")

_FORMATS = {"properties": "{key}={value}", "csv": '{key},"{value}"', "tsv": "{key}\t{value}"}
ORIGINAL = "original"


@dataclass(frozen=True, slots=True, kw_only=True)
class JmxOptions(CommonOptions):
    object_name: tuple[str, ...] = option(
        "An object name, or a pattern of object names. In a pattern, * matches any characters, ? matches one "
        "character, and ,* at the end matches any further properties of the name. Default: all objects.",
        metavar="name",
        repeatable=True,
    )
    attributes: str | None = option("Print only these attributes, separated by commas.", metavar="name")
    reporting_interval: int = option(
        "Milliseconds between two rows. -1 means the same as --one-time.",
        Kind.INTEGER,
        metavar="ms",
        default=2000,
    )
    one_time: bool = option(
        "Print one row and exit.",
        Kind.BOOLEAN,
        metavar="one-time",
        default=False,
        optional_argument=True,
        bare_value=True,
    )
    date_format: str | None = option(
        "The format of the time: a pattern of Java's SimpleDateFormat. Default: milliseconds since the "
        "epoch.",
        metavar="format",
    )
    jmx_url: str = option(
        "The metrics endpoint of the broker, as http://host:port or https://host:port. If the value is a JMX service "
        "URL, only its host and port are used.",
        metavar="service-url",
        default="service:jmx:rmi:///jndi/rmi://:9999/jmxrmi",
    )
    report_format: str = option(
        'The format of the output. "original" prints a row of values under a header. "properties", "csv" and '
        '"tsv" print a line for each value.',
        metavar="report-format",
        default=ORIGINAL,
    )
    jmx_auth_prop: str | None = option(
        "The user and the password, as user=password. The broker's config kcli.metrics.users lists the users.",
        metavar="jmx-auth-prop",
    )
    jmx_ssl_enable: bool = option(
        "Read the metrics over TLS, as with a URL https://host:port.",
        Kind.BOOLEAN,
        metavar="ssl-enable",
        default=False,
    )
    jmx_ssl_truststore: str | None = option(
        "A PEM file with the certificates that the command trusts. Default: the certificates of the operating system.",
        metavar="file",
    )
    wait: bool = flag("Wait until all objects exist. With this option, no object name may be a pattern.")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """The metrics endpoint of a broker. `url` is the text on the command line, for messages."""

    url: str
    address: Address
    access: MetricsAccess

    async def beans(self, queries: Sequence[str]) -> list[BeanValues]:
        return await fetch_beans(self.address, queries, self.access)


async def run(options: JmxOptions, output: Output) -> None:
    """Connects, finds the requested JMX objects, and prints their attributes once or repeatedly."""
    if options.date_format is not None:
        try:
            SimpleDateFormat(options.date_format)
        except ValueError as error:
            raise CommandError(str(error)) from None
    endpoint = _endpoint(options)
    names = _object_names(options.object_name)
    attributes = (
        None if options.attributes is None else [name for name in options.attributes.split(",") if name]
    )
    await _connect(endpoint)
    try:
        beans = await _find(endpoint, names, wait=options.wait)
        expected = _expected_count(beans, attributes, names)
        await _report(endpoint, options, output, [bean.name for bean in beans], attributes, expected)
    except MetricsUnavailable as error:
        raise CommandError(f"{endpoint.url}: {error}") from error


async def _report(
    endpoint: Endpoint,
    options: JmxOptions,
    output: Output,
    names: list[str],
    attributes: list[str] | None,
    expected: int,
) -> None:
    keys: list[str] = []
    while True:
        began = time.monotonic()
        # All patterns are in one request per round, because a pattern may match a thousand objects.
        beans = await endpoint.beans(options.object_name)
        known = set(names)
        values = _values([bean for bean in beans if bean.name in known], attributes)
        if not keys:
            keys = ["time", *sorted(values)]
            _print_header(options, output, keys, expected)
        _print_values(options, output, keys, {"time": _now(options.date_format), **values}, expected)
        if options.reporting_interval < 0 or options.has("one-time"):
            return
        elapsed = time.monotonic() - began
        await asyncio.sleep(max(options.reporting_interval / 1000 - elapsed, 0))


def _print_header(options: JmxOptions, output: Output, keys: list[str], expected: int) -> None:
    if options.report_format.lower() not in _FORMATS and len(keys) == expected + 1:
        output.say(",".join(f'"{key}"' for key in keys))


def _print_values(
    options: JmxOptions, output: Output, keys: list[str], values: dict[str, Value], expected: int
) -> None:
    """Prints a row. As in Kafka's tool, a row is skipped if a requested attribute is missing."""
    if len(values) != expected + 1:
        return
    texts = {key: _text(values[key]) if key in values else "null" for key in keys}
    line = _FORMATS.get(options.report_format.lower())
    if line is None:
        text = ",".join(texts.values())
    else:
        text = "\n".join(line.format(key=key, value=value) for key, value in texts.items())
    output.row({key: values.get(key) for key in keys}, text)


def _text(value: Value) -> str:
    return java_double(value) if isinstance(value, float) else str(value)


def _values(beans: list[BeanValues], attributes: list[str] | None) -> dict[str, Value]:
    return {
        f"{bean.name}:{attribute}": value
        for bean in beans
        for attribute, value in bean.attributes.items()
        if attributes is None or attribute in attributes
    }


def _expected_count(
    beans: list[BeanValues], attributes: list[str] | None, names: Sequence[ObjectName]
) -> int:
    """Returns the number of values in a complete row. Raises CommandError if there is no value to print."""
    if attributes is None:
        counts = [len(bean.attributes) for bean in beans]
    elif any(name.is_pattern for name in names):
        counts = [sum(attribute in attributes for attribute in bean.attributes) for bean in beans]
        counts = [count for count in counts if count]
    else:
        counts = [len(attributes) for _ in beans]
    if not counts:
        queried = ", ".join(name.text for name in names) if names else "null"
        raise CommandError(f"No matched attributes for the queried objects [{queried}].")
    return sum(counts)


async def _connect(endpoint: Endpoint) -> None:
    """Tries to connect for CONNECT_MAX_MS, because the broker may still be starting. Raises CommandError after that."""
    deadline = time.monotonic() + CONNECT_MAX_MS / 1000
    while True:
        # The line goes to stderr, because Kafka's system tests expect it there.
        warn(f"Trying to connect to JMX url: {endpoint.url}")
        try:
            await endpoint.beans(["kafka.server:type=KafkaServer,name=BrokerState"])
            return
        except NotHttpError as error:
            raise CommandError(
                f"Could not connect to JMX url {endpoint.url}: {error}. For JMX, use Kafka's own tool."
            ) from error
        except MetricsUnavailable as error:
            warn(f"Could not connect to JMX url: {endpoint.url}. Exception: {error}.")
        await asyncio.sleep(RETRY_PAUSE_S)
        if time.monotonic() >= deadline:
            raise CommandError(f"Could not connect to JMX url {endpoint.url} after {CONNECT_MAX_MS} ms.")


async def _find(endpoint: Endpoint, names: Sequence[ObjectName], *, wait: bool) -> list[BeanValues]:
    """Returns the requested objects. With `wait`, waits until all of them exist."""
    queries = [name.text for name in names]
    deadline = time.monotonic() + WAIT_MAX_MS / 1000
    waits = wait and not any(name.is_pattern for name in names)
    while True:
        beans = await endpoint.beans(queries)
        missing = [name.text for name in names if not any(_is(name, bean) for bean in beans)]
        if not waits or (names and not missing):
            return beans
        if time.monotonic() >= deadline:
            raise CommandError(
                f"Could not find all requested object names after {WAIT_MAX_MS} ms. Missing {','.join(missing)}"
            )
        if beans:
            warn("Could not find all object names, retrying")
        await asyncio.sleep(RETRY_PAUSE_S)


def _is(name: ObjectName, bean: BeanValues) -> bool:
    bean_name = ObjectName.parse(bean.name)
    return name.matches(bean_name.domain, bean_name.properties)


def _object_names(texts: Sequence[str]) -> list[ObjectName]:
    names = []
    for text in texts:
        try:
            names.append(ObjectName.parse(text))
        except MalformedObjectName as error:
            raise CommandError(
                f"javax.management.MalformedObjectNameException: {error} (--object-name {text})"
            ) from None
    return names


def _endpoint(options: JmxOptions) -> Endpoint:
    address = _address(options.jmx_url)
    credentials = None
    if options.jmx_auth_prop is not None:
        user, equals, password = options.jmx_auth_prop.partition("=")
        if not equals:
            raise CommandError("--jmx-auth-prop takes user=password")
        credentials = f"{user}:{password}"
    uses_tls = options.jmx_ssl_enable or options.jmx_url.startswith("https:")
    tls = _tls(options.jmx_ssl_truststore) if uses_tls else None
    return Endpoint(options.jmx_url, address, MetricsAccess(credentials, tls))


def _address(url: str) -> Address:
    """Returns the host and port of a service URL or of an HTTP URL. In a service URL, the host may be empty."""
    service = _SERVICE_URL.fullmatch(url)
    match = service or _HTTP_URL.fullmatch(url)
    address = None if match is None else read_address(match[1])
    if address is None or not address.port or not (address.host or service):
        raise CommandError(
            f"--jmx-url {url} is neither service:jmx:rmi:///jndi/rmi://host:port/jmxrmi nor http://host:port"
        )
    return Address(address.host or "localhost", address.port)


def _tls(truststore: str | None) -> ssl.SSLContext:
    import ssl  # only HTTPS needs it

    try:
        return ssl.create_default_context(cafile=truststore)
    except OSError as error:
        raise CommandError(f"--jmx-ssl-truststore {truststore} cannot be read: {error.strerror}") from error


def _now(date_format: str | None) -> str:
    now = time.time()
    if date_format is None:
        return str(int(now * 1000))
    return SimpleDateFormat(date_format, None).format(int(now * 1000))


command = Command(
    name="jmx",
    description="Dump JMX values to standard output.",
    options=JmxOptions,
    run=run,
    examples=(
        Example(
            "Print the traffic of a broker with kcli.metrics.listener=:9999 once:",
            "kcli jmx --jmx-url http://localhost:9999 --one-time \\\n"
            "  --object-name 'kafka.server:type=BrokerTopicMetrics,*'",
        ),
    ),
    exit_status=(
        (0, "With --one-time or --reporting-interval -1: the command printed one row."),
        FAILURE,
        INTERRUPTED,
    ),
)
