"""Puts the driver together: a worker for each flow, and the internal REST server."""

from __future__ import annotations

import logging
import socket
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from kcli.config.definition import ConfigError
from kcli.connect.assembly import Peering
from kcli.connect.config.worker import WorkerConfig, distributed_config
from kcli.connect.config.worker_keys import DISTRIBUTED
from kcli.connect.peers.internal_requests import NO_URL
from kcli.connect.program import describe_cluster
from kcli.connect.rest.server import RestServer
from kcli.connect.rest.settings import internal_settings
from kcli.formats.connect.errors import ConnectException
from kcli.http.rest.listeners import local_host
from kcli.mirror.config.grammar import CONNECTORS, Flow, MirrorConfig
from kcli.mirror.config.keys import CONNECTOR_KEYS, POLICY_PREFIX
from kcli.mirror.config.replication_factors import too_large
from kcli.mirror.flow_worker import FlowWorker
from kcli.model.java_order import hash_order
from kcli.runtime.network import SystemNetwork

_log = logging.getLogger("org.apache.kafka.connect.mirror.MirrorMaker")


@dataclass(frozen=True, slots=True)
class Driver:
    """The parts of the driver. `rest` is None if the internal REST server is off."""

    workers: Sequence[FlowWorker]
    rest: RestServer | None

    def beans(self) -> Iterable[tuple[str, Mapping[str, float | str]]]:
        for worker in self.workers:
            yield from worker.beans()

    def serve(self) -> None:
        """Lets the internal REST server answer."""
        if self.rest is not None:
            _log.info("Initializing internal REST resources")
            self.rest.serve_internal(
                {f"/{worker.flow.source}/{worker.flow.target}": worker.herder for worker in self.workers}
            )


async def assemble(config: MirrorConfig, clusters: Sequence[str]) -> Driver:
    """Makes the workers of all flows to `clusters`, by default to every cluster. Waits for the target clusters.

    Raises ConfigError, ClientConfigError, ConnectException, KafkaError or OSError.
    """
    rest, server = await _server(config)
    try:
        targets = hash_order(clusters or config.clusters)
        _log.info("Targeting clusters [%s]", ", ".join(targets))
        flows = config.flows_to(targets)
        if not flows:
            raise ConfigError("No source->target replication flows.")
        return Driver(await _workers(config, flows, server), rest)
    except BaseException:
        if rest is not None:
            await rest.stop()
        raise


async def _server(config: MirrorConfig) -> tuple[RestServer | None, Peering]:
    """The internal REST server, which listens, and the way to the other processes."""
    if config.rest is None:
        return None, Peering(NO_URL)
    settings = internal_settings(config.rest)
    rest = RestServer(settings, SystemNetwork())
    try:
        addresses = await rest.listen()
    except OSError as error:
        raise ConnectException(f"Unable to initialize REST server: {error}") from error
    url = config.rest.advertised_url(addresses, local_host())
    _log.info("Internal REST server listening at %s", url)
    return rest, Peering(url, settings.forwarding_tls)


async def _workers(config: MirrorConfig, flows: Sequence[Flow], server: Peering) -> Sequence[FlowWorker]:
    clusters: dict[str, tuple[str, int]] = {}
    workers = []
    for flow in flows:
        _log.info("creating herder for %s", flow)
        worker_config = _worker_config(config, flow)
        if flow.target not in clusters:
            for warning in worker_config.warnings:
                _log.warning("Cluster %s: %s", flow.target, warning)
            description = await describe_cluster(worker_config)
            clusters[flow.target] = description.cluster_id or "", len(description.nodes)
        cluster_id, brokers = clusters[flow.target]
        connectors = {name: config.connector(flow, name) for name in CONNECTORS}
        worker = FlowWorker(flow, worker_config, connectors, cluster_id, _peering(flow, server))
        _check_brokers(flow, too_large(config, flow, worker.group, brokers), brokers)
        workers.append(worker)
    return workers


def _worker_config(config: MirrorConfig, flow: Flow) -> WorkerConfig:
    """Raises ConfigError."""
    properties = config.worker(flow)
    if not properties.get("bootstrap.servers"):
        raise ConfigError(
            "You must set either bootstrap.servers or bootstrap.controllers: "
            f"{flow.target}.bootstrap.servers is missing"
        )
    # A worker has no use for the keys of connectors, and would warn about them.
    return distributed_config(
        {
            key: text
            for key, text in properties.items()
            if key in DISTRIBUTED or not (key in CONNECTOR_KEYS or key.startswith(POLICY_PREFIX))
        }
    )


def _peering(flow: Flow, server: Peering) -> Peering:
    host = urlsplit(server.url).netloc or f"{socket.getfqdn()}/{uuid.uuid4()}"
    return Peering(
        server.url,
        server.tls,
        prefix=f"/{quote(flow.source, safe='')}/{quote(flow.target, safe='')}",
        worker_id=f"{host}/{flow}",
    )


def _check_brokers(flow: Flow, keys: Sequence[str], brokers: int) -> None:
    if keys:
        _log.warning(
            "Cluster %s has %d broker(s), which is too few for topics of the flow %s. Unless the topics exist, set: %s",
            flow.target,
            brokers,
            flow,
            ", ".join(f"{key}={brokers}" for key in keys),
        )
