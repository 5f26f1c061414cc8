"""Puts a worker together: its stores, its engine, its herder."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import itertools
import logging
import secrets
import ssl
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from urllib.parse import urlsplit

from kcli.client.admin.transactions import force_terminate_transaction
from kcli.client.client import Client
from kcli.client.config import ClientConfig, client_config
from kcli.client.group.requests import GroupSettings
from kcli.config.providers import ConfigTransformer
from kcli.connect.config.checks import CheckReport, CheckRequest
from kcli.connect.config.clients import ClientKind
from kcli.connect.config.plugin_table import PluginTable, load_plugins
from kcli.connect.config.validator import ConfigValidator
from kcli.connect.config.worker import ExactlyOnceSource, GroupConfig, WorkerConfig, check_converters
from kcli.connect.decisions.session import SessionSettings
from kcli.connect.herders.distributed import DistributedHerder
from kcli.connect.herders.membership import WorkerGroup, WorkerMembership
from kcli.connect.herders.reports import StatusReports
from kcli.connect.herders.settings import HerderParts, HerderSettings
from kcli.connect.herders.standalone import StandaloneHerder
from kcli.connect.model import Config, TaskId
from kcli.connect.peers.forwarding import Forwarder
from kcli.connect.peers.internal_requests import NO_URL, InternalRequests
from kcli.connect.stores.configs import Configs
from kcli.connect.stores.internal_topics import InternalTopics, client_id_base
from kcli.connect.stores.log import MemoryLog
from kcli.connect.stores.offset_file import OffsetFile
from kcli.connect.stores.own_offsets import OwnOffsets
from kcli.connect.stores.statuses import Statuses
from kcli.connect.stores.store import OffsetStore, StatusStore
from kcli.connect.workers.connector_offsets import OffsetsOf
from kcli.connect.workers.engine import WorkerEngine
from kcli.connect.workers.plans import transactional_id
from kcli.formats.connect.errors import ConnectException
from kcli.runtime.clock import SystemClock
from kcli.runtime.disk import SystemDisk
from kcli.runtime.network import SystemNetwork

Beans = Iterable[tuple[str, Mapping[str, float | str]]]

_log = logging.getLogger("org.apache.kafka.connect.runtime.Worker")


class StandaloneWorker:
    """A worker alone. `url` is the address of its REST API."""

    def __init__(self, config: WorkerConfig, cluster_id: str, url: str) -> None:
        assert config.offsets_file is not None, "the configuration of a worker alone"
        clock = SystemClock()
        statuses = Statuses(MemoryLog(), clock)
        self._offsets = OffsetFile(config.offsets_file, SystemDisk())
        self._engine, reports, plugins = _engine(config, _worker_id(url), statuses, self._offsets_of)
        self._stopping = asyncio.Event()
        self._started = asyncio.Event()
        self.herder = StandaloneHerder(
            kafka_cluster_id=cluster_id,
            configs=Configs(MemoryLog()),
            statuses=statuses,
            reports=reports,
            engine=self._engine,
            validator=_validator(config, plugins, self._engine),
            clock=clock,
        )

    async def _offsets_of(self, _config: Config) -> OffsetStore:
        return self._offsets

    async def run(self) -> None:
        """Starts, and runs until `stop`. Raises the error of a start that fails."""
        try:
            _log.info("Worker starting")
            await self._offsets.start()
            await self._engine.start()
            await self.herder.start()
            _log.info("Worker started")
            self._started.set()
            await self._stopping.wait()
        finally:
            await self.herder.stop()
            await self._offsets.stop()
            _log.info("Worker stopped")

    def beans(self) -> Beans:
        """The metrics, with the name of their MBean."""
        return self._engine.metrics()

    async def started(self) -> None:
        await self._started.wait()

    def stop(self) -> None:
        self._stopping.set()


@dataclass(frozen=True, slots=True)
class Peering:
    """The ways between a worker and the other workers of its group.

    `url` is the address of its REST API for them, and `tls` is for requests to workers with an https URL. `prefix` is
    the beginning of the paths for internal requests. `worker_id` is the name in statuses, by default from the URL.
    """

    url: str
    tls: ssl.SSLContext | None = None
    prefix: str = ""
    worker_id: str = ""

    @property
    def name(self) -> str:
        return self.worker_id or _worker_id(self.url)


class DistributedWorker:
    """A worker of a group."""

    def __init__(self, config: WorkerConfig, cluster_id: str, peering: Peering) -> None:
        assert config.group is not None, "the configuration of a worker in a group"
        group = config.group
        settings = client_config(config.clients.worker(ClientKind.ADMIN))
        self._group_id = group.group_id
        self._admin = _client(settings, f"{client_id_base(group)}shared-admin")
        self._coordination = _client(settings, group.client_id or f"connect-{peering.name}")
        self._topics = InternalTopics(group, settings, self._admin, SystemClock())
        self._offsets = self._topics.offsets()
        self._own_offsets = OwnOffsets(config, self._topics, self._offsets)
        configs, statuses = self._topics.configs(), self._topics.statuses()
        self._engine, reports, plugins = _engine(config, peering.name, statuses, self._offsets_of)
        session = _session(group)
        membership = WorkerMembership(self._coordination, _worker_group(group, peering.url), configs)
        self.herder = DistributedHerder(
            _herder_settings(group, session, peering),
            HerderParts(
                configs=configs,
                statuses=statuses,
                reports=reports,
                engine=self._engine,
                membership=membership,
                validator=_validator(config, plugins, self._engine),
                requests=InternalRequests(Forwarder(peering.tls), session, peering.prefix),
                fence=self._fence,
                clock=SystemClock(),
                random_bytes=secrets.token_bytes,
            ),
            cluster_id,
        )

    async def _offsets_of(self, config: Config) -> OffsetStore:
        return await self._own_offsets.of(config)

    async def _fence(self, tasks: Sequence[TaskId]) -> None:
        """Fences the producers of tasks, so that their open transactions end."""
        ids = [transactional_id(self._group_id, task) for task in tasks]
        await asyncio.gather(*(force_terminate_transaction(self._admin, id) for id in ids))

    async def run(self) -> None:
        """Starts, and runs until `stop`. Raises the error of a start that fails, or of a lost group."""
        async with contextlib.AsyncExitStack() as stack:
            await stack.enter_async_context(self._admin)
            await stack.enter_async_context(self._coordination)
            _log.info("Worker starting")
            await self._offsets.start()
            stack.push_async_callback(self._offsets.stop)
            stack.push_async_callback(self._own_offsets.stop)
            await self._engine.start()
            _log.info("Worker started")
            await self.herder.run()

    def beans(self) -> Beans:
        """The metrics, with the name of their MBean."""
        return itertools.chain(self._engine.metrics(), self.herder.beans().items())

    async def started(self) -> None:
        await self.herder.started()

    def stop(self) -> None:
        self.herder.stop()


def _engine(
    config: WorkerConfig, worker_id: str, statuses: StatusStore, offsets_of: OffsetsOf
) -> tuple[WorkerEngine, StatusReports, PluginTable]:
    reports = StatusReports(statuses, worker_id, tracks_topics=config.topic_tracking_enable)
    plugins = load_plugins(config.plugin_path)
    check_converters(config, plugins)
    resolve = ConfigTransformer(config.texts).transform
    return WorkerEngine(config, plugins, offsets_of, reports, resolve), reports, plugins


def _validator(config: WorkerConfig, plugins: PluginTable, engine: WorkerEngine) -> ConfigValidator:
    async def run_check(request: CheckRequest) -> CheckReport:
        errors = await engine.validate(request.config)
        if not request.asks_exactly_once and not request.asks_boundaries:
            return CheckReport(errors)
        try:
            exactly_once, boundaries = await engine.exactly_once_support(request.config)
        except ConnectException as error:
            # As in Java, the exception is an error of the key, so that the user also sees the other errors.
            return CheckReport(errors, str(error), str(error))
        return CheckReport(errors, exactly_once, boundaries)

    return ConfigValidator(plugins, config, run_check, engine.resolve)


def _worker_id(url: str) -> str:
    """The host and the port of the REST API, which the status of a task shows."""
    return urlsplit(url).netloc


def _client(settings: ClientConfig, client_id: str) -> Client:
    return Client(dataclasses.replace(settings, client_id=client_id), SystemNetwork())


def _session(group: GroupConfig) -> SessionSettings:
    keys = group.inter_worker
    return SessionSettings(
        key_algorithm=keys.generation_algorithm,
        key_size_bits=keys.key_size,
        key_ttl_ms=keys.ttl_ms,
        signature_algorithm=keys.signature_algorithm,
        verification_algorithms=keys.verification_algorithms,
    )


def _worker_group(group: GroupConfig, url: str) -> WorkerGroup:
    return WorkerGroup(
        group=GroupSettings(
            group_id=group.group_id,
            session_timeout_ms=group.session_timeout_ms,
            rebalance_timeout_ms=group.rebalance_timeout_ms,
            heartbeat_interval_ms=group.heartbeat_interval_ms,
        ),
        url=url,
        protocol=group.protocol,
        max_delay_ms=group.scheduled_rebalance_max_delay_ms,
        sync_timeout_ms=group.worker_sync_timeout_ms,
    )


def _herder_settings(group: GroupConfig, session: SessionSettings, peering: Peering) -> HerderSettings:
    return HerderSettings(
        session=session,
        sync_timeout_ms=group.worker_sync_timeout_ms,
        unsync_backoff_ms=group.worker_unsync_backoff_ms,
        rebalance_delay_max_ms=group.scheduled_rebalance_max_delay_ms,
        exactly_once=group.exactly_once_source is ExactlyOnceSource.ENABLED,
        claims_config_topic=group.exactly_once_source is not ExactlyOnceSource.DISABLED,
        # With transactions, only the leader can write.
        any_worker_writes_tasks=peering.url == NO_URL
        and group.exactly_once_source is ExactlyOnceSource.DISABLED,
    )
