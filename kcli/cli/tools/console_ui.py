"""kcli console: serves a web console for one or more clusters. Kafka has no such tool."""

from __future__ import annotations

import asyncio
import gc
import logging
import signal
import ssl
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from kcli.cli.client_properties import load_properties
from kcli.cli.output import Output
from kcli.cli.syntax.options import Command, CommandError, ConnectingOptions, UsageError, flag, option
from kcli.client.config import ClientConfigError, parse_address, parse_addresses
from kcli.command.examples import Example
from kcli.config.definition import ConfigError
from kcli.console.audit import AuditError
from kcli.console.console import Console
from kcli.console.identity import is_loopback
from kcli.console.settings import PORT, ClusterSettings, ConsoleSettings
from kcli.formats.registry.settings import RegistrySettings
from kcli.http.connect_rest import ConnectRest, InvalidUrl
from kcli.model.addresses import Address
from kcli.model.java_text import split_list
from kcli.runtime.clock import SystemClock
from kcli.runtime.descriptors import raise_limit
from kcli.runtime.network import SystemNetwork

COLLECTED_AFTER_OBJECTS = 100_000
"""The number of new objects after which Python's garbage collector runs. To create them takes about 30 ms."""

REGISTRY = "schema.registry.url"
"""The property of Confluent's serializers with the URL of the schema registry."""

TRACES = "kcli.traces.url"
"""The property with the URL of the trace store (Jaeger or Tempo)."""

CONNECT = "kcli.connect.urls"
"""The property with the URLs of workers of Kafka Connect, separated by commas."""

MAIN_CLUSTER = "main"
"""The name of the cluster of --bootstrap-server."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConsoleOptions(ConnectingOptions):
    bootstrap_server: str | None = option(
        "The brokers to connect to first, as host:port,host:port.", metavar="server to connect to"
    )
    command_config: str | None = option(
        "A properties file with client settings, such as security.protocol. The file may also contain a user with a "
        "password, or a client certificate. The console prints a secret address at its start. A browser that opens "
        "this address acts as this user, if the console listens on a loopback address.",
        metavar="property file",
    )
    cluster: tuple[str, ...] = option(
        "A further cluster, as NAME=host:port,host:port, or as NAME=FILE. FILE is a properties file that contains "
        "bootstrap.servers.",
        metavar="NAME=servers or file",
        repeatable=True,
    )
    schema_registry: str | None = option(
        "The URL of the schema registry of the cluster of --bootstrap-server, such as http://host:8081. The "
        "properties file of a cluster can also contain this URL, as schema.registry.url.",
        metavar="url",
    )
    metrics: str | None = option(
        "The metrics endpoints of the brokers of --bootstrap-server, as host:port,host:port. From these endpoints, "
        "the console reads the traffic of the cluster. For the check-up of the cluster, it also reads the versions of "
        "the clients and the numbers of log segments. The endpoints must use HTTP without TLS, and must not require a "
        "user and a password.",
        metavar="host:port",
    )
    traces: str | None = option(
        "The address of Jaeger (http://HOST:16686) or Tempo (http://HOST:3200), from which the console shows the "
        "traces of records. The properties file of a cluster can also contain this address, as kcli.traces.url.",
        metavar="url",
    )
    spark: tuple[str, ...] = option(
        "The address of a Spark driver (http://HOST:4040) or history server (http://HOST:18080), whose applications "
        "the console shows.",
        metavar="url",
        repeatable=True,
    )
    spark_checkpoint: tuple[str, ...] = option(
        "A directory with checkpoints of Spark's streaming queries. The console shows the lag of these queries in the "
        "cluster of --bootstrap-server.",
        metavar="directory",
        repeatable=True,
    )
    connect: tuple[str, ...] = option(
        "The URL of a worker of Kafka Connect, such as http://HOST:8083. The console shows and changes the connectors "
        "of the worker's group. The URL may have user:password@ before the host. The properties file of a cluster can "
        "also contain such URLs, as kcli.connect.urls.",
        metavar="url",
        repeatable=True,
    )
    listen: str = option(
        "The address on which the console listens.", metavar="host:port", default=f"127.0.0.1:{PORT}"
    )
    tls_certificate: str | None = option(
        "A PEM file with the certificate of the console and its chain. The console then speaks HTTPS.",
        metavar="file",
    )
    tls_key: str | None = option("A PEM file with the private key of the certificate.", metavar="file")
    insecure: bool = flag(
        "Listen without TLS, even if other machines can reach the address. Use this option only behind a proxy that "
        "uses TLS."
    )
    allowed_host: tuple[str, ...] = option(
        "A host name that users type into their browsers, such as console.example.com. IP addresses and localhost "
        "are always allowed.",
        metavar="name",
        repeatable=True,
    )
    base_path: str = option(
        "A path at the start of every URL of the console, such as /kafka, if the console is behind a proxy.",
        metavar="path",
        default="",
    )
    read_only: bool = flag("Refuse every action that would change a cluster.")
    audit_log: str | None = option(
        "A file to which the console appends each action and each login, as lines of JSON.", metavar="file"
    )
    undo_directory: str = option(
        "The directory for undo files. The console writes an undo file when it balances the brokers.",
        metavar="directory",
        default=".",
    )


async def run(options: ConsoleOptions, output: Output) -> None:
    """Serves until Ctrl-C or SIGTERM."""
    settings = _settings(options)
    raise_limit()  # each browser needs a few descriptors
    logging.getLogger("kcli.console").setLevel(logging.INFO)
    try:
        console = Console(settings, SystemNetwork(), SystemClock())
        address = await console.start()
    except (ClientConfigError, AuditError) as error:
        raise CommandError(str(error)) from error
    except OSError as error:
        raise CommandError(f"--listen {options.listen}: {error.strerror or error}") from error
    stopped = _on_signals()
    _collect_rarely()
    output.say(f"The console has started. Open {address}")
    sys.stdout.flush()  # the reader may be a pipe
    try:
        await stopped.wait()
    finally:
        await console.stop()


def _collect_rarely() -> None:
    """Makes Python's garbage collector run less often. The answer of a large cluster becomes a million objects. The
    collector would examine these objects several times while the answer is decoded."""
    gc.freeze()
    gc.set_threshold(COLLECTED_AFTER_OBJECTS, 10, 10)


def _on_signals() -> asyncio.Event:
    """An event that Ctrl-C and SIGTERM set."""
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        loop.add_signal_handler(number, stopped.set)
    return stopped


def _settings(options: ConsoleOptions) -> ConsoleSettings:
    try:
        address = parse_address(options.listen, "--listen")
    except ClientConfigError:
        raise UsageError(f"--listen {options.listen}: expected host:port") from None
    tls = _tls(options)
    if not is_loopback(address.host) and tls is None and not options.insecure:
        raise UsageError(
            f"--listen {options.listen}: other machines could read passwords on the network. "
            "Use --tls-certificate and --tls-key, or --insecure behind a proxy that uses TLS."
        )
    return ConsoleSettings(
        clusters=tuple(_clusters(options)),
        host=address.host,
        port=address.port,
        base_path=_base_path(options.base_path),
        allowed_hosts=frozenset(options.allowed_host),
        tls=tls,
        is_read_only=options.read_only,
        audit_file=options.audit_log,
        undo_directory=Path(options.undo_directory),
    )


def _clusters(options: ConsoleOptions) -> Iterable[ClusterSettings]:
    properties = load_properties(options.command_config, options.client_properties)
    if options.bootstrap_server is not None:
        properties["bootstrap.servers"] = options.bootstrap_server
    if "bootstrap.servers" in properties:
        yield ClusterSettings(
            name=MAIN_CLUSTER,
            properties=properties,
            config_file=options.command_config,
            schema_registry=_registry(options.schema_registry or properties.get(REGISTRY), properties),
            metrics=_endpoints(options.metrics),
            traces=options.traces or properties.get(TRACES),
            spark_urls=options.spark,
            spark_checkpoints=options.spark_checkpoint,
            connect=_workers("--connect", options.connect or split_list(properties.get(CONNECT, ""))),
        )
    elif not options.cluster:
        raise UsageError('Missing required argument "[bootstrap-server]", or --cluster')
    for text in options.cluster:
        yield _further(text)


def _endpoints(text: str | None) -> tuple[Address, ...]:
    if text is None:
        return ()
    try:
        return parse_addresses(text, "--metrics")
    except ClientConfigError as error:
        raise UsageError(str(error)) from None


def _further(text: str) -> ClusterSettings:
    name, equals, place = text.partition("=")
    if not (name and equals and place) or not all(
        character.isalnum() or character in "-_." for character in name
    ):
        raise UsageError(
            f"--cluster {text}: expected NAME=host:port or NAME=FILE, with letters, digits, - _ ."
        )
    if ":" in place and "/" not in place:
        return ClusterSettings(name=name, properties={"bootstrap.servers": place})
    properties = load_properties(place)
    if not properties.get("bootstrap.servers"):
        raise CommandError(f"--cluster {text}: {place} has no bootstrap.servers")
    return ClusterSettings(
        name=name,
        properties=properties,
        config_file=place,
        schema_registry=_registry(properties.get(REGISTRY), properties),
        traces=properties.get(TRACES),
        connect=_workers(CONNECT, split_list(properties.get(CONNECT, ""))),
    )


def _registry(url: str | None, properties: Mapping[str, str]) -> str | None:
    """Checks the URL and the properties of a schema registry. Raises UsageError, because a page could not show it."""
    if url is not None:
        try:
            RegistrySettings.of({**properties, REGISTRY: url})
        except ConfigError as error:
            raise UsageError(error.located()) from None
    return url


def _workers(name: str, urls: Iterable[str]) -> tuple[ConnectRest, ...]:
    """The workers of these URLs. Raises UsageError if a URL is invalid, or occurs twice."""
    try:
        workers = tuple(map(ConnectRest.at, urls))
    except InvalidUrl as error:
        raise UsageError(f"{name} {error}") from None
    if len({worker.place for worker in workers}) < len(workers):
        raise UsageError(f"{name}: two URLs have the same host, port and path")
    return workers


def _tls(options: ConsoleOptions) -> ssl.SSLContext | None:
    if (options.tls_certificate is None) != (options.tls_key is None):
        raise UsageError("--tls-certificate and --tls-key need each other")
    if options.tls_certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(options.tls_certificate, options.tls_key)
    except (OSError, ssl.SSLError) as error:
        raise CommandError(
            f"--tls-certificate {options.tls_certificate}: {error.strerror or error}"
        ) from error
    return context


def _base_path(text: str) -> str:
    path = text.rstrip("/")
    if path and (
        not path.startswith("/") or not all(character.isalnum() or character in "/-_.~" for character in path)
    ):
        raise UsageError(f"--base-path {text}: expected a path such as /kafka")
    return path


command = Command(
    name="console",
    description="This tool serves a web console for one or more clusters.",
    options=ConsoleOptions,
    run=run,
    examples=(
        Example(
            "Serve a console for a cluster on this machine, at http://127.0.0.1:8090/:",
            "kcli console --bootstrap-server localhost:9092",
            is_endless=True,
        ),
        Example(
            "Show two clusters, without actions:",
            "kcli console --bootstrap-server localhost:9092 --read-only \\\n"
            "  --cluster live=client.properties --listen 127.0.0.1:8091",
            is_endless=True,
        ),
        Example(
            "Serve a console for a secured cluster, and keep an audit log:",
            "kcli console --bootstrap-server h:9093 --command-config client.properties \\\n"
            "  --audit-log audit.jsonl --listen 127.0.0.1:8092",
            is_endless=True,
        ),
    ),
    exit_status=(
        (0, "The console was stopped by Ctrl-C or SIGTERM."),
        (1, "The options are invalid, or the address is not free."),
    ),
)
