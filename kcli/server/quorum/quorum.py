"""The metadata quorum as the rest of the server sees it: the committed image, and a coroutine for every change to it.

A request is decided on what has been appended, its records are appended and replayed at once, and it is answered when
they are committed: flushed to disk, by one fsync in a thread for all that has been appended meanwhile. Then the new
image and what changed go to the listeners, in the order of the log, and only then to whoever asked.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from kcli.config.broker import BrokerConfig
from kcli.config.features import supported_ranges
from kcli.config.listeners import SECURITY_PROTOCOLS
from kcli.config.listeners import Listener as SocketListener
from kcli.controller.bootstrap import encode_records, first_log_records
from kcli.controller.controller import Controller
from kcli.controller.decision import MAX_RECORDS_PER_BATCH, Decision
from kcli.controller.settings import ControllerSettings
from kcli.controller.topics import Charge, no_charge
from kcli.errors import (
    ErrorCode,
    KafkaError,
    NotControllerException,
    StorageError,
    TimeoutException,
)
from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import ControllerRegistration, Endpoint, MetadataImage, VersionRange
from kcli.metadata.replay import ImageReplayer
from kcli.metadata.snapshot import image_records
from kcli.metadata.snapshot_file import SnapshotId
from kcli.protocol.messages import allocate_producer_ids as ap
from kcli.protocol.messages import alter_configs as ac
from kcli.protocol.messages import alter_partition as al
from kcli.protocol.messages import alter_partition_reassignments as ar
from kcli.protocol.messages import assign_replicas_to_dirs as ad
from kcli.protocol.messages import broker_heartbeat as hb
from kcli.protocol.messages import broker_registration as br
from kcli.protocol.messages import create_partitions as cp
from kcli.protocol.messages import create_topics as ct
from kcli.protocol.messages import delete_topics as dt
from kcli.protocol.messages import elect_leaders as el
from kcli.protocol.messages import incremental_alter_configs as ic
from kcli.protocol.messages import list_partition_reassignments as lr
from kcli.protocol.messages import unregister_broker as ub
from kcli.protocol.messages import update_features as uf
from kcli.protocol.records.metadata import MetadataRecord
from kcli.protocol.wire.api import ApiKey
from kcli.raft.node import RaftNode
from kcli.raft.voters import ReplicaKey
from kcli.runtime.clock import Clock
from kcli.runtime.rng import Rng
from kcli.server.quorum.driver import RaftDriver
from kcli.server.quorum.metadata_log import MetadataLog, Quorate
from kcli.server.requests.context import RequestContext
from kcli.storage.store.store import LogStore

if TYPE_CHECKING:
    from kcli.protocol.messages import alter_client_quotas as aq
    from kcli.protocol.messages import alter_user_scram_credentials as au

logger = logging.getLogger(__name__)

R = TypeVar("R")
Listener = Callable[[MetadataDelta, MetadataImage], None]

# How often silent brokers, old snapshots and the need for a new one are looked for.
HOUSEKEEPING_INTERVAL_S = 1.0
# Kafka looks once a minute whether the oldest snapshot may go.
CLEAN_INTERVAL_MS = 60_000


@dataclass(frozen=True, slots=True)
class _Appended:
    """A batch that is in the log and not yet committed. `delta` is None for control batches and open transactions."""

    last_offset: int
    delta: MetadataDelta | None
    image: MetadataImage
    done: asyncio.Future[None]


class Quorum:
    """`start` before anything else; `image` and the coroutines may be used from then on until `stop`."""

    def __init__(
        self,
        logs: LogStore,
        config: BrokerConfig,
        clock: Clock,
        rng: Rng,
        *,
        on_fatal: Callable[[BaseException], None] | None = None,
    ) -> None:
        self.image = MetadataImage(cluster_id=logs.cluster_id or "")
        self._config = config
        self._clock = clock
        self._rng = rng
        self._on_fatal = on_fatal
        self.log = MetadataLog(logs, config, clock, rng)
        self.raft = RaftNode(ReplicaKey(config.node_id, self.log.directory_id))
        self._driver = RaftDriver(self.raft, self.log, clock)
        self._quorate = Quorate()
        self._controller: Controller | None = None
        self._listeners: list[Listener] = []
        self._appended: deque[_Appended] = deque()
        self._wake = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self._creating: set[str] = set()
        self._background: set[asyncio.Task[None]] = set()
        self._failure: BaseException | None = None
        self._snapshot_ms = clock.now_ms()
        self._cleaned_ms = clock.now_ms()

    def subscribe(self, listener: Listener) -> None:
        """`listener(delta, image)` runs on the event loop at every commit that changes something."""
        self._listeners.append(listener)

    @property
    def high_watermark(self) -> int:
        return self.raft.high_watermark

    # Life.

    async def start(self, listeners: Sequence[SocketListener] | None = None) -> None:
        """Loads the metadata, takes the lead, writes the first records of a new cluster, registers this controller.

        `listeners`: where this controller is reached, if not where the configuration says (a port chosen by the
        system). Raises StorageError when the node is not formatted, QuorumError when it cannot be a quorum by itself.
        """
        replayer = ImageReplayer(self.image)
        self._quorate = await asyncio.to_thread(self.log.load, replayer)
        settings = controller_settings(self._config, self._quorate.kraft_version)
        controller = Controller(replayer, settings, self._rng, self._clock.now_ms())
        controller.next_offset = self.log.end_offset
        self.image = controller.image
        self._controller = controller
        await self._elect()
        try:
            await self._run(controller, settings, listeners)
        except BaseException:
            await self.stop()
            raise

    async def _run(
        self,
        controller: Controller,
        settings: ControllerSettings,
        listeners: Sequence[SocketListener] | None,
    ) -> None:
        self._tasks = [
            asyncio.create_task(self._commit_loop(), name="quorum-commit"),
            asyncio.create_task(self._idle_loop(), name="quorum-idle"),
            asyncio.create_task(self._housekeeping_loop(), name="quorum-housekeeping"),
        ]
        if controller.in_transaction:
            await self._write(controller.abort_transaction())
        if self.image.metadata_version == 0:
            bootstrap = await asyncio.to_thread(self.log.read_bootstrap)
            await self._write(first_log_records(bootstrap, settings.static_config))
        if listeners is None:
            listeners = self._config.advertised_controller_listeners
        await self._write(controller.register_controller(self._registration(settings, listeners)))

    async def _elect(self) -> None:
        """Takes the lead and commits the first batch of the new epoch."""
        for appended in await self._driver.start(self._quorate):
            self._active().skip(appended.last_offset, appended.epoch, appended.timestamp_ms)
            self._queue(appended.last_offset, None)
        self._committed(await self._driver.flush())

    def _registration(
        self, settings: ControllerSettings, listeners: Sequence[SocketListener]
    ) -> ControllerRegistration:
        return ControllerRegistration(
            id=self._config.node_id,
            incarnation_id=self._rng.uuid(),
            endpoints={
                listener.name: Endpoint(
                    listener.name,
                    listener.host,
                    listener.port,
                    SECURITY_PROTOCOLS.index(listener.security_protocol),
                )
                for listener in listeners
            },
            features=settings.supported_features,
        )

    async def stop(self) -> None:
        """Commits what has been appended and gives up the lead. The store closes the log."""
        await self._drain()
        tasks = [*self._tasks, *self._background]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        self._tasks.clear()
        self._driver.resign()
        self._controller = None
        self._fail_waiting(NotControllerException())

    async def _drain(self) -> None:
        if self._appended and self._failure is None:
            with contextlib.suppress(StorageError, KafkaError):
                await asyncio.shield(self._appended[-1].done)

    # Appending and committing.

    def _active(self) -> Controller:
        if self._failure is not None:
            raise NotControllerException(f"The metadata log cannot be written: {self._failure}")
        if self._controller is None:
            raise NotControllerException
        return self._controller

    def _append(self, records: Sequence[MetadataRecord]) -> asyncio.Future[None]:
        """Appended and replayed now, committed soon: one batch, or several when there is more than one may hold."""
        for start in range(0, len(records), MAX_RECORDS_PER_BATCH):
            done = self._append_batch(records[start : start + MAX_RECORDS_PER_BATCH])
        return done

    def _append_batch(self, records: Sequence[MetadataRecord]) -> asyncio.Future[None]:
        controller = self._active()
        values = encode_records(records, controller.image.metadata_version)
        try:
            appended = self._driver.append(values)
        except StorageError as error:
            self._fail(error)
            raise
        delta = controller.replay(
            records,
            last_offset=appended.last_offset,
            epoch=appended.epoch,
            timestamp_ms=appended.timestamp_ms,
        )
        return self._queue(appended.last_offset, delta)

    def _queue(self, last_offset: int, delta: MetadataDelta | None) -> asyncio.Future[None]:
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        # Nobody may be waiting; an error then is not a mistake of the event loop's user.
        done.add_done_callback(lambda future: future.cancelled() or future.exception())
        self._appended.append(_Appended(last_offset, delta, self._active().image, done))
        self._wake.set()
        return done

    async def _write(self, records: Sequence[MetadataRecord]) -> None:
        if records:
            await asyncio.shield(self._append(records))

    async def _decided(self, decide: Callable[[Controller], Decision[R]], timeout_ms: int = 0) -> R:
        """Answers once the decision's records are committed, or, without any, all that the decision has seen."""
        decision = decide(self._active())
        if decision.records:
            done = self._append(decision.records)
        elif self._appended:
            done = self._appended[-1].done
        else:
            return decision.response
        try:
            async with asyncio.timeout(timeout_ms / 1000 if timeout_ms > 0 else None):
                await asyncio.shield(done)
        except TimeoutError:
            raise TimeoutException from None
        return decision.response

    async def _commit_loop(self) -> None:
        try:
            while True:
                await self._wake.wait()
                self._wake.clear()
                while self._appended:
                    self._committed(await self._driver.flush())
        except Exception as error:
            # A disk that failed, or a mistake of ours: either way nobody would be answered any more.
            self._fail(error)

    def _committed(self, high_watermark: int | None) -> None:
        if high_watermark is None:
            return
        while self._appended and self._appended[0].last_offset < high_watermark:
            appended = self._appended.popleft()
            self.image = appended.image
            if appended.delta is not None and not appended.delta.is_empty:
                self._publish(appended.delta, appended.image)
            if not appended.done.done():
                appended.done.set_result(None)

    def _publish(self, delta: MetadataDelta, image: MetadataImage) -> None:
        for listener in self._listeners:
            try:
                listener(delta, image)
            except Exception:
                # What is committed stays committed; the other listeners must still hear of it.
                logger.exception("A listener failed on the metadata at offset %d", image.offset)

    def _fail(self, error: BaseException) -> None:
        """A metadata log that cannot be written is the end of this node."""
        self._failure = error
        logger.critical("The metadata log cannot be written any more: %s", error)
        self._fail_waiting(NotControllerException(f"The metadata log cannot be written: {error}"))
        if self._on_fatal is not None:
            self._on_fatal(error)

    def _fail_waiting(self, error: KafkaError) -> None:
        while self._appended:
            done = self._appended.popleft().done
            if not done.done():
                done.set_exception(error)

    # Housekeeping.

    async def _idle_loop(self) -> None:
        """KIP-835: a record every so often, so that a live quorum can be told from a dead one."""
        interval_ms = self._config.integer("metadata.max.idle.interval.ms")
        while interval_ms > 0:
            await asyncio.sleep(interval_ms / 1000)
            if self._failure is not None:
                return
            with contextlib.suppress(StorageError, KafkaError):
                await self._write(self._active().no_op())

    async def _housekeeping_loop(self) -> None:
        own_broker = self._config.node_id if self._config.is_broker else None
        while self._failure is None:
            await asyncio.sleep(HOUSEKEEPING_INTERVAL_S)
            try:
                await self._write(self._active().fence_expired(self._clock.now_ms(), exempt=own_broker))
                if self._wants_snapshot():
                    await self.take_snapshot()
                await self._clean()
            except KafkaError as error:
                logger.error("Housekeeping of the metadata: %s", error.message)
            except StorageError as error:
                self._fail(error)

    def _wants_snapshot(self) -> bool:
        newest = self.log.snapshots[-1].end_offset if self.log.snapshots else 0
        if self.image.offset < newest or self._active().in_transaction:
            return False
        if self.log.bytes_since_snapshot >= self._config.integer(
            "metadata.log.max.record.bytes.between.snapshots"
        ):
            return True
        interval_ms = self._config.integer("metadata.log.max.snapshot.interval.ms")
        return 0 < interval_ms <= self._clock.now_ms() - self._snapshot_ms

    async def take_snapshot(self) -> None:
        """Writes the committed image out, in a thread."""
        image = self.image
        snapshot_id = SnapshotId(image.offset + 1, image.epoch)
        if snapshot_id in self.log.snapshots:
            return
        covered = self.log.bytes_since_snapshot
        self._snapshot_ms = self._clock.now_ms()
        await asyncio.to_thread(self._write_snapshot, snapshot_id, image)
        self.log.took_snapshot(snapshot_id, covered)

    def _write_snapshot(self, snapshot_id: SnapshotId, image: MetadataImage) -> None:
        values = encode_records(list(image_records(image)), image.metadata_version)
        self.log.write_snapshot(snapshot_id, values, image.timestamp_ms, self._quorate)

    async def _clean(self) -> None:
        now_ms = self._clock.now_ms()
        if now_ms - self._cleaned_ms < CLEAN_INTERVAL_MS:
            return
        self._cleaned_ms = now_ms
        self.log.clean(
            self._config.integer("metadata.max.retention.bytes"),
            self._config.integer("metadata.max.retention.ms"),
        )

    # The controller's APIs. Each raises KafkaError when the request is refused as a whole.

    async def create_topics(
        self, request: ct.CreateTopicsRequest, context: RequestContext | None = None
    ) -> ct.CreateTopicsResponse:
        charge = _charge(context)
        return await self._decided(
            lambda controller: controller.create_topics(request, charge=charge), request.timeout_ms
        )

    def create_in_background(
        self, topics: Sequence[ct.CreatableTopic], context: RequestContext | None = None
    ) -> None:
        """Creates topics nobody waits for; one that is being created already is left alone."""
        new = tuple(topic for topic in topics if topic.name not in self._creating)
        if new:
            self._creating.update(topic.name for topic in new)
            task = asyncio.get_running_loop().create_task(self._create(new, context), name="create-topics")
            self._background.add(task)
            task.add_done_callback(self._background.discard)

    async def _create(self, topics: tuple[ct.CreatableTopic, ...], context: RequestContext | None) -> None:
        try:
            response = await self.create_topics(ct.CreateTopicsRequest(topics=topics), context)
            for result in response.topics:
                if result.error_code not in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS):
                    logger.warning("Topic '%s' is not created: %s", result.name, result.error_message)
        except KafkaError as error:
            logger.warning("Topics are not created: %s", error.message)
        finally:
            self._creating.difference_update(topic.name for topic in topics)

    async def create_partitions(
        self, request: cp.CreatePartitionsRequest, context: RequestContext | None = None
    ) -> cp.CreatePartitionsResponse:
        charge = _charge(context)
        return await self._decided(
            lambda controller: controller.create_partitions(request, charge), request.timeout_ms
        )

    async def delete_topics(
        self, request: dt.DeleteTopicsRequest, context: RequestContext
    ) -> dt.DeleteTopicsResponse:
        charge = _charge(context)
        return await self._decided(
            lambda controller: controller.delete_topics(request, context.api_version, charge),
            request.timeout_ms,
        )

    async def incremental_alter_configs(
        self, request: ic.IncrementalAlterConfigsRequest, _context: RequestContext | None = None
    ) -> ic.IncrementalAlterConfigsResponse:
        return await self._decided(lambda controller: controller.incremental_alter_configs(request))

    async def alter_configs(
        self, request: ac.AlterConfigsRequest, _context: RequestContext | None = None
    ) -> ac.AlterConfigsResponse:
        return await self._decided(lambda controller: controller.alter_configs(request))

    async def alter_client_quotas(
        self, request: aq.AlterClientQuotasRequest, resolvable: Callable[[str], bool]
    ) -> aq.AlterClientQuotasResponse:
        return await self._decided(lambda controller: controller.alter_client_quotas(request, resolvable))

    async def alter_user_scram_credentials(
        self, request: au.AlterUserScramCredentialsRequest
    ) -> au.AlterUserScramCredentialsResponse:
        return await self._decided(lambda controller: controller.alter_user_scram_credentials(request))

    async def update_features(
        self, request: uf.UpdateFeaturesRequest, _context: RequestContext | None = None
    ) -> uf.UpdateFeaturesResponse:
        return await self._decided(lambda controller: controller.update_features(request), request.timeout_ms)

    async def alter_partition_reassignments(
        self, request: ar.AlterPartitionReassignmentsRequest, _context: RequestContext | None = None
    ) -> ar.AlterPartitionReassignmentsResponse:
        return await self._decided(
            lambda controller: controller.alter_partition_reassignments(request), request.timeout_ms
        )

    async def list_partition_reassignments(
        self, request: lr.ListPartitionReassignmentsRequest, _context: RequestContext | None = None
    ) -> lr.ListPartitionReassignmentsResponse:
        return await self._decided(
            lambda controller: controller.list_partition_reassignments(request), request.timeout_ms
        )

    async def elect_leaders(
        self, request: el.ElectLeadersRequest, _context: RequestContext | None = None
    ) -> el.ElectLeadersResponse:
        return await self._decided(lambda controller: controller.elect_leaders(request), request.timeout_ms)

    async def unregister_broker(
        self, request: ub.UnregisterBrokerRequest, _context: RequestContext | None = None
    ) -> ub.UnregisterBrokerResponse:
        return await self._decided(
            lambda controller: controller.unregister_broker(request, self._clock.now_ms())
        )

    async def register_broker(self, request: br.BrokerRegistrationRequest) -> br.BrokerRegistrationResponse:
        return await self._decided(
            lambda controller: controller.register_broker(request, self._clock.now_ms())
        )

    async def heartbeat(self, request: hb.BrokerHeartbeatRequest) -> hb.BrokerHeartbeatResponse:
        return await self._decided(lambda controller: controller.heartbeat(request, self._clock.now_ms()))

    async def alter_partition(self, request: al.AlterPartitionRequest) -> al.AlterPartitionResponse:
        return await self._decided(
            lambda controller: controller.alter_partition(request, self._clock.now_ms())
        )

    async def assign_replicas_to_dirs(
        self, request: ad.AssignReplicasToDirsRequest
    ) -> ad.AssignReplicasToDirsResponse:
        return await self._decided(
            lambda controller: controller.assign_replicas_to_dirs(request, self._clock.now_ms())
        )

    async def allocate_producer_ids(self) -> tuple[int, int]:
        """(first id, how many) of a new block for this broker."""
        broker = self.image.brokers.get(self._config.node_id)
        request = ap.AllocateProducerIdsRequest(
            broker_id=self._config.node_id, broker_epoch=-1 if broker is None else broker.epoch
        )
        response = await self._decided(
            lambda controller: controller.allocate_producer_ids(request, self._clock.now_ms())
        )
        return response.producer_id_start, response.producer_id_len


# From these versions on a client knows THROTTLING_QUOTA_EXCEEDED (KIP-599); older ones are only made to wait, and so is
# whoever has topics created by the way.
_STRICT_FROM = {ApiKey.CREATE_TOPICS: 6, ApiKey.DELETE_TOPICS: 5, ApiKey.CREATE_PARTITIONS: 3}


def _charge(context: RequestContext | None) -> Charge:
    """What partitions that come or go cost the client that asked for it."""
    if context is None or context.throttle is None:
        return no_charge
    since = _STRICT_FROM.get(context.api_key)
    strict = since is not None and context.api_version >= since
    return partial(context.throttle.charge_partitions, strict=strict)


def controller_settings(config: BrokerConfig, kraft_version: int) -> ControllerSettings:
    return ControllerSettings(
        node_id=config.node_id,
        supported_features={
            name: VersionRange(lowest, highest) for name, (lowest, highest) in supported_ranges().items()
        },
        num_partitions=config.integer("num.partitions"),
        default_replication_factor=config.integer("default.replication.factor"),
        delete_topic_enable=config.boolean("delete.topic.enable"),
        broker_session_timeout_ms=config.integer("broker.session.timeout.ms"),
        unclean_leader_election_enable=config.boolean("unclean.leader.election.enable"),
        remote_log_storage_system_enable=config.boolean("remote.log.storage.system.enable"),
        kraft_version=kraft_version,
        static_config=dict(config.texts),
        config=config,
    )
