"""The part of a broker that serves records, in the process of the test and without a quorum. Logs and sockets are real,
and the test makes the metadata."""

from __future__ import annotations

import asyncio
import ssl
import uuid
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

from kcli.config.topic import LogConfig
from kcli.metadata.delta import MetadataDelta
from kcli.metadata.image import (
    BrokerRegistration,
    Endpoint,
    MetadataImage,
    PartitionImage,
    TopicImage,
    Topics,
)
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.batches.compression import Codec
from kcli.protocol.wire.api import ApiKey
from kcli.replica.selector import rack_aware
from kcli.runtime.clock import SystemClock
from kcli.runtime.disk import SystemDisk
from kcli.runtime.limited_lines import LimitedLines
from kcli.runtime.network import SystemNetwork
from kcli.runtime.rng import SystemRng
from kcli.server.handlers.shared.topic_answers import TopicAnswers
from kcli.server.handlers.shared.visible_topics import VisibleTopics
from kcli.server.metrics.metrics import Metrics
from kcli.server.network.listener import SocketServer
from kcli.server.network.listener_settings import ConnectionLimits, ListenerSettings
from kcli.server.network.tls_transport import ServerTls
from kcli.server.partitions.fetch_sessions import FetchSessions
from kcli.server.partitions.isr_updates import IsrUpdates
from kcli.server.partitions.replicas import Replicas
from kcli.server.partitions.replication_quota import LEADER_RATE, ReplicationQuota
from kcli.server.quorum.remote_controller import ApiRanges
from kcli.server.requests.apis import served_on_broker
from kcli.server.requests.dispatch import Dispatch
from kcli.server.requests.quotas import ClientQuotas
from kcli.storage.directory import Background
from kcli.storage.meta_properties import MetaProperties, write_meta_properties
from kcli.storage.store.store import LogStore, run_inline
from rigs.quorum import broker_config
from rigs.replication import RecordedFetchers, ScriptedIsrController
from rigs.wire_client import Client, connect

NODE = 1
BROKER_EPOCH = 5
LAG_TIME_MAX_MS = 30_000
CLUSTER = "Z29sZGVuLWNsdXN0ZXItMQ"


def topic_image(
    name: str,
    partitions: int = 1,
    *,
    leader: int = NODE,
    replicas: tuple[int, ...] = (NODE,),
    isr: tuple[int, ...] | None = None,
    leader_epoch: int = 0,
) -> TopicImage:
    return TopicImage(
        name,
        uuid.uuid5(uuid.NAMESPACE_DNS, name),
        {
            index: PartitionImage(
                replicas=replicas,
                isr=isr or replicas,
                leader=leader,
                leader_epoch=leader_epoch,
                partition_epoch=0,
            )
            for index in range(partitions)
        },
    )


def image_of(*topics: TopicImage) -> MetadataImage:
    endpoint = Endpoint("PLAINTEXT", "localhost", 9092, 0)
    return MetadataImage(
        cluster_id=CLUSTER,
        features={"metadata.version": 27, "group.version": 1},
        offset=42,
        brokers={
            node: BrokerRegistration(
                node, BROKER_EPOCH, uuid.UUID(int=1000 + node), {"PLAINTEXT": endpoint}, {}, fenced=False
            )
            for node in (NODE, 2)
        },
        topics=Topics(
            {each.topic_id: each for each in topics}, {each.name: each.topic_id for each in topics}
        ),
    )


class BrokerRig:
    """Has the attributes of a broker that this part needs."""

    def __init__(
        self, directory: Path, *topics: TopicImage, config: LogConfig | None = None, configs: Any = None
    ) -> None:
        self.tls: ServerTls | None = None
        self.client_tls: ssl.SSLContext | None = None
        self.clock = SystemClock()
        self.config = broker_config()
        self.disk = SystemDisk()
        self.directory = str(directory)
        self.config_of = {"": LogConfig(), **(configs or {})}
        if config is not None:
            self.config_of[""] = config
        self.disk.make_dir(self.directory)
        write_meta_properties(
            self.disk,
            self.directory,
            MetaProperties(CLUSTER, NODE, uuid.UUID(int=12345)),
            self.clock.now_ms(),
        )
        self.logs = LogStore.open(self.disk, self.clock, [self.directory], node_id=NODE, rng=SystemRng(1))
        self.metrics = Metrics(self.clock)
        self.fetchers = RecordedFetchers()
        self.controller = ScriptedIsrController()
        self.isr_updates = IsrUpdates(NODE, self.controller, lambda: BROKER_EPOCH)
        self.replicas = self.make_replicas(run_inline)
        self.fetch_sessions = FetchSessions(1000, SystemRng(2))
        self.fetch_max_bytes = 57_671_680
        self.replica_selector = rack_aware
        self.leader_quota = ReplicationQuota(LEADER_RATE, broker_config(), self.clock)
        self.quotas = ClientQuotas(broker_config(), self.clock)
        self.node_id = NODE
        self.rng = SystemRng(3)
        self.topics: Any = None
        self.topic_answers, self.visible_topics = TopicAnswers(), VisibleTopics()
        self.refused_batches, self.damaged_batches = LimitedLines(), LimitedLines()
        # This rig has no transactions.
        self.verifier: Any = None
        self.producer_ids: Any = None
        self.transactions: Any = None
        self.loader = SimpleNamespace(image=MetadataImage())
        self.quorum = SimpleNamespace(kraft_version=0)
        self.set_metadata(image_of(*topics))

    def make_replicas(self, background: Background) -> Replicas:
        return Replicas(
            NODE,
            self.logs,
            self.log_config,
            clock=self.clock,
            lag_time_max_ms=LAG_TIME_MAX_MS,
            fetchers=self.fetchers,
            isr_updates=self.isr_updates,
            traffic=self.metrics.traffic,
            background=background,
        )

    def log_config(self, topic: str) -> LogConfig:
        return self.config_of.get(topic, self.config_of[""])

    def set_metadata(self, image: MetadataImage) -> None:
        self.metadata = self.loader.image = image
        self.replicas.load(image)

    def publish(self, image: MetadataImage) -> None:
        """Makes `image` the next metadata of the broker."""
        delta = MetadataDelta.between(self.metadata, image)
        self.metadata = self.loader.image = image
        self.replicas.apply(delta, image)

    def features(self) -> SimpleNamespace:
        return SimpleNamespace(
            supported={"metadata.version": (7, 27), "group.version": (0, 1)},
            finalized=self.metadata.features,
            epoch=self.metadata.offset,
        )

    def served_on(self, _listener: str) -> tuple[ApiKey, ...]:
        return tuple(served_on_broker())

    def controller_versions(self) -> ApiRanges:
        return {}

    async def __aenter__(self) -> Self:
        self.sockets = SocketServer(
            SystemNetwork(),
            limits=ConnectionLimits(),
            request_size_max_bytes=104_857_600,
            idle_max_seconds=600,
            protected_listener=None,
            now=asyncio.get_running_loop().time,
        )
        self.dispatch = Dispatch(
            Attributes(self), served_on_broker(), quotas=self.quotas, metrics=self.metrics
        )
        self.listener = await self.sockets.listen(
            ListenerSettings("PLAINTEXT", "127.0.0.1", 0), self.dispatch, tls=self.tls
        )
        self.clients = []
        return self

    async def __aexit__(self, *_exc: object) -> None:
        for client in self.clients:
            client.close()
        await self.sockets.close()
        await self.isr_updates.stop()
        await asyncio.sleep(0)
        self.logs.close()

    async def connect(self) -> Client:
        client = await connect(self.listener.port, self.client_tls)
        self.clients.append(client)
        return client


class Attributes(dict[str, object]):
    """The attributes of a rig, as the offers of a node."""

    def __init__(self, rig: object) -> None:
        self._rig = rig

    def __missing__(self, name: str) -> object:
        return getattr(self._rig, name)


def batch(
    *values: bytes, codec_: Codec = Codec.NONE, timestamp_ms: int = 1_700_000_000_000, **fields: Any
) -> bytes:
    records = [
        Record(offset=index, timestamp_ms=timestamp_ms + index, key=None, value=value, headers=())
        for index, value in enumerate(values)
    ]
    return bytes(encode_batch(records, codec=codec_, **fields))
