"""The producer of the simulation, and the judgment of what became of its records.

The producer is idempotent, with acks=all, for one partition. After a change of leader, it sends its requests to the new
leader. It reports each answer to the `ReplicationWatch`, and keeps the values for a comparison at the end.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kcli.client.records.produce import produce_request
from kcli.errors import ErrorCode
from kcli.model.topic_partition import TopicPartition
from kcli.protocol.batches.batch import Record, encode_batch, read_header
from kcli.protocol.batches.compression import Codec
from kcli.protocol.messages import init_producer_id as ip
from kcli.protocol.messages import produce as p
from kcli.protocol.wire.api import ApiKey
from simulation.actors.client import BACKOFF_S, COMPACTED, MOVING, RETAINED, TROUBLE, Client, Moved, World
from simulation.checks.replica_log import Content

KEYS = 5
"""The number of keys. It is small, so that compaction finds old records."""
IN_FLIGHT_MAX = 5
"""The most unanswered batches, as in Java's producer. A broker recognises only the last five batches of a producer if
they are sent again."""


@dataclass(frozen=True, slots=True)
class Load:
    """What producers send. They choose from each tuple. A value that is twice in a tuple is chosen twice as often."""

    codecs: tuple[Codec, ...] = (Codec.NONE, Codec.NONE, Codec.LZ4)
    value_bytes: tuple[int, ...] = (0, 10, 200, 3_000)
    records_max: int = 3
    versions: tuple[int, ...] = (12, 13)
    """The newest version of Produce that the client knows."""
    has_keys: bool = False
    """Whether all records have keys, or only those of a compacted topic."""


@dataclass(slots=True)
class Batch:
    """A batch that was sent and is not answered yet."""

    sequence: int
    contents: list[Content]
    encoded: bytes
    losses: int
    """The number of losses of the cluster (`ReplicationWatch.losses`) when the batch was sent last."""


class Producer:
    """Has several unanswered requests at a time, and repeats each request until an answer arrives.

    `acknowledged` has the values of answered batches, in order. `uncertain` has the values of batches that were given
    up, or that the cluster may have lost.
    """

    def __init__(
        self,
        world: World,
        name: str,
        partition: TopicPartition,
        *,
        load: Load | None = None,
        companion: Producer | None = None,
    ) -> None:
        """If `companion` is given, both producers write to their partitions with one producer id, as one client does.
        After an error, a producer gets an id of its own."""
        self.client = Client(world, name)
        self.world = world
        self.name = name
        self.partition = partition
        self.acknowledged: list[bytes] = []
        self.acknowledged_ever = 0
        """The number of acknowledged values, also of those that a loss of power has removed."""
        self.uncertain: set[bytes] = set()
        self._load = load or Load()
        self._companion = companion
        self._rng = self.client.rng
        self._unanswered: deque[Batch] = deque()
        self._made = 0
        self._losses = 0
        self._producer_id = -1
        self._sequence = 0
        self._terms = 0
        """The number of leader epochs of the partition at the begin of the present producer id."""
        self._is_known = False
        """Whether the leader has answered a batch of this producer id."""

    @property
    def is_done(self) -> bool:
        return self.world.ending and not self._unanswered

    async def run(self) -> None:
        while not self.is_done:
            try:
                await self._produce()
            except (Moved, *TROUBLE) as error:
                self.client.note(repr(error))
                self.client.forget_leader(self.partition)
                await self.client.pause(BACKOFF_S, 2 * BACKOFF_S)
        self.client.close()

    async def _produce(self) -> None:
        if self._producer_id < 0:
            await self._begin()
        leader = await self.client.leader(self.partition)
        in_flight = deque(self._send(leader, each) for each in self._unanswered)
        try:
            while not self.is_done:
                self._fill(leader, in_flight)
                if not in_flight:
                    await self.client.pause(0.0, 0.2)
                    continue
                self._take_answer(self._unanswered[0], await in_flight[0])
                in_flight.popleft()
                if self._rng.random() < 0.6:
                    await self.client.pause(0.0, 0.2)
        finally:
            for task in in_flight:
                task.cancel()
            await asyncio.gather(*in_flight, return_exceptions=True)

    async def _begin(self) -> None:
        self._sequence, self._is_known, self._terms = 0, False, self._leader_epochs
        if self._companion is not None and self._companion._producer_id >= 0:
            self._producer_id, self._companion = self._companion._producer_id, None
            return
        request = ip.InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=-1)
        response = await self.client.ask(self.client.any_broker(), request, ApiKey.INIT_PRODUCER_ID)
        if response.error_code is not ErrorCode.NONE:
            assert response.error_code in MOVING, f"{self.name}: InitProducerId: {response.error_code!r}"
            raise Moved
        self.world.watch.producer_id_given(response.producer_id)
        self._producer_id = response.producer_id

    @property
    def _leader_epochs(self) -> int:
        partition = self.world.watch.partitions.get(self.partition)
        return 0 if partition is None else len(partition.leaders)

    def _fill(self, leader: int, in_flight: deque[asyncio.Task[p.ProduceResponse]]) -> None:
        """Sends a few new batches. The first batch of a producer id is sent alone, because a broker accepts any
        sequence number from a new producer. If the second batch arrived first, the broker would accept it and refuse
        the first batch.
        """
        count = self._rng.randint(1, IN_FLIGHT_MAX) if self._is_known else 1
        while not self.world.ending and len(in_flight) < count:
            batch = self._make()
            self._unanswered.append(batch)
            in_flight.append(self._send(leader, batch))

    def _make(self) -> Batch:
        count = self._rng.randint(1, self._load.records_max)
        size = self._rng.choice(self._load.value_bytes)
        values = [f"{self.name} {self._made + nth} ".encode() + b"x" * size for nth in range(count)]
        self._made += count
        now_ms = self.world.cluster.node.clock.now_ms()
        contents: list[Content] = [(self._key(), value) for value in values]
        encoded = encode_batch(
            [Record(-1, now_ms, *content) for content in contents],
            codec=self._rng.choice(self._load.codecs),
            producer_id=self._producer_id,
            producer_epoch=0,
            base_sequence=self._sequence,
        )
        batch = Batch(self._sequence, contents, encoded, self.world.watch.losses)
        self._sequence += count
        return batch

    def _key(self) -> bytes | None:
        has_key = self._load.has_keys or self.partition.topic == COMPACTED
        return b"key %d" % self._rng.randrange(KEYS) if has_key else None

    def _send(self, leader: int, batch: Batch) -> asyncio.Task[p.ProduceResponse]:
        batch.losses = self.world.watch.losses
        request = produce_request({self.partition: batch.encoded}, self.world.topic_ids, timeout_ms=3_000)
        asking = self.client.ask(
            leader, request, ApiKey.PRODUCE, at_most=self._rng.choice(self._load.versions)
        )
        return asyncio.get_running_loop().create_task(asking)

    def _take_answer(self, batch: Batch, response: p.ProduceResponse) -> None:
        """Raises Moved if all unanswered batches must be sent again."""
        self.notice_losses()
        if batch.losses != self._losses:
            raise Moved  # the answer is older than a loss of records
        answer = response.responses[0].partition_responses[0]
        code = answer.error_code
        if code is ErrorCode.NONE or self._is_duplicate(code):
            self._unanswered.popleft()
            self._is_known = True
            self.acknowledged += [value for _, value in batch.contents if value is not None]
            self.acknowledged_ever += len(batch.contents)
            if code is ErrorCode.NONE and answer.base_offset >= 0:
                crc = read_header(batch.encoded).crc
                self.world.watch.acknowledged(self.partition, answer.base_offset, crc, batch.contents)
            return
        if code in (ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, ErrorCode.UNKNOWN_PRODUCER_ID):
            # A leader that has started again knows only the last batch of each producer, because a snapshot has only
            # the last batch. After an unclean election or a loss of power, batches are missing.
            assert self._leader_epochs > self._terms, (
                f"{self.name}: {self.partition} refuses sequence {batch.sequence}, but its leader is the same"
            )
            self._give_up()
            raise Moved
        assert code in MOVING, f"{self.name}: produce to {self.partition} failed with {code!r}"
        raise Moved

    def _is_duplicate(self, code: ErrorCode) -> bool:
        """Whether a new leader found a batch that it already has. A leader without a restart gives its offset."""
        return code is ErrorCode.DUPLICATE_SEQUENCE_NUMBER and self._leader_epochs > self._terms

    def notice_losses(self) -> None:
        """After a loss of power without flushes, the cluster need not have the values that it has acknowledged."""
        if self._losses != self.world.watch.losses:
            self._losses = self.world.watch.losses
            self.uncertain.update(self.acknowledged)
            self.acknowledged.clear()

    def _give_up(self) -> None:
        """Begins again with a new producer id. Whether the unanswered batches were written is unknown."""
        for batch in self._unanswered:
            self.uncertain.update(value for _, value in batch.contents if value is not None)
        self._unanswered.clear()
        self._producer_id = -1


def check_values(producer: Producer, values: Sequence[bytes]) -> None:
    """Checks the values of a partition that a consumer has read from its start: every acknowledged value exactly once,
    and in order. Two kinds of values may be missing: values of batches that were given up or lost, and values that
    retention or compaction may have removed before the consumer read them."""
    producer.notice_losses()
    prefix = f"{producer.name} ".encode()
    found = [value for value in values if value.startswith(prefix)]
    assert len(found) == len(set(found)), f"{producer.name}: a value is in {producer.partition} twice"
    certain = [value for value in found if value not in producer.uncertain]
    expected = producer.acknowledged
    if producer.partition.topic in (RETAINED, COMPACTED):
        read = set(certain)
        expected = [value for value in expected if value in read]
    assert certain == expected, (
        f"{producer.name}: {len(expected)} values are acknowledged, {len(certain)} are in "
        f"{producer.partition}; the first difference: {_first_difference(expected, certain)}"
    )


def check_latest(
    partition: TopicPartition, latest: Mapping[bytes, tuple[int, bytes]], values: Sequence[bytes]
) -> None:
    """Checks that a consumer of a compacted partition has read the last record of each key."""
    read = set(values)
    for key, (offset, value) in latest.items():
        assert value in read, f"{partition}: no consumer has read {key!r} at {offset}"


def _first_difference(expected: Sequence[bytes], found: Sequence[bytes]) -> str:
    for nth, (wanted, value) in enumerate(zip(expected, found, strict=False)):
        if wanted != value:
            return f"{nth}: {wanted[:30]!r}, found {value[:30]!r}"
    return f"at the end, {min(len(expected), len(found))}"
