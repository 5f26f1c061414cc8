"""The consumers of the simulation. They read partitions from the start, and again from the start after a loss.

A consumer reads from leaders, and at times from followers (KIP-392). It reports each batch to the `ReplicationWatch`.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from kcli.errors import ErrorCode
from kcli.model.request_values import READ_COMMITTED, READ_UNCOMMITTED
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record, iter_batches, read_records
from kcli.protocol.batches.control import EndTransactionMarker, decode_control
from kcli.protocol.messages import fetch as f
from kcli.protocol.wire.api import ApiKey
from simulation.actors.client import (
    BACKOFF_S,
    COMPACTED,
    EARLIEST,
    MOVING,
    RETAINED,
    TROUBLE,
    UNCLEAN,
    Client,
    Moved,
    World,
    fetch_request,
    partitions_of,
)

OLD_VERSIONS = (12, 13, 16, 17)
"""Versions of Fetch: the last one with names of topics, the first one with ids, and the newest ones."""
LOST_SESSION = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
    ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)


@dataclass(slots=True)
class Session:
    """An incremental fetch session with one broker (KIP-227)."""

    session_id: int = 0
    epoch: int = 0
    sent: dict[TopicPartition, int] = field(default_factory=dict)
    """The positions that the broker knows."""


class Consumer:
    """Reads partitions from their start. `values` has the records of each partition in order."""

    isolation_level = READ_UNCOMMITTED

    def __init__(
        self,
        world: World,
        name: str,
        partitions: Iterable[TopicPartition],
        *,
        from_followers: bool,
        sessions: bool = False,
        versions: Sequence[int] | None = None,
    ) -> None:
        """If `sessions`, the consumer reads all partitions of a broker with one session. If `versions` is given, each
        request has one of these versions of Fetch."""
        self.client = Client(world, name)
        self.world = world
        self.name = name
        self.positions = dict.fromkeys(partitions, 0)
        self.values: dict[TopicPartition, list[bytes]] = {each: [] for each in self.positions}
        self.read_from_followers = 0
        self._from_followers = from_followers
        self._sessions: dict[int, Session] | None = {} if sessions else None
        self._versions = versions
        self._losses = 0

    @property
    def is_done(self) -> bool:
        return self.world.written and not self._unread()

    def _unread(self) -> list[TopicPartition]:
        """The partitions that have records after the consumer's position."""
        ends = self.world.watch.partitions
        return [each for each, at in self.positions.items() if at < ends[each].end]

    async def run(self) -> None:
        while not self.is_done:
            # When nothing more is written, a read of a partition without new records would only wait for its time-out.
            partition = self.client.rng.choice(self._unread() if self.world.written else list(self.positions))
            try:
                await self._read(partition)
            except (Moved, *TROUBLE) as error:
                self.client.note(repr(error))
                self.client.forget_leader(partition)
                await self.client.pause(BACKOFF_S, 2 * BACKOFF_S)
        self.client.close()

    async def _read(self, partition: TopicPartition) -> None:
        self._notice_losses()
        leader = await self.client.leader(partition)
        if self._sessions is not None:
            await self._read_all(leader, self._sessions.setdefault(leader, Session()))
            return
        known = self.client.leaders[partition]
        broker = leader
        if self._from_followers and self.client.rng.random() < 0.5:
            broker = self.client.rng.choice(known.replica_nodes)
        request = fetch_request(
            {partition: self.positions[partition]},
            self.world.topic_ids,
            max_bytes=self.client.rng.choice((1, 5_000, 1_000_000)),
            isolation_level=self.isolation_level,
        )
        response = await self._ask(broker, request)
        if response.error_code is not ErrorCode.NONE:
            assert response.error_code in MOVING, f"{self.name}: fetch: {response.error_code!r}"
            raise Moved
        for name, data in partitions_of(response, self.world.topic_ids):
            await self._take(name, data, broker, is_leader=broker == leader)
        await self.client.pause(0.0, 0.1)

    async def _read_all(self, leader: int, session: Session) -> None:
        """Reads the partitions of a leader with its session. A session begins again if its partitions change."""
        own = {
            each: at
            for each, at in self.positions.items()
            if (known := self.client.leaders.get(each)) is not None and known.leader_id == leader
        }
        if session.sent.keys() != own.keys() or not session.session_id:
            session.session_id, session.epoch, session.sent = 0, 0, {}
        request = fetch_request(
            {each: at for each, at in own.items() if session.sent.get(each) != at},
            self.world.topic_ids,
            session_id=session.session_id,
            epoch=session.epoch,
            max_bytes=self.client.rng.choice((1, 1_000, 50_000, 1_000_000)),
            isolation_level=self.isolation_level,
        )
        response = await self._ask(leader, request)
        if response.error_code is not ErrorCode.NONE:
            assert response.error_code in LOST_SESSION, f"{self.name}: fetch: {response.error_code!r}"
            session.sent = {}
            return
        session.session_id, session.sent = response.session_id, own
        session.epoch = 0 if response.session_id == 0 else session.epoch + 1
        for name, data in partitions_of(response, self.world.topic_ids):
            try:
                await self._take(name, data, leader, is_leader=True)
            except Moved:
                self.client.forget_leader(name)
                await self.client.pause(0.0, BACKOFF_S)
        await self.client.pause(0.0, 0.1)

    async def _ask(self, broker: int, request: f.FetchRequest) -> Any:
        """Sends a Fetch request. Raises Moved if records were lost meanwhile, because the answer is then too old."""
        at_most = 99 if self._versions is None else self.client.rng.choice(self._versions)
        response = await self.client.ask(broker, request, ApiKey.FETCH, at_most=at_most)
        if self._losses != self.world.watch.losses:
            raise Moved
        return response

    def _notice_losses(self) -> None:
        """Begins again at the start after a loss of records, because other records may be at the same offsets now."""
        if self._losses != self.world.watch.losses:
            self._losses = self.world.watch.losses
            for partition in self.positions:
                self.positions[partition] = 0
                self.values[partition].clear()

    async def _take(
        self, partition: TopicPartition, data: f.PartitionData, broker: int, *, is_leader: bool
    ) -> None:
        code = data.error_code
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            # A follower may lack records that a consumer has read from the leader (KIP-392).
            if is_leader:
                await self._reset(partition)
            return
        if code is not ErrorCode.NONE:
            assert code in MOVING, f"{self.name}: fetch of {partition} from {broker} failed with {code!r}"
            raise Moved
        self.read_from_followers += not is_leader and bool(data.records)
        self.positions[partition] = self._take_records(partition, data)

    def _take_records(self, partition: TopicPartition, data: f.PartitionData) -> int:
        """Checks and keeps the records of an answer. Returns the next position."""
        position = self.positions[partition]
        for at, header in iter_batches(data.records or b""):
            assert header.next_offset <= data.high_watermark, (
                f"{self.name}: {partition}: read {header.base_offset}, the high watermark is {data.high_watermark}"
            )
            self.world.watch.read(partition, header)
            for record in read_records(data.records or b"", at):
                if record.offset >= position:
                    assert record.offset == position or partition.topic == COMPACTED, (
                        f"{partition}: read {record.offset} after {position - 1}"
                    )
                    position = record.offset + 1
                    if not header.is_control:
                        self.values[partition].append(record.value or b"")
            if partition.topic == COMPACTED:
                position = max(position, header.next_offset)
        return position

    async def _reset(self, partition: TopicPartition) -> None:
        """Begins again at the start of the log, after an unclean election or retention has removed records."""
        committed = self.world.watch.partitions[partition]
        stale = committed.end >= self.positions[partition]
        # After an unclean election, the former leader may have answered with records that only it ever had.
        losses = committed.losses or (partition.topic == UNCLEAN and not stale and len(committed.leaders) > 1)
        assert losses or stale, f"{self.name}: {partition}: {self.positions[partition]} is out of range"
        if partition.topic == RETAINED:
            earliest = await self.client.listed_offset(partition, EARLIEST)
            self.positions[partition] = max(self.positions[partition], earliest)
        elif losses:
            self.positions[partition] = max(0, await self.client.listed_offset(partition, EARLIEST))
            self.values[partition].clear()
        raise Moved


class CommittedConsumer(Consumer):
    """A consumer with isolation.level=read_committed. It leaves out the records of aborted transactions, as Java's
    consumer does: all records of a producer from the first offset of the transaction to its marker."""

    isolation_level = READ_COMMITTED

    def _take_records(self, partition: TopicPartition, data: f.PartitionData) -> int:
        assert data.last_stable_offset <= data.high_watermark, f"{self.name}: {partition}: {data}"
        to_come = sorted(data.aborted_transactions or (), key=lambda each: each.first_offset)
        aborted: set[int] = set()
        position = self.positions[partition]
        for at, header in iter_batches(data.records or b""):
            assert header.next_offset <= data.last_stable_offset, (
                f"{self.name}: {partition}: read {header.base_offset}, the last stable offset is "
                f"{data.last_stable_offset}"
            )
            assert header.base_offset <= position, (
                f"{self.name}: {partition}: read {header.base_offset} after {position - 1}"
            )
            self.world.watch.read(partition, header)
            while to_come and to_come[0].first_offset <= header.last_offset:
                aborted.add(to_come.pop(0).producer_id)
            records = list(read_records(data.records or b"", at))
            if header.is_control:
                marker = decode_control(records[0].key, records[0].value)
                if isinstance(marker, EndTransactionMarker) and not marker.committed:
                    aborted.discard(header.producer_id)
            elif not (header.is_transactional and header.producer_id in aborted):
                for record in records:
                    if record.offset >= position:
                        self._take_value(partition, record)
            position = max(position, header.next_offset)
        return position

    def _take_value(self, partition: TopicPartition, record: Record) -> None:
        """Keeps a committed value."""
        self.values[partition].append(bytes(record.value or b""))
