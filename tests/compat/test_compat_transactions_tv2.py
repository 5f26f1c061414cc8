"""Transactions of the second protocol (TV2, KIP-890) over real sockets, with lost answers, zombies and a killed broker.

No client library at hand speaks it, so the client is here. A Produce adds its partition, and the answer of an EndTxn
has the next epoch. A request without an answer is sent again over a new connection. The judge then reads the committed
records.
"""

from __future__ import annotations

import asyncio
import random
import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition

from kcli.errors import ErrorCode
from kcli.protocol.batches.batch import Record, encode_batch
from kcli.protocol.messages.end_txn import EndTxnRequest
from kcli.protocol.messages.find_coordinator import FindCoordinatorRequest
from kcli.protocol.messages.init_producer_id import InitProducerIdRequest
from kcli.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from kcli.protocol.messages.txn_offset_commit import (
    TxnOffsetCommitRequest,
    TxnOffsetCommitRequestPartition,
    TxnOffsetCommitRequestTopic,
)
from kcli.protocol.wire import codec
from kcli.protocol.wire.api import ApiKey
from kcli.testing.broker_process import BrokerProcess
from rigs.transaction_histories import PARTITIONS, TIMEOUT, TOPIC, broker_with_topic, committed_log
from simulation.checks.history import Outcome, Transaction, anomalies

pytestmark = pytest.mark.compat

RUN_SECONDS = 10
PRODUCERS = 5
WANTED = 30
NAMES = [f"tv2-{number}" for number in range(PRODUCERS)]
RETRIABLE = frozenset(
    {
        ErrorCode.CONCURRENT_TRANSACTIONS,
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
        ErrorCode.COORDINATOR_NOT_AVAILABLE,
        ErrorCode.NOT_COORDINATOR,
        ErrorCode.NOT_ENOUGH_REPLICAS,
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
    }
)


@pytest.fixture
def broker(tmp_path: Path) -> Iterator[BrokerProcess]:
    with broker_with_topic(tmp_path / "broker") as running:
        yield running


class Refused(Exception):
    pass


class Client:
    """Sends a request until it is answered with something final; now and then it hangs up before the answer."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def call(
        self, request: Any, key: ApiKey, version: int, error_of: Callable[[Any], ErrorCode]
    ) -> Any:
        while True:
            try:
                response = await self._once(request, key, version)
            except (OSError, asyncio.IncompleteReadError):
                self.hang_up()
                await asyncio.sleep(0.02)
                continue
            code = error_of(response)
            if code not in RETRIABLE:
                if code is not ErrorCode.NONE:
                    raise Refused(code.name)
                return response
            await asyncio.sleep(0.005)

    async def _once(self, request: Any, key: ApiKey, version: int) -> Any:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._port)
        reader, writer = self._streams
        writer.write(codec.encode_request(request, key, version, 7, "tv2"))
        if random.random() < 0.02:
            await asyncio.sleep(random.choice((0, 0.001, 0.005)))
            raise ConnectionResetError
        (size,) = struct.unpack(">i", await reader.readexactly(4))
        _, response = codec.decode_response(key, version, await reader.readexactly(size))
        return response

    def hang_up(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


class Producer:
    """One incarnation of a transactional id."""

    def __init__(self, broker: BrokerProcess, name: str) -> None:
        self.name = name
        self._client = Client(broker.port)
        self._producer_id = self._epoch = -1
        self._sequences = Counter[int]()

    async def init(self) -> None:
        for key_type in (1, 0):
            await self._client.call(
                FindCoordinatorRequest(key_type=key_type, coordinator_keys=(self.name,)),
                ApiKey.FIND_COORDINATOR,
                4,
                lambda found: found.coordinators[0].error_code,
            )
        request = InitProducerIdRequest(transactional_id=self.name, transaction_timeout_ms=60_000)
        self._go_on_as(await self._client.call(request, ApiKey.INIT_PRODUCER_ID, 5, _top_level))

    def _go_on_as(self, response: Any) -> None:
        self._producer_id, self._epoch = response.producer_id, response.producer_epoch
        self._sequences.clear()

    async def send(self, partition: int, values: list[str]) -> None:
        records = encode_batch(
            [Record(-1, int(time.time() * 1000), None, value.encode()) for value in values],
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            base_sequence=self._sequences[partition],
            transactional=True,
        )
        data = (PartitionProduceData(index=partition, records=bytes(records)),)
        request = ProduceRequest(
            transactional_id=self.name,
            acks=-1,
            timeout_ms=30_000,
            topic_data=(TopicProduceData(name=TOPIC, partition_data=data),),
        )
        await self._client.call(
            request, ApiKey.PRODUCE, 12, lambda found: found.responses[0].partition_responses[0].error_code
        )
        self._sequences[partition] += len(values)

    async def commit_offset(self, offset: int) -> None:
        """In a group of the producer's own name."""
        partition = TxnOffsetCommitRequestPartition(partition_index=0, committed_offset=offset)
        request = TxnOffsetCommitRequest(
            transactional_id=self.name,
            group_id=self.name,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            topics=(TxnOffsetCommitRequestTopic(name=TOPIC, partitions=(partition,)),),
        )
        await self._client.call(
            request, ApiKey.TXN_OFFSET_COMMIT, 5, lambda found: found.topics[0].partitions[0].error_code
        )

    async def end(self, committed: bool) -> None:
        request = EndTxnRequest(
            transactional_id=self.name,
            producer_id=self._producer_id,
            producer_epoch=self._epoch,
            committed=committed,
        )
        self._go_on_as(await self._client.call(request, ApiKey.END_TXN, 5, _top_level))

    def close(self) -> None:
        self._client.hang_up()


def _top_level(response: Any) -> ErrorCode:
    code: ErrorCode = response.error_code
    return code


class Worker:
    """Transactions under one id, by one incarnation after the other; some of the old ones come back as zombies."""

    def __init__(self, broker: BrokerProcess, name: str) -> None:
        self._broker = broker
        self.name = name
        self.history: list[Transaction] = []
        self.offset = -1
        """The newest that was committed for certain."""
        self._zombies: list[asyncio.Task[None]] = []

    async def run(self, is_over: Callable[[], bool]) -> None:
        while not is_over():
            producer = Producer(self._broker, self.name)
            try:
                await producer.init()
                while (goes_on := await self._transaction(producer)) and not is_over():
                    pass
            except Refused:
                goes_on = True  # a zombie took its epoch
            if goes_on:
                producer.close()
            else:
                self._zombies.append(asyncio.create_task(self._haunt(producer, self.history[-1])))
        await asyncio.gather(*self._zombies)
        last = Producer(self._broker, self.name)
        await last.init()
        last.close()

    async def _transaction(self, producer: Producer) -> bool:
        """False when the producer stops in its middle."""
        number = len(self.history)
        one = Transaction(self.name, number, time.monotonic())
        self.history.append(one)
        for batch in range(random.randint(1, 5)):
            partition = random.randrange(PARTITIONS)
            values = [f"{self.name}/{number}/{batch}/{nth}" for nth in range(random.randint(1, 3))]
            one.writes += [(partition, value) for value in values]
            await producer.send(partition, values)
        has_offset = random.random() < 0.2
        if has_offset:
            await producer.commit_offset(number)
        if random.random() < 0.03:
            return False
        committed = random.random() < 0.7
        if committed:
            one.outcome = Outcome.UNKNOWN
        await producer.end(committed)
        if committed:
            one.outcome, one.ended = Outcome.COMMITTED, time.monotonic()
            if has_offset:
                self.offset = number
        return True

    async def _haunt(self, zombie: Producer, left_open: Transaction) -> None:
        """Continues with the open transaction, which may be its successor's to abort already."""
        await asyncio.sleep(random.random() * 0.05)
        value = f"{self.name}/{left_open.number}/zombie"
        left_open.writes.append((0, value))
        left_open.outcome = Outcome.UNKNOWN
        try:
            await zombie.send(0, [value])
            await zombie.end(True)
        except Refused:
            pass
        zombie.close()


def test_histories_of_the_second_protocol_have_no_anomalies(broker: BrokerProcess) -> None:
    workers = [Worker(broker, name) for name in NAMES]
    began = time.monotonic()

    def is_over() -> bool:
        took = time.monotonic() - began
        ended = [one for worker in workers for one in worker.history if one.outcome is Outcome.COMMITTED]
        return took > RUN_SECONDS and (len(ended) > WANTED or took > TIMEOUT)

    async def trouble() -> None:
        kills = 0
        while not is_over():
            await asyncio.sleep(random.uniform(1, 4))
            kills += 1
            await asyncio.to_thread(broker.stop if kills % 3 == 0 else broker.kill)
            await asyncio.to_thread(broker.start)

    async def run() -> None:
        await asyncio.gather(trouble(), *(worker.run(is_over) for worker in workers))

    asyncio.run(run())
    history = [one for worker in workers for one in worker.history]
    assert sum(one.outcome is Outcome.COMMITTED for one in history) > WANTED
    assert anomalies(history, committed_log(broker)) == []
    for worker in workers:
        consumer = Consumer({"bootstrap.servers": broker.bootstrap, "group.id": worker.name})
        (found,) = consumer.committed([TopicPartition(TOPIC, 0)], TIMEOUT)
        consumer.close()
        assert found.offset >= worker.offset
