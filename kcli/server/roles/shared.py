"""The parts of a node that its roles share."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from kcli.config.broker import BrokerConfig
from kcli.config.dynamic import DynamicConfig
from kcli.config.topic import LogConfig
from kcli.errors import StorageError
from kcli.metadata.image import MetadataImage
from kcli.runtime.clock import Clock
from kcli.runtime.disk import Disk
from kcli.runtime.network import Network
from kcli.runtime.rng import Rng
from kcli.runtime.threads import NodeThreads
from kcli.server.coordinators.broker_links import BrokerLinks
from kcli.server.formatting.format import Machine, ensure_formatted
from kcli.server.logins.link_security import LinkSecurity
from kcli.server.metrics.metrics import Metrics
from kcli.server.quorum.loader import MetadataLoader
from kcli.server.quorum.quorum import Quorum
from kcli.server.requests.apis import WAITING_BY_DESIGN
from kcli.storage.directory import LogDirectory
from kcli.storage.log.record_validation import Validation
from kcli.storage.store.store import LogStore

_log = logging.getLogger("kcli.server.KafkaRaftServer")


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """The parts of a node that its roles share. `links` has the security of the connections to other nodes. `threads`
    run work that blocks."""

    config: BrokerConfig
    dynamic_config: DynamicConfig
    clock: Clock
    rng: Rng
    network: Network
    threads: NodeThreads
    links: LinkSecurity
    metrics: Metrics
    logs: LogStore
    loader: MetadataLoader
    quorum: Quorum

    def image(self) -> MetadataImage:
        """The committed metadata."""
        return self.loader.image

    def offers(self) -> dict[str, object]:
        """The shared parts that handlers and beans may use, by name."""
        return {
            "config": self.config,
            "dynamic_config": self.dynamic_config,
            "clock": self.clock,
            "rng": self.rng,
            "loader": self.loader,
            "logs": self.logs,
            "quorum": self.quorum.view,
            "raft": self.quorum,
            "metrics": self.metrics,
        }

    def broker_links(self, purpose: str, timeout_s: float | None = None) -> BrokerLinks:
        """Connections to other brokers. Without `timeout_s`, request.timeout.ms is the limit of a request."""
        config = self.config
        return BrokerLinks(
            self.network,
            self.image,
            listener=config.inter_broker_listener_name,
            client_id=f"broker-{config.node_id}-{purpose}",
            timeout_s=config.integer("request.timeout.ms") / 1000 if timeout_s is None else timeout_s,
            secure=self.links.to_brokers,
        )


def node_metrics(config: BrokerConfig, clock: Clock) -> Metrics:
    return Metrics(
        clock,
        samples=config.integer("metrics.num.samples"),
        window_seconds=config.integer("metrics.sample.window.ms") / 1000,
        waiting_by_design=WAITING_BY_DESIGN,
    )


def open_shared(
    config: BrokerConfig,
    dynamic_config: DynamicConfig,
    metrics: Metrics,
    *,
    clock: Clock,
    disk: Disk,
    network: Network,
    rng: Rng,
    threads: NodeThreads,
    directory_failed: Callable[[LogDirectory, StorageError], None],
    halt: Callable[[BaseException], None],
) -> Shared:
    """Formats new directories and opens the logs. Raises ConfigError and StorageError.

    `directory_failed` is called in any thread. `halt` ends the node.
    """
    links = _checked_links(dynamic_config)
    cluster_id = ensure_formatted(config, Machine(disk, clock, rng), _log.info)
    logs = LogStore.open(
        disk,
        clock,
        config.log_dirs if config.is_broker else (config.metadata_log_dir,),
        node_id=config.node_id,
        rng=rng,
        default_config=LogConfig.resolve({}, config),
        recovery_threads=config.integer("num.recovery.threads.per.data.dir"),
        producer_expiration_ms=config.integer("producer.id.expiration.ms"),
        validation=Validation(config.text("kcli.validate.records")),
        metadata_log_dir=config.metadata_log_dir,
        background=threads.flushes,
        on_failure=directory_failed,
    )
    loader = MetadataLoader(MetadataImage(cluster_id=cluster_id), clock)
    quorum = Quorum(
        logs,
        config,
        clock,
        rng,
        network,
        loader,
        on_fatal=halt,
        secure=links.to_controllers,
        threads=threads.quorum,
    )
    return Shared(
        config=config,
        dynamic_config=dynamic_config,
        clock=clock,
        rng=rng,
        network=network,
        threads=threads,
        links=links,
        metrics=metrics,
        logs=logs,
        loader=loader,
        quorum=quorum,
    )


def _checked_links(dynamic_config: DynamicConfig) -> LinkSecurity:
    """The security of the connections to other nodes. Logs a warning for each weak setting. Raises ConfigError."""
    links = LinkSecurity(lambda: dynamic_config.links)
    for warning in links.check():
        _log.warning("%s", warning)
    return links
