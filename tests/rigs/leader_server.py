"""A leader and a follower on a simulated network, each with real logs, for tests of the fetchers.

The leader answers Fetch and ListOffsets from its logs by Kafka's rules. It knows nothing of ISRs. A test may replace
any answer.
"""

from __future__ import annotations

import asyncio
import random
import struct
import uuid
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kcli.config.dynamic import DynamicConfig
from kcli.errors import ErrorCode
from kcli.metadata.image import BrokerRegistration, Endpoint, MetadataImage
from kcli.model.configs import ConfigResource, ConfigResourceType
from kcli.model.request_values import EARLIEST
from kcli.protocol.messages import fetch, list_offsets
from kcli.protocol.wire.api import ApiKey
from kcli.protocol.wire.codec import decode_request, decode_request_header, encode_response
from kcli.server.partitions.fetchers import ReplicaFetchers
from kcli.server.partitions.followed_partition import FollowedPartition
from kcli.storage.log.log import PartitionLog
from rigs.logs import START_MS, LogRig, append_client, batch_of
from rigs.quorum import broker_config
from simulation.runtime.clock import SimClock
from simulation.runtime.disk import SimDisk
from simulation.runtime.loop import SimExecutor, SimLoop, simulate
from simulation.runtime.network import SimHost, SimNetwork, Weather

FOLLOWER = 1
PORT = 9092
LATEST_VERSION = 27


def topic_id(topic: str) -> uuid.UUID:
    return uuid.uuid5(uuid.NAMESPACE_DNS, topic)


@dataclass(slots=True)
class Led:
    """A partition of the leader."""

    log: PartitionLog
    epoch: int = 0
    leads: bool = True


@dataclass(slots=True)
class Session:
    epoch: int = 1
    wanted: dict[tuple[uuid.UUID, int], fetch.FetchPartition] = field(default_factory=dict)
    told: dict[tuple[uuid.UUID, int], tuple[int, int]] = field(default_factory=dict)


class LeaderServer:
    """A broker that leads partitions, on one machine of the network."""

    def __init__(self, host: SimHost, node_id: int) -> None:
        self.host = host
        self.node_id = node_id
        self.led: dict[tuple[uuid.UUID, int], Led] = {}
        self.names: dict[uuid.UUID, str] = {}
        self.requests: list[tuple[ApiKey, int, Any]] = []
        self.clients: list[str | None] = []
        self.rewrite: Callable[[Any], Any] = lambda response: response
        self.grants_sessions = True
        self.connections: list[_Connection] = []
        self._sessions: dict[int, Session] = {}
        self._server: asyncio.AbstractServer | None = None
        self._changed = asyncio.Event()

    async def start(self, port: int = PORT) -> None:
        self._server = await self.host.create_server(lambda: _Connection(self), None, port)

    def stop(self) -> None:
        """Closes the port and the connections, and forgets the sessions."""
        assert self._server is not None
        self._server.close()
        self._sessions.clear()
        for connection in self.connections:
            connection.close()

    def lead(self, topic: str, partition: int, log: PartitionLog, epoch: int = 0) -> Led:
        led = self.led[topic_id(topic), partition] = Led(log, epoch)
        self.names[topic_id(topic)] = topic
        log.append_leader_epoch(epoch)
        return led

    def append(self, led: Led, batch: bytes) -> None:
        append_client(led.log, batch, leader_epoch=led.epoch, now_ms=START_MS)
        led.log.set_high_watermark(led.log.log_end_offset)
        self.changed()

    def changed(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def sent(self, key: ApiKey) -> list[Any]:
        return [request for each, _, request in self.requests if each is key]

    # Answers.

    async def answer(self, key: ApiKey, request: Any) -> Any:
        if key is ApiKey.LIST_OFFSETS:
            return self._list_offsets(request)
        assert key is ApiKey.FETCH
        session = self._session(request)
        if isinstance(session, ErrorCode):
            return fetch.FetchResponse(error_code=session)
        response = self._fetch(request, session)
        if request.max_wait_ms and not response.responses:
            try:
                async with asyncio.timeout(request.max_wait_ms / 1000):
                    while not response.responses:
                        await self._changed.wait()
                        response = self._fetch(request, session)
            except TimeoutError:
                pass
        return response

    def _session(self, request: fetch.FetchRequest) -> Session | ErrorCode:
        if request.session_epoch == 0:
            self._sessions.pop(request.session_id, None)
            session = Session()
        else:
            found = self._sessions.get(request.session_id)
            if found is None:
                return ErrorCode.FETCH_SESSION_ID_NOT_FOUND
            if found.epoch != request.session_epoch:
                return ErrorCode.INVALID_FETCH_SESSION_EPOCH
            session = found
            session.epoch += 1
        for topic in request.topics:
            assert topic.topic_id is not None
            for part in topic.partitions:
                session.wanted[topic.topic_id, part.partition] = part
        for gone in request.forgotten_topics_data:
            for index in gone.partitions:
                del session.wanted[gone.topic_id, index]
        return session

    def _fetch(self, request: fetch.FetchRequest, session: Session) -> fetch.FetchResponse:
        left = request.max_bytes
        topics = []
        for key, wants in list(session.wanted.items()):
            part = self._read(key, wants, left)
            left -= len(part.records or b"")
            known = (part.high_watermark, part.log_start_offset)
            diverges = part.diverging_epoch.epoch >= 0
            if part.records or part.error_code or diverges or session.told.get(key) != known:
                session.told[key] = known
                topics.append(fetch.FetchableTopicResponse(topic_id=key[0], partitions=(part,)))
            if part.records:
                session.wanted[key] = session.wanted.pop(key)
        session_id = 0
        if self.grants_sessions:
            session_id = request.session_id if request.session_epoch else len(self.requests)
            self._sessions[session_id] = session
        return fetch.FetchResponse(session_id=session_id, responses=tuple(topics))

    def _read(
        self, key: tuple[uuid.UUID, int], wants: fetch.FetchPartition, left: int
    ) -> fetch.PartitionData:
        led = self.led.get(key)
        if led is None:
            return fetch.PartitionData(
                partition_index=key[1], error_code=ErrorCode.UNKNOWN_TOPIC_ID, records=None
            )
        log = led.log
        answer = fetch.PartitionData(
            partition_index=key[1],
            high_watermark=log.high_watermark,
            log_start_offset=log.log_start_offset,
            last_stable_offset=log.last_stable_offset,
        )
        error = self._refusal(led, wants.current_leader_epoch)
        if error is not None:
            return replace(answer, error_code=error, records=None)
        out_of_range = replace(answer, error_code=ErrorCode.OFFSET_OUT_OF_RANGE, records=None)
        if wants.last_fetched_epoch >= 0:
            epoch, end = log.end_offset_for_epoch(wants.last_fetched_epoch)
            if epoch < 0 or wants.fetch_offset < log.log_start_offset:
                return out_of_range
            if epoch < wants.last_fetched_epoch or end < wants.fetch_offset:
                return replace(answer, diverging_epoch=fetch.EpochEndOffset(epoch=epoch, end_offset=end))
        if not log.log_start_offset <= wants.fetch_offset <= log.log_end_offset:
            return out_of_range
        if left <= 0:
            return answer
        size = min(left, wants.partition_max_bytes)
        piece = log.read(wants.fetch_offset, size, end_offset=log.log_end_offset)
        return replace(answer, records=piece.read())

    def _refusal(self, led: Led, epoch: int) -> ErrorCode | None:
        if epoch < led.epoch:
            return ErrorCode.FENCED_LEADER_EPOCH
        if epoch > led.epoch:
            return ErrorCode.UNKNOWN_LEADER_EPOCH
        return None if led.leads else ErrorCode.NOT_LEADER_OR_FOLLOWER

    def _list_offsets(self, request: list_offsets.ListOffsetsRequest) -> list_offsets.ListOffsetsResponse:
        def row(
            name: str, part: list_offsets.ListOffsetsPartition
        ) -> list_offsets.ListOffsetsPartitionResponse:
            led = self.led[topic_id(name), part.partition_index]
            error = self._refusal(led, part.current_leader_epoch)
            log = led.log
            offset = log.log_start_offset if part.timestamp == EARLIEST else log.log_end_offset
            return list_offsets.ListOffsetsPartitionResponse(
                partition_index=part.partition_index, error_code=error or ErrorCode.NONE, offset=offset
            )

        return list_offsets.ListOffsetsResponse(
            topics=tuple(
                list_offsets.ListOffsetsTopicResponse(
                    name=topic.name, partitions=tuple(row(topic.name, part) for part in topic.partitions)
                )
                for topic in request.topics
            )
        )


class _Connection(asyncio.Protocol):
    """One connection. Requests are answered in order."""

    def __init__(self, leader: LeaderServer) -> None:
        self._leader = leader
        self._received = b""
        self._frames: asyncio.Queue[bytes] = asyncio.Queue()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._leader.connections.append(self)
        self._task = asyncio.get_running_loop().create_task(self._serve())

    def data_received(self, data: bytes) -> None:
        self._received += data
        while len(self._received) >= 4:
            (size,) = struct.unpack_from(">i", self._received)
            if len(self._received) < 4 + size:
                return
            self._frames.put_nowait(self._received[4 : 4 + size])
            self._received = self._received[4 + size :]

    def connection_lost(self, exc: Exception | None) -> None:
        self._task.cancel()
        self._leader.connections.remove(self)

    def close(self) -> None:
        self._transport.abort()

    async def _serve(self) -> None:
        leader = self._leader
        while True:
            frame = await self._frames.get()
            header = decode_request_header(frame)
            key = ApiKey(header.api_key)
            request = decode_request(key, header.api_version, frame, header.body_offset)
            leader.requests.append((key, header.api_version, request))
            leader.clients.append(header.client_id)
            response = leader.rewrite(await leader.answer(key, request))
            if isinstance(response, bytes):
                self._transport.write(response)
            elif response is not None:
                self._transport.write(
                    encode_response(response, key, header.api_version, header.correlation_id)
                )


class FetcherWorld:
    """A follower (node 1) and leaders (nodes from 2 on), each on its own machine."""

    def __init__(self, loop: SimLoop, **config: Any) -> None:
        self.loop = loop
        self.network = SimNetwork(loop, random.Random(7), Weather(spike_chance=0))
        self.clock = SimClock(loop)
        self.config = DynamicConfig(broker_config(**config))
        self.image = MetadataImage(features={"metadata.version": LATEST_VERSION})
        self.disk = SimDisk(self.clock.now_ms)
        self.leaders: dict[int, LeaderServer] = {}
        self.logs: dict[tuple[str, int], PartitionLog] = {}
        self.followed: dict[tuple[str, int], FollowedPartition] = {}
        self.cuts: list[dict[PartitionLog, int]] = []
        """The logs of each sync of cuts, with their log ends at that time."""
        self.fetchers = self._make_fetchers()
        self.config.subscribe(lambda _before, after: self.fetchers.reconfigure(after))

    def _make_fetchers(self) -> ReplicaFetchers:
        return ReplicaFetchers(
            node_id=FOLLOWER,
            network=self.network.host("follower"),
            clock=self.clock,
            dynamic_config=self.config,
            background=SimExecutor(self.loop).submit,
            image=lambda: self.image,
            broker_epoch=lambda: 77,
            sync_cuts=self._sync_cuts,
        )

    def _sync_cuts(self, logs: Sequence[PartitionLog]) -> None:
        self.cuts.append({log: log.log_end_offset for log in logs})
        for log in logs:
            log.durability.sync_cut()
            log.durability.note_durable_cuts(log.local.truncations)

    async def leader(self, node_id: int, *, registered: bool = True) -> LeaderServer:
        """Starts a leader."""
        leader = self.leaders[node_id] = LeaderServer(self.network.host(f"leader-{node_id}"), node_id)
        await leader.start()
        if registered:
            self.register(node_id)
        return leader

    def register(self, node_id: int, port: int = PORT) -> None:
        endpoint = Endpoint("PLAINTEXT", f"leader-{node_id}", port, 0)
        broker = BrokerRegistration(
            node_id, 5, uuid.UUID(int=1000 + node_id), {"PLAINTEXT": endpoint}, {}, fenced=False
        )
        self.publish(brokers={**self.image.brokers, node_id: broker})

    def configure(self, topic: str, **configs: str) -> None:
        resource = ConfigResource(ConfigResourceType.TOPIC, topic)
        values = {name.replace("_", "."): value for name, value in configs.items()}
        self.publish(configs={**self.image.configs, resource: values})

    def publish(self, **fields: Any) -> None:
        self.image = replace(self.image, **fields)
        self.fetchers.metadata_changed(self.image)

    def log(self, machine: str, topic: str = "t", **config: Any) -> PartitionLog:
        """A new, empty log on a machine."""
        from kcli.config.topic import LogConfig

        return LogRig(self.disk, f"/{machine}/{topic}", LogConfig(**config), topic=topic).create()

    def follow(
        self, log: PartitionLog, leader: int = 2, *, epoch: int = 0, topic: str = "t", partition: int = 0
    ) -> FollowedPartition:
        """Follows a leader in an epoch. An earlier epoch of the partition ends."""
        before = self.followed.get((topic, partition))
        if before is not None:
            self.fetchers.forget(before)
            before.resign()
        followed = FollowedPartition(
            topic, partition, topic_id(topic), log, leader=leader, leader_epoch=epoch
        )
        self.followed[topic, partition] = followed
        self.fetchers.follow(followed)
        return followed

    async def until(self, condition: Callable[[], bool], limit_s: float = 60.0) -> None:
        async with asyncio.timeout(limit_s):
            while not condition():  # noqa: ASYNC110  # the conditions have no event
                await asyncio.sleep(0.01)


def on_a_simulated_network(
    story: Callable[[FetcherWorld], Coroutine[Any, Any, None]], *, seed: int = 1, **config: Any
) -> None:
    """Runs a story with a follower, and then stops its fetchers."""

    async def main(loop: SimLoop) -> None:
        world = FetcherWorld(loop, **config)
        try:
            await story(world)
        finally:
            await world.fetchers.stop()

    simulate(seed, main)


def batches(count: int, *, size: int = 1, first: int = 0) -> list[bytes]:
    """`count` batches of a client with one record each."""
    return [batch_of([b"%d" % (first + nth) + b"." * (size - 1)]) for nth in range(count)]
