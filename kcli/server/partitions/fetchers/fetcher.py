"""One fetcher: a task that fetches some partitions from one leader, with its own connection and fetch session.

A fetcher repeats three actions. It waits until a partition may be fetched, sends a request, and carries out the
decisions of kcli/replica/follower.py for each partition of the answer. If the request fails, the fetcher pauses for
replica.fetch.backoff.ms. A wrong answer of a leader does not end the task.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

from kcli.client.records.fetch_plan import FetchPlan
from kcli.config.dynamic import DynamicConfig
from kcli.errors import ErrorCode, KcliError, error_for
from kcli.metadata.image import MetadataImage
from kcli.model.addresses import Address
from kcli.model.connection_counts import ConnectionCounts
from kcli.model.ids import ZERO_ID, BrokerId, Offset
from kcli.model.request_values import EARLIEST, LATEST
from kcli.model.topic_partition import TopicIdPartition, TopicPartition
from kcli.replica.follower import (
    Action,
    Append,
    AskEnd,
    AskStart,
    BackOff,
    Cut,
    Fail,
    Ignore,
    OwnLog,
    Phase,
    Restart,
    on_leader_end,
    on_leader_start,
    on_offsets_error,
)
from kcli.runtime.clock import Clock
from kcli.runtime.network import Network
from kcli.server.metrics.meters import Meter
from kcli.server.network.links import Secure
from kcli.server.partitions.fetchers.cut_syncs import CutSyncs
from kcli.server.partitions.fetchers.following import Following
from kcli.server.partitions.fetchers.leader_connection import SYSTEM_BUFFER, LeaderConnection
from kcli.server.partitions.replication_quota import ReplicationQuota
from kcli.storage.directory import Background

if TYPE_CHECKING:
    from kcli.protocol.messages.fetch import FetchResponse, PartitionData
    from kcli.server.partitions.fetchers.wire import Sender

_log = logging.getLogger("kcli.server.ReplicaFetcherThread")

TURN_BYTES = 1 << 20
"""The bytes that are appended in one iteration of the event loop, which take about a millisecond."""

TURN_PARTITIONS = 50
"""The partitions without records that are handled in one turn, which take about a millisecond too."""

THROTTLE_WAIT_MAX_MS = 1000
"""The longest wait until the rate of throttled partitions is checked again. The rate falls when one of its windows
ends, so this time is the length of a window."""

_SESSION_ERRORS = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)
BUFFER_KEY = "replica.socket.receive.buffer.bytes"
_CORRELATION_MAX = 2**31 - 1
_FOREVER = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class FetchingBroker:
    """The broker that fetches: its parts that all fetchers share. `background` runs work that blocks. `cuts` makes
    truncations of logs durable. `secure` has the security of the inter-broker listener.
    """

    node_id: BrokerId
    network: Network
    clock: Clock
    config: DynamicConfig
    background: Background
    image: Callable[[], MetadataImage]
    broker_epoch: Callable[[], int]
    quota: ReplicationQuota
    cuts: CutSyncs
    secure: Secure


class ReplicaFetcher:
    """Fetches some partitions from one leader. `number` distinguishes the fetchers of the same leader."""

    def __init__(self, broker: FetchingBroker, leader: BrokerId, number: int, address: Address) -> None:
        self.leader = leader
        self.number = number
        self.address = address
        self.followings: dict[TopicPartition, Following] = {}
        now = broker.clock.monotonic()
        self.requests, self.bytes_in = Meter(now), Meter(now)
        self.counts = ConnectionCounts()
        self._broker = broker
        self._by_id: dict[TopicIdPartition, Following] = {}
        self._plan = FetchPlan()
        self._delayed: dict[TopicPartition, int] = {}
        self._throttled: dict[TopicPartition, None] = {}
        self._asking: list[Following] = []
        self._restoring: set[asyncio.Task[None]] = set()
        self._news = asyncio.Event()
        self._connection: LeaderConnection | None = None
        self._correlation = 0
        self._paused_until_ms = 0
        self._appended_bytes = 0
        self._failures = 0
        name = f"broker-{broker.node_id}-fetcher-{number}"
        self._client_id = name
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"{name}-leader-{leader}")

    def __str__(self) -> str:
        return (
            f"[ReplicaFetcher replicaId={self._broker.node_id}, leaderId={self.leader}, "
            f"fetcherId={self.number}]"
        )

    @property
    def is_dead(self) -> bool:
        """Whether the task has ended, which must not happen before `stop`."""
        return self._task.done()

    # Called by `ReplicaFetchers`.

    def add(self, following: Following) -> None:
        """Begins to fetch a partition."""
        partition = following.partition
        self.followings[following.key] = following
        self._by_id[TopicIdPartition(partition.topic_id, partition.partition)] = following
        action = following.begin()
        if isinstance(action, Ignore) and partition.log.durability.has_unsynced_cut:
            # The log was truncated in an earlier leader epoch, or for another fetcher.
            following.state = following.state.during(Phase.CUTTING)
            self._restore(following)
        else:
            self._act(following, action)
        self._ready(following)

    def remove(self, key: TopicPartition) -> None:
        """Stops fetching a partition. The fetcher ignores an answer for the partition that arrives later."""
        following = self.followings.pop(key)
        partition = following.partition
        self._by_id.pop(TopicIdPartition(partition.topic_id, partition.partition), None)
        self._delayed.pop(key, None)
        self._throttled.pop(key, None)
        self._plan.forget(key)

    def move_to(self, address: Address) -> None:
        """Continues at another endpoint of the leader."""
        self.address = address
        self._disconnect()
        self._plan.begin()
        self._paused_until_ms = 0
        self._news.set()

    def wake(self) -> None:
        """Ends a wait of the fetcher, because the rate limit of throttled partitions has changed."""
        self._news.set()

    async def stop(self) -> None:
        """Ends the task and the connection. Returns when no thread reads a log any more."""
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)
        self._disconnect()
        await asyncio.gather(*self._restoring, return_exceptions=True)

    # The loop.

    async def _run(self) -> None:
        while True:
            address = self.address
            try:
                await self._round()
            except (OSError, TimeoutError, KcliError) as error:
                if self.address == address:
                    self._failed(str(error) or type(error).__name__)
                else:
                    self._plan.lost()  # `move_to` has closed the connection
            except Exception:
                _log.exception("%s An answer could not be handled", self)
                self._failed("of the error above")

    def _failed(self, reason: str) -> None:
        """Drops the connection, and pauses."""
        self._disconnect()
        self._plan.lost()
        self._failures += 1
        level = logging.WARNING if self._failures == 1 else logging.DEBUG
        _log.log(level, "%s A request to %s failed, because %s", self, self.address, reason)
        self._paused_until_ms = self._now_ms() + self._backoff_ms()
        asking, self._asking = self._asking, []
        for following in asking:
            if self._is_current(following):
                self._act(following, BackOff(reason, is_usual=True))  # the line above has the reason

    async def _round(self) -> None:
        await self._wait_until_ready()
        planned = self._plan.next()
        for key, _ in planned.partitions:
            following = self.followings[key]
            following.state_in_request = following.state
        from kcli.server.partitions.fetchers import wire  # imported late: its codec is the slowest import

        version = wire.fetch_version(self._broker.image().metadata_version)
        sender = self._sender(version)
        frame = wire.encode_fetch(
            planned, wire.limits_of(self._broker.config.current), sender, self._next_id()
        )
        answer = await self._exchange(frame)
        response = wire.decode_fetch(answer, version, self._correlation)
        self.requests.count += 1
        self.bytes_in.count += len(answer)
        if response.error_code is ErrorCode.NONE:
            self._plan.answered(response.session_id)
            self._worked()
            await self._handle(response)
            await self._ask_offsets()
        elif response.error_code in _SESSION_ERRORS and not planned.is_full:
            _log.info("%s The fetch session ended: %s", self, response.error_code.name)
            self._plan.refused(response.error_code)
        else:
            self._plan.refused(response.error_code)
            raise error_for(response.error_code)

    def _worked(self) -> None:
        if self._failures:
            _log.info("%s Requests to %s work again", self, self.address)
            self._failures = 0

    async def _wait_until_ready(self) -> None:
        while True:
            self._news.clear()
            now_ms = self._now_ms()
            wait_ms = self._paused_until_ms - now_ms
            if wait_ms <= 0:
                self._end_delays(now_ms)
                throttled_ms = self._apply_throttle()
                if len(self._plan):
                    return
                waits = [until_ms - now_ms for until_ms in self._delayed.values()]
                wait_ms = min([*waits, throttled_ms] if throttled_ms else waits, default=_FOREVER)
            try:
                async with asyncio.timeout(None if wait_ms == _FOREVER else wait_ms / 1000):
                    await self._news.wait()
            except TimeoutError:
                continue

    def _end_delays(self, now_ms: int) -> None:
        if self._delayed:
            for key, until_ms in list(self._delayed.items()):
                if until_ms <= now_ms:
                    del self._delayed[key]
                    self._ready(self.followings[key])

    def _apply_throttle(self) -> int:
        """Leaves throttled partitions out of the request while the rate is too high. A replica that has caught up is
        not throttled (KIP-73). Returns the milliseconds after which the rate may have fallen, or 0."""
        quota = self._broker.quota
        if not quota.is_limited:
            if self._throttled:
                self._end_throttle()
            return 0
        over_s = quota.seconds_over()
        if over_s <= 0:
            self._end_throttle()
            return 0
        for key, following in self.followings.items():
            if not following.state.is_caught_up and self._is_throttled(following):
                self._throttled[key] = None
                self._plan.forget(key)
        return min(int(over_s * 1000) + 1, THROTTLE_WAIT_MAX_MS)

    def _end_throttle(self) -> None:
        throttled, self._throttled = self._throttled, {}
        for key in throttled:
            if key in self.followings:
                self._ready(self.followings[key])

    def _is_throttled(self, following: Following) -> bool:
        entries = following.partition.log.config.follower_replication_throttled_replicas
        return self._broker.quota.throttles(following.key.topic, following.key.partition, entries)

    # Requests.

    async def _exchange(self, frame: bytes) -> memoryview:
        """Sends a request, and returns the answer. Raises OSError, TimeoutError, NetworkException or ProtocolError."""
        async with asyncio.timeout(self._broker.config.current.integer("replica.socket.timeout.ms") / 1000):
            connection = self._connection
            if connection is None or not connection.is_usable or connection.address != self.address:
                self._disconnect()
                connection = await self._connect()
            self.counts.sent(len(frame))
            answer = await connection.exchange(frame)
            self.counts.received(len(answer))
            return answer

    async def _connect(self) -> LeaderConnection:
        config = self._broker.config.static
        # As for listeners, the system tunes the buffer unless the key is set. Kafka's default of 64 KiB is too small
        # for a follower that catches up at a high rate.
        size_bytes = config.integer(BUFFER_KEY) if config.is_set(BUFFER_KEY) else SYSTEM_BUFFER
        self._connection = await LeaderConnection.open(
            self._broker.network,
            self.address,
            self._broker.secure,
            client_id=self._client_id,
            receive_buffer_bytes=size_bytes,
        )
        self.counts.opened += 1
        return self._connection

    def _sender(self, version: int) -> Sender:
        from kcli.server.partitions.fetchers.wire import Sender

        return Sender(self._broker.node_id, self._broker.broker_epoch(), self._client_id, version)

    def _next_id(self) -> int:
        self._correlation = self._correlation % _CORRELATION_MAX + 1
        return self._correlation

    def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.close()
            self._connection = None
            self.counts.closed += 1

    # Answers.

    async def _handle(self, response: FetchResponse) -> None:
        """Carries out the decisions for each partition of a response. Lets other tasks run in between."""
        parts = 0
        with_records = []
        for topic in response.responses:
            for part in topic.partitions:
                following = self._by_id.get(TopicIdPartition(topic.topic_id or ZERO_ID, part.partition_index))
                if following is None:
                    continue
                if part.records:
                    with_records.append(following.key)
                try:
                    await self._handle_part(following, part)
                except Exception:
                    # One partition must not stop the others of this fetcher.
                    _log.exception("%s The answer for %s could not be handled", self, following.partition)
                    self._act(following, Fail("of the error above"))
                parts += 1
                if parts % TURN_PARTITIONS == 0:
                    await asyncio.sleep(0)
        self._plan.had_records(with_records)

    async def _handle_part(self, following: Following, part: PartitionData) -> None:
        action = following.decide(part)
        if isinstance(action, Append):
            await self._append(following, action, part)
        else:
            self._act(following, action)

    async def _append(self, following: Following, action: Append, part: PartitionData) -> None:
        steps = following.append(action, part.records, self._broker.clock.now_ms())
        while True:
            try:
                size_bytes = next(steps)
            except StopIteration as end:
                after: Action | None = end.value
                break
            self._count(following, size_bytes)
            self._appended_bytes += size_bytes
            if self._appended_bytes >= TURN_BYTES:
                self._appended_bytes = 0
                await asyncio.sleep(0)
                if not self._is_current(following):
                    return
        if self._is_current(following):
            if after is not None:
                self._act(following, after)
            self._ready(following)

    def _count(self, following: Following, size_bytes: int) -> None:
        traffic = following.partition.traffic
        traffic.replication_bytes_in += size_bytes
        image = self._broker.image().partition(*following.key)
        if image is not None and self._broker.node_id in image.adding:
            traffic.reassignment_bytes_in += size_bytes
        if self._is_throttled(following):
            self._broker.quota.record(size_bytes)

    def _is_current(self, following: Following) -> bool:
        return self.followings.get(following.key) is following

    def _act(self, following: Following, action: Action) -> None:
        match action:
            case Ignore():
                pass
            case Cut() | Restart():
                self._plan.forget(following.key)
                error = following.cut(action)
                if error is None:
                    self._restore(following)
                else:
                    self._act(following, error)
            case AskEnd() | AskStart():
                self._plan.forget(following.key)
                following.state = following.state.during(Phase.ASKING)
                self._asking.append(following)
            case BackOff(reason, is_usual) as error:
                level = logging.DEBUG if is_usual else logging.ERROR
                offset = following.state.fetch_offset
                _log.log(level, "%s %s waits at offset %d: %s", self, following.partition, offset, reason)
                until_ms = self._now_ms() + following.state.pause_ms(error, self._backoff_ms())
                following.state = following.state.delayed(until_ms)
                self._delayed[following.key] = until_ms
                self._plan.forget(following.key)
            case Fail(reason, is_usual):
                level = logging.INFO if is_usual else logging.ERROR
                _log.log(level, "%s %s is not fetched any more: %s", self, following.partition, reason)
                following.state = following.state.during(Phase.FAILED)
                self._plan.forget(following.key)
            case Append():
                raise AssertionError("records are appended in steps")
            case _ as unreachable:
                assert_never(unreachable)

    def _ready(self, following: Following) -> None:
        """Adds a partition to the next request, if the partition may be fetched now."""
        key = following.key
        if (
            following.state.phase is Phase.FETCHING
            and key not in self._delayed
            and key not in self._throttled
        ):
            self._plan.want(following.key, following.position)
            self._news.set()

    def _restore(self, following: Following) -> None:
        async def restore() -> None:
            await following.restore(self._broker.background, self._broker.cuts)
            if self._is_current(following):
                following.continued()
                self._ready(following)

        task = asyncio.get_running_loop().create_task(restore(), name=f"restore {following.key}")
        self._restoring.add(task)
        task.add_done_callback(self._restoring.discard)

    # The ends of the leader's log.

    async def _ask_offsets(self) -> None:
        """After OFFSET_OUT_OF_RANGE, asks for the end offset of the leader's log, and then for its start offset."""
        asking, self._asking = self._asking, []
        if not asking:
            return
        has_failed = True
        try:
            await self._ask(asking, LATEST, on_leader_end)
            starts, self._asking = self._asking, []
            await self._ask(starts, EARLIEST, on_leader_start)
            has_failed = False
        finally:
            # If a request has failed, `_failed` logs the reason.
            missing = BackOff("the leader did not report the ends of its log", is_usual=has_failed)
            for following in asking:
                if self._is_current(following) and following.state.phase is Phase.ASKING:
                    self._act(following, missing)

    async def _ask(
        self, asking: list[Following], timestamp: int, decide: Callable[[Offset, OwnLog], Action]
    ) -> None:
        """Sends one ListOffsets request for all partitions, and carries out the decisions."""
        asking = [following for following in asking if self._is_current(following)]
        if not asking:
            return
        from kcli.server.partitions.fetchers import wire

        version = wire.list_offsets_version(self._broker.image().metadata_version)
        partitions = [(following.key, following.state.leader_epoch) for following in asking]
        frame = wire.encode_list_offsets(partitions, timestamp, self._sender(version), self._next_id())
        offsets = wire.decode_list_offsets(await self._exchange(frame), version, self._correlation)
        for following in asking:
            result = offsets.get(following.key)
            if result is None or not self._is_current(following):
                continue
            error_code, offset = result
            if error_code is ErrorCode.NONE:
                self._act(following, decide(offset, following.partition.own_log))
            else:
                self._act(following, on_offsets_error(error_code, following.state))

    def _now_ms(self) -> int:
        return int(self._broker.clock.monotonic() * 1000)

    def _backoff_ms(self) -> int:
        return self._broker.config.current.integer("replica.fetch.backoff.ms")
