"""Runs a worker until a signal stops it: `kcli connect-standalone` and `kcli connect-distributed`.

The exit codes are Java's. Code 1 means that there are no arguments, and code 2 means an error before the start. Code 3
means an error of the start or of a connector. A signal has the code 128 plus its number.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
import time
from collections.abc import AsyncIterator, Callable, Sequence

from kcli.client.admin.admin import AdminClient
from kcli.client.admin.cluster import ClusterDescription
from kcli.client.config import ClientConfigError, client_config
from kcli.config.definition import ConfigError
from kcli.config.properties import load
from kcli.connect.assembly import DistributedWorker, Peering, StandaloneWorker
from kcli.connect.config.clients import ClientKind
from kcli.connect.config.worker import WorkerConfig, distributed_config, standalone_config
from kcli.connect.connector_files import read_connector_file
from kcli.connect.herders.connector_log import ConnectorLog
from kcli.connect.rest.server import RestServer
from kcli.connect.rest.settings import rest_settings
from kcli.errors import KafkaError, KcliError
from kcli.formats.connect.errors import ConnectException
from kcli.http.rest.listeners import local_host
from kcli.runtime.event_loop import loop_factory
from kcli.runtime.garbage import GarbagePolicy
from kcli.runtime.network import SystemNetwork
from kcli.server.beans.exposition.program_endpoint import MetricsServer, metrics_server
from kcli.server.program import StopSignal, configure_log

STANDALONE, DISTRIBUTED = "standalone", "distributed"

_cli_log = logging.getLogger("org.apache.kafka.connect.cli.AbstractConnectCli")
_log = logging.getLogger("org.apache.kafka.connect.runtime.Connect")

USAGE_ERROR, SET_UP_ERROR, START_ERROR = 1, 2, 3
SIGNALLED = 128
_USAGES = {
    STANDALONE: "ConnectStandalone worker.properties [connector1.properties connector2.json ...]",
    DISTRIBUTED: "ConnectDistributed worker.properties",
}
_CONFIGS: dict[str, Callable[..., WorkerConfig]] = {
    STANDALONE: standalone_config,
    DISTRIBUTED: distributed_config,
}

Worker = StandaloneWorker | DistributedWorker
Server = RestServer | MetricsServer


def run(mode: str, files: Sequence[str]) -> int:
    """Runs a worker. `files` are its properties, and with mode `standalone` also the files of connectors.

    Returns the exit code.
    """
    configure_log()
    if not files or "--help" in files:
        _cli_log.info("Usage: %s", _USAGES[mode])
        return USAGE_ERROR
    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        return runner.run(_run(mode, files))


async def _run(mode: str, files: Sequence[str]) -> int:
    began = time.monotonic()
    garbage = GarbagePolicy()
    garbage.prepare()
    stop = StopSignal()
    try:
        _cli_log.info("Kafka Connect worker initializing ...")
        config = _CONFIGS[mode](load(files[0]))
        for warning in config.warnings:
            _cli_log.warning("%s", warning)
        worker, rest, servers = await _set_up(config)
    except (ConfigError, ClientConfigError, KafkaError, ConnectException, OSError) as error:
        _cli_log.error("Stopping due to error: %s", error)
        return SET_UP_ERROR
    _cli_log.info("Kafka Connect worker initialization took %dms", (time.monotonic() - began) * 1000)
    try:
        async with _running(worker, servers, stop):
            # A worker of a thousand connectors would else pause for 0.1 s, again and again.
            garbage.start()
            garbage.watch(lambda: rest.last_active)
            if isinstance(worker, StandaloneWorker):
                await _create_connectors(worker, files[1:])
            await stop.wait()
    except _Failed:
        return START_ERROR
    return SIGNALLED + stop.number if stop.number is not None else USAGE_ERROR


class _Failed(Exception):
    """The worker or a connector could not start. The reason is in the log."""


async def _set_up(config: WorkerConfig) -> tuple[Worker, RestServer, Sequence[Server]]:
    """Reaches the cluster, listens, and makes the worker. Returns its REST server, and all its servers.

    Raises the error of a step that fails.
    """
    cluster_id = (await describe_cluster(config)).cluster_id or ""
    _cli_log.info("Kafka cluster ID: %s", cluster_id)
    settings = rest_settings(config)
    rest = RestServer(settings, SystemNetwork())
    try:
        addresses = await rest.listen()
    except OSError as error:
        raise ConnectException(f"Unable to initialize REST server: {error}") from error
    url = config.rest.advertised_url(addresses, local_host())
    _cli_log.info("REST server listening at %s, advertising URL %s", url, url)
    worker: Worker
    if config.group is None:
        worker = StandaloneWorker(config, cluster_id, url)
    else:
        worker = DistributedWorker(config, cluster_id, Peering(url, settings.forwarding_tls))
    log = ConnectorLog()
    logging.getLogger().addHandler(log)
    rest.serve(worker.herder, url, log)
    metrics = metrics_server(config.texts, worker.beans)
    if metrics is None:
        return worker, rest, [rest]
    await metrics.start()
    return worker, rest, [rest, metrics]


async def describe_cluster(config: WorkerConfig) -> ClusterDescription:
    """Asks the cluster of a worker. Raises ConnectException if no broker answers."""
    settings = client_config(config.clients.worker(ClientKind.ADMIN))
    try:
        async with AdminClient(settings, SystemNetwork()) as admin:
            return await admin.describe_cluster()
    except (KafkaError, OSError) as error:
        raise ConnectException(
            "Failed to connect to and describe Kafka cluster. Check worker's broker connection and security "
            f"properties. {error}"
        ) from error


@contextlib.asynccontextmanager
async def _running(worker: Worker, servers: Sequence[Server], stop: StopSignal) -> AsyncIterator[None]:
    """Runs the worker inside. Raises _Failed if it cannot start."""
    _log.info("Kafka Connect starting")
    running = asyncio.create_task(worker.run())
    running.add_done_callback(lambda _: stop.end())
    try:
        started = asyncio.create_task(worker.started())
        await asyncio.wait((running, started), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            started.cancel()
            _cli_log.error("Failed to start Connect", exc_info=running.exception())
            raise _Failed
        _log.info("Kafka Connect started")
        yield
    finally:
        _log.info("Kafka Connect stopping")
        for server in servers:
            await server.stop()
        worker.stop()
        result = (await asyncio.gather(running, return_exceptions=True))[0]
        if isinstance(result, Exception):
            _log.error("Uncaught exception in herder work thread, exiting: %s", result, exc_info=result)
        _log.info("Kafka Connect stopped")


async def _create_connectors(worker: StandaloneWorker, files: Sequence[str]) -> None:
    """Creates the connectors of files. Raises _Failed at the first one that fails."""
    for path in files:
        try:
            file = read_connector_file(path)
        except (OSError, ConnectException) as error:
            _cli_log.error("Stopping after connector error: %s", error)
            raise _Failed from error
        try:
            await worker.herder.put_config(file.name, file.config, file.target, may_replace=False)
        except KcliError as error:
            _cli_log.error("Failed to create connector for %s", path)
            _cli_log.error("Stopping after connector error: %s", error)
            raise _Failed from error
        _cli_log.info("Created connector %s", file.name)


if __name__ == "__main__":
    sys.exit(run(sys.argv[1], sys.argv[2:]))
